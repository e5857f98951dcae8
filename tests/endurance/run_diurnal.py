"""Runs a server's days: nights come back to the first night's resident size, evenings stay.

usage: run_diurnal.py --program DIURNAL [--library libhakmem.so] [--days 2] [--hour-ms 2000]

Once with the defaults, once with the thread that purges (HAKMEM_WORKER=1), without which a process
that makes no calls keeps what the night's batch has left.
"""

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

MIB = 1 << 20
NIGHT_HOUR, AFTER_BATCH_HOUR = 2, 5
EVENING = range(17, 23)
BATCH_HOUR = 3
KEPT_BY_WORKER = 0.75  # at most, of the size in that hour, two idle hours later

# By day, by hour: resident and live bytes.
Days = dict[int, dict[int, tuple[int, int]]]


def run(program: str, days: int, hour_ms: int, settings: dict[str, str]) -> Days:
    command = [program, "--days", str(days), "--hour-ms", str(hour_ms)]
    done = subprocess.run(command, env=os.environ | settings, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED with {done.returncode}: {done.stderr[-400:]}")
    sizes: Days = defaultdict(dict)
    for line in done.stderr.splitlines():
        if line.startswith("point "):
            _, _, day, hour, rss, live = line.split()
            sizes[int(day)][int(hour)] = (int(rss), int(live))
    return sizes


def show(title: str, sizes: Days) -> None:
    print(f"{title}: MiB resident / live at the end of each hour")
    for day, hours in sorted(sizes.items()):
        row = "  ".join(f"{h:02} {rss // MIB}/{live // MIB}" for h, (rss, live) in hours.items())
        print(f"day {day}: {row}")


def ratio(what: str, last: int, first: int, limit: float) -> list[str]:
    """What is wrong with the last day's figure, if anything."""
    grown = last / first
    print(
        f"{what}: {first / MIB:.1f} MiB on the first day, {last / MIB:.1f} on the last: {grown:.3f}"
    )
    return [f"{what} is {grown:.3f} of the first day's"] if grown > limit else []


def evening(hours: dict[int, tuple[int, int]]) -> int:
    """Around the peak; one hour's figure is more a matter of chance."""
    return sum(hours[hour][0] for hour in EVENING) // len(EVENING)


def check(sizes: Days, has_worker: bool, night_limit: float, peak_limit: float) -> list[str]:
    first, last = sizes[min(sizes)], sizes[max(sizes)]
    night = ratio("night", last[NIGHT_HOUR][0], first[NIGHT_HOUR][0], 1 + night_limit / 100)
    problems = night + ratio("evening", evening(last), evening(first), 1 + peak_limit / 100)
    if has_worker:
        left, batch = last[AFTER_BATCH_HOUR][0], last[BATCH_HOUR][0]
        print(f"after the batch: {batch / MIB:.1f} MiB, two idle hours later {left / MIB:.1f}")
        if left > KEPT_BY_WORKER * batch:
            problems.append("what the batch has left is still there two idle hours later")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", required=True, help="the built diurnal.c")
    parser.add_argument("--library", type=Path, help="malloc to preload; none: the one there is")
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--hour-ms", type=int, default=2000)
    parser.add_argument("--night-limit", type=float, default=10.0, metavar="PERCENT")
    parser.add_argument("--peak-limit", type=float, default=2.0, metavar="PERCENT")
    arguments = parser.parse_args()
    preload = {"LD_PRELOAD": str(arguments.library)} if arguments.library else {}
    problems = []
    for title, worker in (("defaults", "0"), ("HAKMEM_WORKER=1", "1")):
        settings = preload | {"HAKMEM_WORKER": worker}
        sizes = run(arguments.program, arguments.days, arguments.hour_ms, settings)
        show(title, sizes)
        problems += [
            f"{title}: {problem}"
            for problem in check(sizes, worker == "1", arguments.night_limit, arguments.peak_limit)
        ]
    for problem in problems:
        print("FAILED:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
