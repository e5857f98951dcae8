"""The tables of a measurement as Markdown, for a README or a pull request."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from hakmem.lab.model import Results
from hakmem.lab.tables import LEGEND, failures, goals, matrix, measured_metrics, summary
from hakmem.lab.words import conclusion

METRICS = ("time_s", "peak_rss_kib", "instructions_per_op", "d1_misses_per_op")
RULES = {"left": ":--", "right": "--:"}


def document(results: Results, subject: str, base: str) -> str:
    """The whole measurement: what was done, in words, in sum, and benchmark by benchmark."""
    tables = [table for table in (goals(results), summary(results, subject)) if table is not None]
    tables += [matrix(results, metric, subject) for metric in measured_metrics(results, METRICS)]
    return "\n\n".join(
        [
            _origin(results),
            *conclusion(results, subject, base),
            *(table_text(table) for table in tables),
            LEGEND.replace("*", "\\*"),
            *(f"Failed: {line}" for line in failures(results)),
            "",
        ]
    )


def _origin(results: Results) -> str:
    host = results.host
    kernel = str(host.get("release")).partition("-")[0]
    return (
        f"Measured {results.when[:10]} with `{results.command}` on {host.get('processors')} cores "
        f"of {host.get('processor')}, Linux {kernel}, {host.get('system')}."
    )


def table_text(table: Table) -> str:
    """One table; an escaped star is one that Markdown shows."""
    columns = [[_plain(cell) for cell in column.cells] for column in table.columns]
    headings = [_plain(column.header) for column in table.columns]
    rules = [RULES.get(column.justify, ":--") for column in table.columns]
    lines = [headings, rules, *([*row] for row in zip(*columns, strict=True))]
    return "\n".join([f"**{_plain(table.title)}**", "", *_rows(lines)])


def _rows(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    return (f"| {' | '.join(cells)} |" for cells in lines)


def _plain(cell: object) -> str:
    text = cell.plain if isinstance(cell, Text) else str(cell or "")
    return text.strip().replace("|", "\\|").replace("*", "\\*")
