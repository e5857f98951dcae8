"""The one action most worth taking, from rules that each show their evidence.

A rule gives the bytes it is about and how much of them following it is likely to give back: what a
setting decides comes back for sure, a program's own data only if somebody changes the program.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hakmem.insight import elsewhere
from hakmem.insight.area import number
from hakmem.insight.elsewhere import Part, largest
from hakmem.insight.inside import ClassMemory
from hakmem.insight.naming import CALLED_BY, naming_of
from hakmem.insight.smaps import Mapping
from hakmem.insight.why import Explanation
from hakmem.insight.words import many_text, size_text

# What is less than this is not worth anybody's time.
SHARE_LEAST = 0.05
BYTES_LEAST = 4 << 20
# Of the bytes a rule is about, what is likely to come back.
SURE, LIKELY, UNSURE, PERHAPS = 1.0, 0.6, 0.3, 0.2
SITE_LEAST = 0.25
MOSTLY_LIVE = 50  # %
MAGAZINE_LEAST = 16
# purge.c: the allowance is at least this share of what is in use, and an eighth is slack.
IN_USE_SHARE = 16
SLACK_SHARE = 8


OUTERMOST = "main"
# What stands in place of a function's name.
UNNAMED = re.compile(r"^0x|\+0x|^\[")


@dataclass(frozen=True)
class Advice:
    rule: str
    bytes: int
    reach: float
    headline: str
    action: str
    evidence: str

    @property
    def gain(self) -> float:
        return self.bytes * self.reach


def advise(e: Explanation) -> list[Advice]:
    """The best first; none if there is nothing to gain."""
    found = [advice for rule in RULES if (advice := rule(e)) is not None]
    return sorted(found, key=lambda advice: advice.gain, reverse=True)


def headline(e: Explanation, found: list[Advice]) -> str:
    if found:
        return f"{found[0].headline}: {found[0].action}"
    live = e.share(e.bytes("live") + e.bytes("rounding")) * 100
    if live >= MOSTLY_LIVE:
        return f"nothing to gain: {live:.0f} % is live data"
    known = [
        f"{live:.0f} % is live data",
        f"{e.share(e.bytes('not_ours')) * 100:.0f} % is not hakmem's",
    ]
    arrays = e.bytes("arrays")
    if _worth(e, arrays):
        known.append(
            f"{e.share(arrays) * 100:.0f} % describes what lies in which unit, of blocks of which "
            f"{size_text(e.untouched)} were never written to"
        )
    return (
        f"nothing worth an action: {', '.join(known)}, and "
        f"no part of the rest is above {size_text(BYTES_LEAST)} and {SHARE_LEAST * 100:.0f} %"
    )


def _worth(e: Explanation, size: float) -> bool:
    return size >= BYTES_LEAST and e.share(int(size)) >= SHARE_LEAST


def kept_for_reuse(e: Explanation) -> Advice | None:
    """Free memory that the purge allowance lets keep its pages."""
    kept = e.bytes("dirty_units") + e.bytes("cached")
    if not _worth(e, kept):
        return None
    return Advice(
        "kept_for_reuse",
        kept,
        SURE,
        f"{size_text(kept)} is free memory kept for reuse by the purge allowance",
        _to_keep_less(e, kept),
        f"{size_text(e.bytes('dirty_units'))} in free units, "
        f"{size_text(e.bytes('cached_runs'))} in runs, "
        f"{size_text(e.bytes('cached_big'))} in freed blocks above 1 MiB; "
        f"{size_text(e.holdings.count('allowed_bytes'))} are allowed",
    )


def _to_keep_less(e: Explanation, kept: int) -> str:
    """What the allowance follows from (purge.h): a floor, a share of what is in use, or demand."""
    settings, allowed = e.holdings.settings, e.holdings.count("allowed_bytes")
    by_call = "call malloc_trim(0) or hak_purge() at quiet times"
    if kept <= settings.get("retain", 0):
        return f"{_lower('retain', settings, kept)}, or {by_call}"
    if kept > allowed:
        return (
            "it is more than is allowed, and goes with the program's next frees: set "
            f"HAKMEM_WORKER=1 for a thread that does not wait for them, or {by_call}"
        )
    if allowed <= _with_slack(e.holdings.in_use // IN_USE_SHARE):
        share = f"1/{IN_USE_SHARE} of what is in use, which only HAKMEM_SOFT_LIMIT lowers"
        return f"it is {share}: {by_call}"
    if allowed <= _with_slack(settings.get("retain_max", 0)):
        return f"{_lower('retain_max', settings, kept)}, or {by_call}"
    return f"it follows the swing of the program's demand, whatever the settings: {by_call}"


def _lower(name: str, settings: dict[str, int], kept: int) -> str:
    return f"set HAKMEM_{name.upper()}={_setting(kept // 4)} (now {_setting(settings[name])})"


def _with_slack(size: int) -> int:
    return size + size // SLACK_SHARE


def _setting(size: int) -> str:
    """As a setting is written: whole KiB, MiB or GiB."""
    for shift, letter in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 1 << shift:
            return f"{size >> shift}{letter}"
    return "0"


def magazines(e: Explanation) -> Advice | None:
    held = e.bytes("magazines")
    if not _worth(e, held):
        return None
    now = e.holdings.settings.get("magazine_max", 0)
    most, back = _shorter(e, held, now)
    if not _worth(e, back):
        return None
    threads = [heap for heap in e.holdings.heaps if heap.magazine]
    return Advice(
        "magazines",
        back,
        SURE,
        f"{size_text(held)} is free blocks in the magazines of {len(threads)} threads",
        f"set HAKMEM_MAGAZINE_MAX={most} (now {now})",
        f"with at most {most} blocks of a class, {size_text(back)} of it would not be there",
    )


def _shorter(e: Explanation, held: int, now: int) -> tuple[int, int]:
    """The longest length that frees at least half of it, and what that is."""
    most = now
    back = 0
    while most > MAGAZINE_LEAST and back * 2 < held:
        most //= 2
        back = min(held, _above(e, most))
    return most, back


def _above(e: Explanation, most: int) -> int:
    sizes = [use.size for use in e.holdings.classes]
    return sum(
        max(0, blocks - most) * size
        for heap in e.holdings.heaps
        for blocks, size in zip(heap.blocks, sizes, strict=True)
    )


def fragmentation(e: Explanation) -> Advice | None:
    free = sum(c.free for c in e.classes)
    worst = max(e.classes, key=lambda c: c.free, default=None)
    if worst is None or not _worth(e, free):
        return None
    share = worst.free / worst.resident if worst.resident else 0.0
    if share < SHARE_LEAST:
        return None
    site = _site_of_class(e, worst)
    action = "free the long-lived ones together, or make them before the short-lived ones"
    if site:
        action += f"; most that live come from {site} (see: hakmem report {e.target})"
    return Advice(
        "fragmentation",
        free,
        UNSURE,
        f"{size_text(free)} is free in partly used slabs, {size_text(worst.free)} of it among "
        f"blocks of {worst.size} bytes",
        action,
        f"{share * 100:.0f} % of that class' slab memory is free: {worst.live_blocks} blocks live "
        f"in {worst.slabs} slabs",
    )


def _site_of_class(e: Explanation, c: ClassMemory) -> str:
    weights: Counter[int] = Counter()
    for row in e.holdings.area.table("blocks").rows():
        if number(row, "address") and number(row, "usable") == c.size:
            weights[number(row, "site")] += number(row, "weight_bytes")
    if not weights:
        return ""
    return frame(e, weights.most_common(1)[0][0])


def frame(e: Explanation, site: int) -> str:
    """The innermost caller that is no allocator, by name or as file and offset; empty: unknown."""
    addresses = _stack(e, site)
    own = _own(e, addresses)
    return _named_site(e, addresses) or _place(e, own[0]) if own else ""


def _stack(e: Explanation, site: int) -> list[int]:
    area = e.holdings.area
    sites = area.table("sites").rows()
    if site >= len(sites):
        return []
    row = sites[site]
    first, depth = number(row, "stack"), number(row, "depth")
    stacks = area.table("stacks")
    return [number(r, "address") for r in stacks.rows()[first : first + depth]]


def _own(e: Explanation, addresses: list[int]) -> list[int]:
    """Those in the program and its libraries, but the allocator's and the C library's."""
    places = ((address, _place(e, address)) for address in addresses)
    return [a for a, p in places if p and "/libhakmem" not in p and "/libc.so" not in p]


def _has_callers(e: Explanation, site: int) -> bool:
    """Whether more is known than the function that is named."""
    return CALLED_BY in naming_of(e.holdings.area, 2)(_own(e, _stack(e, site)))


def _who_calls(e: Explanation, site: int) -> str:
    if frame(e, site) == OUTERMOST:
        return f"hakmem report {e.target} says in which line"
    if _has_callers(e, site):
        return f"hakmem report {e.target} says who calls it"
    settings = e.holdings.area.row("settings")
    if settings.get("profile_unwind"):
        return "who calls it is not known"
    return (
        "who calls it is not known, for want of frame pointers: start the program with "
        "HAKMEM_PROFILE_UNWIND=1, and hakmem report says it"
    )


def _named_site(e: Explanation, addresses: list[int]) -> str:
    """Empty where nothing names it: a place in a file is then told with its whole path."""
    name = naming_of(e.holdings.area, 1)(addresses)
    return "" if UNNAMED.search(name) else name


def _place(e: Explanation, address: int) -> str:
    mapping = e.mappings.at(address)
    if mapping is None or not mapping.of_file:
        return ""
    # A return address is behind the call.
    return f"{mapping.path}+0x{address - 1 - mapping.start + mapping.offset:x}"


def huge_pages(e: Explanation) -> Advice | None:
    """2 MiB at once, also where less was asked for."""
    filled = min(e.filled, e.bytes("dirty_huge") + e.bytes("spare"))
    if not _worth(e, filled):
        return None
    return Advice(
        "huge_pages",
        filled,
        LIKELY,
        f"transparent huge pages make RSS larger by up to {size_text(filled)}",
        "set HAKMEM_HUGE_PAGES=0, or HAKMEM_HUGE_MIN higher; programs may become slower",
        f"{size_text(e.huge)} of hakmem's memory is in huge pages now; at most "
        f"{size_text(e.filled)} came by 2 MiB at once",
    )


def profile(e: Explanation) -> Advice | None:
    """The live area and the records; what is free among sampled blocks is theirs alone."""
    size = e.bytes("area") + e.bytes("library") + e.bytes("free_sampled")
    if not _worth(e, size):
        return None
    return Advice(
        "profile",
        size,
        LIKELY,
        f"{size_text(size)} is what the heap profile and the live area take",
        "set HAKMEM_PROFILE=0, or HAKMEM_PROFILE_INTERVAL higher",
        f"live area {size_text(e.bytes('area'))}, records {size_text(e.bytes('library'))}, "
        f"free among sampled blocks {size_text(e.bytes('free_sampled'))}",
    )


def top_site(e: Explanation) -> Advice | None:
    rows = e.holdings.area.table("sites").rows()
    touched = [
        number(row, "live_bytes") - e.untouched_by_site.get(i, 0) for i, row in enumerate(rows)
    ]
    best = max(range(len(rows)), key=touched.__getitem__, default=None)
    if best is None:
        return None
    size = min(touched[best], e.bytes("live"))
    place = frame(e, best)
    if not place or not _worth(e, size) or e.share(size) < SITE_LEAST:
        return None  # without a caller it is not one site, but all that could not be told apart
    return Advice(
        "top_site",
        size,
        PERHAPS,
        f"live data: one call site, {place}, holds about {size_text(size)}",
        _who_calls(e, best),
        f"{many_text(number(rows[best], 'live_samples'), 'live sample')}; "
        f"{e.share(size) * 100:.0f} % of RSS",
    )


FOREIGN = {
    elsewhere.FILES: (
        "is in mapped files",
        "the kernel takes these pages back when memory is short: count PSS or USS instead, or look "
        "at what maps them",
    ),
    elsewhere.LIBRARIES: (
        "is in shared libraries",
        "other processes share most of that: count PSS instead, or load fewer of them",
    ),
    elsewhere.PROGRAM: (
        "is in the program's own file and static data",
        "look at its large static tables (size -A, nm --size-sort)",
    ),
    elsewhere.SHARED: (
        "is in shared memory",
        "it is counted in every process that maps it; look at the program's settings for it",
    ),
    elsewhere.STACKS: (
        "is in threads' stacks",
        "use fewer threads, or smaller frames; a stack keeps the pages of its deepest call",
    ),
    elsewhere.BREAK: (
        "was taken with brk by something that is not hakmem",
        "look for an allocator of the program's own, or code that ran before hakmem",
    ),
    elsewhere.ANONYMOUS: (
        "is in anonymous mappings that the program made itself, past malloc",
        "a runtime's own heap, most likely: look at its settings",
    ),
}
# Whose heap that is, by a file that is mapped, and how to see into it or bound it.
RUNTIMES = (
    (
        r"/(lib)?python3[\d.]*(\.so[\d.]*)?$",
        "Python keeps its objects there: start it with PYTHONMALLOC=malloc, and they are in the "
        "rows above and in the profile",
    ),
    (r"/libjvm\.so$", "Java's heap: -Xmx bounds it, jcmd PID VM.native_memory tells of it"),
    (r"/(node|libnode\.so[\d.]*)$", "V8's heap: node --max-old-space-size=MIB bounds it"),
    (
        r"/(php|php-fpm|libphp)[\d.]*(\.so)?$",
        "PHP's heap: start it with USE_ZEND_ALLOC=0, and it is seen above and in the profile",
    ),
)


def not_ours(e: Explanation) -> Advice | None:
    """The largest of what is not hakmem's, if that is most of it all."""
    if not e.whole:
        return None
    kind = max(FOREIGN, key=e.bytes)
    size = e.bytes(kind)
    if not _worth(e, size):
        return None
    what, action = FOREIGN[kind]
    if kind == elsewhere.ANONYMOUS:
        action = _runtime(e) or action
    top = largest(e.parts.of(kind))
    return Advice(
        "not_ours",
        size,
        PERHAPS,
        f"not hakmem's: {size_text(size)} {what}",
        action,
        f"the largest is {_named(top[0])} with {size_text(top[1])}" if top else "",
    )


def _runtime(e: Explanation) -> str:
    paths = {mapping.path for mapping in e.mappings.rows}
    known = (action for file, action in RUNTIMES if any(re.search(file, path) for path in paths))
    return next(known, "")


def _named(part: Part) -> str:
    mapping: Mapping = part.mapping
    return part.name or f"the one at {mapping.start:x} ({size_text(mapping.size)})"


Rule = Callable[[Explanation], Advice | None]
RULES: tuple[Rule, ...] = (
    kept_for_reuse,
    magazines,
    fragmentation,
    huge_pages,
    profile,
    top_site,
    not_ours,
)
