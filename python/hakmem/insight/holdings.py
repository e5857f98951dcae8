"""What hakmem itself says that it holds: the area's counts, added up over all heaps."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from hakmem.insight.area import Area, Row, number, numbers, optional, signed
from hakmem.insight.magazines import Lengths
from hakmem.insight.window import SLAB, UNIT, round_up, unit_kinds

USED, SLABS, TOUCHED, MAGAZINE, COLUMNS = range(5)
# Fewer sampled blocks of a class say less about its rounding than the class' limits do.
SAMPLES_ENOUGH = 8
# Above the classes.
RUN_MAX = 1 << 20
RUNS, BIG = "runs", "big"


@dataclass(frozen=True)
class ClassUse:
    """The slabs of one size class in all heaps."""

    index: int
    size: int
    least: int  # smallest request that gets such a block
    slab_bytes: int
    units: int  # of 64 KiB, of all slabs; 0 if they are made of pages
    capacity: int
    slabs: int
    used: int  # blocks handed out, to the program or into magazines
    touched: int  # bytes of the slabs' pages that blocks were cut from
    magazine: int  # blocks


@dataclass(frozen=True)
class HeapUse:
    address: int
    tid: int
    state: int
    magazine: int  # bytes
    blocks: tuple[int, ...]  # in its magazines, by class
    inbox: int


@dataclass(frozen=True)
class Sampled:
    requested: int
    usable: int


class Holdings:
    """The area's counts by what they mean here."""

    def __init__(self, area: Area, lengths: Lengths | None = None, unsent: int = 0) -> None:
        """`lengths`: of magazines, if they are known better than the area does. `unsent`: bytes
        that threads have freed of others' blocks and not sent."""
        self.area = area
        self.lengths = lengths
        self.unsent = unsent
        self.page = area.row("process")
        self.page_size = self.count("page_size")
        self._heaps = area.table("heaps").rows()
        self._classes = area.table("classes").rows()
        self.settings = {
            name: value for name, value in area.row("settings").items() if isinstance(value, int)
        }

    def count(self, name: str) -> int:
        return number(self.page, name)

    @cached_property
    def classes(self) -> list[ClassUse]:
        sums = [0] * (len(self._classes) * COLUMNS)
        for heap in self._heaps:
            for at, value in enumerate(numbers(heap, "by_class")):
                sums[at] += value
        if self.lengths is not None:
            for index in range(len(self._classes)):
                sums[index * COLUMNS + MAGAZINE] = sum(h.blocks[index] for h in self.heaps)
        found = []
        least = 0
        for index, row in enumerate(self._classes):
            at = index * COLUMNS
            size = number(row, "size")
            used, slabs, touched, magazine = sums[at : at + COLUMNS]
            paged = size > UNIT
            units = number(row, "units")
            found.append(
                ClassUse(
                    index=index,
                    size=size,
                    least=least,
                    slab_bytes=round_up(size, self.page_size) if paged else units * UNIT,
                    units=0 if paged else units * slabs,
                    capacity=number(row, "capacity"),
                    slabs=slabs,
                    used=used,
                    touched=touched * self.page_size,
                    magazine=min(magazine, used),
                )
            )
            least = size + 1
        return found

    @cached_property
    def heaps(self) -> list[HeapUse]:
        sizes = [number(row, "size") for row in self._classes]
        found = []
        for row in self._heaps:
            blocks = numbers(row, "by_class")[MAGAZINE::COLUMNS]
            if self.lengths is not None:
                blocks = self.lengths.get(number(row, "address"), blocks)
            found.append(
                HeapUse(
                    address=number(row, "address"),
                    tid=number(row, "tid"),
                    state=number(row, "state"),
                    magazine=sum(n * size for n, size in zip(blocks, sizes, strict=True)),
                    blocks=blocks,
                    inbox=optional(row, "inbox_bytes"),
                )
            )
        return found

    @property
    def run_bytes(self) -> int:
        return self._sum("run_bytes")

    @property
    def run_blocks(self) -> int:
        return self._sum("run_blocks")

    def _sum(self, name: str) -> int:
        """A heap's own part may wrap, and so may a moment's sum that is not of one moment."""
        return max(0, signed(self.count(name) + sum(number(row, name) for row in self._heaps)))

    @property
    def in_use(self) -> int:
        """Bytes of units, pages and big blocks, as the purge counts them."""
        pages = self.count("pages_in_use") + self.count("big_bytes")
        return self.count("units_in_use") * UNIT + pages

    @property
    def units_dirty_bytes(self) -> int:
        return self.count("units_dirty") * UNIT

    @property
    def heaps_unseen(self) -> int:
        return optional(self.page, "heaps_unseen")

    @property
    def sampled_bytes(self) -> int:
        """Where sampled blocks lie: units of many, and pages of one each."""
        return self.count("sampled_unit_bytes") + optional(self.page, "guarded_bytes")

    @property
    def slot_units(self) -> int:
        slabs = sum(use.units for use in self.classes)
        sampled = self.count("sampled_unit_bytes") // UNIT
        return max(0, self.count("units_in_use") - slabs - sampled - len(self._heaps))

    @cached_property
    def sampled(self) -> "Sampled":
        """Live blocks in units of sampled ones: what is larger, or of an explicit heap, is where
        others of its size are."""
        rows = self.area.table("blocks").rows()
        kinds = unit_kinds(self.area)
        inside = [
            row
            for row in rows
            if number(row, "address")
            and number(row, "usable") <= UNIT
            and kinds(number(row, "address")) != SLAB
        ]
        usable = sum(number(row, "usable") for row in inside)
        return Sampled(sum(number(row, "size") for row in inside), usable)

    @cached_property
    def rounding(self) -> "Rounding":
        return Rounding(self)


class Rounding:
    """Which share of a live block its request left unused, from the blocks that were sampled."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._indices = {use.size: use.index for use in holdings.classes}
        self._usable: Counter[int | str] = Counter()
        self._unused: Counter[int | str] = Counter()
        self._samples: Counter[int | str] = Counter()
        for row in holdings.area.table("blocks").rows():
            if number(row, "address") != 0:
                self._add(row)

    def _add(self, row: Row) -> None:
        usable, objects = number(row, "usable"), number(row, "weight_objects")
        kind: int | str = self._indices.get(usable, RUNS if usable <= RUN_MAX else BIG)
        self._usable[kind] += usable * objects
        self._unused[kind] += max(0, usable - number(row, "size")) * objects
        self._samples[kind] += 1

    @property
    def samples(self) -> int:
        return self._samples.total()

    def of_class(self, use: ClassUse) -> float:
        if self._samples[use.index] >= SAMPLES_ENOUGH and self._usable[use.index]:
            return self._unused[use.index] / self._usable[use.index]
        return (use.size - use.least) / 2 / use.size

    def of_pages(self, kind: str, size: int, blocks: int) -> float:
        """Of runs or big blocks, whose sizes are whole pages."""
        if self._samples[kind] >= SAMPLES_ENOUGH and self._usable[kind]:
            return self._unused[kind] / self._usable[kind]
        return min(1.0, blocks * self._holdings.page_size / 2 / size) if size else 0.0
