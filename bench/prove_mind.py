#!/usr/bin/env python3
"""Whether what the mind learns pays, against every fixed choice and a placebo.

In every round each workload runs under each arm, all arms of a workload at the same time: a slow
moment of the machine falls on all of them. The workloads sleep most of the time, so that many run
side by side. The arm "known" is by size, too, and begins with what earlier runs have learnt.

Compared are processor time, the mean of resident memory, and the cost: processor time and memory
added up, at the price that the setting keep_worth puts on memory: to hold a page for 4 s costs as
much as to touch it anew, which takes --touch-us.

Example:  PYTHONPATH=python .venv/bin/python bench/prove_mind.py --rounds 30 --json mind.json
"""

import argparse
import json
import math
import os
import random
import resource
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hakmem.insight.rules import merged, rules_of, rules_text
from hakmem.lab.model import Metric
from hakmem.lab.statistics import Comparison, compare_samples

BUILD = Path(__file__).resolve().parent.parent / "build" / "release"
RHYTHMS = ("frames", "buffers", "batch", "phases", "hostile", "exports", "callers", "tables")
STEADY = "steady"
REDIS = "redis"
WORKLOADS = (*RHYTHMS, STEADY, REDIS)


@dataclass(frozen=True)
class Policy:
    """What is proven: the arms that learn, against those that do not and a placebo."""

    static: dict[str, str]
    learnt: dict[str, str]
    placebo: str

    @property
    def arms(self) -> dict[str, str]:
        return self.static | self.learnt | {PLACEBO: self.placebo}


OFF, PLACEBO = "off", "placebo"
POLICIES = {
    "keep": Policy(
        static={
            OFF: "keep:off",
            "1 s": "keep:fixed,keep_time:1s",
            "2 s": "keep:fixed,keep_time:2s",
            "4 s": "keep:fixed,keep_time:4s",
        },
        learnt={"size": "keep:size", "known": "keep:size,rules:{rules}", "site": "keep:site"},
        placebo="keep:shuffled",
    ),
    "huge": Policy(
        static={OFF: "huge_blocks:off", "always": "huge_blocks:always"},
        learnt={"size": "huge_blocks:learnt"},
        placebo="huge_blocks:shuffled",
    ),
}
TRAINING_SEEDS = (1001, 1002)
METRICS = (Metric("cpu_s", "s"), Metric("mean_rss_kib", "KiB"), Metric("cost", "s"))
PEAK = Metric("peak_rss_kib", "KiB")
TICK_S = 0.02
KIB_PER_PAGE = resource.getpagesize() // 1024
KEEP_WORTH_S = 4
BURST = ("-n", "40000", "-r", "10000000", "-P", "64", "-c", "2", "-q")
BURST_PAUSE_S = 2.6


@dataclass
class Running:
    """A process that is measured, and who drives it."""

    workload: str
    arm: str
    process: subprocess.Popen[bytes]
    end: float
    socket: Path | None = None
    burst: subprocess.Popen[bytes] | None = None
    next_burst: float = 0
    resident: list[int] = field(default_factory=list)
    used: resource.struct_rusage | None = None

    def look(self, now: float) -> None:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        if len(pages) > 1 and int(pages[1]):
            self.resident.append(int(pages[1]) * KIB_PER_PAGE)
        if self.socket and now > self.next_burst:
            self.next_burst = now + BURST_PAUSE_S
            command = ["redis-benchmark", "-s", str(self.socket), *BURST]
            command += ["set", "key:__rand_int__", "x" * 900, "px", "500"]
            self.burst = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        if self.socket and now > self.end:
            self.process.send_signal(signal.SIGTERM)
            self.end = math.inf

    def reap(self) -> bool:
        pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
        if not pid:
            return False
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode != 0:
            raise SystemExit(f"{self.workload}, {self.arm}: ended with {self.process.returncode}")
        self.used = used
        return True

    def stop(self) -> None:
        if not self.used:
            self.process.kill()
            self.process.wait()
        if self.burst:
            self.burst.kill()
            self.burst.wait()

    def figures(self, length_s: float) -> dict[str, float]:
        assert self.used
        return {
            "cpu_s": self.used.ru_utime + self.used.ru_stime,
            "mean_rss_kib": statistics.fmean(self.resident),
            "peak_rss_kib": self.used.ru_maxrss,
            "page_faults": self.used.ru_minflt,
            "length_s": length_s,
        }


def begin(
    workload: str, settings: str, length_s: float, seed: int, place: Path, arm: str = ""
) -> Running:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    environment |= {"LD_PRELOAD": str(BUILD / "libhakmem.so"), "HAKMEM_CONF": settings}
    socket = place / f"{arm}.socket" if workload == REDIS else None
    command = [str(BUILD / "bench" / "rhythm"), workload, str(int(length_s * 1000)), str(seed)]
    if socket:
        command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
        command += ["--dir", str(place)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    now = time.monotonic()
    return Running(workload, arm, process, now + length_s, socket, next_burst=now + 1)


def wait_for(running: list[Running]) -> None:
    left = list(running)
    while left:
        time.sleep(TICK_S)
        now = time.monotonic()
        for one in left:
            one.look(now)
        left = [one for one in left if not one.reap()]


def run_all(running: list[Running]) -> None:
    try:
        wait_for(running)
    finally:
        for one in running:
            one.stop()


def train(workloads: list[str], length_s: float, place: Path) -> None:
    """Leaves what runs with other seeds have learnt: what the arm "known" begins with."""
    for seed in TRAINING_SEEDS:
        settings = f"profile_output:{place}/{{}}.{seed}"
        run_all([begin(w, settings.format(w), length_s, seed, place) for w in workloads])
    for workload in workloads:
        parts = [rules_of(str(place / f"{workload}.{seed}")) for seed in TRAINING_SEEDS]
        rules_at(place, workload).write_text(rules_text(merged(parts)))


def rules_at(place: Path, workload: str) -> Path:
    return place / f"{workload}.rules"


def run(
    arms: dict[str, str], workloads: list[str], length_s: float, seed: int, trained: Path
) -> dict[str, dict[str, dict[str, float]]]:
    """Figures by workload and arm of runs side by side."""
    with tempfile.TemporaryDirectory() as place:
        pairs = [(w, a) for w in workloads for a in arms]
        random.shuffle(pairs)
        running = [
            begin(w, arms[a].format(rules=rules_at(trained, w)), length_s, seed, Path(place), a)
            for w, a in pairs
        ]
        run_all(running)
    found: dict[str, dict[str, dict[str, float]]] = {w: {} for w in workloads}
    for one in running:
        found[one.workload][one.arm] = one.figures(length_s)
    return found


Rounds = list[dict[str, dict[str, dict[str, float]]]]


def price(rounds: Rounds, touch_us: float) -> None:
    per_kib_s = touch_us / 1e6 / KIB_PER_PAGE / KEEP_WORTH_S
    for arms in (arms for one in rounds for arms in one.values()):
        for figures in arms.values():
            held = figures["mean_rss_kib"] * figures["length_s"]
            figures["cost"] = figures["cpu_s"] + held * per_kib_s


def samples(rounds: Rounds, workload: str, arm: str, metric: str) -> list[float]:
    return [one[workload][arm][metric] for one in rounds]


def against(rounds: Rounds, workload: str, arm: str, base: str, metric: Metric) -> Comparison:
    return compare_samples(
        metric,
        samples(rounds, workload, arm, metric.name),
        samples(rounds, workload, base, metric.name),
    )


def best_static(rounds: Rounds, policy: Policy, workload: str) -> str:
    """By hindsight: the cheapest of all for this workload."""
    return min(
        policy.static, key=lambda arm: statistics.median(samples(rounds, workload, arm, "cost"))
    )


def show(rounds: Rounds, policy: Policy, workloads: list[str]) -> None:
    console = Console(width=180)
    medians = Table("workload", *policy.arms, title="medians: processor s, mean MiB, cost")
    for workload in workloads:
        medians.add_row(workload, *(_medians(rounds, workload, arm) for arm in policy.arms))
    console.print(medians)
    for base in (OFF, "best static", PLACEBO):
        for arm in policy.learnt:
            metrics = (*METRICS, PEAK)
            table = Table("workload", "base", *(m.name for m in metrics), title=f"{arm} by {base}")
            for workload in workloads:
                name = best_static(rounds, policy, workload) if base == "best static" else base
                found = [against(rounds, workload, arm, name, metric) for metric in metrics]
                table.add_row(workload, name, *map(_words, found))
            console.print(table)


def _medians(rounds: Rounds, workload: str, arm: str) -> str:
    cpu, rss, cost = (
        statistics.median(samples(rounds, workload, arm, metric.name)) for metric in METRICS
    )
    return f"{cpu:.2f} {rss / 1024:.0f} {cost:.2f}"


def _words(c: Comparison) -> str:
    return f"{c.ratio:.3f} ({c.low:.3f} .. {c.high:.3f}) {c.verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--length", type=float, default=30, metavar="SECONDS", help="of a run")
    parser.add_argument("--abreast", type=int, default=4, help="workloads side by side")
    parser.add_argument("--touch-us", type=float, default=0.88, help="of a page")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--policy", choices=POLICIES, default="keep")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--from", dest="earlier", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    rounds: Rounds = json.loads(chosen.earlier.read_text()) if chosen.earlier else []
    policy = POLICIES[chosen.policy]
    workloads = list(chosen.only)
    waves = [workloads[i : i + chosen.abreast] for i in range(0, len(workloads), chosen.abreast)]
    with Progress() as progress, tempfile.TemporaryDirectory() as trained:
        for wave in waves if not chosen.earlier else []:
            if any("{rules}" in settings for settings in policy.arms.values()):
                train(wave, chosen.length, Path(trained))
        task = progress.add_task("rounds", total=chosen.rounds)
        for seed in range(0 if chosen.earlier else chosen.rounds):
            parts = [
                run(policy.arms, wave, chosen.length, seed + 1, Path(trained)) for wave in waves
            ]
            rounds.append({w: figures for part in parts for w, figures in part.items()})
            progress.advance(task)
            if chosen.json:
                chosen.json.write_text(json.dumps(rounds))
    price(rounds, chosen.touch_us)
    show(rounds, policy, workloads)


if __name__ == "__main__":
    main()
