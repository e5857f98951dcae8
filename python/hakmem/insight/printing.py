"""Tables and texts as lines, for a terminal, a file or a pipe."""

import contextlib
import sys
from collections.abc import Iterator

from rich.console import Console, RenderableType

# Where no terminal says how wide it is nothing is folded: what is looked for in a line is in it.
WIDEST = 1 << 13


def printed(*parts: RenderableType, to_terminal: bool = True) -> str:
    console = _console(to_terminal)
    with console.capture() as capture:
        for number, part in enumerate(parts):
            console.print(*["\n"] * (number > 0), part, sep="")
    return _lines(capture.get())


@contextlib.contextmanager
def printing() -> Iterator[Console]:
    """What is printed to it stands on standard output in the end."""
    console = _console()
    with console.capture() as capture:
        yield console
    sys.stdout.write(_lines(capture.get()))


def _console(to_terminal: bool = True) -> Console:
    # What is printed is often a program's: a bracket in its name is no mark-up.
    console = Console(highlight=False, markup=False)
    if console.is_terminal and to_terminal:
        return console
    return Console(width=WIDEST, highlight=False, markup=False, no_color=True)


def _lines(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.split("\n")[:-1])
