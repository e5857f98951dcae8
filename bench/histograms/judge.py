#!/usr/bin/env python3
"""Judges tables of size classes on the recorded histograms (record.py).

    bench/histograms/judge.py [--programs]

For each table, over all programs: how many classes a program uses, how much larger the blocks are
than what was asked for (of all allocations, and of the blocks alive when their bytes were most),
and how many bytes of pages these blocks would touch if every class were packed without a gap. A
page that holds one block counts whole, and so does what no block fits into at the end of a slab,
except for whole pages there. Tables found by search are also judged on the programs they have not
seen.
"""

import argparse
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLASSES = HERE.parents[1] / "src" / "slab" / "size_classes.def"
UNIT, PAGE = 64 << 10, 4096
JUDGED_MAX = 256 << 10  # above that are few blocks in any of the histograms
SMALLEST = (8, 16, 32, 48, 64)  # of all tables: docs/decisions/0033
MOST_LOST = 0.2  # of a block above 64 bytes

Table = tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """What one program asked malloc for, up to the largest size that is judged."""

    name: str
    allocations: Counter[int]
    blocks: Counter[int]  # at the peak

    @property
    def bytes(self) -> int:
        return sum(size * count for size, count in self.blocks.items())


def read(path: Path) -> Program:
    allocations: Counter[int] = Counter()
    blocks: Counter[int] = Counter()
    for line in path.read_text().splitlines()[2:]:
        size, alignment, allocated, peak = map(int, line.split(","))
        size = max(size, alignment if alignment > 16 else 1)
        if size <= JUDGED_MAX:
            allocations[size] += allocated
            blocks[size] += peak
    return Program(path.stem, allocations, blocks)


# ---- tables ----


def present() -> Table:
    rows = re.findall(r"^CLASS\(\d+, \d+, (\d+)", CLASSES.read_text(), re.MULTILINE)
    return tuple(size for size in map(int, rows) if size <= JUDGED_MAX)


def stepped(fine_to: int, steps: int) -> Table:
    """Steps of 16 bytes up to a size, then a number of steps per doubling."""
    sizes = set(SMALLEST) | set(range(64, fine_to + 1, 16))
    doubling = fine_to
    while doubling < JUDGED_MAX:
        sizes |= {round_up(doubling + doubling * k // steps, 16) for k in range(1, steps + 1)}
        doubling *= 2
    return tuple(sorted(sizes))


def even_steps() -> Table:
    """Steps of 16 bytes up to 512, of 32 up to 1024, then eight per doubling."""
    above = (size for size in stepped(1024, 8) if size > 1024)
    return (8, *range(16, 513, 16), *range(544, 1025, 32), *above)


def half_steps(last: int) -> Table:
    """The same, with half a step above each power of two from 1 KiB up to the last."""
    halves = {1088 << k for k in range((last >> 10).bit_length())}
    return tuple(sorted({*even_steps(), *halves}))


def mimalloc_like() -> Table:
    """Every 8 bytes up to 64, then four steps per doubling."""
    return tuple(sorted({*range(8, 65, 8), *stepped(64, 4)}))


def fitted(table: Table) -> Table:
    """Each class as large as it can be with as many blocks in a slab; of equal ones the largest."""
    best = {}
    for size in table:
        whole = units(size) * UNIT
        count = whole // size
        best[size] = whole // count & ~15 if size > 512 else size
    return tuple(sorted(set(best.values())))


def units(size: int) -> int:
    return 1 if size <= 8192 else 2 if size <= 16384 else 4 if size <= 32768 else 8


def round_up(n: int, step: int) -> int:
    return -(-n // step) * step


# ---- judging ----


def touched(size: int, blocks: int) -> int:
    """Bytes of pages under that many blocks of a class."""
    capacity = units(size) * UNIT // size
    slabs, rest = divmod(blocks, capacity)
    return slabs * round_up(capacity * size, PAGE) + round_up(rest * size, PAGE)


def by_class(table: Table, histogram: Counter[int]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for size, count in histogram.items():
        if count:
            counts[table[bisect_left(table, size)]] += count
    return counts


@dataclass(frozen=True)
class Verdict:
    used: int  # classes
    allocated: float  # bytes of classes by bytes asked for, over all allocations
    live: float  # the same at the peak
    pages: float  # pages touched by bytes asked for, at the peak


def judge(table: Table, program: Program) -> Verdict:
    def excess(histogram: Counter[int]) -> float:
        asked = sum(size * count for size, count in histogram.items())
        return sum(size * count for size, count in by_class(table, histogram).items()) / asked

    at_peak = by_class(table, program.blocks)
    pages = sum(touched(size, count) for size, count in at_peak.items())
    return Verdict(
        used=len(by_class(table, program.allocations)),
        allocated=excess(program.allocations),
        live=excess(program.blocks),
        pages=pages / program.bytes,
    )


def geomean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


# ---- search ----


def candidates() -> list[int]:
    fine = [*SMALLEST, *range(80, 1025, 16)]
    return fine + [(64 + k) << d for d in range(4, 12) for k in range(1, 65)]


def search(programs: list[Program]) -> Table:
    """The table with the fewest pages, each program's by its bytes, by dynamic programming.

    Powers of two stay, for aligned requests, and no block loses more than a fifth.
    """
    sizes = candidates()
    fixed = {size for size in sizes if size & (size - 1) == 0} | set(SMALLEST)
    sums = []
    for program in programs:
        counts = [0] * (len(sizes) + 1)
        for size, count in program.blocks.items():
            counts[bisect_left(sizes, size) + 1] += count
        sums.append((list(accumulate(counts)), 1 / program.bytes))

    def cost(below: int, index: int) -> float:
        """Of class `index` when the next smaller one is `below` (-1: none)."""
        return sum(
            share * touched(sizes[index], total[index + 1] - total[below + 1])
            for total, share in sums
        )

    best = [0.0] * len(sizes)
    before = [-1] * len(sizes)
    for index, size in enumerate(sizes):
        options = []
        for below in range(index - 1, -1, -1):
            if size > 64 and size - sizes[below] - 1 > MOST_LOST * size:
                break
            options.append((best[below] + cost(below, index), below))
            if sizes[below] in fixed:
                break
        best[index], before[index] = min(options) if options else (cost(-1, index), -1)
    chosen = []
    index = len(sizes) - 1
    while index >= 0:
        chosen.append(sizes[index])
        index = before[index]
    return tuple(reversed(chosen))


# ---- report ----


def tables(programs: list[Program]) -> dict[str, tuple[Table, list[Program]]]:
    """By name: the table, and the programs it may be judged on."""
    halves = programs[::2], programs[1::2]
    first, second = search(halves[0]), search(halves[1])
    plain: dict[str, Table] = {
        "present": present(),
        "16 to 512, 32 to 1024, 8 per doubling": even_steps(),
        "half a step above 1 .. 8 KiB": half_steps(8 << 10),
        "half a step above 1 .. 128 KiB": half_steps(128 << 10),
        "4 per doubling (jemalloc, snmalloc)": stepped(64, 4),
        "8 to 64, 4 per doubling (mimalloc)": mimalloc_like(),
        "8 per doubling (tcmalloc)": stepped(128, 8),
        "16 to 1024, 8 per doubling (rpmalloc)": stepped(1024, 8),
        "16 to 512, 4 per doubling": stepped(512, 4),
        "16 per doubling": stepped(256, 16),
        "present, fitted to slabs": fitted(present()),
        "8 per doubling, fitted to slabs": fitted(stepped(128, 8)),
        "4 per doubling, fitted to slabs": fitted(stepped(64, 4)),
        "searched on all": search(programs),
    }
    return {name: (table, programs) for name, table in plain.items()} | {
        "searched on one half, other half": (first, halves[1]),
        "present, that half": (present(), halves[1]),
        "searched on other half, one half": (second, halves[0]),
        "present, this half": (present(), halves[0]),
    }


def print_table(rows: dict[str, tuple[Table, list[Program]]]) -> None:
    print(f"{'table':40}{'classes':>8}{'used':>6}{'allocated':>10}{'at peak':>9}{'pages':>8}")
    for name, (table, programs) in rows.items():
        verdicts = [judge(table, program) for program in programs]
        used = sum(verdict.used for verdict in verdicts) / len(verdicts)
        figures: list[Callable[[Verdict], float]] = [
            lambda v: v.allocated,
            lambda v: v.live,
            lambda v: v.pages,
        ]
        means = "".join(f"{geomean(map(figure, verdicts)):9.3f}" for figure in figures)
        print(f"{name:40}{len(table):8}{used:6.1f} {means}")


def print_programs(programs: list[Program], chosen: dict[str, Table]) -> None:
    print(f"\npages by bytes\n{'program':14}{'KiB':>9}", *(f"{name[:20]:>21}" for name in chosen))
    for program in programs:
        cells = (f"{judge(table, program).pages:21.3f}" for table in chosen.values())
        print(f"{program.name:14}{program.bytes >> 10:9}", *cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", action="store_true", help="each program, for some tables")
    by_program: bool = parser.parse_args().programs
    programs = [read(path) for path in sorted(HERE.glob("*.csv"))]
    rows = tables(programs)
    print_table(rows)
    if by_program:
        names = ("present", "half a step above 1 .. 8 KiB", "searched on all")
        print_programs(programs, {name: rows[name][0] for name in names})


if __name__ == "__main__":
    main()
