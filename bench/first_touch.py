#!/usr/bin/env python3
"""What the first touch of memory costs here, and what hakmem makes of it.

Two tables: microseconds of processor time for each 4 KiB of fresh memory, as it is touched page by
page or populated at once, with small and with huge pages; and seconds of a program that fills eight
blocks of 8 MiB, frees and trims them, twenty times, by the setting huge_blocks.

Example:  .venv/bin/python bench/first_touch.py
"""

import ctypes
import mmap
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

LIBRARY = Path(__file__).resolve().parent.parent / "build" / "release" / "libhakmem.so"
MADV_POPULATE_WRITE = 23
PAGE = mmap.PAGESIZE
MIB = 1 << 20
HUGE = 2 * MIB
SIZES = (2, 8, 64, 256)
BYTES_PER_CELL = 512 * MIB
KINDS = {
    "small": (mmap.MADV_NOHUGEPAGE, False),
    "small, populated": (mmap.MADV_NOHUGEPAGE, True),
    "huge": (mmap.MADV_HUGEPAGE, False),
    "huge, populated": (mmap.MADV_HUGEPAGE, True),
}
ROUNDS = 5
CHURN = """
import ctypes
trim = ctypes.CDLL(None).malloc_trim
for _ in range(20):
    blocks = [b"x" * (8 << 20) for _ in range(8)]
    del blocks
    trim(0)
"""


def cost_us(size: int, advice: int, is_populated: bool) -> float:
    """Of one page; the mean of so many mappings that they are worth measuring."""
    spent = 0
    rounds = max(3, BYTES_PER_CELL // size)
    for _ in range(rounds):
        with mmap.mmap(-1, size + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            start = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % HUGE
            memory.madvise(advice)
            begun = time.thread_time_ns()
            if is_populated:
                memory.madvise(MADV_POPULATE_WRITE, start, size)
            memory[start : start + size : PAGE] = b"x" * (size // PAGE)
            spent += time.thread_time_ns() - begun
    return spent / rounds / (size // PAGE) / 1000


def churn_s(setting: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    added = {"LD_PRELOAD": str(LIBRARY), "HAKMEM_HUGE_BLOCKS": setting}
    subprocess.run([sys.executable, "-c", CHURN], env=os.environ | added, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    console = Console()
    table = Table("MiB", *KINDS, title="us of 4 KiB")
    for size in SIZES:
        costs = [cost_us(size * MIB, *kind) for kind in KINDS.values()]
        table.add_row(str(size), *(f"{cost:.2f}" for cost in costs))
    console.print(table)
    found: dict[str, list[float]] = {name: [] for name in ("off", "always", "learnt")}
    for _ in range(ROUNDS):
        for setting, times in found.items():
            times.append(churn_s(setting))
    table = Table("huge_blocks", "s", title="8 x 8 MiB, 20 times")
    for setting, times in found.items():
        table.add_row(setting, f"{statistics.median(times):.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
