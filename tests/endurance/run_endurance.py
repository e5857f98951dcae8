"""Runs the mixed stress and checks that its resident size does not drift.

usage: run_endurance.py --program ENDURANCE [--library libhakmem.so] [--seconds 3600]
                        [--cycles 1] [--phase-ms 1500]
       run_endurance.py --log FILE

A sixth of the cycles is warm-up. Of what follows, the medians of the first and the last third are
compared at the end of each phase, where the same bytes live, and of each cycle's mean
over the phases. A drift fails that is beyond the limit by more than chance may add (two standard
errors of the medians). With few cycles only the mean is judged.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

WARM_UP_SHARE = 1 / 6
CYCLES_LEAST, CYCLES_FOR_PHASES = 6, 60
MIB = 1 << 20
ALL = "all"
# How much wider the median of a normal sample scatters than its mean, and a deviation than its
# median.
MEDIAN_ERROR, DEVIATION = 1.2533, 1.4826


@dataclass(frozen=True)
class Point:
    seconds: float
    cycle: int
    phase: str
    rss: int
    live: int


def points_of(log: str) -> list[Point]:
    rows = (line.split() for line in log.splitlines() if line.startswith("point "))
    return [
        Point(float(at), int(cycle), phase, int(rss), int(live))
        for _, at, cycle, phase, rss, live in rows
    ]


def squared_error(values: list[float]) -> float:
    middle = statistics.median(values)
    deviation = DEVIATION * statistics.median(abs(value - middle) for value in values)
    return (MEDIAN_ERROR * deviation) ** 2 / len(values)


@dataclass(frozen=True)
class Drift:
    """From the first third of the cycles to the last."""

    first: float
    last: float
    error_percent: float

    @property
    def percent(self) -> float:
        return 100 * (self.last / self.first - 1)

    def is_beyond(self, limit: float) -> bool:
        return self.percent - 2 * self.error_percent > limit


def drift_of(values: list[float]) -> Drift:
    third = len(values) // 3
    first, last = values[:third], values[-third:]
    error = math.sqrt(squared_error(first) + squared_error(last))
    middle = statistics.median(first)
    return Drift(middle, statistics.median(last), 100 * error / middle)


def by_phase(points: list[Point], warm_up: int) -> dict[str, list[float]]:
    """Each phase's resident sizes, cycle by cycle, and each whole cycle's mean."""
    cycles: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        cycles[point.cycle].append(point)
    whole = [
        cycle
        for cycle in cycles.values()
        if cycle[0].cycle >= warm_up and len(cycle) == len(cycles[0])
    ]
    sizes: dict[str, list[float]] = {ALL: [statistics.mean(p.rss for p in c) for c in whole]}
    for cycle in whole:
        for point in cycle:
            sizes.setdefault(point.phase, []).append(point.rss)
    return sizes


def report(points: list[Point], limit: float) -> list[str]:
    """Prints the table; what drifts too much."""
    warm_up = math.ceil((points[-1].cycle + 1) * WARM_UP_SHARE)
    sizes = by_phase(points, warm_up)
    cycles = len(sizes[ALL])
    if cycles < CYCLES_LEAST:
        return [f"only {cycles} cycles after the warm-up, at least {CYCLES_LEAST} are needed"]
    live = {point.phase: point.live for point in points}
    print(f"{points[-1].seconds:.0f} s, {cycles} cycles after {warm_up} of warm-up")
    print("| phase | live MiB | RSS, first third | last third | drift % | +- |")
    print("| :-- | --: | --: | --: | --: | --: |")
    problems = []
    for phase, values in sizes.items():
        drift = drift_of(values)
        at = f"{live[phase] / MIB:.0f}" if phase in live else ""
        first, last = drift.first / MIB, drift.last / MIB
        shown = f"{drift.percent:+.2f} | {2 * drift.error_percent:.2f}"
        print(f"| {phase} | {at} | {first:.1f} | {last:.1f} | {shown} |")
        if (phase == ALL or cycles >= CYCLES_FOR_PHASES) and drift.is_beyond(limit):
            problems.append(f"{phase}: drift of {drift.percent:+.2f} %")
    return problems


def run(arguments: argparse.Namespace) -> str:
    if arguments.library is not None:
        os.environ["LD_PRELOAD"] = str(arguments.library)
    command = [arguments.program, "--seconds", str(arguments.seconds)]
    command += ["--cycles", str(arguments.cycles)]
    command += ["--phase-ms", str(arguments.phase_ms), "--seed", str(arguments.seed)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED with {done.returncode}: " + done.stderr[-400:])
    print(done.stderr.splitlines()[-1])
    return done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", help="the built endurance.c")
    parser.add_argument("--library", type=Path, help="malloc to preload; none: the one there is")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--cycles", type=int, default=1, metavar="N", help="at least so many")
    parser.add_argument("--phase-ms", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=2.0, metavar="PERCENT")
    parser.add_argument("--log", type=Path, help="what an earlier run said, instead of a run")
    parser.add_argument("--content-only", action="store_true", help="resident sizes mean nothing")
    arguments = parser.parse_args()
    log = arguments.log.read_text() if arguments.log else run(arguments)
    problems = report(points_of(log), arguments.limit)
    for problem in problems:
        print("FAILED:" if not arguments.content_only else "not counted:", problem)
    return 1 if problems and not arguments.content_only else 0


if __name__ == "__main__":
    sys.exit(main())
