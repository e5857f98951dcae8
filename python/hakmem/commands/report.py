"""`hakmem report`: where a process' memory was allocated, and what seems to leak."""

from __future__ import annotations

from pathlib import Path

import click

from hakmem.commands.options import check_outputs, file_path, view_option

EXAMPLES = """\b
Examples:
  ./hakmem report 4711
  ./hakmem report 4711 --html heap.html
  ./hakmem report 4711 --save heap.before
  ./hakmem report heap.4711 --view peak --pprof heap.pb.gz
  ./hakmem report 4711 --collapsed heap.folded --speedscope heap.json
  ./hakmem report 4711 --collapsed - | sort | head"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--html", metavar="FILE", type=file_path(), help="A page with flame graph and tables."
)
@click.option("--pprof", metavar="FILE", type=file_path(), help="For pprof, Parca and Pyroscope.")
@click.option("--collapsed", metavar="FILE", type=file_path(), help="Stacks as text, with bytes.")
@click.option("--speedscope", metavar="FILE", type=file_path(), help="For speedscope.app.")
@click.option(
    "--save",
    metavar="FILE",
    type=file_path(),
    help="The profile as it is now, for diff and report later.",
)
@view_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.argument("target", metavar="PID|FILE")
def report(
    html: Path | None,
    pprof: Path | None,
    collapsed: Path | None,
    speedscope: Path | None,
    save: Path | None,
    view_name: str | None,
    as_json: bool,
    target: str,
) -> int:
    """Say where the memory of a process was allocated, and what of it seems to leak.

    A process on hakmem is looked at while it runs, without stopping it; a FILE is what it wrote
    with profile_output, at its end or when memory first became tight, or what --save has kept.
    Without options: the call stacks that hold most, with 95 % intervals, and the leak suspects.
    One of the files to write may be -, which is standard output.
    """
    from hakmem.insight.outputs import Files, present
    from hakmem.insight.profile import profile_of

    check_outputs(
        as_json,
        read=[target],
        html=html,
        pprof=pprof,
        collapsed=collapsed,
        speedscope=speedscope,
        save=save,
    )
    if save is not None:
        from hakmem.insight.keeping import keep

        keep(target, save)
    files = Files(html, pprof, collapsed, speedscope)
    if save is None or as_json or not files.is_empty:
        present(profile_of(target), files, view_name, as_json, shown=files.is_empty or as_json)
    return 0
