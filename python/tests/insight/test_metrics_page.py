"""docs/insight/metrics.md names every metric, in the words of the tables of metric_table.py."""

from collections.abc import Iterable

from conftest import ROOT
from synthetic_area import COUNTERS

from hakmem.insight.metric_table import (
    CLASS_METRICS,
    COUNTER,
    THREAD_METRICS,
    ClassMetric,
    Metric,
    ThreadMetric,
    metric_table,
)

PAGE = ROOT / "docs" / "insight" / "metrics.md"


def rows(metrics: Iterable[Metric | ClassMetric | ThreadMetric]) -> str:
    lines = ["| metric | kind | what |", "|---|---|---|"]
    for metric in metrics:
        suffix = "_total" if metric.kind == COUNTER else ""
        lines.append(f"| `hakmem_{metric.name}{suffix}` | {metric.kind} | {metric.text} |")
    return "\n".join(lines)


def tables() -> dict[str, str]:
    return {
        "process": rows(metric_table(tuple(COUNTERS)).values()),
        "class": rows(CLASS_METRICS),
        "thread": rows(THREAD_METRICS),
    }


def test_the_page_has_the_tables() -> None:
    page = PAGE.read_text()
    for name, table in tables().items():
        assert f"\n\n{table}\n\n" in page, f"put this into {PAGE} for {name}:\n{table}"
    shown = page.count("| gauge |") + page.count("| counter |")
    assert shown == sum(table.count("\n") - 1 for table in tables().values())
