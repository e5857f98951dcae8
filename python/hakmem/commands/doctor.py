"""`hakmem doctor`: is hakmem active, and is the system good for it?"""

import json
import os
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from hakmem.cli import examples
from hakmem.clone import INSTALLED_LIBRARY, Clone
from hakmem.insight.doctor import examine_command, examine_machine, examine_process
from hakmem.insight.findings import Report
from hakmem.insight.printing import printing
from hakmem.pids import pid_of
from hakmem.terminal import shortened

COLOURS = {"ok": "green", "note": "yellow", "problem": "bold red"}


@click.command(
    epilog=examples(
        "doctor",
        "doctor 4711",
        "doctor -- redis-server --port 6379",
        "doctor --json 4711",
    ),
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--problems", is_flag=True, help="Leave out what is as it should be.")
@click.option(
    "--library",
    metavar="PATH",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="The library CMD would run on, instead of the clone's.",
)
@click.argument("target", nargs=-1, type=click.UNPROCESSED, metavar="[PID | -- CMD [ARG...]]")
@click.pass_obj
def doctor(
    clone: Clone | None,
    as_json: bool,
    problems: bool,
    library: Path | None,
    target: tuple[str, ...],
) -> int:
    """Say whether hakmem serves a process, or would serve a command, and what stands in its way.

    Also which settings are in force and where they are from, and what of the system bears on it:
    huge pages, overcommit, limits, cgroups, containers. Each finding is ok, a note or a problem,
    with what to change. CMD is not run. Without PID and CMD: the system alone.

    The exit status is 1 if hakmem is not active in PID, or would not be in CMD.
    """
    report = _examine(target, library or _built_library(clone))
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        _print(report, problems)
    return 1 if report.active is False else 0


def _examine(target: tuple[str, ...], library: Path | None) -> Report:
    if not target:
        return examine_machine()
    if all(pid_of(word) is not None for word in target):
        return examine_process(_only(target), library)
    from hakmem.launch import find_program

    return examine_command(find_program(target[0], os.environ), library, os.environ)


def _only(pids: tuple[str, ...]) -> int:
    if len(pids) > 1:
        raise click.UsageError(f"doctor takes one PID, not {', '.join(map(shortened, pids))}")
    return int(pids[0])


def _built_library(clone: Clone | None) -> Path | None:
    """Nothing is built for a look."""
    path = clone.library() if clone else INSTALLED_LIBRARY
    return path if path.exists() else None


def _print(report: Report, problems: bool) -> None:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in report.findings:
        if problems and finding.verdict == "ok":
            continue
        verdict = Text(finding.verdict, COLOURS[finding.verdict])
        table.add_row(verdict, finding.topic, Text(finding.text))
        if finding.remedy:
            table.add_row("", "", Text(f"-> {finding.remedy}", "dim"))
    with printing() as console:
        console.print(_headline(report))
        console.print(table)
        if report.settings:
            console.print()
            console.print(_settings(report))


def _headline(report: Report) -> Text:
    version = f" {report.version}" if report.version else ""
    if report.active is None:
        return Text(f"{report.target}:")
    running = report.target.startswith("process ")
    if report.active:
        verb = "is" if running else "would be"
        return Text(f"hakmem{version} {verb} active in {report.target}", "bold green")
    verb = "is not" if running else "would not be"
    return Text(f"hakmem {verb} active in {report.target}", "bold red")


def _settings(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("setting", no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("from")
    table.add_column("what it does", style="dim")
    for setting in report.settings:
        style = "" if setting.source == "default" else "bold"
        table.add_row(setting.name, Text(setting.shown, style), setting.source, setting.text)
    return table
