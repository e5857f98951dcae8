#!/usr/bin/env python3
"""Let something happen at every system call that hakmem makes, and see what comes of it.

For each function of the shim, each of its first calls in a scripted run, each mode (this call only,
this and all later ones) and each errno, the call fails, the script runs once and must exit with
status 0. With --action fork the process forks there, and the child has to come to the end of the
script, too; with --action signal a signal's handler allocates and frees there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = ("start-up", "threaded")
# What can be done at a call: in which modes, and with which errno.
ACTIONS = {
    "fail": (("once", "forever"), ("ENOMEM", "EINVAL")),
    "fork": (("once",), ("",)),
    "signal": (("once", "forever"), ("",)),
}
# Where these fail no memory can be had, and requests may be refused. Whatever else fails, none may.
GIVING_CALLS = ("mmap", "mprotect")
NONE_REFUSED = b"0 requests refused"  # a line of the script's
SECONDS_PER_RUN = 120
RESIDENT_MOST = 2 << 30  # several times what a script needs; a run that goes on growing is stopped
FAILURES_SHOWN = 20


@dataclass(frozen=True)
class Point:
    """One run: at which call of which function, and what is done there."""

    action: str
    script: str
    call: str
    k: int
    mode: str
    errno: str

    @property
    def takes_memory(self) -> bool:
        return self.action == "fail" and self.call in GIVING_CALLS


@dataclass(frozen=True)
class Outcome:
    problem: str  # empty: all went well
    counts: dict[str, tuple[int, int]]  # function: calls made, calls failed


class Runner:
    def __init__(self, shim: Path, library: Path, program: Path, scratch: Path) -> None:
        self.shim, self.library, self.program, self.scratch = shim, library, program, scratch

    def environment(self, report: Path, point: Point | None) -> dict[str, str]:
        settings = {
            "LD_PRELOAD": f"{self.shim}:{self.library}",
            "FAULT_LIBRARY": self.library.name,
            "FAULT_REPORT": str(report),
        }
        settings |= {key: value for key, value in os.environ.items() if key.startswith("HAKMEM_")}
        if point is not None:
            settings |= {"FAULT_CALL": point.call, "FAULT_K": str(point.k)}
            settings |= {"FAULT_ACTION": point.action}
            settings |= {"FAULT_MODE": point.mode, "FAULT_ERRNO": point.errno}
        return settings

    def command(self, script: str, recovers: bool) -> list[str]:
        return [str(self.program), script] + (["--recovers"] if recovers else [])

    def run(self, script: str, point: Point | None) -> Outcome:
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            report = Path(folder) / "report"
            gives = point is None or not point.takes_memory
            recovers = gives or point.mode == "once"
            process = subprocess.Popen(
                self.command(script, recovers),
                env=self.environment(report, point),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            said, stopped = watched(process)
            counts = read_report(report)
        if stopped:
            return Outcome(stopped, counts)
        if process.returncode != 0:
            code = process.returncode
            ended = f"signal {-code}" if code < 0 else f"status {code}"
            last_lines = said.decode(errors="replace").strip().splitlines()[-3:]
            return Outcome(f"ended with {ended}: " + " | ".join(last_lines), counts)
        if gives and NONE_REFUSED not in said.splitlines():
            return Outcome("requests were refused although memory was there", counts)
        return Outcome("" if counts else "wrote no report", counts)


def watched(process: subprocess.Popen) -> tuple[bytes, str]:
    """What the process said until it ended, and why it was stopped, if it was."""
    deadline = time.monotonic() + SECONDS_PER_RUN
    while True:
        try:
            return process.communicate(timeout=0.2)[1], ""
        except subprocess.TimeoutExpired:
            pass
        stopped = ""
        if time.monotonic() > deadline:
            stopped = f"no end after {SECONDS_PER_RUN} s"
        elif resident(process.pid) > RESIDENT_MOST:
            stopped = f"grew beyond {RESIDENT_MOST >> 20} MiB"
        if stopped:
            process.kill()
            return process.communicate()[1], stopped


def resident(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def read_report(report: Path) -> dict[str, tuple[int, int]]:
    if not report.exists():
        return {}
    rows = (line.split() for line in report.read_text().splitlines())
    return {name: (int(made), int(failed)) for name, made, failed in rows}


def points_of(
    action: str, script: str, counts: dict[str, tuple[int, int]], most: int
) -> list[Point]:
    modes, errnos = ACTIONS[action]
    return [
        Point(action, script, call, k, mode, errno)
        for call, (made, _) in counts.items()
        for k in range(1, min(made, most) + 1)
        for mode in modes
        for errno in errnos
    ]


def run_script(
    runner: Runner, action: str, script: str, most: int, jobs: int
) -> tuple[int, int, list[str]]:
    """The number of points tried, of calls at which it was done, and what went wrong at each."""
    plain = runner.run(script, None)
    if plain.problem:
        return 0, 0, [f"{script} without any fault: {plain.problem}"]
    if plain.counts["mmap"][0] == 0:
        return 0, 0, [f"{script}: the shim saw no mmap of {runner.library.name}"]
    points = points_of(action, script, plain.counts, most)
    tried, injected, wrong, problems = Counter(), Counter(), Counter(), []
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = pool.map(lambda point: runner.run(script, point), points)
        for point, outcome in zip(points, outcomes, strict=True):
            tried[point.call] += 1
            injected[point.call] += outcome.counts.get(point.call, (0, 0))[1]
            if outcome.problem:
                wrong[point.call] += 1
                problems.append(f"{point}: {outcome.problem}")
    print(f"{script:20} {'calls made':>10} {'points':>7} {'done at':>12} {'wrong':>6}")
    for call, (made, _) in plain.counts.items():
        print(f"  {call:18} {made:10} {tried[call]:7} {injected[call]:12} {wrong[call]:6}")
    if points and not injected.total():
        problems.append(f"{script}: nothing was done at any call")
    return len(points), injected.total(), problems


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", type=Path, required=True, help="the preload library faults.so")
    parser.add_argument("--library", type=Path, required=True, help="libhakmem.so")
    parser.add_argument("--program", type=Path, required=True, help="fault_script")
    parser.add_argument("--action", choices=ACTIONS, default="fail", help="(fail)")
    parser.add_argument("--most", type=int, default=2000, help="try the first MOST calls (2000)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    return parser.parse_args()


def main() -> int:
    arguments = parsed_arguments()
    tried, done, problems = 0, 0, []
    with tempfile.TemporaryDirectory(prefix="hakmem-faults-") as scratch:
        runner = Runner(arguments.shim, arguments.library, arguments.program, Path(scratch))
        for script in SCRIPTS:
            points, met, wrong = run_script(
                runner, arguments.action, script, arguments.most, arguments.jobs
            )
            tried += points
            done += met
            problems += wrong
    for problem in problems[:FAILURES_SHOWN]:
        print("FAILED:", problem)
    if len(problems) > FAILURES_SHOWN:
        print(f"... and {len(problems) - FAILURES_SHOWN} more")
    shown = {"fail": "calls failed", "fork": "forks", "signal": "signals"}[arguments.action]
    print(f"{tried} points tried, {done} {shown}, {len(problems)} went wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
