"""`hakmem top`: where the memory of a running process is, again and again."""

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.live import Live

from hakmem.cli import examples
from hakmem.insight.area import GoneError
from hakmem.insight.watch import Everyone, Watch
from hakmem.terminal import say

PLAIN_WIDTH = 120
PLAIN_HEIGHT = 60
# q, Escape, end of input.
QUIT = re.compile(rb"[qQ\x04]|\x1b$|^$")
KEYS_MAX = 64


@click.command(epilog=examples("top", "top 4711", "top 4711 --once"))
@click.option("--once", is_flag=True, help="One picture, also where there is no terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks.",
)
@click.argument("pid", type=click.IntRange(min=1), required=False)
def top(once: bool, interval: float, pid: int | None) -> int:
    """Watch the memory of a process, or of all of yours that run on hakmem.

    The process is not stopped and does not notice. Leave with q. Rates are those since the last
    look; --once has none.
    """
    view = Everyone() if pid is None else Watch.begin(pid)
    console = Console(highlight=False, markup=False)
    if once or not console.is_terminal:
        if not console.is_terminal:
            console = Console(width=PLAIN_WIDTH, height=PLAIN_HEIGHT, highlight=False)
        console.print(view.frame(console.height))
        return 0
    return _watch(view, console, interval)


def _watch(view: Everyone | Watch, console: Console, interval: float) -> int:
    ended = False
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(view.frame(console.height), refresh=True)
            if _quits(keys, interval):
                break
            try:
                view.again()
            except GoneError:
                ended = True
                break
    if ended:
        # Its last picture stays to be read.
        console.print(view.frame(console.height))
        say("the process has ended")
    return 0


@contextmanager
def _keys() -> Iterator[int | None]:
    """The terminal's descriptor, giving keys as they are hit; None: nobody can hit any."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _quits(keys: int | None, seconds: float) -> bool:
    if keys is None:
        time.sleep(seconds)
        return False
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([keys], [], [], left)
        # By the descriptor: what a buffer of ours holds, select does not see.
        if ready and QUIT.search(os.read(keys, KEYS_MAX)):
            return True
    return False
