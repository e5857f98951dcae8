"""What the report shows, worked out from results; plots.py and the template only show it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hakmem.lab.canvas import TIMES, Interval
from hakmem.lab.layermap import LAYERS
from hakmem.lab.model import Results, Row, metric_named
from hakmem.lab.plots import DotRow, Line, Point, Stack
from hakmem.lab.statistics import (
    Comparison,
    Distance,
    Verdict,
    compare,
    compare_suite,
    distance_to_best,
)
from hakmem.lab.tables import failures, human, medians

TIME, MEMORY, FAULTS = "time_s", "peak_rss_kib", "page_faults"
SHOWN = (TIME, "user_s", "sys_s", MEMORY, "page_faults", "ops_per_s")
HEADINGS = {
    TIME: "time",
    MEMORY: "peak memory",
    "user_s": "user",
    "sys_s": "system",
    "page_faults": "page faults",
    "ops_per_s": "per second",
    "instructions_per_op": "instructions per op",
    "d1_misses_per_op": "L1 misses per op",
    "voluntary_switches": "voluntary switches",
    "involuntary_switches": "involuntary switches",
    "major_faults": "major faults",
}
INKS = {Verdict.BETTER: "good", Verdict.WORSE: "bad", Verdict.CANNOT_TELL: "soft"}
GROUPS = {"benchmark": "Benchmarks", "program": "Real programs", "command": "Commands"}


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


# Of a layer.
LAYER_FIGURES: dict[str, Callable[[float], str]] = {
    "share": _percent,
    "instructions_per_op": "{:.1f}".format,
    "d1_misses_per_op": "{:.3f}".format,
}
# Functions with less of the time are not named.
WORTH_NAMING = 0.01
NOTHING = "\N{EN DASH}"


@dataclass(frozen=True)
class Versus:
    """The subject against another allocator in one metric, in words for a cell."""

    ratio: str
    interval: str
    verdict: str
    ink: str


@dataclass(frozen=True)
class SummaryRow:
    """One allocator in the first table."""

    name: str
    version: str
    is_subject: bool
    time: Versus | None
    memory: Versus | None
    time_distance: str
    memory_distance: str


@dataclass(frozen=True)
class Cell:
    text: str
    note: str = ""
    ink: str = ""
    measured: bool = True


@dataclass(frozen=True)
class BenchmarkTable:
    """All figures of one benchmark, and what it stands for."""

    name: str
    result: str
    brief: str
    models: str
    cannot_show: str
    headings: list[str]
    rows: list[tuple[str, list[Cell], str]]


def subject_of(results: Results, names: list[str]) -> str:
    """The allocator the report is about: the last build of hakmem, which in an A/B is B."""
    own = [name for name in names if results.arms.get(name, {}).get("kind") == "hakmem"]
    return own[-1] if own else "hakmem" if "hakmem" in names or not names else names[-1]


def base_of(subject: str, names: list[str]) -> str:
    """What ratios are to: glibc where it was measured, else whoever came first."""
    others = [name for name in names if name != subject]
    return "glibc" if "glibc" in others or not others else others[0]


class Story:
    """One set of results, seen as a report sees it."""

    def __init__(self, results: Results) -> None:
        self.results = results
        # A layer profile alone has no rows.
        profiled = [entry["allocator"] for entry in self.layer_profiles]
        self.names = list(dict.fromkeys([*results.allocator_names(), *profiled]))
        self.subject = subject_of(results, self.names)
        self.base = base_of(self.subject, self.names)
        self.benchmarks = results.benchmark_names()
        self._dot_rows: dict[str, list[DotRow]] = {}

    @property
    def is_suite(self) -> bool:
        return len(self.benchmarks) > 1

    @cached_property
    def failures(self) -> list[str]:
        return failures(self.results)

    @cached_property
    def _distances(self) -> dict[str, dict[str, Distance]]:
        return {metric: distance_to_best(self.results, metric) for metric in (TIME, MEMORY)}

    # ---- the first table ----

    @cached_property
    def summary(self) -> list[SummaryRow]:
        """The subject first, then the others from the hardest to beat on time to the easiest."""
        others = [name for name in self.names if name != self.subject]
        times = {name: self._distances[TIME][name].geomean for name in others}
        others.sort(key=lambda name: times[name] if math.isfinite(times[name]) else math.inf)
        return [self._summary_row(name) for name in (self.subject, *others)]

    def _summary_row(self, name: str) -> SummaryRow:
        own = name == self.subject
        return SummaryRow(
            name=name,
            version=self.version(name),
            is_subject=own,
            time=None if own else self._versus(TIME, name),
            memory=None if own else self._versus(MEMORY, name),
            time_distance=_times(self._distances[TIME][name].geomean),
            memory_distance=_times(self._distances[MEMORY][name].geomean),
        )

    def version(self, name: str) -> str:
        return str(self.results.arms.get(name, {}).get("version", ""))

    def _with_version(self, name: str) -> str:
        return f"{name} {self.version(name)}".strip()

    def _versus(self, metric: str, other: str) -> Versus:
        found = compare_suite(self.results, metric, self.subject, other)
        if not found.known:
            return Versus(NOTHING, "", "not comparable", "soft")
        return Versus(
            _times(found.ratio), _range(found), verdict_words(found, metric), INKS[found.verdict]
        )

    # ---- pictures ----

    @cached_property
    def points(self) -> list[Point]:
        """Every allocator's time and memory over the suite, as ratios to the base."""
        points = []
        for name in self.names if self.benchmarks else ():
            both = [self._interval(metric, name) for metric in (TIME, MEMORY)]
            if both[0] and both[1]:
                points.append(Point(name, both[0], both[1]))
        return points if len(points) > 1 else []

    def _interval(self, metric: str, name: str) -> Interval | None:
        if name == self.base:
            return Interval(1.0, 1.0, 1.0)
        return _as_interval(compare_suite(self.results, metric, name, self.base))

    def dot_rows(self, metric: str) -> list[DotRow]:
        """A row per benchmark, the subject's best ones first; for one benchmark per allocator."""
        if metric not in self._dot_rows and self.benchmarks:
            make = self._benchmark_rows if self.is_suite else self._allocator_rows
            self._dot_rows[metric] = make(metric)
        return self._dot_rows.get(metric, [])

    def _benchmark_rows(self, metric: str) -> list[DotRow]:
        grouped: dict[str, list[DotRow]] = {}
        for name in self.benchmarks:
            group = self.results.benchmarks.get(name, {}).get("group", "benchmark")
            row = self._benchmark_row(metric, name)
            if row.marks:
                grouped.setdefault(group, []).append(row)
        rows: list[DotRow] = []
        for group, members in grouped.items():
            if len(grouped) > 1:
                rows.append(DotRow(GROUPS.get(group, group), {}))
            rows += sorted(members, key=self._subject_place)
        return rows

    def _subject_place(self, row: DotRow) -> float:
        own = row.marks.get(self.subject)
        return own.mid if own else math.inf

    def _benchmark_row(self, metric: str, benchmark: str) -> DotRow:
        found = {
            name: _as_interval(compare(self.results, benchmark, metric, name, self.base))
            for name in self.names
            if name != self.base
        }
        marks = {name: interval for name, interval in found.items() if interval}
        note, ink = self._against_best(metric, benchmark)
        return DotRow(benchmark, marks, note, ink)

    def _against_best(self, metric: str, benchmark: str) -> tuple[str, str]:
        """The subject against the best of the others, with a colour only if that is sure."""
        values = medians(self.results, benchmark, metric)
        values.pop(self.subject, None)
        if not values:
            return "", "soft"
        best = min(values, key=lambda name: values[name])
        found = compare(self.results, benchmark, metric, self.subject, best)
        if not found.sound:
            return f"failed; best: {best}", "bad"
        return f"{_times(found.ratio)} {best}", INKS[found.verdict]

    def _allocator_rows(self, metric: str) -> list[DotRow]:
        benchmark = self.benchmarks[0]
        values = medians(self.results, benchmark, metric)
        unit = metric_named(metric).unit
        rows = []
        for name in sorted(values, key=lambda one: values[one]):
            found = self._interval(metric, name)
            marks = {name: found} if found else {}
            rows.append(DotRow(name, marks, human(values[name], unit)))
        return rows

    def timeline_names(self) -> list[str]:
        curves = self.results.sections.get("rss_over_time") or {}
        return [name for name in curves if self.lines(name)]

    def lines(self, benchmark: str) -> list[Line]:
        curves = (self.results.sections.get("rss_over_time") or {}).get(benchmark, {})
        return [
            Line(name, curve["t_s"], [kib / 1024 for kib in curve["rss_kib"]])
            for name, curve in curves.items()
            if len(curve["t_s"]) > 1
        ]

    # ---- layers ----

    @property
    def layer_profiles(self) -> list[dict[str, Any]]:
        return list(self.results.sections.get("layers") or [])

    @property
    def layer_command(self) -> str:
        """The command without the folders it lies in."""
        program, *arguments = self.layer_profiles[0]["command"]
        return " ".join([program.rpartition("/")[2], *arguments])

    @property
    def _per_op(self) -> bool:
        return all(entry["plain"]["ops"] for entry in self.layer_profiles)

    def layer_unit(self) -> str:
        return "nanoseconds per operation" if self._per_op else "seconds of processor time"

    def layer_bars(self) -> list[Stack]:
        key = "ns_per_op" if self._per_op else "seconds"
        return [
            Stack(entry["allocator"], _in_order(entry["layers"], key))
            for entry in self.layer_profiles
        ]

    def _layer_columns(self) -> list[tuple[str, dict[str, Any]]]:
        """Which figure of the layers, and whose: shares, and what was counted."""
        parts = [part for entry in self.layer_profiles for part in entry["layers"]]
        figures = [key for key in LAYER_FIGURES if any(part.get(key) is not None for part in parts)]
        return [(key, entry) for key in figures for entry in self.layer_profiles]

    def layer_headings(self) -> list[str]:
        return [
            f"{entry['allocator']}, {HEADINGS[key]}" if key in HEADINGS else entry["allocator"]
            for key, entry in self._layer_columns()
        ]

    def layer_rows(self) -> list[tuple[str, str, list[str]]]:
        """Layer's key and label, and what stands below layer_headings."""
        rows = []
        for layer in LAYERS:
            cells = [_layer_cell(entry, layer.key, key) for key, entry in self._layer_columns()]
            if any(cells):
                rows.append((layer.key, layer.label, cells))
        return rows

    def layer_lines(self) -> list[str]:
        """What stands below the layers: samples, faults and their price, the busiest functions."""
        return [line for entry in self.layer_profiles for line in _layer_lines(entry)]

    # ---- machine and method ----

    @property
    def date(self) -> str:
        return self.results.when[:10]

    def facts(self) -> list[tuple[str, str]]:
        host, method = self.results.host, self.results.sections.get("method") or {}
        processor = host.get("processor") or host.get("machine") or "unknown"
        virtual = ", virtual machine" if host.get("virtual") else ""
        memory = f"{host.get('memory_kib', 0) / 2**20:.0f} GiB"
        facts = [
            ("Machine", f"{host.get('processors', '?')} {TIMES} {processor}, {memory}{virtual}"),
            ("System", f"{host.get('system', '?')}, Linux {host.get('release', '?')}"),
            ("C library", host.get("libc")),
            ("Huge pages", host.get("huge_pages")),
            ("Measured", self.results.when),
            ("Command", self.results.command),
            ("Took", _minutes(method.get("elapsed_s"))),
            ("Rounds", _rounds(method.get("rounds") or {})),
            ("Out of time for", ", ".join(method.get("left_out") or [])),
            (
                "Allocators",
                ", ".join(f"{name} {self.version(name)}".strip() for name in self.names),
            ),
        ]
        return [(term, str(fact)) for term, fact in facts if fact]

    # ---- all figures ----

    def benchmark_tables(self) -> list[BenchmarkTable]:
        return [self._benchmark_table(name) for name in self.benchmarks]

    def _benchmark_table(self, benchmark: str) -> BenchmarkTable:
        about = self.results.benchmarks.get(benchmark, {})
        rows = [row for row in self.results.rows if row.benchmark == benchmark]
        measured = list(dict.fromkeys(row.metric for row in rows if row.values))
        extra = [m for m in measured if m not in SHOWN and _worth_a_column(rows, m)]
        metrics = [m for m in SHOWN if m in measured] + extra
        return BenchmarkTable(
            name=benchmark,
            result=self._result(benchmark),
            brief=_brief(rows[0].threads, max(len(row.samples) for row in rows)),
            models=about.get("models", ""),
            cannot_show=about.get("cannot_show", ""),
            headings=[HEADINGS.get(m, m.replace("_", " ")) for m in metrics],
            rows=[self._figures(benchmark, name, metrics) for name in self._ranked(benchmark)],
        )

    def _result(self, benchmark: str) -> str:
        """The subject by the base, in a few words."""
        said = []
        for metric, word in ((TIME, "time"), (MEMORY, "memory")):
            found = compare(self.results, benchmark, metric, self.subject, self.base)
            if found.known:
                said.append(f"{_times(found.ratio)} {word}")
        return ", ".join(said)

    def _ranked(self, benchmark: str) -> list[str]:
        times = medians(self.results, benchmark, TIME)
        present = {row.allocator for row in self.results.rows if row.benchmark == benchmark}
        return sorted(present, key=lambda name: (times.get(name, math.inf), name))

    def _figures(
        self, benchmark: str, name: str, metrics: list[str]
    ) -> tuple[str, list[Cell], str]:
        rows = {metric: self.results.row(benchmark, name, metric) for metric in metrics}
        failed = next((row.failed for row in rows.values() if row and row.failed), "")
        return name, [self._cell(metric, row) for metric, row in rows.items()], failed or ""

    def _cell(self, metric: str, row: Row | None) -> Cell:
        if row is None or row.median is None:
            return Cell(NOTHING, measured=False)
        text = human(row.median, row.unit)
        if metric not in (TIME, MEMORY) or row.allocator == self.base:
            return Cell(text)
        found = compare(self.results, row.benchmark, metric, row.allocator, self.base)
        if not found.known:
            return Cell(text)
        return Cell(text, f"{_times(found.ratio)} {_range(found)}", INKS[found.verdict])


def _in_order(parts: list[dict[str, Any]], length: str) -> list[tuple[str, float]]:
    found = {part["key"]: part[length] for part in parts}
    return [(layer.key, found[layer.key]) for layer in LAYERS if layer.key in found]


def verdict_words(found: Comparison, metric: str) -> str:
    if found.verdict is Verdict.CANNOT_TELL:
        return "no difference" if found.negligible else "cannot tell"
    better = found.verdict is Verdict.BETTER
    if metric == MEMORY:
        return "leaner" if better else "heavier"
    return "faster" if better else "slower"


def _brief(threads: int, rounds: int) -> str:
    counts = [(threads, "thread"), (rounds, "round")]
    return ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts if n)


def _worth_a_column(rows: list[Row], metric: str) -> bool:
    return any(row.metric == metric and row.median for row in rows)


def _as_interval(found: Comparison) -> Interval | None:
    if not found.known:
        return None
    known = math.isfinite(found.low) and math.isfinite(found.high)
    low, high = (found.low, found.high) if known else (found.ratio, found.ratio)
    return Interval(low, found.ratio, high)


def _times(ratio: float) -> str:
    if not math.isfinite(ratio):
        return NOTHING
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def _range(found: Comparison) -> str:
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return ""
    return f"{_times(found.low)} to {_times(found.high)}"


def _layer_cell(entry: dict[str, Any], layer: str, figure: str) -> str:
    """Empty where the profile has none."""
    values = [part.get(figure) for part in entry["layers"] if part["key"] == layer]
    return "" if values in ([], [None]) else LAYER_FIGURES[figure](values[0])


def _minutes(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} minutes"


def _rounds(rounds: dict[str, int]) -> str:
    numbers = sorted(rounds.values())
    if not numbers:
        return ""
    if numbers[0] == numbers[-1]:
        return f"{numbers[0]}"
    return f"{numbers[0]} to {numbers[-1]}, more where it was undecided"


def _layer_lines(entry: dict[str, Any]) -> list[str]:
    plain, cost = entry["plain"], entry["fault_cost"]
    lines = [
        f"{entry['allocator']}: {entry['samples']:,} samples over {entry['cpu_s']:.2f} s of "
        f"processor time. {plain['page_faults']:,} page faults; touching a fresh 4 KiB page costs "
        f"{cost['page_ns']:,.0f} ns here, which makes {entry['fault_seconds']:.3f} s if all of "
        "them are of that size."
    ]
    busy: dict[str, float] = {}
    for _, name, share in entry["functions"]:
        busy[name] = busy.get(name, 0.0) + share
    busiest = [f"{name} {_percent(share)}" for name, share in busy.items() if share >= WORTH_NAMING]
    if busiest:
        lines.append(f"Busiest functions inside {entry['allocator']}: {', '.join(busiest)}.")
    return [*lines, *entry["notes"]]
