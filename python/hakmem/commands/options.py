"""Options that several commands share, and the kinds of values they take."""

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from hakmem.pids import pid_of
from hakmem.terminal import legible, shortened
from hakmem.written import STDOUT

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
DAY_S = 24 * 3600.0
LONGEST_S = 7 * DAY_S  # which every way to wait can take

Command = TypeVar("Command", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """Seconds, or with a unit: 90, 90s, 5m, 1h."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = DURATION.fullmatch(str(value))
        if match is None:
            self.fail(f"'{value}' is no time; write 90, 90s, 5m or 1h", param, ctx)
        found = float(match[1]) * SECONDS[match[2]]
        if not found:
            self.fail(f"'{value}' is too short; write 90, 90s, 5m or 1h", param, ctx)
        if found > LONGEST_S:
            most = f"{LONGEST_S / SECONDS['h']:g}h"
            self.fail(f"'{shortened(str(value))}' is too long; at most {most}", param, ctx)
        return found


class Seconds(click.ParamType[float]):
    """Between two looks: no more than a day, which every way to wait can take."""

    name = "seconds"

    def __init__(self, least: float) -> None:
        self.least = least

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        with contextlib.suppress(ValueError):
            found = float(str(value))
            if self.least <= found <= DAY_S:
                return found
        self.fail(f"'{value}' is no number from {self.least:g} to {DAY_S:g}", param, ctx)


class ProcessId(click.ParamType[int]):
    """Of a process that may be there."""

    name = "pid"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        text = str(value)
        pid = pid_of(text)
        if not pid:
            self.fail(f"'{shortened(text)}' is no process id", param, ctx)
        return pid


class FilePath(click.Path):
    """A file's name, which nothing is not: it would be the folder."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        if not str(value):
            self.fail("'' is no file", param, ctx)
        return super().convert(value, param, ctx)


def file_path(exists: bool = False) -> click.Path:
    return FilePath(dir_okay=False, exists=exists, path_type=Path)


def check_outputs(as_json: bool = False, read: Sequence[str] = (), **files: Path | None) -> None:
    """Two documents in one stream or file are none, nor is one over a file that is read."""
    named = {
        f"--{name.replace('_', '-')}": path for name, path in files.items() if path is not None
    }
    printed = [f"{name} -" for name, path in named.items() if path == STDOUT]
    printed += ["--json"] * as_json
    if len(printed) > 1:
        raise click.UsageError(
            f"{', '.join(printed)}: standard output takes one of them; name files for the others"
        )
    # Both sides of a comparison may be one file.
    seen = {os.path.realpath(target): target for target in read if _is_file(Path(target))}
    for name, path in named.items():
        place = os.path.realpath(path)
        if place in seen:
            raise click.UsageError(
                f"{name} and {seen[place]} are the same file, '{legible(str(path))}': "
                "name another one"
            )
        if path != STDOUT and not _is_device(path):
            seen[place] = name


def _is_file(path: Path) -> bool:
    """A process number is none, nor what no file could be called."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_device(path: Path) -> bool:
    try:
        return path.exists() and not path.is_file()
    except OSError:
        return False


def output_options(command: Command) -> Command:
    """--json, --html, --markdown and --png."""
    for option in (
        click.option("--png", type=click.Path(path_type=Path), metavar="DIR", help="Pictures."),
        click.option(
            "--markdown",
            type=file_path(),
            metavar="FILE",
            help="The tables, for a README; - prints them.",
        ),
        click.option(
            "--html", type=file_path(), metavar="FILE", help="The report page; - prints it."
        ),
        click.option(
            "--json",
            "json_file",
            type=file_path(),
            metavar="FILE",
            help="All figures; - prints them.",
        ),
    ):
        command = option(command)
    return command


library_option = click.option(
    "--library",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    metavar="PATH",
    help="This build of hakmem instead of the clone's.",
)
seed_option = click.option("--seed", type=int, default=1, show_default=True, help="Of the order.")


def method_options(command: Command) -> Command:
    """--rounds, --budget, --seed, --arms and --library."""
    for option in (
        library_option,
        click.option(
            "--arms",
            metavar="LIST",
            help="Allocators to compare, by name; also profile:NAME and key:value. 'all': all.",
        ),
        seed_option,
        click.option("--budget", type=Duration(), metavar="TIME", help="Such as 90s or 10m."),
        click.option(
            "--rounds",
            type=click.IntRange(min=1),
            metavar="N",
            help="Exactly so many, instead of as many as are needed and there is time for.",
        ),
    ):
        command = option(command)
    return command


def view_option(command: Command) -> Command:
    """--view; None: none was chosen."""
    return click.option(
        "--view",
        "view_name",
        type=click.Choice(["live", "total", "peak", "tight"]),
        show_default="live",
        help="Live now, allocated since the start, live at the peak, or when memory became tight.",
    )(command)
