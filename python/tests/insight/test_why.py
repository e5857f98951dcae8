"""Rows that add up to RSS, for processes made by hand."""

import json
import os
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from rich.console import Console
from synthetic_process import (
    AREA_AT,
    ARRAYS,
    CLASSES,
    FOUR_UNITS,
    MIB,
    PAGE,
    PAGED,
    SMALL,
    UNIT_PAGES,
    WINDOW,
    World,
)

from hakmem.insight.advice import advise
from hakmem.insight.elsewhere import window_mappings
from hakmem.insight.holdings import ClassUse
from hakmem.insight.inside import class_memory
from hakmem.insight.rows import Row, apportion, clamped
from hakmem.insight.smaps import Mapping, Thread
from hakmem.insight.why import Explanation, explain, explain_file
from hakmem.insight.why_view import as_json, print_classes, print_explanation, print_threads
from hakmem.insight.window import SLAB, UNIT

SEEDS = range(150)


def plain() -> World:
    """Some of everything, of which every page is accounted for."""
    world = World()
    first, second = world.heap(100), world.heap(101, present=3)
    world.heap(102, state=2)
    world.slots()
    # 1,000 blocks of 64 bytes are 16 pages; 900 are handed out, 60 of them into a magazine.
    world.slab(SMALL, UNIT_PAGES)
    first.count(SMALL, used=900, slabs=1, touched=16, magazine=60)
    # 32 blocks of 8 KiB, 10 cut, of which 4 are handed out and 2 of these are half touched.
    world.slab(FOUR_UNITS, 18)
    second.count(FOUR_UNITS, used=4, slabs=1, touched=20)
    world.free_units(3)
    world.granule()
    world.run(first, 100, 40)
    world.free_pages(10)
    world.pages(SLAB | PAGED << 8, 20, 20)
    second.count(PAGED, used=1, slabs=1, touched=20)
    world.big(3 * MIB, 500)
    world.cached(1, 512)
    world.usual()
    world.threads = [Thread(100, "main", 0x7FFF_0000_1000), Thread(101, "worker", None)]
    return world


def randomly(seed: int) -> World:
    """Anything at all; counts and pages need not be of one moment."""
    rng = random.Random(seed)
    world = World()
    world.with_units = rng.random() < 0.8
    world.huge = rng.choice([0, 0, 4 * MIB])
    for tid in range(100, 100 + rng.randint(1, 6)):
        world.heap(tid, rng.randint(1, 16), rng.choice([1, 1, 2, 3]))
    for _ in range(rng.randint(0, 60)):
        index = rng.randrange(PAGED)
        most = CLASSES[index][1] * UNIT_PAGES
        touched = rng.randint(0, most)
        world.slab(index, rng.randint(0, most))
        capacity = touched * PAGE // CLASSES[index][0]
        used = rng.randint(0, capacity)
        magazine = rng.randint(0, used)
        rng.choice(world.heaps).count(index, used, 1, touched, magazine)
    world.free_units(rng.randint(0, 20), rng.randint(0, 16), rng.random() < 0.7)
    world.granule()
    for _ in range(rng.randint(0, 8)):
        n = rng.randint(17, 256)
        world.run(rng.choice(world.heaps), n, rng.randint(0, n))
        world.free_pages(rng.randint(0, 16))
    for _ in range(rng.randint(0, 4)):
        size = rng.randint(1, 9 * MIB // PAGE) * PAGE
        world.big(size, rng.randint(0, size // PAGE))
    if rng.random() < 0.5:
        world.cached(rng.randint(1, 4), rng.randint(0, 512))
    for name in ("kept_bytes", "pages_dirty", "big_cached", "units_dirty"):
        if rng.random() < 0.2:
            world.page[name] = rng.randint(0, 100)
    for _ in range(rng.randint(0, 50)):
        size = rng.randint(1, 100000)
        world.sample(size, size + rng.randint(0, 500), rng.randint(1, 50))
    if rng.random() < 0.8:
        world.usual()
    return world


def every_row(rows: Iterable[Row]) -> list[Row]:
    return [row for top in rows for _, row in top.walk()]


def check_sums(e: Explanation) -> None:
    assert sum(row.bytes for row in e.rows) == e.rss
    for row in every_row(e.rows):
        assert row.bytes >= 0, row
        if row.children:
            assert sum(child.bytes for child in row.children) == row.bytes, row


def test_each_part_has_its_bytes() -> None:
    e = plain().explain()
    check_sums(e)
    assert e.unexplained == 0
    classes = {c.size: c for c in e.classes}
    assert classes[64].magazine == 60 * 64
    assert classes[64].live == 840 * 64
    assert classes[64].free == 16 * PAGE - 900 * 64
    # 2 of 20 touched pages are not there: they are missing in 4 live and 6 free blocks alike.
    missing = 2 * PAGE * 4 // 10
    assert classes[8192].live == 4 * 8192 - missing
    assert classes[8192].free == 6 * 8192 - (2 * PAGE - missing)
    assert classes[8192].untouched == missing
    assert classes[81920].live == 20 * PAGE
    live = e.bytes("live") + e.bytes("rounding")
    assert live == sum(c.live for c in e.classes) + (40 + 500) * PAGE
    assert e.bytes("dirty_units") == 3 * UNIT
    assert e.bytes("cached_runs") == 10 * PAGE
    assert e.bytes("cached_big") == 512 * PAGE
    assert e.bytes("heaps") == 13 * PAGE
    assert e.bytes("slots") == 3 * PAGE
    assert e.bytes("arrays") == 60 << 10
    assert e.bytes("area") == 120 << 10
    assert e.bytes("library") == 200 << 10
    assert e.bytes("program") == 600 << 10
    assert e.bytes("libraries") == (900 + 16) << 10
    assert e.bytes("main_stack") == 40 << 10
    assert e.bytes("kernel") == 4 << 10
    assert e.untouched == (60 + 768 - 500) * PAGE + missing


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_add_up_whatever_is_there(seed: int) -> None:
    world = randomly(seed)
    check_sums(world.explain())
    check_sums(world.explain(pagemap=False))
    check_sums(explain_file(world.area()))


def test_a_resident_page_that_should_be_clean_is_unexplained() -> None:
    world = plain()
    world.granule()
    world.slab(SMALL, 0)
    world.free_units(2, dirty=False)
    e = world.explain()
    check_sums(e)
    assert e.unexplained == 2 * UNIT
    assert e.bytes("unexplained") == 2 * UNIT


def test_huge_pages_explain_pages_that_should_be_clean() -> None:
    world = plain()
    world.free_units(2, dirty=False)
    world.huge = 2 * MIB
    e = world.explain()
    assert e.unexplained == 0
    assert e.bytes("dirty_huge") == 2 * UNIT


def test_huge_pages_of_which_a_part_was_given_back_explain_the_rest() -> None:
    """They show as small ones then; that the mapping may have huge ones is left."""
    world = plain()
    world.free_units(2, dirty=False)
    world.flags = frozenset({"rd", "wr", "hg"})
    e = world.explain()
    assert (e.unexplained, e.huge) == (0, 0)
    assert e.bytes("dirty_huge") == 2 * UNIT


def test_memory_that_came_while_looking_is_unexplained() -> None:
    world = plain()
    process, there = world.process(), world.presence()
    rows = list(process.mappings.rows)
    index = next(i for i, m in enumerate(rows) if m.start == WINDOW)
    rows[index] = replace(rows[index], rss=rows[index].rss + 7 * PAGE)
    grown = replace(process, mappings=replace(process.mappings, rows=tuple(rows)))
    e = explain(world.area(), grown, there)
    check_sums(e)
    assert e.unexplained == 7 * PAGE


def test_memory_that_went_while_looking_is_told_and_not_shown_below_zero() -> None:
    world = plain()
    process, there = world.process(), world.presence()
    rows = list(process.mappings.rows)
    index = next(i for i, m in enumerate(rows) if m.start == WINDOW)
    rows[index] = replace(rows[index], rss=rows[index].rss - 9 * PAGE)
    shrunk = replace(process, mappings=replace(process.mappings, rows=tuple(rows)))
    e = explain(world.area(), shrunk, there)
    check_sums(e)
    assert e.unexplained == -9 * PAGE
    assert e.bytes("unexplained") == 0
    assert "more were counted" in e.row("unexplained").note
    assert any("changed meanwhile" in row.note for row in e.rows)


def test_pages_beyond_the_blocks_are_a_row_of_their_own() -> None:
    world = World()
    heap = world.heap(1)
    world.slab(SMALL, 16)
    heap.count(SMALL, used=64, slabs=1, touched=1)
    e = world.explain()
    assert e.bytes("spare") == 15 * PAGE
    assert e.unexplained == 0


def test_blocks_on_their_way_home_are_not_live() -> None:
    world = World()
    heap = world.heap(1)
    world.slab(SMALL, 16)
    heap.count(SMALL, used=1024, slabs=1, touched=16)
    before = world.explain()
    heap.inbox_bytes = 10240
    after = world.explain()
    check_sums(after)
    assert after.bytes("in_transit") == 10240
    live = [e.bytes("live") + e.bytes("rounding") for e in (before, after)]
    assert live[0] - live[1] == 10240


def test_rounding_follows_the_samples() -> None:
    world = World()
    heap = world.heap(1)
    world.slab(SMALL, 16)
    heap.count(SMALL, used=1024, slabs=1, touched=16)
    guessed = world.explain()
    assert guessed.bytes("rounding") == pytest.approx(65536 * (64 - 17) / 2 / 64, abs=1)
    for _ in range(20):
        world.sample(48, 64, 10)
    assert world.explain().bytes("rounding") == 65536 // 4


def test_a_tail_of_a_big_block_is_rounding() -> None:
    world = World()
    world.heap(1)
    world.big(3 * MIB, 1024)
    e = world.explain()
    check_sums(e)
    assert e.bytes("rounding") >= MIB
    assert e.bytes("live_big") <= 3 * MIB


def test_magazines_are_told_by_thread_and_of_ended_ones() -> None:
    world = World()
    for tid, state, blocks in ((7, 1, 600), (8, 1, 300), (9, 2, 100)):
        heap = world.heap(tid, state=state)
        world.slab(SMALL, 16)
        heap.count(SMALL, used=1024, slabs=1, touched=16, magazine=blocks)
    e = world.explain()
    check_sums(e)
    assert e.bytes("magazine_7") == 600 * 64
    assert e.bytes("magazine_8") == 300 * 64
    assert e.bytes("magazine_ended") == 100 * 64


def test_threads_have_their_stacks() -> None:
    world = plain()
    world.map(0x7E00_0000_0000, PAGE, 0, permissions="---p")
    world.map(0x7E00_0000_1000, 8 * MIB, 360 << 10)
    world.map(0x7D00_0000_1000, 8 * MIB, 20 << 10, flags=frozenset({"nh"}))  # type: ignore[arg-type]
    world.map(0x7C00_0000_1000, 8 * MIB, 12 << 10)
    world.threads = [
        Thread(100, "main", 0x7FFF_0000_1000),
        Thread(101, "worker", 0x7E00_0000_2000),
    ]
    e = world.explain()
    check_sums(e)
    assert e.bytes("stack_101") == 360 << 10
    assert e.bytes("stacks") == 380 << 10
    assert e.bytes("anonymous") == 12 << 10
    assert not e.row("stacks").exact
    (stacks,) = [text for text in e.unknown if "taken for threads' stacks" in text]
    assert ("tells it to root" in stacks) == (os.geteuid() != 0)
    worker = next(t for t in e.threads if t.tid == 101)
    assert worker.stack == 360 << 10
    assert worker.name == "worker"


def test_what_the_side_arrays_have_grown_by_is_no_stack() -> None:
    world = plain()
    small = frozenset({"nh"})
    world.map(ARRAYS - UNIT, UNIT, 20 << 10, flags=small)  # type: ignore[arg-type]
    world.map(ARRAYS + 2 * MIB, UNIT, 12 << 10, flags=small)  # type: ignore[arg-type]
    world.threads = [Thread(100, "main", 0x7FFF_0000_1000), Thread(101, "worker", 0)]
    e = world.explain()
    check_sums(e)
    assert e.bytes("arrays") == (20 + 60 + 12) << 10
    assert not e.parts.of("stacks")


def test_thousands_of_threads_are_not_held_against_each_mapping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = plain()
    base, count = 0x7E00_0000_0000, 1000
    for n in range(count):
        world.map(base + n * MIB, 64 << 10, 8 << 10)
        world.threads.append(Thread(100 + n, "worker", base + n * MIB + 4096))
    looked = 0
    contains = Mapping.contains

    def counted(m: Mapping, address: int) -> bool:
        nonlocal looked
        looked += 1
        return contains(m, address)

    monkeypatch.setattr(Mapping, "contains", counted)
    e = world.explain()
    assert e.bytes("stacks") == count * (8 << 10)
    assert [part.tid for part in e.parts.of("stacks")] == list(range(100, 100 + count))
    assert looked < 20 * count


def test_sampled_blocks_have_units_of_their_own() -> None:
    world = World()
    world.heap(1)
    world.sampled_unit(4)
    world.sample(40, 64, 100)
    world.sample(1000, 1024, 100)
    world.sample(80000, 81920, 100)  # pages of its own
    e = world.explain()
    check_sums(e)
    assert e.bytes("live") == 1040
    assert e.bytes("rounding") == 48
    assert e.bytes("free_sampled") == 4 * PAGE - 1088


def test_heaps_without_a_row_are_told() -> None:
    world = plain()
    world.page["heaps_unseen"] = 3
    e = world.explain()
    assert any("3 heaps have no room" in text for text in e.unknown)


def test_units_beyond_the_table_are_taken_to_be_as_the_rest() -> None:
    world = World()
    heap = world.heap(1)
    for _ in range(40):
        world.slab(SMALL, 16)
        heap.count(SMALL, used=1024, slabs=1, touched=16)
    world.granule()
    world.units_room = 32
    e = world.explain()
    check_sums(e)
    assert abs(e.unexplained) <= 0.01 * e.rss
    assert e.bytes("live") + e.bytes("rounding") > 0.9 * e.rss
    assert any("beyond what the area describes" in text for text in e.unknown)
    assert not e.row("heaps").exact


def test_foreign_memory_in_the_window_is_not_ours() -> None:
    world = plain()
    world.map(WINDOW + (1 << 30), MIB, MIB, "/srv/data", "r--p")
    e = world.explain()
    check_sums(e)
    assert e.bytes("files") == MIB
    assert e.unexplained == 0


def test_memory_mapped_beyond_what_hakmem_took_is_not_ours() -> None:
    """A runtime that maps at random addresses gets into the window, too."""
    world = plain()
    world.map(WINDOW + (1 << 37), 256 << 10, 256 << 10)
    e = world.explain()
    check_sums(e)
    assert e.bytes("anonymous") == 256 << 10
    assert e.unexplained == 0


def test_a_block_of_several_mappings_is_ours() -> None:
    """A program that advises the kernel of a part of its block makes several mappings of it."""
    world = plain()
    world.big(4 * MIB, 0)
    window = world.window()
    world.map(window.end, MIB, 0)
    world.map(window.end + MIB, MIB, 0)
    found = window_mappings(world.area(), world.process().mappings)
    assert [m.start for m in found] == [WINDOW, window.end, window.end + MIB]


def test_the_live_area_is_told_from_other_shared_memory() -> None:
    world = plain()
    world.map(AREA_AT + (1 << 30), MIB, 64 << 10, "/SYSV00000000 (deleted)", "rw-s")
    e = world.explain()
    assert e.bytes("area") == 120 << 10
    assert e.bytes("shared") == 64 << 10


def test_without_pagemap_all_is_estimated_and_says_so() -> None:
    e = plain().explain(pagemap=False)
    assert any("does not show its pages" in text for text in e.unknown)
    assert not e.row("live").exact
    assert not e.row("dirty").exact


def test_without_units_all_is_estimated_and_says_so() -> None:
    world = plain()
    world.with_units = False
    e = world.explain()
    assert any("no units table" in text for text in e.unknown)


def test_a_file_shows_what_hakmem_held() -> None:
    e = explain_file(plain().area())
    check_sums(e)
    assert not e.whole
    assert e.bytes("not_ours") == 0
    assert e.bytes("live_big") == pytest.approx(3 * MIB, rel=0.01)
    assert any("no word of the kernel's" in text for text in e.unknown)


def test_apportioned_parts_add_up() -> None:
    assert apportion(10, [1, 1, 1]) == [3, 3, 4]
    assert apportion(10, [0, 0]) == [0, 0]
    assert apportion(7, []) == []


def test_clamping_takes_no_more_than_there_is() -> None:
    rows = clamped([Row("a", "a", 10), Row("b", "b", 3, children=(Row("c", "c", 3),))], 12)
    assert [row.bytes for row in rows] == [0, 1]
    assert rows[1].children[0].bytes == 1


def test_tables_and_json_show_it() -> None:
    e = plain().explain()
    found = advise(e)
    shown = Console(width=140, record=True, file=None, quiet=False, force_terminal=False)
    with shown.capture() as capture:
        print_explanation(shown, e, found, True)
        print_classes(shown, e)
        print_threads(shown, e)
    text = capture.get()
    assert f"{e.rss:,}" in text
    assert "worker" in text
    figures = json.loads(json.dumps(as_json(e, found)))
    assert figures["rss"] == e.rss
    assert sum(row["bytes"] for row in figures["rows"]) == e.rss
    assert figures["unexplained"] == {"bytes": 0, "share": 0.0}
    assert {c["size"] for c in figures["classes"]} == {64, 8192, 81920}


def test_end_of_a_block_that_nobody_asked_for_is_no_unwritten_block() -> None:
    use = ClassUse(
        index=89,
        size=36 * 4096,
        least=131_073,
        slab_bytes=36 * 4096,
        units=0,
        capacity=1,
        slabs=2000,
        used=2000,
        touched=2000 * 36 * 4096,
        magazine=0,
    )
    there = 2000 * 33 * 4096
    share = 1 - 131_073 / use.size
    memory = class_memory(use, there, share, 4096)
    assert memory.live - memory.rounding == pytest.approx(2000 * 131_073, rel=1e-3)
    assert memory.rounding == pytest.approx(there - 2000 * 131_073, rel=1e-2)
    assert memory.untouched < 4096
    # What was asked for and not written stays unwritten.
    memory = class_memory(use, 2000 * 10 * 4096, share, 4096)
    assert memory.rounding == 0
    assert memory.untouched == pytest.approx(2000 * (131_073 - 10 * 4096), rel=1e-3)


def test_what_is_swapped_out_was_written_to() -> None:
    world = World()
    heap = world.heap(100)
    slab = len(world.words)
    world.slab(SMALL, 16)
    heap.count(SMALL, used=800, slabs=1, touched=16, magazine=200)
    world.granule()
    run = len(world.words)
    world.run(heap, 64, 64)
    world.big(4 * MIB, 600)
    before = world.explain()
    assert before.untouched == (1024 - 600) * PAGE
    world.swap_out(slab, 8)
    world.swap_out(run)
    e = world.explain()
    check_sums(e)
    assert (e.untouched, e.swap) == (before.untouched, 24 * PAGE)
    # Half of the slab's pages, of whatever is in them.
    (small,) = (c for c in e.classes if c.size == 64)
    assert (small.live, small.magazine) == (300 * 64, 100 * 64)
    assert e.bytes("live_runs") + e.bytes("rounding") >= 48 * PAGE


def test_samples_of_explicit_heaps_lie_in_their_slabs() -> None:
    world = World()
    heap = world.heap(100)
    world.sampled_unit(16)
    slab = WINDOW + len(world.words) * UNIT
    world.slab(SMALL, 16)
    heap.count(SMALL, used=1000, slabs=1, touched=16)
    world.sample(1000, 1024, 8)
    world.sample(60, 64, 8000)
    world.blocks[0]["address"] = slab - UNIT
    world.blocks[1]["address"] = slab
    e = world.explain()
    assert e.bytes("free_sampled") == UNIT - 1024
