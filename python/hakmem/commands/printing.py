"""Tables and texts as lines, for a terminal, a file or a pipe."""

from rich.console import Console, RenderableType

# Wide enough for every table where no terminal says how wide it is.
PLAIN_WIDTH = 120


def printed(*parts: RenderableType, to_terminal: bool = True) -> str:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal or not to_terminal:
        console = Console(width=PLAIN_WIDTH, highlight=False, markup=False, no_color=True)
    with console.capture() as capture:
        for number, part in enumerate(parts):
            console.print(*["\n"] * (number > 0), part, sep="")
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
