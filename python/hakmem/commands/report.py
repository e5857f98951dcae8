"""`hakmem report`: where a process' memory was allocated, and what seems to leak."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hakmem.errors import HakmemError
from hakmem.terminal import say

if TYPE_CHECKING:
    from hakmem.insight.profile import Profile

EXAMPLES = """\b
Examples:
  ./hakmem report 4711
  ./hakmem report 4711 --html heap.html
  ./hakmem report heap.4711 --view peak --pprof heap.pb.gz
  ./hakmem report 4711 --collapsed heap.folded --speedscope heap.json"""


@dataclass(frozen=True)
class Files:
    """What is to be written, and where."""

    html: Path | None = None
    pprof: Path | None = None
    collapsed: Path | None = None
    speedscope: Path | None = None

    @property
    def is_empty(self) -> bool:
        return not any((self.html, self.pprof, self.collapsed, self.speedscope))


def output() -> click.Path:
    return click.Path(dir_okay=False, path_type=Path)


@click.command(epilog=EXAMPLES)
@click.option("--html", metavar="FILE", type=output(), help="A page with flame graph and tables.")
@click.option("--pprof", metavar="FILE", type=output(), help="For pprof, Parca and Pyroscope.")
@click.option("--collapsed", metavar="FILE", type=output(), help="Stacks as text, with bytes.")
@click.option("--speedscope", metavar="FILE", type=output(), help="For speedscope.app.")
@click.option(
    "--view",
    "view_name",
    type=click.Choice(["live", "total", "peak"]),
    default="live",
    show_default=True,
    help="Live now, allocated since the start, or live at the peak.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.argument("target", metavar="PID|FILE")
def report(
    html: Path | None,
    pprof: Path | None,
    collapsed: Path | None,
    speedscope: Path | None,
    view_name: str,
    as_json: bool,
    target: str,
) -> int:
    """Say where the memory of a process was allocated, and what of it seems to leak.

    A process on hakmem is looked at while it runs, without stopping it; a FILE is what it wrote at
    its end with profile_output. Without options: the call stacks that hold most, with 95 %
    intervals, and the leak suspects.
    """
    from hakmem.insight.profile import profile_of

    files = Files(html, pprof, collapsed, speedscope)
    present(profile_of(target), files, view_name, as_json, shown=files.is_empty or as_json)
    return 0


def present(
    profile: Profile, files: Files, view_name: str, as_json: bool = False, shown: bool = False
) -> None:
    """Writes the files, and prints the profile if it is to be shown."""
    from hakmem.insight.leaks import suspects
    from hakmem.insight.symbols import Symbols
    from hakmem.insight.views import stacks_of, view_of

    if not profile.sites:
        raise HakmemError(_why_empty(profile))
    view = view_of(view_name)
    symbols = Symbols(profile.modules)
    stacks = stacks_of(profile, symbols)
    leaks = suspects(profile, stacks)
    if files.html:
        from hakmem.insight.page import page

        _write(files.html, page(profile, stacks, leaks).encode())
    if files.pprof:
        from hakmem.insight.pprof import pprof

        _write(files.pprof, pprof(profile, symbols, view))
    if files.collapsed:
        from hakmem.insight.folded import collapsed

        _write(files.collapsed, collapsed(stacks, view).encode())
    if files.speedscope:
        from hakmem.insight.folded import speedscope

        _write(files.speedscope, speedscope(profile, stacks, view).encode())
    if shown:
        from hakmem.insight import terminal

        if as_json:
            click.echo(json.dumps(terminal.as_json(profile, stacks, leaks, view), indent=1))
        else:
            terminal.print_report(profile, stacks, leaks, view)


def _why_empty(profile: Profile) -> str:
    if not profile.interval:
        return f"{profile.source} runs without a heap profile: start it with HAKMEM_PROFILE=1"
    return (
        f"{profile.source} has no samples yet: about one block per {profile.interval} bytes is "
        "sampled; wait, or start it with a smaller HAKMEM_PROFILE_INTERVAL"
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    say(f"written: {path}")
