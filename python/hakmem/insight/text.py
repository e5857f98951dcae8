"""Figures as text and as plain data for JSON; both follow the table of metric_table.py."""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hakmem.insight.look import Listed
from hakmem.insight.metric_table import CLASS_METRICS, THREAD_METRICS, Metric
from hakmem.insight.narrow import Fitted
from hakmem.insight.numbers import Numbers, SizeClass
from hakmem.insight.option_table import written
from hakmem.insight.words import count_text, size_text, time_text

DASH = "-"
VALUE_WIDTH = 9
# Columns that go first where there is too little room: what figures mean; of classes, slabs and
# magazines; of threads, what they did and their state.
SPARE, SPARE_OF_CLASSES, SPARE_OF_THREADS = (2,), (5, 3), (6, 5, 1)


def as_json(n: Numbers) -> dict[str, Any]:
    return {
        "pid": n.pid,
        "command": n.command,
        "version": n.version,
        "uptime_ms": n.uptime_ms,
        "process": {metric.name: value for metric, value in n.shown()},
        "classes": [
            {"size": c.size} | {m.name.removeprefix("class_"): m.value(c) for m in CLASS_METRICS}
            for c in n.classes
            if c.slab_bytes
        ],
        "threads": [
            {"heap": t.heap, "tid": t.tid, "name": t.name, "state": t.state}
            | {m.name.removeprefix("thread_"): m.value(t) for m in THREAD_METRICS}
            for t in n.threads
        ],
        "settings": {
            name: {"value": v, "shown": written(name, v), "from": origin}
            for name, (v, origin) in n.settings.items()
        },
    }


def report(n: Numbers) -> RenderableType:
    """All of it: figures by group, settings, size classes, threads."""
    title = f"{n.command or 'profile'} ({n.pid}) on hakmem {n.version}"
    parts: list[RenderableType] = [Text(f"{title}, {time_text(n.uptime_ms)}", "bold")]
    figures = n.shown()
    width = max(len(metric.name) for metric, _ in figures)
    for group, rows in groupby(figures, key=lambda row: row[0].group):
        parts += ["", Text(group, "bold"), _figures(rows, width)]
    changed = {name: row for name, row in n.settings.items() if row[1] != "default"}
    if changed:
        parts += ["", Text("Settings that are not the default", "bold"), _settings(changed)]
    parts += ["", Text("Size classes", "bold"), _classes_table(n)]
    parts += ["", Text("Threads", "bold"), _threads_table(n)]
    return Group(*parts)


def _figures(rows: Iterable[tuple[Metric, int]], width: int) -> Fitted:
    table = _table()
    table.add_column(no_wrap=True, min_width=width)
    table.add_column(justify="right", no_wrap=True, min_width=VALUE_WIDTH)
    table.add_column(style="dim")
    for metric, value in rows:
        table.add_row(metric.name.removesuffix("_bytes"), _amount(value, metric.unit), metric.text)
    table.show_header = False
    return Fitted(table, SPARE)


def _amount(value: int, unit: str) -> str:
    return size_text(value) if unit == "bytes" else count_text(value)


def _settings(changed: dict[str, tuple[int, str]]) -> Fitted:
    table = _table("value", "from", left=("setting",))
    for name, (value, origin) in changed.items():
        table.add_row(name, written(name, value), origin)
    return Fitted(table)


def _classes_table(n: Numbers) -> Fitted:
    table = _table(*CLASS_TITLES)
    for c in by_waste(n):
        table.add_row(*class_row(c))
    return Fitted(table, SPARE_OF_CLASSES)


CLASS_TITLES = ("class", "blocks", "live", "magazines", "free in slabs", "slabs")


def by_waste(n: Numbers) -> list[SizeClass]:
    """Classes with slabs; the first are those that hold the most that the program cannot use."""
    return sorted((c for c in n.classes if c.slab_bytes), key=lambda c: -c.waste)


def class_row(c: SizeClass) -> tuple[str, ...]:
    """What CLASS_TITLES names."""
    return (
        *(f"{c.size:,}", f"{c.blocks_shown:,}", size_text(c.blocks_shown * c.size)),
        *(size_text(c.magazine * c.size), size_text(c.free_bytes), size_text(c.slab_bytes)),
    )


def _threads_table(n: Numbers) -> Fitted:
    table = _table("thread", "live", "magazines", "refills", "flushes", left=("name", "state"))
    ordered = sorted(n.threads, key=lambda t: -t.magazine_bytes)
    for t in ordered:
        table.add_row(
            *(
                t.name or DASH,
                t.state,
                str(t.tid),
                size_text(t.live_bytes),
                size_text(t.magazine_bytes),
            ),
            *(f"{t.counters[name]:,}" for name in ("refill", "flush")),
        )
    return Fitted(table, SPARE_OF_THREADS)


def processes_table(rows: Iterable[Listed]) -> Table:
    table = _table("pid", "live", "RSS")
    table.expand = True
    table.add_column("command", no_wrap=True, ratio=1)
    for row in rows:
        table.add_row(
            str(row.pid),
            _size_or_dash(row.live_bytes),
            size_text(row.resident_bytes),
            row.command,
        )
    return table


def listed_json(rows: Iterable[Listed]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


def _size_or_dash(value: int | None) -> str:
    return DASH if value is None else size_text(value)


def _table(*right: str, left: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table
