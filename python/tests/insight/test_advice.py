"""Each rule fires where it should, and is quiet where it must be."""

from dataclasses import replace

import pytest
from synthetic_process import AREA_AT, CLASSES, MIB, PAGE, SMALL, UNIT_PAGES, World

from hakmem.insight.advice import RULES, Advice, Rule, advise, headline
from hakmem.insight.smaps import Thread
from hakmem.insight.why import explain_file
from hakmem.insight.window import UNIT


def fired(world: World) -> dict[str, Advice]:
    return {advice.rule: advice for advice in advise(world.explain())}


def full_slabs(world: World, n: int) -> None:
    """Live blocks of 64 bytes and nothing else."""
    heap = world.heaps[0] if world.heaps else world.heap(1)
    for _ in range(n):
        world.slab(SMALL, UNIT_PAGES)
        heap.count(SMALL, used=1024, slabs=1, touched=16)


def live(slabs: int = 400) -> World:
    world = World()
    full_slabs(world, slabs)
    return world


def kept_for_reuse() -> World:
    world = live()
    world.free_units(200)
    world.cached(5, 5 * 512)
    world.page["allowed_bytes"] = 24 * MIB
    return world


def little_kept() -> World:
    world = live()
    world.free_units(10)
    return world


def long_magazines() -> World:
    world = live()
    for tid in range(10, 20):
        heap = world.heap(tid)
        for _ in range(2):
            world.slab(SMALL, UNIT_PAGES)
            heap.count(SMALL, used=1024, slabs=1, touched=16, magazine=1024)
    for _ in range(200):
        world.slab(SMALL, UNIT_PAGES)
        world.heaps[1].count(SMALL, used=1024, slabs=1, touched=16, magazine=1024)
    return world


def short_magazines() -> World:
    """As many bytes, but no magazine is longer than any setting would make it."""
    world = live(100)
    for tid in range(10, 1300):
        heap = world.heap(tid, present=0)
        if tid % 8 == 0:
            world.slab(SMALL, UNIT_PAGES)
            world.heaps[0].count(SMALL, used=1024 - 128, slabs=1, touched=16)
        heap.count(SMALL, used=16, slabs=0, touched=0, magazine=16)
    return world


def partly_used() -> World:
    world = live(100)
    for _ in range(400):
        world.slab(SMALL, UNIT_PAGES)
        world.heaps[0].count(SMALL, used=300, slabs=1, touched=16)
    world.site(0, 0x7F00_0000_1001, 0x401001)
    world.usual()
    world.sample(50, 64, 10, site=0)
    return world


def huge() -> World:
    world = live()
    world.free_units(300, dirty=False)
    world.huge = 400 << 16
    return world


def huge_once() -> World:
    world = live()
    world.free_units(300, dirty=False)
    world.flags = frozenset({"hg"})
    return world


def huge_and_used() -> World:
    world = live()
    world.huge = 400 << 16
    return world


def large_tables() -> World:
    world = live(100)
    world.map(AREA_AT, 16 * MIB, 8 * MIB, "/SYSV00000000 (deleted)", "rw-s")
    return world


def one_site() -> World:
    world = live()
    world.usual()
    world.site(1 * MIB, 0x7F00_0000_1001)
    world.site(20 * MIB, 0x7F10_0000_0101, 0x400101, 0x400201)
    return world


def no_callers() -> World:
    """Code without frame pointers: all sites are one."""
    world = live()
    world.usual()
    world.site(20 * MIB, 0x7F10_0000_0101)
    return world


def many_sites() -> World:
    world = live()
    for _ in range(10):
        world.site(2 * MIB, 0x400101)
    return world


def mapped_files() -> World:
    world = live(100)
    world.map(0x5000_0000_0000, 64 * MIB, 50 * MIB, "/srv/data base", "r--s")
    return world


FIRES = {
    "kept_for_reuse": kept_for_reuse,
    "magazines": long_magazines,
    "fragmentation": partly_used,
    "huge_pages": huge,
    "profile": large_tables,
    "top_site": one_site,
    "not_ours": mapped_files,
}
QUIET = {
    "kept_for_reuse": [live, little_kept],
    "magazines": [live, short_magazines],
    "fragmentation": [live],
    "huge_pages": [live, huge_and_used],
    "profile": [live, one_site],
    "top_site": [live, many_sites, no_callers],
    "not_ours": [live],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_fires_and_is_quiet(rule: Rule) -> None:
    name = rule.__name__
    advice = rule(FIRES[name]().explain())
    assert advice is not None
    assert advice.rule == name
    assert advice.bytes > 0
    assert advice.headline and advice.action and advice.evidence
    for world in QUIET[name]:
        assert rule(world().explain()) is None


def test_kept_memory_names_a_setting_and_a_value() -> None:
    advice = fired(kept_for_reuse())["kept_for_reuse"]
    assert advice.bytes == 200 * 65536 + 10 * MIB
    assert "HAKMEM_RETAIN_MAX=5M (now 32M)" in advice.action
    assert "22.5 MiB is free memory" in advice.headline


def test_what_is_always_kept_names_the_other_setting() -> None:
    world = kept_for_reuse()
    world.settings["retain"] = 64 * MIB
    assert "HAKMEM_RETAIN=5M (now 64M)" in fired(world)["kept_for_reuse"].action


def test_a_share_of_much_memory_is_no_settings_doing() -> None:
    world = kept_for_reuse()
    world.page["units_in_use"] = 22 * MIB * 16 // 65536
    assert "1/16 of what is in use" in fired(world)["kept_for_reuse"].action


@pytest.mark.parametrize(
    ("allowed", "said", "not_said"),
    [
        # A program that has dropped it and makes no more calls: no allowance holds it.
        pytest.param(4 * MIB, "HAKMEM_WORKER=1", "RETAIN", id="it waits for the next free"),
        pytest.param(100 * MIB, "swing", "HAKMEM_", id="demand swings"),
    ],
)
def test_what_is_kept_by_no_setting(allowed: int, said: str, not_said: str) -> None:
    world = kept_for_reuse()
    world.page["allowed_bytes"] = allowed
    action = fired(world)["kept_for_reuse"].action
    assert said in action
    assert not_said not in action


def test_magazines_name_a_length_that_frees_half() -> None:
    advice = fired(long_magazines())["magazines"]
    assert "HAKMEM_MAGAZINE_MAX=" in advice.action
    held = (220 * 1024) * CLASSES[SMALL][0]
    assert advice.bytes * 2 >= held


def test_fragmentation_names_class_and_site() -> None:
    advice = fired(partly_used())["fragmentation"]
    assert "blocks of 64 bytes" in advice.headline
    assert "/usr/bin/program+0x1000" in advice.action
    assert "57 % of that class' slab memory is free" in advice.evidence


def test_live_data_names_the_programs_own_frame() -> None:
    advice = fired(one_site())["top_site"]
    assert "/usr/bin/program+0x100" in advice.headline
    assert "hakmem report 42" in advice.action


@pytest.mark.parametrize(
    ("unwind", "action"), [(0, "start the program with HAKMEM_PROFILE_UNWIND=1"), (1, "not known")]
)
def test_live_data_of_which_no_caller_is_known(unwind: int, action: str) -> None:
    world = live()
    world.map(0x400000, MIB, 0, "/usr/bin/program", "r-xp")
    world.site(20 * MIB, 0x400101)
    world.settings["profile_unwind"] = unwind
    advice = fired(world)["top_site"]
    assert action in advice.action
    assert "says who calls" not in advice.action


def test_nobody_asks_who_calls_main(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hakmem.insight.advice._named_site", lambda *_: "main")
    assert fired(one_site())["top_site"].action == "hakmem report 42 says in which line"


@pytest.mark.parametrize(
    ("path", "permissions", "text"),
    [
        ("/srv/data", "r--s", "mapped files"),
        ("/usr/lib/libfoo.so.6", "r-xp", "shared libraries"),
        ("/usr/bin/program", "r-xp", "the program's own file"),
        ("/dev/shm/PostgreSQL.1", "rw-s", "shared memory"),
        ("[heap]", "rw-p", "brk"),
        ("", "rw-p", "past malloc"),
    ],
)
def test_what_is_not_hakmems_is_named(path: str, permissions: str, text: str) -> None:
    world = live(100)
    world.map(0x5000_0000_0000, 64 * MIB, 50 * MIB, path, permissions)
    advice = fired(world)["not_ours"]
    assert text in advice.headline
    assert (path or "5000000000") in advice.evidence


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/usr/bin/python3.11", "PYTHONMALLOC=malloc"),
        ("/opt/lib/libpython3.12.so.1.0", "PYTHONMALLOC=malloc"),
        ("/usr/lib/jvm/lib/server/libjvm.so", "-Xmx"),
        ("/usr/bin/node", "--max-old-space-size"),
        ("/usr/sbin/php-fpm8.2", "USE_ZEND_ALLOC=0"),
        ("/usr/bin/server", "a runtime's own heap"),
        ("/srv/python3/notes.so", "a runtime's own heap"),
    ],
)
def test_a_runtime_s_own_heap_is_told_by_its_files(path: str, text: str) -> None:
    world = live(100)
    world.map(0x5000_0000_0000, 64 * MIB, 50 * MIB)
    world.map(0x6000_0000_0000, PAGE, PAGE, path, "r-xp")
    assert text in fired(world)["not_ours"].action


def test_the_mappings_of_a_file_are_one() -> None:
    world = live(100)
    for at, size in ((0, 20), (64, 25), (128, 40)):
        path = "/usr/lib/libtwo.so" if at < 128 else "/usr/lib/libone.so"
        world.map(0x5000_0000_0000 + at * MIB, 64 * MIB, size * MIB, path, "r-xp")
    assert fired(world)["not_ours"].evidence == "the largest is /usr/lib/libtwo.so with 45.0 MiB"


def test_huge_pages_that_are_small_by_now_are_told_as_well() -> None:
    advice = fired(huge_once())["huge_pages"]
    assert advice.bytes == 300 * UNIT
    assert advice.evidence.startswith("0 B of hakmem's memory is in huge pages now")


def test_stacks_are_named() -> None:
    world = live(100)
    world.threads = [Thread(1, "a", None), Thread(2, "b", None)]
    world.map(0x5000_0000_0000, PAGE, 0, permissions="---p")
    world.map(0x5000_0000_1000, 64 * MIB, 50 * MIB)
    assert "threads' stacks" in fired(world)["not_ours"].headline


def test_there_is_one_headline_and_the_most_certain_gain_is_it() -> None:
    world = kept_for_reuse()
    world.usual()
    world.site(20 * MIB, 0x400101)
    e = world.explain()
    found = advise(e)
    assert {"kept_for_reuse", "top_site"} <= {advice.rule for advice in found}
    assert found[0].rule == "kept_for_reuse"
    assert headline(e, found).startswith(found[0].headline)


def test_nothing_to_gain_says_what_is_live() -> None:
    e = live().explain()
    assert advise(e) == []
    assert headline(e, []) == "nothing to gain: 100 % is live data"


def test_a_small_process_is_not_worth_advice() -> None:
    world = World()
    full_slabs(world, 2)
    world.free_units(10)
    e = world.explain()
    assert advise(e) == []
    assert headline(e, []).startswith("nothing worth an action: 16 % is live data, 0 % is not")


def test_a_site_whose_blocks_have_no_pages_is_not_blamed() -> None:
    world = live()
    world.usual()
    world.site(8 * MIB, 0x7F10_0000_0101, 0x400101, 0x400201)
    site = world.site(64 * MIB, 0x7F10_0000_0101, 0x400301, 0x400201)
    at = world.big(64 * MIB, present=1)
    world.sample(64 * MIB, 64 * MIB, 1, site)
    world.blocks[-1]["address"] = at
    e = world.explain()
    assert e.untouched_by_site[site] == 64 * MIB - PAGE
    assert "program+0x100" in fired(world)["top_site"].headline
    assert (
        "program+0x300"
        in {a.rule: a for a in advise(world.explain(pagemap=False))}["top_site"].headline
    )


def test_what_describes_untouched_blocks_is_named() -> None:
    world = live(10)
    world.usual()
    world.others[-2] = replace(world.others[-2], rss=20 * MIB)
    e = world.explain()
    assert "% describes what lies in which unit" in headline(e, [])


def test_a_file_is_named_where_a_process_would_be() -> None:
    world = one_site()
    advice = {a.rule: a for a in advise(explain_file(world.area()))}["top_site"]
    assert advice.action.startswith("hakmem report process 42 says")
