"""How an explanation looks: on a terminal, and as JSON."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem.insight.advice import Advice, headline
from hakmem.insight.narrow import Fitted
from hakmem.insight.rows import Row
from hakmem.insight.why import Explanation
from hakmem.insight.words import size_text

EXACT, ESTIMATED = "=", "~"
LABEL_WIDTH = 36
# Columns that go first where there is too little room: notes, then shares; of classes, what is free
# without ever having been used, magazines, slabs, blocks; of threads, states and stacks.
SPARE, SPARE_OF_CLASSES, SPARE_OF_THREADS = (4, 2), (6, 4, 1, 2), (1, 4, 3)
TABLE = {"box": None, "pad_edge": False, "header_style": "bold"}


def print_explanation(console: Console, e: Explanation, found: list[Advice], every: bool) -> None:
    console.print(_tree(e))
    console.print()
    console.print(f"{EXACT} as the kernel counts, {ESTIMATED} from hakmem's counts and samples")
    if e.untouched:
        console.print(
            f"not in RSS: {size_text(e.untouched)} of blocks that nothing was written to yet"
        )
    if e.swap:
        console.print(f"not in RSS: {size_text(e.swap)} swapped out")
    for text in e.unknown:
        console.print(f"not known: {text}")
    console.print()
    console.print(Text(headline(e, found), style="bold"))
    if found:
        console.print(f"  {found[0].evidence}")
    for advice in found[1:] if every else ():
        console.print()
        console.print(f"{advice.headline}: {advice.action}")
        console.print(f"  {advice.evidence}")
    if len(found) > 1 and not every:
        console.print(f"{len(found) - 1} more with --all")


def _tree(e: Explanation) -> Fitted:
    of = "RSS" if e.whole else "held"
    table = Table("", "bytes", f"% of {of}", "", "", **TABLE)  # type: ignore[arg-type]
    # The notes give way where there is too little room: figures are not cut.
    for column in table.columns[:-1]:
        column.no_wrap = True
    for column in table.columns[1:3]:
        column.justify = "right"
    table.columns[0].min_width = LABEL_WIDTH
    name = f"{of} of {e.source}" if e.whole else f"{of} by hakmem in {e.source}"
    table.add_row(Text(name, style="bold"), *_figures(e, e.rss, e.whole), "")
    rows = [pair for top in e.rows for pair in top.walk(1) if _shown(*pair)]
    for depth, row in rows:
        style = "" if depth == 1 else "dim"
        # Of a file its name: the whole path is in the JSON.
        text = row.label.rpartition("/")[2] if row.label.startswith("/") else row.label
        label = Text("  " * depth + text, style=style)
        table.add_row(label, *_figures(e, row.bytes, row.exact), Text(row.note, style="dim"))
    return Fitted(table, SPARE)


def _shown(depth: int, row: Row) -> bool:
    return row.bytes > 0 or depth == 1


def _figures(e: Explanation, size: int, exact: bool) -> tuple[str, str, str]:
    return f"{size:,}", f"{e.share(size) * 100:.1f}", EXACT if exact else ESTIMATED


def print_classes(console: Console, e: Explanation) -> None:
    """Resident bytes by size class."""
    names = (
        "block",
        "slabs",
        "live blocks",
        "live",
        "magazines",
        "free",
        "no blocks yet",
        "used %",
    )
    table = Table(*names, **TABLE)  # type: ignore[arg-type]
    for c in e.classes:
        used = f"{c.live / c.resident * 100:.0f}" if c.resident else ""
        table.add_row(
            f"{c.size:,}",
            f"{c.slabs:,}",
            f"{c.live_blocks:,}",
            *(size_text(size) for size in (c.live, c.magazine, c.free, c.spare)),
            used,
        )
    _print_numbers(console, table, SPARE_OF_CLASSES)


def print_threads(console: Console, e: Explanation) -> None:
    names = ("thread", "state", "magazines", "heap", "stack", "name")
    table = Table(*names, **TABLE)  # type: ignore[arg-type]
    for t in sorted(e.threads, key=lambda t: t.magazine, reverse=True):
        stack = "?" if t.stack is None else size_text(t.stack)
        table.add_row(str(t.tid), t.state, size_text(t.magazine), size_text(t.heap), stack, t.name)
    _print_numbers(console, table, SPARE_OF_THREADS, text_from=5)


def _print_numbers(
    console: Console, table: Table, spare: tuple[int, ...], text_from: int | None = None
) -> None:
    for column in table.columns[:text_from]:
        column.justify = "right"
    console.print()
    console.print(Fitted(table, spare))


def as_json(e: Explanation, found: list[Advice]) -> dict[str, Any]:
    return {
        "source": e.source,
        "pid": e.pid,
        "version": e.version,
        "rss" if e.whole else "held": e.rss,
        "rows": [_row(row, e) for row in e.rows],
        "unexplained": {"bytes": e.unexplained, "share": e.share(abs(e.unexplained))},
        "swap": e.swap,
        "untouched": e.untouched,
        "huge_pages": e.huge,
        "not_known": list(e.unknown),
        "classes": [vars(c) | {"resident": c.resident} for c in e.classes],
        "threads": [vars(t) for t in e.threads],
        "headline": headline(e, found),
        "advice": [vars(advice) for advice in found],
    }


def _row(row: Row, e: Explanation) -> dict[str, Any]:
    return {
        "key": row.key,
        "label": row.label,
        "bytes": row.bytes,
        "share": e.share(row.bytes),
        "exact": row.exact,
        "note": row.note,
        "children": [_row(child, e) for child in row.children],
    }
