"""The tables of a measurement as Markdown, for a README or a pull request."""

import shlex
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from hakmem.lab.model import Results
from hakmem.lab.tables import LEGEND, failures, goals, matrix, measured_metrics, summary
from hakmem.lab.words import conclusion

METRICS = (
    "time_s",
    "peak_rss_kib",
    "page_faults",
    "malloc_p999_ns",
    "free_p999_ns",
    "malloc_instructions_per_op",
    "instructions_per_op",
    "d1_misses_per_op",
)
# Where the user wants the figures is no part of how they came about.
OUTPUTS = ("--json", "--html", "--png", "--markdown")
RULES = {"left": ":--", "right": "--:"}


def document(results: Results, subject: str, base: str) -> str:
    """The whole measurement: what was done, in words, in sum, and benchmark by benchmark."""
    tables = [table for table in (goals(results), summary(results, subject)) if table is not None]
    tables += [matrix(results, metric, subject) for metric in measured_metrics(results, METRICS)]
    failed = [f"- {line}" for line in failures(results)]
    return "\n\n".join(
        [
            f"# {_title(results)}",
            _origin(results),
            *conclusion(results, subject, base),
            *(["## Runs that failed", "\n".join(failed)] if failed else []),
            "## Signs",
            LEGEND.replace("*", "\\*"),
            *(table_text(table, "## {}") for table in tables),
            "",
        ]
    ).replace("\n\n\n", "\n\n")


def _title(results: Results) -> str:
    names = results.benchmark_names()
    return f"{len(names)} benchmarks, one by one" if len(names) > 1 else names[0]


def _origin(results: Results) -> str:
    host = results.host
    kernel = str(host.get("release")).partition("-")[0]
    arms = ", ".join(f"{name} {arm.get('version', '')}" for name, arm in results.arms.items())
    rounds = sorted((results.sections.get("method") or {}).get("rounds", {}).values())
    counted = " to ".join(str(number) for number in dict.fromkeys((*rounds[:1], *rounds[-1:])))
    counted = f" Interleaved rounds: {counted}." if counted else ""
    return (
        f"Measured {results.when[:10]} with `{_command(results)}` on {host.get('processors')} "
        f"cores of {host.get('processor')}, Linux {kernel}, {host.get('system')}: {arms}.{counted} "
        "How it is decided: docs/method.md."
    )


def _command(results: Results) -> str:
    try:
        words = shlex.split(results.command)
    except ValueError:  # not hakmem's own writing
        return results.command
    # What follows is the measured command's.
    end = words.index("--") if "--" in words else len(words)
    own = iter(words[:end])
    kept = []
    for word in own:
        if word in OUTPUTS:
            next(own, None)
        elif word.partition("=")[0] not in OUTPUTS:
            kept.append(word)
    return shlex.join([*kept, *words[end:]])


def table_text(table: Table, heading: str = "**{}**") -> str:
    """One table; an escaped star is one that Markdown shows."""
    columns = [[_plain(cell) for cell in column.cells] for column in table.columns]
    headings = [_plain(column.header) for column in table.columns]
    rules = [RULES.get(column.justify, ":--") for column in table.columns]
    lines = [headings, rules, *([*row] for row in zip(*columns, strict=True))]
    return "\n".join([heading.format(_plain(table.title)), "", *_rows(lines)])


def _rows(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    return (f"| {' | '.join(cells)} |" for cells in lines)


def _plain(cell: object) -> str:
    text = cell.plain if isinstance(cell, Text) else str(cell or "")
    return text.strip().replace("|", "\\|").replace("*", "\\*")
