"""Processes made by hand for `why`: a live area, its mappings, and the pages that are there."""

import struct
from dataclasses import dataclass, field

from hakmem.insight.area import Area, Field, Table
from hakmem.insight.smaps import Mapping, Mappings, Pages, Process, Thread
from hakmem.insight.why import Explanation, explain
from hakmem.insight.window import BIG, GRANULE, HEAP, RUN, SAMPLED, SLAB, UNIT, Presence

PAGE = 4096
UNIT_PAGES = UNIT // PAGE
WINDOW = 0x1000_0000_0000
WINDOW_BYTES = 1 << 39
ARRAYS = 0x7000_0000_0000
AREA_AT = 0x7100_0000_0000
MIB = 1 << 20

# Size, units of a slab: enough classes to have one of every kind.
CLASSES = [(16, 1), (64, 1), (1024, 1), (8192, 4), (81920, 2)]
SMALL, FOUR_UNITS, PAGED = 1, 3, 4

Word = int | list[int]


def table(name: str, rows: list[dict[str, Word]], capacity: int = 0) -> Table:
    """Fields after the first row: a word of 64 bits, or several of 32."""
    fields = tuple(
        Field(key, "u32", len(value)) if isinstance(value, list) else Field(key, "u64", None)
        for key, value in (rows[0] if rows else {"address": 0}).items()
    )
    code = "<" + "".join(f"{f.length}I" if f.length else "Q" for f in fields)
    data = b"".join(
        struct.pack(code, *[x for v in row.values() for x in (v if isinstance(v, list) else [v])])
        for row in rows
    )
    return Table(name, fields, max(capacity, len(rows)), struct.calcsize(code), data)


@dataclass
class HeapRow:
    tid: int
    state: int = 1
    by_class: list[int] = field(default_factory=lambda: [0] * (len(CLASSES) * 4))
    run_bytes: int = 0
    run_blocks: int = 0
    inbox_bytes: int = 0

    def count(self, index: int, used: int, slabs: int, touched: int, magazine: int = 0) -> None:
        for place, value in enumerate((used, slabs, touched, magazine)):
            self.by_class[index * 4 + place] += value


class World:
    """One process. Units are handed out in order; a granule has slabs, or pages, or big blocks."""

    def __init__(self) -> None:
        self.words: list[int] = []
        # Of every page of the window so far: 1, or 2 if it is swapped out.
        self.there: list[int] = []
        self.heaps: list[HeapRow] = []
        self.heap_units: list[int] = []
        self.page = dict.fromkeys(
            (
                *("units_in_use", "units_dirty", "pages_in_use", "pages_dirty", "run_bytes"),
                *("run_blocks", "big_bytes", "big_blocks", "big_cached", "kept_bytes"),
                *("warm_bytes", "allowed_bytes", "sampled_unit_bytes", "heaps_unseen"),
                "pressure_tight",
            ),
            0,
        )
        self.settings = {"retain": 2 * MIB, "retain_max": 32 * MIB, "magazine_max": 2048}
        self.blocks: list[dict[str, Word]] = []
        self.sites: list[dict[str, Word]] = []
        self.stacks: list[int] = []
        self.others: list[Mapping] = []
        self.threads: list[Thread] = []
        self.huge = 0
        self.flags: frozenset[str] = frozenset()  # of the window's mapping
        self.units_room = 0
        self.with_units = True

    # The window.

    def granule(self) -> None:
        """What comes next begins a granule."""
        while len(self.words) % (GRANULE // UNIT):
            self.unit(0, 0)

    def unit(self, word: int, present: int) -> int:
        """A unit of which the first `present` pages are there; its index."""
        self.words.append(word)
        self.there += [1] * present + [0] * (UNIT_PAGES - present)
        return len(self.words) - 1

    def swap_out(self, unit: int, pages: int = UNIT_PAGES) -> None:
        first = unit * UNIT_PAGES
        self.there[first : first + pages] = [2] * pages

    def heap(self, tid: int, present: int = 5, state: int = 1) -> HeapRow:
        self.heap_units.append(self.unit(HEAP, present))
        self.page["units_in_use"] += 1
        self.heaps.append(HeapRow(tid, state))
        return self.heaps[-1]

    def slots(self, present: int = 3) -> None:
        self.unit(HEAP, present)
        self.page["units_in_use"] += 1

    def slab(self, index: int, present: int) -> None:
        """A slab of units; `present` pages from its start."""
        units = CLASSES[index][1]
        for unit in range(units):
            inside = min(UNIT_PAGES, max(0, present - unit * UNIT_PAGES))
            self.unit(SLAB | index << 8, inside)
        self.page["units_in_use"] += units

    def sampled_unit(self, present: int) -> int:
        """Where sampled blocks lie; its address."""
        self.page["units_in_use"] += 1
        self.page["sampled_unit_bytes"] += UNIT
        return WINDOW + self.unit(SAMPLED, present) * UNIT

    def free_units(self, n: int, present: int = UNIT_PAGES, dirty: bool = True) -> None:
        for _ in range(n):
            self.unit(0, present)
        self.page["units_dirty"] += n if dirty else 0

    def pages(self, word: int, n: int, present: int) -> None:
        """A run or paged slab at a unit's start and of so many pages, with free ones behind it."""
        units = -(-n // UNIT_PAGES)
        for unit in range(units):
            inside = min(UNIT_PAGES, max(0, present - unit * UNIT_PAGES))
            self.unit(word if unit == 0 else 0, inside)
        self.page["pages_in_use"] += n * PAGE

    def run(self, heap: HeapRow, n: int, present: int) -> None:
        self.pages(RUN | n << 8, n, present)
        heap.run_bytes += n * PAGE
        heap.run_blocks += 1

    def free_pages(self, present: int) -> None:
        self.unit(0, present)
        self.page["pages_dirty"] += present * PAGE

    def big(self, size: int, present: int) -> int:
        """Its address."""
        self.granule()
        start = WINDOW + len(self.words) * UNIT
        granules = -(-size // GRANULE)
        self._granules(BIG | granules << 8, granules, present)
        self.page["big_bytes"] += size
        self.page["big_blocks"] += 1
        return start

    def cached(self, granules: int, present: int) -> None:
        self.granule()
        self._granules(0, granules, present)
        self.page["big_cached"] += granules * GRANULE

    def _granules(self, word: int, granules: int, present: int) -> None:
        for unit in range(granules * GRANULE // UNIT):
            inside = min(UNIT_PAGES, max(0, present - unit * UNIT_PAGES))
            self.unit(word if unit == 0 else 0, inside)

    # What was sampled.

    def sample(self, size: int, usable: int, objects: int, site: int = 0) -> None:
        self.blocks.append(
            {
                "address": WINDOW + len(self.blocks) * 64 + 16,
                "size": size,
                "usable": usable,
                "weight_bytes": size * objects,
                "weight_objects": objects * 1024,
                "site": site,
            }
        )

    def site(self, live_bytes: int, *stack: int) -> int:
        self.sites.append(
            {
                "stack": len(self.stacks),
                "depth": len(stack),
                "live_bytes": live_bytes,
                "live_samples": live_bytes // (512 << 10),
            }
        )
        self.stacks += stack
        return len(self.sites) - 1

    # Elsewhere.

    def map(
        self,
        start: int,
        size: int,
        rss: int,
        path: str = "",
        permissions: str = "rw-p",
        **more: int,
    ) -> Mapping:
        inode = 77 if path.startswith("/") else 0
        made = Mapping(start, start + size, permissions, 0, inode, path, rss=rss, **more)
        self.others.append(made)
        return made

    def usual(self) -> None:
        """A program, libraries, a stack, and what of hakmem's is not in its window."""
        self.map(0x400000, 1 * MIB, 600 << 10, "/usr/bin/program", "r-xp")
        self.map(0x7F00_0000_0000, 2 * MIB, 900 << 10, "/lib/libc.so.6", "r-xp")
        self.map(0x7F00_0020_0000, 64 << 10, 16 << 10)  # its zeroed data
        self.map(0x7F10_0000_0000, 1 * MIB, 200 << 10, "/opt/libhakmem.so", "r-xp")
        self.map(0x7FFF_0000_0000, 128 << 10, 40 << 10, "[stack]")
        self.map(0x7FFF_1000_0000, 8192, 4096, "[vdso]", "r-xp")
        self.map(ARRAYS, 1 * MIB, 0, permissions="---p")
        self.map(ARRAYS + MIB, 1 * MIB, 60 << 10)
        self.map(AREA_AT, 8 * MIB, 120 << 10, "/SYSV00000000 (deleted)", "rw-s")

    # The result.

    def area(self) -> Area:
        page: dict[str, Word] = {
            "pid": 42,
            "page_size": PAGE,
            "window_at": WINDOW,
            "window_bytes": WINDOW_BYTES,
            "words_at": ARRAYS + MIB + 2048,
            "slabs_at": ARRAYS + MIB + 2048,
            "maps_at": ARRAYS + MIB + (512 << 10),
            "supers_at": ARRAYS + MIB + (512 << 10),
            "magazines_at": 0,
            "magazine_stride": 0,
            **self.page,
        }
        classes: list[dict[str, Word]] = [
            {"size": s, "units": u, "capacity": u * UNIT // s or 1} for s, u in CLASSES
        ]
        heaps: list[dict[str, Word]] = [
            {
                "address": WINDOW + unit * UNIT,
                "tid": heap.tid,
                "state": heap.state,
                "run_bytes": heap.run_bytes,
                "run_blocks": heap.run_blocks,
                "inbox_bytes": heap.inbox_bytes,
                "by_class": heap.by_class,
            }
            for heap, unit in zip(self.heaps, self.heap_units, strict=True)
        ]
        settings: dict[str, Word] = dict(self.settings)
        stacks: list[dict[str, Word]] = [{"address": at} for at in self.stacks]
        tables = {
            "process": table("process", [page]),
            "settings": table("settings", [settings]),
            "classes": table("classes", classes),
            "heaps": table("heaps", heaps),
            "blocks": table("blocks", self.blocks),
            "sites": table("sites", self.sites),
            "stacks": table("stacks", stacks),
        }
        if self.with_units:
            room = self.units_room or 1 << 16
            data = struct.pack(f"<{len(self.words)}I", *self.words)[: room * 4]
            tables["units"] = Table("units", (Field("what", "u32", None),), room, 4, data)
        return Area("9.9.9", tables, self.maps_text(), {}, "process 42", AREA_AT)

    def maps_text(self) -> str:
        return "".join(
            f"{m.start:x}-{m.end:x} {m.permissions} {m.offset:08x} 00:00 {m.inode} {m.path}\n"
            for m in sorted(self.others, key=lambda m: m.start)
        )

    def window(self) -> Mapping:
        self.granule()
        size = len(self.there) * PAGE
        rss, swap = (self.there.count(what) * PAGE for what in (1, 2))
        return Mapping(
            *(WINDOW, WINDOW + size, "rw-p", 0, 0, ""),
            rss=rss,
            swap=swap,
            huge=self.huge,
            flags=self.flags,
        )

    def process(self) -> Process:
        rows = sorted([self.window(), *self.others], key=lambda m: m.start)
        return Process(42, "/usr/bin/program", Mappings(tuple(rows)), tuple(self.threads))

    def presence(self) -> Presence:
        self.granule()
        there, away = (bytes(page == what for page in self.there) for what in (1, 2))
        return Presence([Pages(WINDOW, PAGE, there, away)])

    def explain(self, pagemap: bool = True) -> Explanation:
        process = self.process()
        return explain(self.area(), process, self.presence() if pagemap else None)
