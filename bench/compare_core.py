#!/usr/bin/env python3
"""Runs bench_core's shapes under several allocators, interleaved, and compares the results.

In every round each shape runs under each allocator, shapes and allocators in random order, those
of one shape next to each other in time. A ratio is the median over rounds of this allocator's
figure by that of the best peer (the peer with the best median), both of the same round, with the
smallest and the largest of them: a slow minute of the machine then falls on both sides.

Example:  bench/compare_core.py --rounds 5 --only 'hot32|lifo' --json results.json
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUILD = Path(__file__).resolve().parent.parent / "build" / "release"
SUBJECT = "hakmem"
PEER_FILES = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2.0",
    "tcmalloc": "libtcmalloc_minimal.so.4",
}


@dataclass
class Metric:
    """One figure of bench_core's result line, under the name it has in the JSON output."""

    name: str
    unit: str
    better: str
    value: Callable[[dict[str, Any]], float | None]


METRICS = [
    Metric("ns_per_pair", "ns", "lower", lambda r: r["ns_per_pair"]),
    Metric("ops_per_s", "1/s", "higher", lambda r: 1e9 / r["ns_per_pair"]),
    Metric("peak_rss_kib", "KiB", "lower", lambda r: r["peak_rss_kib"]),
    Metric("rss_end_kib", "KiB", "lower", lambda r: r["rss_end_kib"]),
    Metric("rss_growth_kib", "KiB", "lower", lambda r: r["rss_end_kib"] - r["rss_start_kib"]),
    Metric("page_faults", "faults", "lower", lambda r: r["minor_faults"]),
    Metric("page_faults_steady", "faults", "lower", lambda r: r["faults_steady"]),
]
METRIC = {metric.name: metric for metric in METRICS}


@dataclass
class Allocator:
    name: str
    path: Path | None  # None: the C library's own
    version: str


@dataclass
class Cell:
    """The results of one shape under one allocator, by round."""

    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    failed: str | None = None

    def by_round(self, metric: Metric) -> dict[int, float]:
        values = {number: metric.value(result) for number, result in self.results.items()}
        return {number: value for number, value in values.items() if value is not None}

    def median(self, metric: Metric) -> float | None:
        values = self.by_round(metric)
        return statistics.median(values.values()) if values and not self.failed else None


Cells = dict[tuple[str, str], Cell]  # by shape and allocator


class OwnFailure(Exception):
    """Something is wrong with the comparison itself, not with an allocator."""


# Allocators


def debian_version(path: Path) -> str | None:
    if shutil.which("dpkg-query") is None:
        return None
    found = subprocess.run(
        ["dpkg-query", "--search", str(path)], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        return None
    package = found.stdout.split(": ", 1)[0]
    shown = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Version}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout or None


def library_version(path: Path) -> str:
    """The Debian package's version; of a library no package owns, what identifies its content."""
    real = path.resolve()
    return debian_version(real) or "sha256:" + hashlib.sha256(real.read_bytes()).hexdigest()[:12]


def c_library_version() -> str:
    return (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").removeprefix("glibc ")


def multiarch_folder() -> Path:
    return Path("/usr/lib") / f"{platform.machine()}-linux-gnu"


def default_allocators() -> list[Allocator]:
    allocators = [Allocator("glibc", None, c_library_version())]
    files = {SUBJECT: BUILD / "libhakmem.so"}
    files |= {name: multiarch_folder() / file for name, file in PEER_FILES.items()}
    for name, path in files.items():
        if path.exists():
            allocators.append(Allocator(name, path, library_version(path)))
        else:
            print(f"compare_core: {name} is left out: there is no {path}", file=sys.stderr)
    return allocators


def given_allocator(text: str) -> Allocator:
    name, equals, file = text.partition("=")
    if not name or not equals:
        raise OwnFailure(f"--library takes NAME=PATH (NAME= for the C library's own), not {text!r}")
    if not file:
        return Allocator(name, None, c_library_version())
    path = Path(file).absolute()
    if not path.is_file():
        raise OwnFailure(f"--library {text}: no such file")
    return Allocator(name, path, library_version(path))


# Runs


def exit_reason(status: int, error_output: str) -> str:
    lines = error_output.strip().splitlines()
    detail = f": {lines[-1]}" if lines else ""
    if status < 0:
        return f"crashed, {signal.Signals(-status).name}{detail}"
    return f"exit status {status}{detail}"


def run_once(
    program: Path, shape: str, allocator: Allocator, options: argparse.Namespace
) -> tuple[dict[str, Any] | None, str | None]:
    """One run: its result, or the reason why there is none."""
    command = [str(program), *shape.split(), "--seed", str(options.seed)]
    command += ["--scale", str(options.scale)]
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    if allocator.path is not None:
        environment["LD_PRELOAD"] = str(allocator.path)
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=options.timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"no end within {options.timeout:g} s"
    if done.returncode != 0:
        return None, exit_reason(done.returncode, done.stderr)
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        return None, f"unreadable result: {done.stdout[:80]!r}"
    # The dynamic linker ignores a library that it cannot preload, and runs on without it.
    if allocator.path and Path(result["malloc_object"]).resolve() != allocator.path.resolve():
        return None, f"not in use: malloc came from {result['malloc_object'] or 'nowhere'}"
    return result, None


class Progress:
    """One line on a terminal that is written over; nothing elsewhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.start = time.monotonic()
        self.shown = sys.stderr.isatty()

    def step(self, what: str) -> None:
        if self.shown:
            left = ""
            if self.done:
                spent = time.monotonic() - self.start
                left = f", about {spent / self.done * (self.total - self.done):.0f} s left"
            line = f"[{self.done + 1}/{self.total}{left}] {what}"
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        self.done += 1

    def end(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def run_all(
    program: Path, shapes: list[str], allocators: list[Allocator], options: argparse.Namespace
) -> Cells:
    cells: Cells = {(shape, a.name): Cell() for shape in shapes for a in allocators}
    order = random.Random(options.seed)
    progress = Progress(options.rounds * len(cells))
    for number in range(options.rounds):
        for shape in order.sample(shapes, len(shapes)):
            for allocator in order.sample(allocators, len(allocators)):
                progress.step(f"{shape}, {allocator.name}")
                cell = cells[shape, allocator.name]
                if cell.failed:
                    continue  # once is enough: a run that hangs takes the whole time-out
                result, cell.failed = run_once(program, shape, allocator, options)
                if result is not None:
                    cell.results[number] = result
    progress.end()
    return cells


# Evaluation


@dataclass
class Ratio:
    peer: str
    median: float
    least: float
    most: float


def best_peer(cells: Cells, shape: str, peers: list[str], metric: Metric) -> str | None:
    medians = {peer: cells[shape, peer].median(metric) for peer in peers}
    known = {peer: median for peer, median in medians.items() if median is not None}
    return min(known, key=known.__getitem__) if known else None


def ratio_to_best(
    cells: Cells, shape: str, subject: str, peers: list[str], metric: Metric
) -> Ratio | None:
    peer = best_peer(cells, shape, peers, metric)
    if peer is None or cells[shape, subject].median(metric) is None:
        return None
    ours = cells[shape, subject].by_round(metric)
    theirs = cells[shape, peer].by_round(metric)
    ratios = [ours[n] / theirs[n] for n in ours.keys() & theirs.keys() if theirs[n] > 0]
    if not ratios:
        return None
    return Ratio(peer, statistics.median(ratios), min(ratios), max(ratios))


def json_rows(cells: Cells, allocators: list[Allocator]) -> list[dict[str, Any]]:
    versions = {allocator.name: allocator.version for allocator in allocators}
    rows = []
    for (shape, name), cell in cells.items():
        benchmark, *arguments = shape.split()
        threads = next((result["threads"] for result in cell.results.values()), None)
        for metric in METRICS:
            rows.append(
                {
                    "benchmark": benchmark,
                    "arguments": arguments,
                    "threads": threads,
                    "allocator": name,
                    "version": versions[name],
                    "metric": metric.name,
                    "unit": metric.unit,
                    "better": metric.better,
                    "samples": list(cell.by_round(metric).values()),
                    "median": cell.median(metric),
                    "failed": cell.failed,
                }
            )
    return rows


def first_match(path: str, pattern: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        return None
    return found[1].strip() if found else None


def host() -> dict[str, Any]:
    return {
        "machine": platform.machine(),
        "processor": first_match("/proc/cpuinfo", r"^model name\s*:(.*)$"),
        "processors": os.cpu_count(),
        "memory_kib": int(first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0),
        "kernel": platform.release(),
        "page_size": os.sysconf("SC_PAGE_SIZE"),
        "huge_pages": first_match("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"),
        "load_average": os.getloadavg()[0],
    }


# Tables


def short(value: float | None) -> str:
    if value is None:
        return "-"
    if value == int(value) and value < 100000:
        return str(int(value))
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def cell_text(cell: Cell, metric: Metric) -> str:
    if cell.failed:
        return "failed"
    value = cell.median(metric)
    return short(value / 1024 if value is not None and metric.unit == "KiB" else value)


def ratio_text(ratio: Ratio | None) -> list[str]:
    if ratio is None:
        return ["-", "-", "-"]
    return [f"{ratio.median:.2f}", f"{ratio.least:.2f} .. {ratio.most:.2f}", ratio.peer]


def table(
    cells: Cells, shapes: list[str], names: list[str], subject: str | None, metric: Metric
) -> list[list[str]]:
    """The heading row and a row per shape; the ratio's columns only where a subject has peers."""
    peers = [name for name in names if name != subject]
    rows = [["shape", *names]]
    rows += [[shape, *(cell_text(cells[shape, n], metric) for n in names)] for shape in shapes]
    if subject in names and peers:
        rows[0] += [f"{subject}/best", "range", "best peer"]
        for shape, row in zip(shapes, rows[1:], strict=True):
            row += ratio_text(ratio_to_best(cells, shape, subject, peers, metric))
    return rows


def plain_lines(rows: list[list[str]]) -> list[str]:
    widths = [max(len(text) for text in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if place else text.ljust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def markdown_lines(rows: list[list[str]]) -> list[str]:
    heading, *body = ["| " + " | ".join(row) + " |" for row in rows]
    rule = "|---" + "|---:" * (len(rows[0]) - 1) + "|"
    return [heading, rule, *body]


TABLES = [  # heading, metric, whether a ratio to the best peer says something
    ("Time per malloc and free pair, ns", "ns_per_pair", True),
    ("Peak RSS, MiB", "peak_rss_kib", True),
    ("RSS after everything was freed less RSS at the start, MiB", "rss_growth_kib", False),
    ("Page faults in the second half", "page_faults_steady", False),
]


def print_report(
    cells: Cells, shapes: list[str], allocators: list[Allocator], options: argparse.Namespace
) -> None:
    names = [allocator.name for allocator in allocators]
    versions = ", ".join(f"{allocator.name} {allocator.version}" for allocator in allocators)
    print(f"{versions}\nmedians of {options.rounds} interleaved rounds, seed {options.seed}")
    lines_of = markdown_lines if options.markdown else plain_lines
    for title, name, compared in TABLES:
        subject = options.subject if compared else None
        print(f"\n{'### ' if options.markdown else ''}{title}\n")
        print("\n".join(lines_of(table(cells, shapes, names, subject, METRIC[name]))))
    failures = [(place, cell.failed) for place, cell in cells.items() if cell.failed]
    if failures:
        print("\nFailed:\n")
        for (shape, name), reason in failures:
            print(f"- {shape}, {name}: {reason}")


# Command line


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"not above zero: {text}")
        return value

    return parse


def parse_command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--library",
        action="append",
        metavar="NAME=PATH",
        help="compare these instead of glibc, hakmem and the installed peers; NAME= is glibc",
    )
    add("--subject", default=SUBJECT, metavar="NAME", help="whose ratios are shown (%(default)s)")
    add("--rounds", type=positive(int), default=5, metavar="N", help="default: %(default)s")
    add("--only", default="", metavar="REGEX", help="only shapes that match, as 'lifo (16|64)'")
    add("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    add("--markdown", action="store_true", help="print Markdown tables")
    add("--seed", type=int, default=1, metavar="N", help="of sizes and of the order of runs")
    add("--scale", type=positive(float), default=1.0, metavar="F", help="times the operations")
    add("--timeout", type=positive(float), default=60.0, metavar="S", help="for one run")
    add(
        "--program",
        type=Path,
        default=BUILD / "bench" / "bench_core",
        metavar="PATH",
        help="the benchmark program (default: that of the release build)",
    )
    return parser.parse_args()


def standard_shapes(program: Path, only: str) -> list[str]:
    if not program.is_file():
        raise OwnFailure(f"there is no {program}: build the release preset first")
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    try:
        shapes = [line for line in listed.stdout.splitlines() if re.search(only, line)]
    except re.error as error:
        raise OwnFailure(f"--only: {error}") from error
    if not shapes:
        raise OwnFailure(f"no shape matches {only!r}")
    return shapes


def compare(options: argparse.Namespace) -> None:
    program = options.program.absolute()
    shapes = standard_shapes(program, options.only)
    allocators = (
        [given_allocator(text) for text in options.library]
        if options.library
        else default_allocators()
    )
    if len({allocator.name for allocator in allocators}) < len(allocators):
        raise OwnFailure("two libraries have the same name")
    if options.json is not None and not options.json.absolute().parent.is_dir():
        raise OwnFailure(f"--json: there is no folder {options.json.absolute().parent}")
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    described_host = host()
    cells = run_all(program, shapes, allocators, options)
    print_report(cells, shapes, allocators, options)
    if options.json is not None:
        results = {"host": described_host, "when": when, "rows": json_rows(cells, allocators)}
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def main() -> int:
    try:
        compare(parse_command_line())
    except (OwnFailure, OSError, subprocess.CalledProcessError) as error:
        print(f"compare_core: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
