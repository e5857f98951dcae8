#!/usr/bin/env python3
"""Programs that a seed has drawn (roulette.c), under several allocators by turns.

For each program: processor time, mean and peak resident memory by those of the first allocator,
medians of the ratios within a round. At the end their geometric means.

Example:  .venv/bin/python bench/roulette.py --seeds 1-50 glibc= hakmem=build/release/libhakmem.so
"""

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

PROGRAM = Path(__file__).resolve().parent.parent / "build" / "release" / "bench" / "roulette"
FIGURES = ("processor_ns_per_op", "mean_rss_kib", "peak_rss_kib")
LEAST_NS = 0.1  # of a program so short that the kernel has counted none

Result = dict[str, float]


def seeds_of(text: str) -> range:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 1-150")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


def allocator_of(text: str) -> tuple[str, str]:
    name, equals, library = text.partition("=")
    if not equals or (library and not Path(library).is_file()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=LIBRARY, or NAME= for the C library's"
        )
    return name, str(Path(library).resolve()) if library else ""


def run(seed: int, length: int, library: str) -> Result:
    environment = {**os.environ, "LD_PRELOAD": library}
    command = [str(PROGRAM), str(seed), str(length)]
    output = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split() for line in output.splitlines() if not line.startswith("#")]
    result = {key: float(value) for key, value in lines}
    result[FIGURES[0]] = max(result[FIGURES[0]], LEAST_NS)
    return result


def compare(seed: int, options: argparse.Namespace) -> dict[str, list[float]]:
    """By allocator: the medians over the rounds of each figure by the first allocator's."""
    ratios: dict[str, list[list[float]]] = {name: [] for name, _ in options.allocators[1:]}
    for _ in range(options.rounds):
        order = random.sample(options.allocators, len(options.allocators))
        results = {name: run(seed, options.length, library) for name, library in order}
        first = results[options.allocators[0][0]]
        for name, of_program in ratios.items():
            of_program.append([results[name][figure] / first[figure] for figure in FIGURES])
    return {
        name: [statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in ratios.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=seeds_of, default=range(1, 151), metavar="A-B")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--length", type=int, default=60, help="percent of a program's usual length"
    )
    parser.add_argument("allocators", type=allocator_of, nargs="+", metavar="NAME=LIBRARY")
    options = parser.parse_args()
    if len(options.allocators) < 2 or options.rounds < 1:
        parser.error("two allocators at least, and a round")
    table = Table("seed", *(f"{name}: time, mean, peak RSS" for name, _ in options.allocators[1:]))
    every: dict[str, list[list[float]]] = {name: [] for name, _ in options.allocators[1:]}
    for seed in options.seeds:
        ratios = compare(seed, options)
        for name, row in ratios.items():
            every[name].append(row)
        table.add_row(
            str(seed), *(" ".join(f"{ratio:.2f}" for ratio in row) for row in ratios.values())
        )
    means = [
        " ".join(f"{statistics.geometric_mean(column):.3f}" for column in zip(*rows, strict=True))
        for rows in every.values()
    ]
    table.add_section()
    table.add_row("geometric mean", *means)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
