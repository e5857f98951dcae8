"""The tables at the end of a measurement, for a terminal or as plain text."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from hakmem.lab.bounds import State
from hakmem.lab.model import Results, metric_named
from hakmem.lab.statistics import (
    Comparison,
    SuiteComparison,
    Verdict,
    compare,
    compare_suite,
    distance_to_best,
)

TITLES = {
    "time_s": "Time",
    "peak_rss_kib": "Peak resident memory",
    "page_faults": "Page faults",
    "user_s": "User time",
    "sys_s": "System time",
    "instructions_per_op": "Instructions per operation",
    "malloc_p999_ns": "99.9th percentile of a malloc, ns",
    "free_p999_ns": "99.9th percentile of a free, ns",
    "malloc_instructions_per_op": "Instructions per operation without the program's own",
    "d1_misses_per_op": "Simulated L1 data misses per operation",
}
# Each verdict has a sign as well as a colour: not everybody sees colours, and files have none.
SIGNS = {Verdict.BETTER: "+", Verdict.WORSE: "-", Verdict.CANNOT_TELL: " "}
STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.CANNOT_TELL: "dim"}
BEST = "*"
LEGEND = (
    "+ better, - worse; without a sign there is no telling the two apart. "
    f"{BEST} the best median of the line."
)


def human(value: float | None, unit: str) -> str:
    """A figure with a unit that suits its size."""
    if value is None or not math.isfinite(value):
        return "-"
    if unit == "s":
        steps = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "us", 1e6))
        name, factor = next((n, f) for least, n, f in steps if value >= least)
        return f"{_digits(value * factor)} {name}"
    if unit == "KiB":
        return f"{_digits(value / 1024)} MiB"
    return _digits(value)


def _digits(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"


def ratio_text(found: Comparison) -> Text:
    if not found.known:
        return Text("-", style="dim")
    return Text(f"{found.ratio:.2f}{SIGNS[found.verdict]}", style=STYLES[found.verdict])


def interval_text(found: Comparison, digits: int = 3) -> str:
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return ""
    return f"{found.low:.{digits}f} .. {found.high:.{digits}f}"


def _title(metric: str) -> str:
    return TITLES.get(metric, metric)


def _table(title: str) -> Table:
    # As Text: a user's command may hold what looks like markup.
    words = Text(title, style="bold")
    return Table(
        title=words,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="",
        collapse_padding=True,
        pad_edge=False,
    )


def measured_metrics(results: Results, wanted: Sequence[str]) -> list[str]:
    present = {row.metric for row in results.rows}
    return [name for name in wanted if name in present]


def medians(results: Results, benchmark: str, metric: str) -> dict[str, float]:
    """Of the allocators all of whose runs worked: the others are not ranked."""
    return {
        row.allocator: row.median
        for row in results.rows
        if (row.benchmark, row.metric) == (benchmark, metric)
        and row.median is not None
        and row.failed is None
    }


def best_of(results: Results, benchmark: str, metric: str) -> str | None:
    """The arm with the best median; None if all are alike, as where nothing was counted."""
    found = medians(results, benchmark, metric)
    if len(set(found.values())) < 2:
        return None
    choose = max if metric_named(metric).better == "higher" else min
    return choose(found, key=lambda name: found[name])


def summary(results: Results, subject: str) -> Table:
    """The subject by each other arm over the suite, and on how many benchmarks it is clear."""
    table = _table(f"{subject} by each other, geometric means over the suite, below 1 is better")
    table.add_column("", no_wrap=True)
    metrics = measured_metrics(results, ("time_s", "peak_rss_kib"))
    for metric in metrics:
        for heading in (_title(metric).lower(), "interval", "better / worse on"):
            table.add_column(heading, justify="right")
    for name in results.allocator_names():
        if name != subject:
            suites = (compare_suite(results, metric, subject, name) for metric in metrics)
            table.add_row(name, *(cell for suite in suites for cell in _summary_cells(suite)))
    return table


def _summary_cells(suite: SuiteComparison) -> tuple[Text, str, str]:
    better, worse = (len(suite.named(one)) for one in (Verdict.BETTER, Verdict.WORSE))
    return ratio_text(suite), interval_text(suite, 2), f"{better} / {worse} of {suite.n}"


def matrix(results: Results, metric: str, subject: str) -> Table:
    """The subject's ratio to every other arm, benchmark by benchmark, and over all of them."""
    others = [name for name in results.allocator_names() if name != subject]
    unit = metric_named(metric).unit
    table = _table(f"{_title(metric)}: {subject} by each other, below 1.00 is better")
    table.add_column("", no_wrap=True)
    table.add_column(subject, justify="right", no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    for benchmark in results.benchmark_names():
        if not medians(results, benchmark, metric):
            continue
        table.add_row(*_matrix_row(results, benchmark, metric, subject, others, unit))
    _add_means(table, results, metric, subject, others)
    return table


def _matrix_row(
    results: Results, benchmark: str, metric: str, subject: str, others: Sequence[str], unit: str
) -> Iterator[Text]:
    best = best_of(results, benchmark, metric)
    row = results.row(benchmark, subject, metric)
    mark = BEST if best == subject else " "
    yield Text(benchmark)
    yield Text(human(row.median if row else None, unit) + mark)
    for name in others:
        text = ratio_text(compare(results, benchmark, metric, subject, name))
        yield text.append(BEST if best == name else " ")


def _add_means(
    table: Table, results: Results, metric: str, subject: str, others: Sequence[str]
) -> None:
    suites = [compare_suite(results, metric, subject, name) for name in others]
    table.add_section()
    table.add_row("geometric mean", "", *(ratio_text(one).append(" ") for one in suites))
    distances = distance_to_best(results, metric)
    cells = [f"{distances[name].geomean:.2f}  " for name in [subject, *others]]
    table.add_row("each one's distance to the best", *cells)


def duel(results: Results, metric: str, base: str, subject: str) -> Table:
    """Two arms, with intervals and verdicts in words."""
    unit = metric_named(metric).unit
    table = _table(f"{_title(metric)}: {subject} by {base}, below 1 is better")
    table.add_column("", no_wrap=True)
    for heading in (base, subject, "ratio", "interval", "rounds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for benchmark in results.benchmark_names():
        if not any(results.row(benchmark, name, metric) for name in (base, subject)):
            continue
        found = compare(results, benchmark, metric, subject, base)
        values = medians(results, benchmark, metric)
        figures = (human(values.get(name), unit) for name in (base, subject))
        table.add_row(benchmark, *figures, *_judged(found))
    overall = compare_suite(results, metric, subject, base)
    table.add_section()
    table.add_row("geometric mean", "", "", *_judged(overall, rounds=False))
    return table


def _judged(found: Comparison, rounds: bool = True) -> tuple[str, str, str, Text]:
    if not found.sound:
        return "-", "", "", Text(found.failed or "not measured", style="red")
    return (
        f"{found.ratio:.3f}",
        interval_text(found),
        str(found.n) if rounds else "",
        Text(str(found.verdict), style=STYLES[found.verdict]),
    )


def line_up(results: Results, benchmark: str, metrics: Sequence[str], base: str) -> Table:
    """One benchmark, a line per arm, with each metric's figure and its ratio to the base."""
    table = _table(benchmark)
    table.add_column("", no_wrap=True)
    for metric in metrics:
        table.add_column(_title(metric).lower(), justify="right")
        table.add_column(f"by {base}'s", justify="right")
    for name in results.allocator_names():
        table.add_row(name, *_line(results, benchmark, metrics, name, base))
    return table


def _line(
    results: Results, benchmark: str, metrics: Sequence[str], name: str, base: str
) -> Iterator[Text]:
    for metric in metrics:
        mark = BEST if best_of(results, benchmark, metric) == name else " "
        row = results.row(benchmark, name, metric)
        yield Text(human(row.median if row else None, metric_named(metric).unit) + mark)
        if name == base:
            yield Text("")
            continue
        found = compare(results, benchmark, metric, name, base)
        yield ratio_text(found).append(f" {interval_text(found, 2)}", style="dim")


GOAL_COLUMNS = ("", "at most", "aim", "measured", "interval", "verdict", "decided by", "notes")
GOAL_INKS = {State.HOLDS: "good", State.FAILS: "bad", State.UNKNOWN: "soft"}
GOAL_STYLES = {"good": "green", "bad": "red", "soft": "dim"}


def goal_entries(results: Results) -> list[dict[str, Any]]:
    """Nothing unless the results were held against the goals."""
    return list(results.sections.get("goals") or [])


def goal_cells(entry: Mapping[str, Any]) -> list[str]:
    """A goal as the results hold it, in the order of GOAL_COLUMNS."""
    verdict, notes = entry["verdict"], list(entry["notes"])
    if entry["aim_verdict"] == State.HOLDS:
        verdict = f"{verdict}, so does the aim"
    if entry["plain"] is not None:
        notes.insert(0, f"plain {_bound(entry['plain'])}")
    interval = [entry["low"], entry["high"]]
    known = None not in interval and entry["low"] != entry["high"]
    return [
        entry["name"],
        _bound(entry["bound"]),
        _bound(entry["aim"]),
        _bound(entry["measured"]) or "-",
        " .. ".join(_bound(one) for one in interval) if known else "",
        verdict,
        entry["decided_by"],
        "; ".join(notes),
    ]


def goal_ink(entry: Mapping[str, Any]) -> str:
    return GOAL_INKS[State(entry["verdict"])]


def goals(results: Results) -> Table | None:
    """The goals, if the results were held against them."""
    entries = goal_entries(results)
    if not entries:
        return None
    held = sum(entry["verdict"] == State.HOLDS for entry in entries)
    table = _table(f"Goals: {held} of {len(entries)} hold")
    for heading in GOAL_COLUMNS:
        numeric = heading in ("at most", "aim", "measured", "interval")
        table.add_column(heading, justify="right" if numeric else "left")
    for entry in entries:
        cells = [Text(cell) for cell in goal_cells(entry)]
        cells[GOAL_COLUMNS.index("verdict")].stylize(GOAL_STYLES[goal_ink(entry)])
        table.add_row(*cells)
    return table


def _bound(value: float | None) -> str:
    if value is None:
        return ""
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1e}"


def failures(results: Results) -> list[str]:
    """Each failure once, however many metrics it left without a figure."""
    lines = (
        f"{row.benchmark} on {row.allocator}: {row.failed}" for row in results.rows if row.failed
    )
    return list(dict.fromkeys(lines))
