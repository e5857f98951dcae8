#!/usr/bin/env python3
"""Which lines and branches of src/ the tests run, folder by folder.

Builds the flavour `coverage`, runs the tests of the labels below and prints lines and branches of
each folder, and the files with most lines that nothing ran. Branches of calls that may throw are
left out. Needs gcovr (the extra `trust`).

    ./hakmem setup --all && .venv/bin/python tests/coverage/run_coverage.py
    .venv/bin/python tests/coverage/run_coverage.py --no-run --json FILE
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "coverage"
LABELS = "^(unit|abi|stress|limits|misuse|fuzz|pressure)$"
# Without memory the code that writes the counters crashes, and others' counters may be lost in it.
LOSING = "^faults[.]first"
FILES_SHOWN = 12
WANTED = {"lines": 95.0, "branches": 90.0}


@dataclass
class Count:
    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_run: int = 0

    def add(self, file: dict[str, Any]) -> None:
        self.lines += file["line_total"]
        self.lines_run += file["line_covered"]
        self.branches += file["branch_total"]
        self.branches_run += file["branch_covered"]

    @property
    def line_share(self) -> float:
        return 100 * self.lines_run / self.lines if self.lines else 100.0

    @property
    def branch_share(self) -> float:
        return 100 * self.branches_run / self.branches if self.branches else 100.0

    def __str__(self) -> str:
        return (
            f"{self.lines_run:>6} {self.lines:>6} {self.line_share:>6.1f} "
            f"{self.branches_run:>8} {self.branches:>6} {self.branch_share:>6.1f}"
        )


def run(*command: str) -> int:
    print("+", *command, file=sys.stderr, flush=True)
    return subprocess.run(command, cwd=ROOT).returncode


def run_tests(jobs: int) -> bool:
    """Whether all passed."""
    if run("cmake", "--preset", "coverage") or run("cmake", "--build", "--preset", "coverage"):
        sys.exit("FAILED: the build")
    for counters in BUILD.rglob("*.gcda"):
        counters.unlink()
    command = ("ctest", "--test-dir", str(BUILD), "-L", LABELS, "-LE", "^long$", "-j", str(jobs))
    run(*command, "-R", LOSING)
    if not run(*command, "-E", LOSING, "--output-on-failure", "--no-tests=error"):
        return True
    print("some tests failed: what they did not get to is not counted", file=sys.stderr)
    return False


def gcovr() -> list[dict[str, Any]]:
    beside = Path(sys.executable).with_name("gcovr")
    with tempfile.TemporaryDirectory(prefix="hakmem-coverage-") as scratch:
        summary = Path(scratch) / "summary.json"
        command = [
            *(str(beside) if beside.exists() else "gcovr", "--root", str(ROOT)),
            *("--filter", re.escape(str(ROOT / "src")) + "/", "--exclude-throw-branches"),
            *("--exclude-unreachable-branches", "--merge-mode-functions", "merge-use-line-min"),
            # Of a process that ends while its threads count: what gcov derives may be below zero.
            "--gcov-ignore-parse-errors=negative_hits.warn_once_per_file",
            *("--json-summary", str(summary), str(BUILD)),
        ]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        except FileNotFoundError:
            sys.exit("there is no gcovr: ./hakmem setup --all")
        if done.returncode != 0:
            sys.exit(f"FAILED: {' '.join(command)}\n{done.stderr[-2000:]}")
        files: list[dict[str, Any]] = json.loads(summary.read_text())["files"]
        return files


def report(files: list[dict[str, Any]]) -> dict[str, Count]:
    counts: dict[str, Count] = defaultdict(Count)
    for file in files:
        for name in (Path(file["filename"]).parent.name, "src"):
            counts[name].add(file)
    print(f"{'folder':<10} {'run':>6} {'lines':>6} {'%':>6} {'run':>8} {'branch':>6} {'%':>6}")
    for name in sorted(set(counts) - {"src"}):
        print(f"{name:<10} {counts[name]}")
    print(f"{'src':<10} {counts['src']}")
    print("\nlines that nothing ran, most first:")
    files.sort(key=lambda file: int(file["line_covered"]) - int(file["line_total"]))
    for file in files[:FILES_SHOWN]:
        missing = file["line_total"] - file["line_covered"]
        if missing:
            print(f"  {missing:>4} of {file['line_total']:>4}  {file['filename']}")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at a time")
    parser.add_argument("--no-run", action="store_true", help="only count what was run before")
    parser.add_argument("--json", type=Path, help="also write the counts there")
    parser.add_argument(
        "--strict", action="store_true", help="status 1 below what is wanted, or if tests fail"
    )
    chosen = parser.parse_args()
    passed = chosen.no_run or run_tests(chosen.jobs)
    counts = report(gcovr())
    if not counts["src"].lines:
        sys.exit(f"FAILED: nothing was counted in {BUILD}")
    if chosen.json:
        chosen.json.write_text(json.dumps({k: vars(v) for k, v in counts.items()}, indent=2))
    total = counts["src"]
    short = total.line_share < WANTED["lines"] or total.branch_share < WANTED["branches"]
    print(f"\nwanted: {WANTED['lines']:.0f} % of lines, {WANTED['branches']:.0f} % of branches")
    return 1 if chosen.strict and (short or not passed) else 0


if __name__ == "__main__":
    sys.exit(main())
