"""`hakmem diff`: which call stacks hold more or less than in another profile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hakmem.commands.options import check_outputs, file_path, view_option
from hakmem.errors import HakmemError
from hakmem.written import say_written, write_file

if TYPE_CHECKING:
    from hakmem.insight.compare import Change, Side
    from hakmem.insight.confidence import Interval

SHOWN = 20
# Columns: where there is too little room the change is what counts.
BEFORE_AND_AFTER = (1, 2)
EXAMPLES = """\b
Examples:
  ./hakmem diff heap.before heap.after
  ./hakmem diff heap.4711 4711 --html diff.html
  ./hakmem diff a b --view total --collapsed diff.folded"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--html", metavar="FILE", type=file_path(), help="A page with a flame graph by change."
)
@click.option(
    "--collapsed", metavar="FILE", type=file_path(), help="Stacks as text, bytes before and after."
)
@view_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
def diff(
    html: Path | None,
    collapsed: Path | None,
    view_name: str | None,
    as_json: bool,
    before: str,
    after: str,
) -> int:
    """Compare two profiles, each of a PID or in a FILE: which call stacks hold more or less.

    Stacks are matched by the names of their functions, so two runs or two builds of a program can
    be compared. One of the files to write may be -, which is standard output.
    """
    from hakmem.insight.compare import changes, diff_page, folded
    from hakmem.insight.views import view_of

    check_outputs(as_json, read=[before, after], html=html, collapsed=collapsed)
    view = view_of(view_name)
    old, new = _side(before), _side(after)
    found = changes(old, new, view)
    if html:
        write_file(html, diff_page(old, new, view, found))
        say_written(html)
    if collapsed:
        write_file(collapsed, folded(found))
        say_written(collapsed)
    if as_json:
        click.echo(json.dumps([_as_json(one) for one in found], indent=1))
    elif not (html or collapsed):
        print_changes(found, view.noun)
    return 0


def _side(target: str) -> Side:
    from hakmem.insight.compare import Side
    from hakmem.insight.profile import profile_of
    from hakmem.insight.symbols import Symbols
    from hakmem.insight.views import stacks_of

    profile = profile_of(target)
    if not profile.sites:
        raise HakmemError(f"{profile.source} has no samples: nothing to compare")
    return Side(profile, stacks_of(profile, Symbols(profile.modules)))


def print_changes(found: Sequence[Change], noun: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from hakmem.insight.narrow import Fitted
    from hakmem.insight.printing import printing
    from hakmem.insight.terminal import callers
    from hakmem.insight.words import many_text, size_text

    table = Table(box=None, header_style="dim", pad_edge=False)
    for heading in ("change", "", "before", "after"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("allocated by", overflow="fold")
    changed = [one for one in found if one.bytes]
    for one in changed[:SHOWN]:
        ink = ("red" if one.bytes > 0 else "green") if one.is_sure else "dim"
        table.add_row(
            Text(f"{'+' if one.bytes > 0 else ''}{size_text(one.bytes)}", style=ink),
            "" if one.is_sure else "?",
            size_text(one.before.value),
            size_text(one.after.value),
            callers(one.frames, most=None),
        )
    with printing() as console:
        if not changed:
            console.print(f"Nothing has changed: {many_text(len(found), 'call stack')} {noun}")
            return
        console.print(f"bytes {noun}; ? where it may be chance", style="dim")
        console.print(Fitted(table, BEFORE_AND_AFTER))
        if len(changed) > SHOWN:
            console.print(f"and {len(changed) - SHOWN} smaller changes: --html FILE shows them")


def _as_json(one: Change) -> dict[str, object]:
    return {
        "stack": [frame.function for frame in one.frames],
        "bytes": one.bytes,
        "sure": one.is_sure,
        "before": _interval(one.before),
        "after": _interval(one.after),
    }


def _interval(one: Interval) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high, "samples": one.samples}
