#!/usr/bin/env python3
"""Fuzz every target, with libFuzzer and, where it is installed, AFL++; say hours and executions.

What the fuzzers find new is kept in build/fuzz/corpus, inputs that break a target in
build/fuzz/findings, with what the fuzzer printed. The exit status is 1 if there are any.

    ./hakmem setup --all && .venv/bin/python tests/fuzz/run_fuzz.py --minutes 60
    .venv/bin/python tests/fuzz/run_fuzz.py --minimise    # tests/fuzz/corpus anew
"""

import argparse
import contextlib
import ctypes
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = ROOT / "build" / "fuzz" / "corpus"
FINDINGS = ROOT / "build" / "fuzz" / "findings"

LONGEST = {
    "api": 2000,
    "threads": 1200,
    "settings": 1000,
    "rules": 2000,
    "unwind": 800,
    "profiles": 40000,
}
NATIVE = ("api", "threads", "settings", "rules", "unwind")
PR_SET_CHILD_SUBREAPER = 36
RESIDENT_MOST_MIB = 3000
SECONDS_PER_INPUT = 60
# How many inputs of a target are committed, and how large they may be.
COMMITTED, COMMITTED_BYTES = 40, 2000
EXECUTED = re.compile(r"^(?:stat::number_of_executed_units:|Done) +(\d+)", re.MULTILINE)
AFL_EXECUTED = re.compile(r"^execs_done +: (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    target: str
    fuzzer: str
    seconds: float
    executions: int
    findings: tuple[Path, ...]


def quietly(*command: str, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def build(preset: str) -> None:
    quietly("cmake", "--preset", preset)
    quietly("cmake", "--build", "--preset", preset)


def program(preset: str, target: str) -> list[str]:
    if target == "profiles":
        return [sys.executable, str(HERE / "fuzz_profiles.py")]
    return [str(ROOT / "build" / preset / "tests" / "fuzz" / f"fuzz_{target}")]


def found_in(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.iterdir() if path.name != "README.txt"))


def libfuzzer(target: str, seconds: int) -> Run:
    kept, findings = KEPT / target, FINDINGS / target
    for folder in (kept, findings):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(found_in(findings))
    began = time.monotonic()
    done = subprocess.run(
        [
            *program("fuzz", target),
            f"-max_total_time={seconds}",
            f"-max_len={LONGEST[target]}",
            "-len_control=0",
            f"-timeout={SECONDS_PER_INPUT}",
            f"-rss_limit_mb={RESIDENT_MOST_MIB}",
            "-print_final_stats=1",
            f"-artifact_prefix={findings}/",
            str(kept),
            str(HERE / "corpus" / target),
        ],
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        errors="replace",
    )
    counts = [int(count) for count in EXECUTED.findall(done.stderr)]
    new = tuple(path for path in found_in(findings) if path not in before)
    if done.returncode != 0 and not new:
        sys.exit(f"FAILED: {target} could not be fuzzed\n{done.stderr[-2000:]}")
    if new:
        # What led to it may be more than the input: a run is thousands of inputs in one process.
        (FINDINGS / f"{target}.log").write_text(done.stderr)
    return Run(target, "libFuzzer", time.monotonic() - began, max(counts, default=0), new)


def afl(target: str, seconds: int) -> Run:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hakmem-afl-") as scratch:
        out = Path(scratch)
        settings = {"AFL_SKIP_CPUFREQ": "1", "AFL_NO_UI": "1", "AFL_NO_AFFINITY": "1"}
        settings |= {"AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1"}
        done = subprocess.run(
            [
                *("afl-fuzz", "-i", str(HERE / "corpus" / target), "-o", str(out)),
                *("-V", str(seconds), "-m", "none", "-t", f"{SECONDS_PER_INPUT * 1000}"),
                *("-g", "1", "-G", str(LONGEST[target]), "--", *program("afl", target)),
            ],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            errors="replace",
        )
        stats = out / "default" / "fuzzer_stats"
        if not stats.exists():
            sys.exit(f"FAILED: {target} could not be fuzzed with AFL++\n{done.stdout[-2000:]}")
        executed = AFL_EXECUTED.search(stats.read_text())
        new = []
        for kind in ("crashes", "hangs"):
            for path in found_in(out / "default" / kind):
                to = FINDINGS / target / f"afl-{kind}-{path.name.replace(':', '-')}"
                to.parent.mkdir(parents=True, exist_ok=True)
                new.append(Path(shutil.copy(path, to)))
    return Run(
        target,
        "AFL++",
        time.monotonic() - began,
        int(executed[1]) if executed else 0,
        tuple(new),
    )


def adopt_orphans() -> None:
    """What AFL++ starts and does not wait for becomes a child of this process."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_seconds() -> float:
    """Processor time of all children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def report(runs: list[Run], processor_seconds: float) -> int:
    print(f"{'target':<10} {'fuzzer':<10} {'hours':>7} {'executions':>12} {'findings':>9}")
    for run in runs:
        hours = f"{run.seconds / 3600:.2f}"
        print(
            f"{run.target:<10} {run.fuzzer:<10} {hours:>7} {run.executions:>12,} "
            f"{len(run.findings):>9}"
        )
    findings = [path for run in runs for path in run.findings]
    hours, of_processors = sum(run.seconds for run in runs) / 3600, processor_seconds / 3600
    print(f"{hours:.2f} hours, {of_processors:.2f} CPU-hours, ", end="")
    print(f"{sum(run.executions for run in runs):,} executions, ", end="")
    print(f"{len(findings)} findings")
    for path in findings:
        print(f"  {path}")
    return 1 if findings else 0


def fuzz(targets: list[str], minutes: float, jobs: int) -> int:
    build("fuzz")
    work: list[tuple[Callable[[str, int], Run], str]] = [(libfuzzer, t) for t in targets]
    if shutil.which("afl-fuzz") and shutil.which("afl-clang-fast"):
        build("afl")
        work += [(afl, t) for t in targets if t in NATIVE]
    else:
        print("AFL++ is not installed: libFuzzer alone", file=sys.stderr)
    seconds = max(1, int(minutes * 60 * jobs / len(work)))
    adopt_orphans()
    before = children_seconds()
    with ThreadPoolExecutor(jobs) as pool:
        runs = list(pool.map(lambda item: item[0](item[1], seconds), work))
    return report(runs, children_seconds() - before)


def minimise(targets: list[str]) -> int:
    """Of what is kept the least that covers as much, small inputs first."""
    build("fuzz")
    for target in targets:
        home = HERE / "corpus" / target
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="hakmem-corpus-") as scratch:
            subprocess.run(
                [
                    *program("fuzz", target),
                    *("-set_cover_merge=1", f"-max_len={LONGEST[target]}", scratch),
                    *(str(KEPT / target), str(home)),
                ],
                env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},
                check=True,
                stderr=subprocess.DEVNULL,
            )
            chosen = sorted(Path(scratch).iterdir(), key=lambda path: path.stat().st_size)
            limit = COMMITTED_BYTES if target in NATIVE else LONGEST[target]
            for old in home.iterdir():
                old.unlink()
            fitting = [path for path in chosen if path.stat().st_size <= limit]
            # Evenly over all sizes: the largest do the most.
            step = max(1.0, len(fitting) / COMMITTED)
            for i in range(min(COMMITTED, len(fitting))):
                path = fitting[int(i * step)]
                shutil.copy(path, home / path.name)
            print(f"{target}: {len(list(home.iterdir()))} of {len(chosen)} inputs")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="of time on the clock (60)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at a time")
    parser.add_argument("--target", action="append", choices=sorted(LONGEST), help="only this one")
    parser.add_argument("--minimise", action="store_true", help="make the committed corpora anew")
    chosen = parser.parse_args()
    targets = chosen.target or list(LONGEST)
    if chosen.minimise:
        return minimise(targets)
    return fuzz(targets, chosen.minutes, chosen.jobs)


if __name__ == "__main__":
    sys.exit(main())
