"""hakmem's own memory: what is resident of each part of it, as rows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hakmem.insight import elsewhere
from hakmem.insight.area import Area
from hakmem.insight.elsewhere import Parts
from hakmem.insight.holdings import BIG, RUNS, ClassUse, Holdings
from hakmem.insight.rows import Row, apportion, few, sum_of
from hakmem.insight.smaps import Process, Thread
from hakmem.insight.states import HeapState, state_name
from hakmem.insight.window import UNIT, Presence, Resident, covered_end, resident, unit_words
from hakmem.insight.words import many_text, size_text


@dataclass(frozen=True)
class ClassMemory:
    """One size class; resident bytes, but for what is named otherwise."""

    size: int
    slabs: int
    slab_bytes: int  # of one
    live_blocks: int
    magazine_blocks: int
    live: int
    magazine: int
    free: int
    spare: int  # pages that no block was cut from yet
    untouched: int  # not resident: blocks that nobody has written to
    rounding: int

    @property
    def resident(self) -> int:
        return self.live + self.magazine + self.free + self.spare


@dataclass(frozen=True)
class ThreadMemory:
    tid: int
    name: str
    state: str
    magazine: int
    heap: int
    stack: int | None


@dataclass
class Window:
    """The window's resident bytes by what they are, and what they could not be told from."""

    resident: Resident
    rss: int
    huge: int = 0
    filled: int = 0  # by huge pages at most
    estimated: bool = False
    notes: list[str] = field(default_factory=list)


def window_of(area: Area, holdings: Holdings, process: Process, there: Presence | None) -> Window:
    mappings = elsewhere.window_mappings(area, process.mappings)
    rss, huge = sum(m.rss for m in mappings), sum(m.huge for m in mappings)
    filled = sum(m.filled for m in mappings)
    words = unit_words(area)
    if there is None or words is None:
        missing = "the kernel does not show its pages" if there is None else "it has no units table"
        seen = fitted(model(holdings), rss)
        note = f"{missing}, so what is resident of each part is estimated from counts"
        return Window(seen, rss, huge, filled, True, [note])
    seen = resident(area, words, there)
    end = covered_end(area, words)
    beyond = there.bytes_in(end, max((m.end for m in mappings), default=end))
    window = Window(seen, rss, huge, filled)
    if beyond:
        window.resident = extrapolated(seen, beyond)
        window.estimated = True
        window.notes.append(
            f"{size_text(beyond)} lie beyond what the area describes unit by unit; they are "
            "taken to be as the rest"
        )
    return window


def model(holdings: Holdings) -> Resident:
    """What would be resident if everything were that may be."""
    return Resident(
        slabs=Counter({use.index: use.touched for use in holdings.classes}),
        heaps=Counter({0: holdings.slot_units * UNIT})
        + Counter({heap.address: UNIT for heap in holdings.heaps}),
        sampled=holdings.sampled_bytes,
        runs=holdings.run_bytes,
        big=holdings.count("big_bytes"),
        free_units=holdings.units_dirty_bytes,
        free_pages=holdings.count("pages_dirty"),
        free_other=holdings.count("big_cached"),
    )


def fitted(seen: Resident, rss: int) -> Resident:
    """Takes away what cannot be there, first where untouched memory is most likely."""
    excess = max(0, seen.total - rss)
    for name in ("big", "runs"):
        cut = min(excess, getattr(seen, name))
        setattr(seen, name, getattr(seen, name) - cut)
        excess -= cut
    if excess:
        scale = rss / (rss + excess)
        _scale(seen, scale)
    return seen


def extrapolated(seen: Resident, beyond: int) -> Resident:
    known = seen.total - beyond  # what is beyond was counted as free: no unit names it
    seen.free_other = max(0, seen.free_other - beyond)
    if known > 0:
        _scale(seen, (known + beyond) / known)
    return seen


def _scale(seen: Resident, factor: float) -> None:
    seen.slabs = Counter({key: int(value * factor) for key, value in seen.slabs.items()})
    seen.heaps = Counter({key: int(value * factor) for key, value in seen.heaps.items()})
    for name in ("sampled", "runs", "big", "free_units", "free_pages", "free_other"):
        setattr(seen, name, int(getattr(seen, name) * factor))


def class_memory(
    use: ClassUse,
    there: int,
    share: float,
    page_size: int,
    away: int = 0,
    was_tight: bool = False,
) -> ClassMemory:
    """Splits a class' resident bytes. What is swapped out of it may be of any part.

    Of the touched pages some may be missing. That is what was cut in advance and never used: in a
    magazine or, if it is small, back from it. Of larger blocks the program left parts alone, of
    those that it has freed as well. Where memory was tight, pages without a block were given back.
    """
    cut = min(there, use.touched)
    missing = use.touched - cut
    swapped = min(missing, away)
    missing -= swapped
    still = 1 - swapped / use.touched if swapped else 1.0
    magazine = int(use.magazine * use.size * still)
    live = int((use.used - use.magazine) * use.size * still)
    free = max(0, use.touched - swapped - magazine - live)
    parts = {"magazine": magazine, "live": live, "free": free}
    small, large = ("magazine", "free", "live"), ("magazine",)
    purged = ("free", "magazine", "live")
    for name in purged if was_tight else small if use.size <= page_size else large:
        taken = min(missing, parts[name])
        parts[name] -= taken
        missing -= taken
    if missing:
        alone = min(1.0, missing / max(1, parts["live"] + parts["free"]))
        parts["live"] -= int(parts["live"] * alone)
        parts["free"] -= int(parts["free"] * alone)
    untouched = live - parts["live"]
    beyond = int(live * share)  # the requests, of all of them
    # What a larger block has no page of is its end, as far as that was not asked for.
    tails = min(untouched, beyond) if use.size * share >= page_size else 0
    # Counts and pages may be of different moments.
    live, magazine, free = fitting(cut, (parts["live"], parts["magazine"], parts["free"]))
    return ClassMemory(
        size=use.size,
        slabs=use.slabs,
        slab_bytes=use.slab_bytes,
        live_blocks=use.used - use.magazine,
        magazine_blocks=use.magazine,
        live=live,
        magazine=magazine,
        free=free,
        spare=there - cut,
        untouched=untouched - tails,
        rounding=min(live, beyond - tails) if tails else int(live * share),
    )


def fitting(total: int, parts: Sequence[int]) -> list[int]:
    """The parts, each as far as there is something left; the last gets the rest."""
    found = []
    for part in parts[:-1]:
        found.append(min(total, part))
        total -= found[-1]
    return [*found, total]


@dataclass(frozen=True)
class Free:
    """Free memory of the window that keeps its pages, and what should have none."""

    units: int
    pages: int
    cached: int
    huge: int  # the kernel fills 2 MiB at once
    unexplained: int


def free_memory(holdings: Holdings, seen: Resident, most_filled: int) -> Free:
    """Free pages against what hakmem counts as dirty: more than that is not its doing."""
    left = {
        "cached": holdings.count("big_cached"),
        "units": holdings.units_dirty_bytes,
        "pages": holdings.count("pages_dirty"),
    }
    got = dict.fromkeys(left, 0)
    excess = 0
    for found, order in (
        (seen.free_units, ("units",)),
        (seen.free_pages, ("pages",)),
        (seen.free_other, ("cached", "units", "pages")),
    ):
        rest = found
        for kind in order:
            taken = min(rest, left[kind])
            got[kind] += taken
            left[kind] -= taken
            rest -= taken
        excess += rest
    filled = min(excess, most_filled)
    return Free(got["units"], got["pages"], got["cached"], filled, excess - filled)


class Inside:
    """hakmem's own rows."""

    def __init__(
        self,
        holdings: Holdings,
        window: Window,
        free: Free,
        whole: int,
        threads: Sequence[Thread],
    ) -> None:
        self.holdings = holdings
        self.seen = window.resident
        self.exact = not window.estimated
        self.free = free
        self.whole = whole
        self.named = {thread.tid: thread.name for thread in threads}
        rounding = holdings.rounding
        self.classes = [
            class_memory(
                use,
                self.seen.slabs[use.index],
                rounding.of_class(use),
                holdings.page_size,
                away=self.seen.away.slabs[use.index],
                was_tight=holdings.count("pressure_tight") > 0,
            )
            for use in holdings.classes
            if use.slabs or self.seen.slabs[use.index]
        ]
        self.big_bytes = holdings.count("big_bytes")
        self.live_slabs = sum(c.live for c in self.classes)
        sampled = holdings.sampled
        self.sampled = min(self.seen.sampled, sampled.usable)
        self.sampled_rounding = min(self.sampled, sampled.usable - sampled.requested)
        arrived = sum(heap.inbox for heap in holdings.heaps)
        self.inbox = min(self.live_slabs, arrived + holdings.unsent)

    @property
    def untouched(self) -> int:
        """Allocated, and neither resident nor swapped out."""
        runs = max(0, self.holdings.run_bytes - self.seen.runs - self.seen.away.runs)
        big = max(0, self.big_bytes - self.seen.big - self.seen.away.big)
        return sum(c.untouched for c in self.classes) + runs + big

    def rows(self, parts: Parts) -> list[Row]:
        return [
            self._live(),
            self._rounding(),
            self._free_in_slabs(),
            self._magazines(),
            self._cached(),
            self._dirty(),
            self._metadata(parts),
        ]

    def _slab_rounding(self) -> int:
        still = 1 - self.inbox / self.live_slabs if self.live_slabs else 0.0
        return int(sum(c.rounding for c in self.classes) * still) + self.sampled_rounding

    def _page_rounding(self) -> tuple[int, int]:
        """Of runs, and of big blocks, whose last granule may be there in excess of the block."""
        h = self.holdings
        runs = int(self.seen.runs * h.rounding.of_pages(RUNS, h.run_bytes, h.run_blocks))
        big = min(self.seen.big, self.big_bytes)
        share = h.rounding.of_pages(BIG, self.big_bytes, h.count("big_blocks"))
        return runs, int(big * share) + self.seen.big - big

    def _live(self) -> Row:
        runs, big = self._page_rounding()
        slabs = self.live_slabs + self.sampled - self.inbox - self._slab_rounding()
        children = (
            Row("live_slabs", "blocks up to 1 MiB", slabs, False),
            Row("live_runs", "such that no class suits, and samples", self.seen.runs - runs, False),
            Row("live_big", "blocks above 1 MiB", self.seen.big - big, False),
        )
        note = "in use by the program, as it asked for"
        return sum_of("live", "live, as requested", children, note)

    def _rounding(self) -> Row:
        runs, big = self._page_rounding()
        samples = self.holdings.rounding.samples
        note = (
            f"by {many_text(samples, 'sampled block')}"
            if samples
            else "by the classes' limits: no samples"
        )
        total = self._slab_rounding() + runs + big
        return Row("rounding", "size class rounding", total, False, note)

    def _free_in_slabs(self) -> Row:
        total = sum(c.free for c in self.classes)
        kept = min(total, self.holdings.count("kept_bytes"))
        ranked = sorted(self.classes, key=lambda c: c.free, reverse=True)
        by_class = [
            Row(f"free_class_{c.size}", f"slabs of {c.size}-byte blocks", c.free, False)
            for c in ranked
            if c.free
        ]
        spare = sum(c.spare for c in self.classes)
        free_sampled = self.seen.sampled - self.sampled
        children = [
            *few(by_class, "free_class", "slabs of other sizes", self.whole, "partly used slabs"),
            Row(
                "spare",
                "slabs' pages without blocks yet",
                spare,
                self.exact,
                "populated ahead, in huge pages, or from an earlier use",
            ),
            Row("free_sampled", "among sampled blocks", free_sampled, self.exact),
            Row("in_transit", "on the way back from other threads", self.inbox, False),
        ]
        note = f"{size_text(kept)} in empty slabs that stay with their class" if kept else ""
        return sum_of("free_in_slabs", "free in slabs", children, note)

    def _magazines(self) -> Row:
        total = sum(c.magazine for c in self.classes)
        held = [(heap, heap.magazine) for heap in self.holdings.heaps if heap.magazine]
        # A magazine's blocks may be untouched, so what is resident of each is a share.
        shares = dict(
            zip(
                (heap.address for heap, _ in held),
                apportion(total, [size for _, size in held]),
                strict=True,
            )
        )
        ended = sum(shares[heap.address] for heap, _ in held if heap.state != HeapState.RUNNING)
        live = [
            Row(
                f"magazine_{heap.tid}",
                f"thread {heap.tid} {self.named.get(heap.tid, '')}".rstrip(),
                shares[heap.address],
                False,
            )
            for heap, _ in sorted(held, key=lambda pair: pair[1], reverse=True)
            if heap.state == HeapState.RUNNING
        ]
        rest = total - sum(row.bytes for row in live) - ended
        children = [
            *few(live, "magazine", "other threads", self.whole, "of running threads"),
            Row("magazine_ended", "of threads that have ended", ended + rest, False),
        ]
        now = self.holdings.lengths is not None
        note = "free blocks at hand" + ("" if now else ", when last refilled or flushed")
        return sum_of("magazines", "threads' magazines", children, note)

    def _cached(self) -> Row:
        children = (
            Row("cached_runs", "free runs of pages", self.free.pages, self.exact),
            Row("cached_big", "freed blocks above 1 MiB", self.free.cached, self.exact),
        )
        return sum_of("cached", "cached runs and mappings", children, "free, pages kept for reuse")

    def _dirty(self) -> Row:
        children = (
            Row("dirty_units", "free units that keep their pages", self.free.units, self.exact),
            Row(
                "dirty_huge",
                "free, filled by huge pages",
                self.free.huge,
                self.exact,
                "the kernel gives 2 MiB at once",
            ),
        )
        return sum_of("dirty", "dirty, not yet purged", children)

    def _metadata(self, parts: Parts) -> Row:
        known = {heap.address for heap in self.holdings.heaps}
        heaps = sum(size for at, size in self.seen.heaps.items() if at in known)
        slots = sum(self.seen.heaps.values()) - heaps
        children = (
            Row("heaps", "threads' heaps", heaps, self.exact, f"{len(known)} of them"),
            Row("slots", "longer magazines' slots", slots, self.exact),
            Row("arrays", "what lies in which unit", parts.bytes_of(elsewhere.ARRAYS)),
            Row("area", "live area", parts.bytes_of(elsewhere.AREA)),
            Row(
                "library",
                "the library's code and data",
                parts.bytes_of(elsewhere.LIBRARY),
                note="with the profile's records",
            ),
        )
        return sum_of("metadata", "hakmem's metadata", children)

    def threads(self, parts: Parts) -> Iterator[ThreadMemory]:
        stacks: Counter[int] = Counter()
        for kind in (elsewhere.STACKS, elsewhere.MAIN_STACK):
            for part in parts.of(kind):
                stacks[part.tid] += part.bytes
        for heap in self.holdings.heaps:
            runs = heap.state == HeapState.RUNNING
            yield ThreadMemory(
                tid=heap.tid,
                name=self.named.get(heap.tid, "") if runs else "",
                state=state_name(heap.state),
                magazine=heap.magazine,
                heap=self.seen.heaps[heap.address],
                stack=stacks[heap.tid] if runs and heap.tid in stacks else None,
            )

    def unknown(self) -> list[str]:
        unseen = self.holdings.heaps_unseen
        found = []
        if self.holdings.lengths is None:
            found.append(
                "magazines change with every allocation and tell their length when they are "
                "refilled or flushed: what they hold now and what is live may differ by that"
            )
        if unseen:
            found.append(
                f"{unseen} heaps have no room in the live area: what they hold is told as slabs' "
                "pages without blocks, or as live where it is other heaps'"
            )
        if not self.holdings.rounding.samples and self.live_slabs:
            found.append(
                "no block was sampled: what was requested is guessed from the size classes"
            )
        return found
