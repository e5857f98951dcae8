"""Regressions against a committed baseline of figures that do not depend on the machine.

A baseline holds, benchmark by benchmark, the ratios of the subject to a base measured in the same
rounds, and instructions and simulated cache misses per operation. Only counted instructions, and
memory next to the same libc, are worth an accusation without doubt: a ratio of times is a
different one on a different processor.
"""

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from hakmem.errors import HakmemError
from hakmem.lab.model import Results
from hakmem.lab.statistics import compare as compare_arms
from hakmem.written import write_file

FORMAT = 1
NEEDED = {"command", "subject", "base", "versions", "benchmarks"}
RATIOS = ("time_s", "peak_rss_kib")
COUNTS = ("instructions_per_op", "d1_misses_per_op")
# From when on a difference is one: as a share, and in the metric's own unit.
LIMITS = {
    "instructions_per_op": (0.005, 0.05),
    "d1_misses_per_op": (0.02, 0.01),
    "time_s": (0.03, 0.0),
    "peak_rss_kib": (0.02, 0.0),
}


class Level(StrEnum):
    """How much there is behind an accusation."""

    CERTAIN = "certain"
    SUSPECTED = "suspected"
    NONE = "none"


@dataclass(frozen=True)
class Finding:
    """One metric of one benchmark, then and now. `then` and `now` are nan if not known."""

    benchmark: str
    metric: str
    level: Level
    then: float
    now: float
    reason: str

    @property
    def change(self) -> str:
        """In words; of nothing there is no share."""
        return f" {100 * (self.now / self.then - 1):+.1f} %" if self.then else ""


def build(results: Results, subject: str = "hakmem", base: str = "glibc") -> dict[str, Any]:
    """The baseline's JSON form. Benchmarks that failed are not in it."""
    benchmarks = {
        name: entry
        for name in results.benchmark_names()
        if (entry := _entry(results, name, subject, base))
    }
    if not benchmarks:
        raise HakmemError(
            f"no benchmark has figures of both {subject} and {base}: a baseline needs them"
        )
    return {
        "format": FORMAT,
        "when": results.when,
        "command": results.command,
        "subject": subject,
        "base": base,
        "versions": {name: _version(results, name) for name in (subject, base)},
        "benchmarks": benchmarks,
    }


def write(results: Results, path: Path, subject: str = "hakmem", base: str = "glibc") -> None:
    text = json.dumps(build(results, subject, base), indent=1, sort_keys=True, allow_nan=False)
    write_file(path, text + "\n")


def load(path: Path) -> dict[str, Any]:
    try:
        form = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HakmemError(f"cannot read the baseline {path}: {error.strerror}") from error
    except ValueError as error:
        raise HakmemError(f"the baseline {path} is not JSON: {error}") from error
    if not isinstance(form, dict) or form.get("format") != FORMAT or not form.keys() >= NEEDED:
        raise HakmemError(f"{path} is no baseline of this version; write one with --save-baseline")
    return form


def compare(
    baseline: dict[str, Any], results: Results, subject: str | None = None
) -> list[Finding]:
    """A finding for every figure that both have, accusations first.

    `subject` is the arm to judge, if it is not called as the baseline's. A benchmark that has
    figures in the baseline and fails now is a regression; one that was not run is not mentioned.
    """
    arm = subject or baseline["subject"]
    same_base = _version(results, baseline["base"]) == baseline["versions"][baseline["base"]]
    findings: list[Finding] = []
    for name, entry in baseline["benchmarks"].items():
        failed = _failure(results, name, arm)
        if failed is not None:
            findings.append(Finding(name, "failed", Level.CERTAIN, math.nan, math.nan, failed))
        elif _arguments(results, name) == entry["arguments"]:
            findings += _counts(results, name, entry, arm)
            findings += _ratios(results, name, entry, (arm, baseline["base"]), same_base)
    if not findings:
        raise HakmemError(
            "nothing to compare with the baseline: it holds other benchmarks or other arguments; "
            f"it was made with `{baseline['command']}`"
        )
    order = list(Level)
    return sorted(findings, key=lambda one: order.index(one.level))


def regressions(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.level is not Level.NONE]


def describe(finding: Finding) -> str:
    """One line for a person."""
    start = f"{finding.level}: {finding.benchmark}"
    if finding.metric == "failed":
        return f"{start}: {finding.reason}"
    return (
        f"{start}: {finding.metric}{finding.change} "
        f"({finding.then:.4g} -> {finding.now:.4g}; {finding.reason})"
    )


def _entry(results: Results, name: str, subject: str, base: str) -> dict[str, Any]:
    ratios = {}
    for metric in RATIOS:
        found = compare_arms(results, name, metric, subject, base)
        if found.sound and math.isfinite(found.low):
            ratios[metric] = {"ratio": found.ratio, "low": found.low, "high": found.high}
    counts = {
        metric: row.median
        for metric in COUNTS
        if (row := results.row(name, subject, metric)) and row.median is not None
    }
    if not ratios and not counts:
        return {}
    return {"arguments": _arguments(results, name), "ratios": ratios, "counts": counts}


def _counts(results: Results, name: str, entry: dict[str, Any], arm: str) -> list[Finding]:
    """Same program, same arguments: one count each then and now is enough."""
    findings = []
    for metric, then in entry["counts"].items():
        row = results.row(name, arm, metric)
        if row is None or row.median is None:
            continue
        share, least = LIMITS[metric]
        grown = row.median > then * (1 + share) and row.median - then > least
        # Simulated caches see addresses, which move when anything else does.
        accusation = Level.CERTAIN if metric == "instructions_per_op" else Level.SUSPECTED
        level = accusation if grown else Level.NONE
        findings.append(Finding(name, metric, level, then, row.median, "counted"))
    return findings


def _ratios(
    results: Results, name: str, entry: dict[str, Any], arms: tuple[str, str], same_base: bool
) -> list[Finding]:
    """Ratios to the base are worse where the intervals do not meet and the change matters."""
    findings = []
    for metric, then in entry["ratios"].items():
        now = compare_arms(results, name, metric, *arms)
        if not now.sound or not math.isfinite(now.low):
            continue
        apart = now.low > then["high"] and now.ratio > then["ratio"] * (1 + LIMITS[metric][0])
        sure = metric == "peak_rss_kib" and same_base
        accusation = Level.CERTAIN if sure else Level.SUSPECTED
        level = accusation if apart else Level.NONE
        reason = f"ratio to {arms[1]}"
        findings.append(Finding(name, metric, level, then["ratio"], now.ratio, reason))
    return findings


def _failure(results: Results, name: str, arm: str) -> str | None:
    rows = (row for row in results.rows if row.benchmark == name and row.allocator == arm)
    return next((row.failed for row in rows if row.failed), None)


def _arguments(results: Results, name: str) -> list[str] | None:
    return next((row.arguments for row in results.rows if row.benchmark == name), None)


def _version(results: Results, arm: str) -> str | None:
    return next((row.version for row in results.rows if row.allocator == arm), None)
