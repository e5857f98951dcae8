"""What a person sees while it runs: the table of arms on a terminal, lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hakmem.lab.model import Arm
from hakmem.lab.terminal import REPORT_EVERY_S, duration
from hakmem.terminal import on_terminal, say
from hakmem.tune.report import table
from hakmem.tune.session import Observer, Search


def status(search: Search) -> str:
    """How far it is, who leads, and how long it may take."""
    runs = "run" if search.runs == 1 else "runs"
    of = f" of {search.limits.runs}" if search.limits.runs else ""
    ahead = f", {search.arms[search.leader].name} leads" if search.duels else ""
    left = "" if search.left_s is None else f", at most {duration(search.left_s)} left"
    return f"{search.runs}{of} {runs}{ahead}{left}"


class LineView:
    """Progress as lines on standard error, for logs."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def step(self, search: Search, arm: Arm) -> None:
        if search.runs == 0:
            say(f"tuning {search.goal} over {', '.join(arm.name for arm in search.arms)}")
        elif time.monotonic() - self.last >= REPORT_EVERY_S:
            self.last = time.monotonic()
            say(status(search))


class LiveView:
    """The table so far; drawn between runs only, as a clock that ticks in one would be measured."""

    def __init__(self, live: Live) -> None:
        self.live = live

    def step(self, search: Search, arm: Arm) -> None:
        line = Text(f"{status(search)}; running {arm.name}", no_wrap=True)
        self.live.update(Group(table(search), line), refresh=True)


@contextmanager
def watching() -> Iterator[Observer]:
    """The view that suits where standard error goes."""
    if not on_terminal():
        yield LineView()
        return
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield LiveView(live)
