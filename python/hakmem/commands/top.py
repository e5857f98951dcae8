"""`hakmem top`: where the memory of a running process is, again and again."""

import contextlib
import curses
import json
import locale
import sys
import time
from functools import partial

import click
from rich.cells import set_cell_size

from hakmem.cli import examples
from hakmem.commands.options import ProcessId, Seconds
from hakmem.errors import HakmemError
from hakmem.insight.area import GoneError
from hakmem.insight.watch import Everyone, Watch
from hakmem.terminal import say

PLAIN_HEIGHT = 60
ESCAPE = 27
QUIT = (ord("q"), ord("Q"), ESCAPE)


@click.command(epilog=examples("top", "top 4711", "top 4711 --once", "top --once --json"))
@click.option("--once", is_flag=True, help="One picture, also where there is no terminal.")
@click.option(
    "--interval",
    type=Seconds(0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks.",
)
@click.option("--json", "as_json", is_flag=True, help="With --once: as JSON.")
@click.argument("pid", type=ProcessId(), required=False)
def top(once: bool, interval: float, as_json: bool, pid: int | None) -> int:
    """Watch the memory of a process, or of all of yours that run on hakmem.

    The process is not stopped and does not notice. Leave with q. Rates are those since the last
    look; --once has none.
    """
    if as_json and not once:
        raise click.UsageError("--json shows one look: add --once")
    view = Everyone() if pid is None else Watch.begin(pid)
    if as_json:
        click.echo(json.dumps(view.as_json(), indent=2))
        return 0
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print(view)
        return 0
    # Names in other scripts, and the bars.
    locale.setlocale(locale.LC_CTYPE, "")
    try:
        curses.wrapper(_watch, view, interval)
    except GoneError:
        # Its last picture stays to be read.
        _print(view)
        say("the process has ended")
    except curses.error as error:
        raise HakmemError(f"this terminal cannot show it ({error}); use --once") from None
    return 0


def _print(view: Everyone | Watch) -> None:
    for line in view.picture(PLAIN_HEIGHT):
        click.secho(line.text, bold=line.is_title)


def _watch(screen: curses.window, view: Everyone | Watch, interval: float) -> None:
    if curses.tigetstr("cup") is None:
        raise curses.error("it cannot place the cursor")
    # Not every terminal can; it works without.
    for wish in (curses.use_default_colors, partial(curses.curs_set, 0)):
        with contextlib.suppress(curses.error):
            wish()
    while True:
        _draw(screen, view)
        if _leaves(screen, view, interval):
            return
        view.again()


def _draw(screen: curses.window, view: Everyone | Watch) -> None:
    height, width = screen.getmaxyx()
    screen.erase()
    for row, line in enumerate(view.picture(height)[:height]):
        # The last cell of the screen cannot be written without an error.
        attributes = curses.A_BOLD if line.is_title else 0
        screen.addstr(row, 0, set_cell_size(line.text, width - 1), attributes)
    screen.refresh()


def _leaves(screen: curses.window, view: Everyone | Watch, seconds: float) -> bool:
    """Waits that long; has a key been hit meanwhile that means it?"""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        screen.timeout(max(1, round(left * 1000)))
        key = screen.getch()
        if key in QUIT:
            return True
        if key == curses.KEY_RESIZE:
            _draw(screen, view)
    return False
