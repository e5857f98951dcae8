"""The user's own command as a case: its options, and what it said where it failed."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hakmem.commands.options import Duration
from hakmem.elf import preload_obstacle
from hakmem.errors import HakmemError
from hakmem.insight.programs import harm
from hakmem.launch import find_program, started_by
from hakmem.terminal import say, shortened

if TYPE_CHECKING:
    from hakmem.lab.model import Case, Results

DEFAULT_TIMEOUT_S = 600.0
SHOWN_LINES = 10
PORT_MAX = 65535

Command = TypeVar("Command", bound=Callable[..., Any])


def case_options(command: Command) -> Command:
    """--driver, --ready and --timeout."""
    for option in (
        click.option(
            "--timeout",
            type=Duration(),
            default=f"{DEFAULT_TIMEOUT_S:g}",
            show_default=True,
            metavar="TIME",
            help="A run that takes longer has failed.",
        ),
        click.option(
            "--ready", metavar="PORT|REGEX", help="The server is ready when this is there."
        ),
        click.option(
            "--driver",
            metavar="CMD",
            help="CMD is a server: start it, time this command, end it with SIGTERM.",
        ),
    ):
        command = option(command)
    return command


def command_case(
    command: Sequence[str], timeout: float, driver: str | None, ready: str | None, launcher: Path
) -> Case:
    from hakmem.lab import serve
    from hakmem.lab.model import Case

    _check_preloading(find_program(command[0], os.environ))
    words = tuple(command)
    if driver is not None:
        _check_driver(driver)
        port = _port_in(command) if ready is None else ready
        _check_ready(port)
        script = Path(serve.__file__)
        prefix = (sys.executable, "-I", "-S", str(script), "--launcher", str(launcher))
        limit = ("--timeout", str(timeout))
        words = (*prefix, "--ready", port, "--driver", driver, *limit, "--", *command)
    elif ready is not None:
        raise click.UsageError("--ready belongs to --driver")
    title = shlex.join(command)
    return Case(
        name=shortened(title),
        arguments=tuple(command[1:]),
        threads=1,
        unit="run",
        models=f"Your command: {title}" + (f", driven by: {driver}" if driver else ""),
        cannot_show="Other inputs, other machines, and what happens over days.",
        command=words,
        # serve.py keeps the limit itself, and says what took so long.
        timeout_s=timeout if driver is None else timeout + serve.GRACE_S,
        group="command",
        self_preloading=driver is not None,
    )


def _check_preloading(path: Path) -> None:
    """All arms would be the same, or end at once."""
    program = started_by(path)
    ends = harm(program) if program else None
    obstacle = f"{program.path} {ends}" if program and ends else preload_obstacle(path)
    if obstacle:
        raise HakmemError(f"{obstacle}: no other allocator can be preloaded into it")
    if program and program.defined:
        # What it starts may have the C library's.
        say(
            f"warning: {program.path} defines {program.own_malloc} itself, "
            "so other allocators do not act on it"
        )


def _check_driver(driver: str) -> None:
    try:
        words = shlex.split(driver)
    except ValueError as error:
        raise HakmemError(f"--driver {driver}: {error}; quote it as for a shell") from None
    if not words:
        raise HakmemError(f"--driver '{driver}' names no command")
    # Not there, or not to be run: said before the server is started again and again.
    find_program(words[0], os.environ)


def _check_ready(ready: str) -> None:
    """As serve.py takes it: a number is a port, all else a pattern."""
    if ready.isdecimal():
        if not 0 < int(ready) <= PORT_MAX:
            raise HakmemError(f"--ready {ready}: a port is a number from 1 to {PORT_MAX}")
        return
    try:
        re.compile(ready)
    except re.error as error:
        raise HakmemError(f"--ready {ready} is no regular expression: {error}") from None
    if not ready:
        raise HakmemError("--ready '' is neither a port nor a regular expression")


def _port_in(command: Sequence[str]) -> str:
    """The number behind --port or -p."""
    for flag, value in pairwise(command):
        if flag in ("--port", "-p") and value.isdecimal():
            return value
    raise HakmemError("--driver needs to know when the server is ready: --ready PORT or REGEX")


def show_failures(results: Results, failures: Path) -> None:
    for row in (row for row in results.rows if row.metric == "time_s"):
        if row.failed:
            show_failure(row.benchmark, row.allocator, row.failed, failures)


def show_failure(case: str, arm: str, failed: str, failures: Path) -> None:
    """What the command said where it failed: nobody saw it."""
    from hakmem.lab.execute import failure_file

    file = failures / failure_file(case, arm)
    if not file.exists():
        return
    said = file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    shown = "\n".join(f"  | {line}" for line in said[-SHOWN_LINES:])
    say(f"under {arm} the command failed ({failed}); all of it: {file}")
    click.echo(shown, err=True)
