"""What lies in the window: the area's row per unit of 64 KiB against the pages that are there."""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hakmem.insight.area import OBJECT, Area, number
from hakmem.insight.smaps import Pages

UNIT = 1 << 16
GRANULE = 1 << 21
GRANULE_UNITS = GRANULE // UNIT

# What a unit's word says: kind | page of the unit << 4 | number << 8.
NOTHING, SLAB, HEAP, SAMPLED, RUN, BIG = range(6)
KIND_MASK, AT_SHIFT, AT_MASK, NUMBER_SHIFT = 0xF, 4, 0xF, 8


class Presence:
    """The pages that are there, of several stretches of address space."""

    def __init__(self, stretches: Sequence[Pages]) -> None:
        self.stretches = sorted(stretches, key=lambda pages: pages.start)
        self._starts = [pages.start for pages in self.stretches]

    @property
    def end(self) -> int:
        return self.stretches[-1].end if self.stretches else 0

    def bytes_in(self, start: int, end: int) -> int:
        return sum(pages.bytes_in(start, end) for pages in self._within(start, end))

    def away_in(self, start: int, end: int) -> int:
        """Swapped out."""
        return sum(pages.away_in(start, end) for pages in self._within(start, end))

    def _within(self, start: int, end: int) -> Sequence[Pages]:
        first = max(0, bisect_right(self._starts, start) - 1)
        return self.stretches[first : bisect_left(self._starts, end)]


def untouched_by_site(area: Area, there: Presence | None) -> Counter[int]:
    """What sampled blocks stand for that has no pages, of those that have pages of their own."""
    found: Counter[int] = Counter()
    if there is None:
        return found
    for row in area.table("blocks").rows():
        start, usable = number(row, "address"), number(row, "usable")
        if start and usable > UNIT:
            end = start + usable
            untouched = usable - there.bytes_in(start, end) - there.away_in(start, end)
            found[number(row, "site")] += untouched * number(row, "weight_objects") // OBJECT
    return found


@dataclass(frozen=True)
class Piece:
    """What a unit's word names."""

    kind: int
    number: int
    start: int
    end: int


@dataclass
class Away:
    """Bytes of the window that are swapped out, as far as something may be in use there."""

    slabs: Counter[int] = field(default_factory=Counter)  # by class
    runs: int = 0
    big: int = 0


@dataclass
class Resident:
    """Resident bytes of the window by what they are."""

    slabs: Counter[int] = field(default_factory=Counter)  # by class
    heaps: Counter[int] = field(default_factory=Counter)  # and their slots, by unit's address
    sampled: int = 0  # units of sampled blocks
    runs: int = 0
    big: int = 0
    # What no unit names: in granules with slabs, in granules with runs, and where there is neither.
    free_units: int = 0
    free_pages: int = 0
    free_other: int = 0
    away: Away = field(default_factory=Away)

    @property
    def free(self) -> int:
        return self.free_units + self.free_pages + self.free_other

    @property
    def total(self) -> int:
        used = sum(self.slabs.values()) + sum(self.heaps.values())
        return used + self.sampled + self.runs + self.big + self.free


def unit_words(area: Area) -> "array[int] | None":
    """A word per unit; None if the library does not tell."""
    table = area.tables.get("units")
    if table is None or table.used == 0:
        return None
    words = array("I")
    words.frombytes(table.data)
    return words[:: table.stride // words.itemsize]


def unit_kinds(area: Area) -> Callable[[int], int]:
    """What lies at an address; NOTHING where the library does not tell."""
    words = unit_words(area) or ()
    base = number(area.row("process"), "window_at")

    def kind(address: int) -> int:
        unit = (address - base) // UNIT
        return words[unit] & KIND_MASK if 0 <= unit < len(words) else NOTHING

    return kind


def covered_end(area: Area, words: Sequence[int]) -> int:
    """Where the units that have a word end."""
    page = area.row("process")
    end = number(page, "window_at") + number(page, "window_bytes")
    if len(words) < area.table("units").capacity:
        return end  # what lies above was never used
    return min(end, number(page, "window_at") + len(words) * UNIT)


def pieces(area: Area, words: Sequence[int]) -> Iterator[Piece]:
    page = area.row("process")
    base, page_size = number(page, "window_at"), number(page, "page_size")
    sizes = [number(row, "size") for row in area.table("classes").rows()]
    for unit, word in enumerate(words):
        kind = word & KIND_MASK
        if kind == NOTHING:
            continue
        many = word >> NUMBER_SHIFT
        start = base + unit * UNIT + (word >> AT_SHIFT & AT_MASK) * page_size
        length = UNIT
        if kind == SLAB and many < len(sizes) and sizes[many] > UNIT:
            length = round_up(sizes[many], page_size)
        elif kind == RUN:
            length = many * page_size
        elif kind == BIG:
            length = many * GRANULE
        yield Piece(kind, many, start, start + length)


def round_up(size: int, power_of_two: int) -> int:
    return (size + power_of_two - 1) & -power_of_two


def resident(area: Area, words: Sequence[int], there: Presence) -> Resident:
    """Every page that is there is counted once, even if the words are not of one moment."""
    base = number(area.row("process"), "window_at")
    found = Resident()
    free: Counter[int] = Counter()  # by granule
    with_slabs: set[int] = set()
    with_pages: set[int] = set()
    counted = base
    for piece in pieces(area, words):
        _count_free(free, base, counted, piece.start, there)
        start = max(counted, piece.start)
        pages, away = there.bytes_in(start, piece.end), there.away_in(start, piece.end)
        counted = max(counted, piece.end)
        paged = piece.kind == RUN or (piece.kind == SLAB and piece.end - piece.start != UNIT)
        if piece.kind != BIG:
            (with_pages if paged else with_slabs).add((piece.start - base) // GRANULE)
        if piece.kind == SLAB:
            found.slabs[piece.number] += pages
            found.away.slabs[piece.number] += away
        elif piece.kind == HEAP:
            found.heaps[piece.start] += pages
        elif piece.kind == SAMPLED:
            found.sampled += pages
        elif piece.kind == RUN:
            found.runs += pages
            found.away.runs += away
        else:
            found.big += pages
            found.away.big += away
    _count_free(free, base, counted, there.end, there)
    for granule, size in free.items():
        if granule in with_slabs:
            found.free_units += size
        elif granule in with_pages:
            found.free_pages += size
        else:
            found.free_other += size
    return found


def _count_free(free: Counter[int], base: int, start: int, end: int, there: Presence) -> None:
    while start < end:
        granule = (start - base) // GRANULE
        until = min(end, base + (granule + 1) * GRANULE)
        free[granule] += there.bytes_in(start, until)
        start = until
