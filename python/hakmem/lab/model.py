"""What the Laboratory's parts hand to each other: arms, cases, samples, rows, results."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

from hakmem.errors import HakmemError
from hakmem.written import write_file

Kind = Literal["glibc", "hakmem", "peer"]
Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Metric:
    """What is measured, in which unit, and which direction is the good one."""

    name: str
    unit: str
    better: Better = "lower"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("time_s", "s"),
        Metric("user_s", "s"),
        Metric("sys_s", "s"),
        Metric("peak_rss_kib", "KiB"),
        Metric("page_faults", "count"),
        Metric("major_faults", "count"),
        Metric("voluntary_switches", "count"),
        Metric("involuntary_switches", "count"),
        Metric("ops_per_s", "1/s", "higher"),
        Metric("instructions_per_op", "instructions"),
        Metric("d1_misses_per_op", "misses"),
        # Without the benchmark program's own share.
        Metric("malloc_instructions_per_op", "instructions"),
        Metric("steady_faults_per_op", "count"),
    )
}


def metric_named(name: str) -> Metric:
    """A known metric, or that of a program's own line `NAME VALUE`, its unit the name's ending."""
    if name in METRICS:
        return METRICS[name]
    units = {"ns": "ns", "s": "s", "kib": "KiB"}
    return Metric(name, units.get(name.rpartition("_")[2], "1"))


@dataclass(frozen=True)
class Arm:
    """One allocator, or one build or configuration of hakmem. `preload` None is glibc's own."""

    name: str
    version: str
    preload: Path | None
    environment: dict[str, str] = field(default_factory=dict)
    kind: Kind = "peer"


@dataclass(frozen=True)
class Case:
    """One benchmark or real program, ready to run; `name` is unique in the suite.

    `prepare` gets the folder of its own that each run is started in and fills it. `check` gets
    that folder and what the run wrote to standard output, and says what is wrong with the result,
    or None. Without a line `time_s` in the output the wall time of the process counts.
    `precise` is two lists of arguments, fewer and more operations, to count instructions with;
    empty where that makes no sense; `lengths` likewise, to tell the start from the steady state. A
    `self_preloading` command is a driver that is started without the arm's library and itself
    starts what is measured with it.
    """

    name: str
    arguments: tuple[str, ...]
    threads: int
    unit: str
    models: str
    cannot_show: str
    command: tuple[str, ...]
    timeout_s: float
    prepare: Callable[[Path], None] | None = None
    check: Callable[[Path, bytes], str | None] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    group: Literal["benchmark", "program", "command"] = "benchmark"
    precise: tuple[tuple[str, ...], ...] = ()
    lengths: tuple[tuple[str, ...], ...] = ()
    self_preloading: bool = False


Named = TypeVar("Named", Arm, Case)


def matching(them: Sequence[Named], only: str) -> list[Named]:
    """Those in whose names the pattern of --only is found."""
    try:
        pattern = re.compile(only)
    except re.error as error:
        raise HakmemError(f"--only {only}: no regular expression ({error})") from error
    found = [one for one in them if pattern.search(one.name)]
    if not found:
        names = ", ".join(one.name for one in them)
        raise HakmemError(f"--only {only}: matches none of {names}")
    return found


@dataclass(frozen=True)
class Sample:
    """One run. Of a failed one only `failed` counts: why, in a few words."""

    time_s: float = math.nan
    user_s: float = math.nan
    sys_s: float = math.nan
    peak_rss_kib: float = math.nan
    page_faults: int = 0
    major_faults: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    ops: int | None = None
    extra: dict[str, float] = field(default_factory=dict)
    failed: str | None = None

    def values(self) -> dict[str, float]:
        """Every metric this run has a value for; none if it failed."""
        if self.failed is not None:
            return {}
        figures = {name: float(getattr(self, name)) for name in OF_EVERY_RUN}
        if self.ops and self.time_s > 0:
            figures["ops_per_s"] = self.ops / self.time_s
        figures |= self.extra
        return {name: value for name, value in figures.items() if math.isfinite(value)}


# The metrics that a run of any command has.
OF_EVERY_RUN = tuple(name for name in METRICS if hasattr(Sample, name))


@dataclass
class Row:
    """One metric of one benchmark under one allocator: the unit of the JSON form.

    A sample's position is its round: same position, same round, for all allocators of a
    benchmark. A round without a value (failed, not run) is None.
    """

    benchmark: str
    arguments: list[str]
    threads: int
    allocator: str
    version: str
    metric: str
    unit: str
    better: Better
    samples: list[float | None]
    median: float | None = None
    failed: str | None = None

    def __post_init__(self) -> None:
        values = self.values
        if self.median is None and values:
            self.median = median(values)

    @property
    def values(self) -> list[float]:
        """The samples there are, without the gaps."""
        return [value for value in self.samples if value is not None]


def rows_of(case: Case, arm: Arm, samples: Sequence[Sample | None]) -> list[Row]:
    """The rows of one case under one arm, from its runs in the order of their rounds.

    None stands for a round it was not run in. If no run succeeded, one row of `time_s` says why.
    """
    figures = [sample.values() if sample else {} for sample in samples]
    names = list(dict.fromkeys(name for run in figures for name in run)) or ["time_s"]
    failed = _failure(samples)
    return [row_for(case, arm, name, [run.get(name) for run in figures], failed) for name in names]


def row_for(
    case: Case,
    arm: Arm,
    metric: str,
    samples: list[float | None],
    failed: str | None = None,
) -> Row:
    """One row; also for metrics that do not come from a Sample, such as instructions_per_op."""
    kind = metric_named(metric)
    return Row(
        benchmark=case.name,
        arguments=list(case.arguments),
        threads=case.threads,
        allocator=arm.name,
        version=arm.version,
        metric=kind.name,
        unit=kind.unit,
        better=kind.better,
        samples=samples,
        failed=failed,
    )


def _failure(samples: Iterable[Sample | None]) -> str | None:
    runs = [sample for sample in samples if sample is not None]
    reasons = [sample.failed for sample in runs if sample.failed is not None]
    if not reasons:
        return None
    if len(reasons) == len(runs):
        return reasons[0]
    return f"{len(reasons)} of {len(runs)} runs: {reasons[0]}"


@dataclass
class Results:
    """All rows of a session, and what a report needs to explain them.

    `arms` (name -> version, kind, environment) and `benchmarks` (name -> threads, unit, models,
    cannot_show, group) describe what the rows only name. `sections` are further top-level keys of
    the JSON form, each owned by the part that writes it (for instance "rss_over_time", "layers").
    """

    host: dict[str, Any]
    when: str
    command: str
    rows: list[Row] = field(default_factory=list)
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    benchmarks: dict[str, dict[str, Any]] = field(default_factory=dict)
    sections: dict[str, Any] = field(default_factory=dict)

    def describe_arm(self, arm: Arm) -> None:
        self.arms[arm.name] = {
            "version": arm.version,
            "kind": arm.kind,
            "environment": dict(arm.environment),
        }

    def describe_case(self, case: Case) -> None:
        self.benchmarks[case.name] = {
            "arguments": list(case.arguments),
            "threads": case.threads,
            "unit": case.unit,
            "models": case.models,
            "cannot_show": case.cannot_show,
            "group": case.group,
        }

    def row(self, benchmark: str, allocator: str, metric: str) -> Row | None:
        for row in self.rows:
            if row.benchmark == benchmark and row.allocator == allocator and row.metric == metric:
                return row
        return None

    def benchmark_names(self) -> list[str]:
        """In the order in which they were measured."""
        return list(dict.fromkeys(row.benchmark for row in self.rows))

    def allocator_names(self) -> list[str]:
        """In the order in which they were measured, glibc first by custom."""
        return list(dict.fromkeys([*self.arms, *(row.allocator for row in self.rows)]))

    def as_json(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "when": self.when,
            "command": self.command,
            "arms": self.arms,
            "benchmarks": self.benchmarks,
            "rows": [asdict(row) for row in self.rows],
            **self.sections,
        }

    def save(self, path: Path) -> None:
        text = json.dumps(self.as_json(), indent=1, allow_nan=False)
        write_file(path, text + "\n")

    @classmethod
    def load(cls, path: Path) -> "Results":
        try:
            return cls.from_json(json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise HakmemError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise HakmemError(
                f"{path} does not hold results of `hakmem bench --json` ({error})"
            ) from error

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Results":
        rest = dict(form)
        rows = [_row_from(entry) for entry in rest.pop("rows")]
        for name, kind in (("host", dict), ("when", str), ("command", str)):
            _check(name, rest.get(name, ""), kind)
        for name, fields in DESCRIBED.items():
            _check(name, rest.get(name, {}), dict)
            for what, described in rest.get(name, {}).items():
                _check(f"{name}: {what}", described, dict)
                for key, wanted in fields.items():
                    _check(f"{name}: {what}: {key}", described[key], wanted)
        return cls(
            host=rest.pop("host"),
            when=rest.pop("when"),
            command=rest.pop("command", ""),
            rows=rows,
            arms=rest.pop("arms", {}),
            benchmarks=rest.pop("benchmarks", {}),
            sections=rest,
        )


# What a report needs of an arm and of a benchmark.
DESCRIBED: dict[str, dict[str, type]] = {
    "arms": {"version": str, "kind": str, "environment": dict},
    "benchmarks": {
        "threads": int,
        "unit": str,
        "models": str,
        "cannot_show": str,
        "group": str,
    },
}


def _check(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name}: {value!r:.40} is no {kind.__name__}")


def _is_figure(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _row_from(entry: dict[str, Any]) -> Row:
    # Keys that other writers add are no reason to refuse a file.
    _check("row", entry, dict)
    for name in ("benchmark", "allocator", "version", "metric", "unit", "better"):
        _check(name, entry[name], str)
    _check("arguments", entry["arguments"], list)
    _check("threads", entry["threads"], int)
    _check("samples", entry["samples"], list)
    for value in (*entry["samples"], entry.get("median")):
        if value is not None and not _is_figure(value):
            raise ValueError(f"{entry['metric']}: {value!r:.40} is no figure")
    if entry.get("failed") is not None:
        _check("failed", entry["failed"], str)
    return Row(**{key: entry[key] for key in entry if key in Row.__dataclass_fields__})
