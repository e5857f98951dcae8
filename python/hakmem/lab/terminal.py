"""What a person sees while it runs and when it has ended.

The live view is drawn between runs only: a clock that ticks during a run would measure itself.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hakmem.lab import tables
from hakmem.lab.model import Arm, Case, Results, Sample
from hakmem.lab.schedule import Observer, Plan
from hakmem.terminal import on_terminal, say

# Where there is no terminal, a sign of life this often.
REPORT_EVERY_S = 15.0
PLAIN_WIDTH = 160
SHOWN = ("time_s", "peak_rss_kib", "page_faults")
COUNTED = ("instructions_per_op", "d1_misses_per_op")


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class LineView:
    """Progress as lines on standard error, for logs."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def begin(self, cases: Sequence[Case], arms: Sequence[Arm], plan: Plan) -> None:
        names = ", ".join(arm.name for arm in arms)
        plural = "" if len(cases) == 1 else "s"
        say(f"measuring {len(cases)} benchmark{plural} under {names}")

    def step(self, case: Case, arm: Arm, round_number: int, left_s: float | None) -> None:
        if time.monotonic() - self.last < REPORT_EVERY_S:
            return
        self.last = time.monotonic()
        left = "" if left_s is None else f", at most {duration(left_s)} left"
        say(f"{_stage(round_number)}, {case.name} on {arm.name}{left}")

    def round_done(self, case: Case, runs: Mapping[str, Sequence[Sample | None]]) -> None:
        pass


class LiveView:
    """The table of ratios so far, with a bar and the time left below it."""

    def __init__(self, live: Live, subject: str) -> None:
        self.live = live
        self.subject = subject
        self.begun = time.monotonic()
        self.names: list[str] = []
        self.lines: dict[str, list[str]] = {}

    def begin(self, cases: Sequence[Case], arms: Sequence[Arm], plan: Plan) -> None:
        self.begun = time.monotonic()
        self.names = [arm.name for arm in arms]
        if self.subject not in self.names:
            self.subject = self.names[-1]

    def step(self, case: Case, arm: Arm, round_number: int, left_s: float | None) -> None:
        elapsed = time.monotonic() - self.begun
        total = elapsed + (left_s or 0.0)
        done = elapsed / total if left_s is not None and total > 0 else 0.0
        left = f"at most {duration(left_s)} left" if left_s is not None else ""
        bar = ProgressBar(total=1.0, completed=done, width=30)
        words = Text(f" {_stage(round_number)}: {case.name} on {arm.name}  {left}", no_wrap=True)
        line = Table.grid()
        line.add_row(bar, words)
        self.live.update(Group(self._table(), line), refresh=True)

    def round_done(self, case: Case, runs: Mapping[str, Sequence[Sample | None]]) -> None:
        self.lines[case.name] = [
            _ratio_so_far(runs[self.subject], runs[name])
            for name in self.names
            if name != self.subject
        ]

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column(f"time of {self.subject} by that of", no_wrap=True)
        for name in self.names:
            if name != self.subject:
                table.add_column(name, justify="right", no_wrap=True)
        # Only what fits: the rest is in the table at the end.
        room = max(4, self.live.console.height - 8)
        for name in list(self.lines)[-room:]:
            table.add_row(name, *self.lines[name])
        return table


def _stage(round_number: int) -> str:
    return f"round {round_number}" if round_number else "warming up"


def _ratio_so_far(subject: Sequence[Sample | None], other: Sequence[Sample | None]) -> str:
    ratios = [
        one.time_s / two.time_s
        for one, two in zip(subject, other, strict=False)
        if one and two and not one.failed and not two.failed and two.time_s > 0
    ]
    middle = median(ratios) if ratios else math.nan
    return f"{middle:.2f}" if math.isfinite(middle) else "failed"


@contextmanager
def watching(subject: str) -> Iterator[Observer]:
    """The view that suits where standard error goes."""
    if not on_terminal():
        yield LineView()
        return
    console = Console(stderr=True)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveView(live, subject)


@contextmanager
def counting(what: str) -> Iterator["Counter"]:
    """Progress of what is counted, whose runs have no rounds."""
    if not on_terminal():
        yield Counter(None, what)
        return
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield Counter(live, what)


class Counter:
    def __init__(self, live: Live | None, what: str) -> None:
        self.live = live
        self.what = what
        self.begun = self.last = time.monotonic()

    def __call__(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        left = (now - self.begun) / done * (total - done)
        words = f"{self.what}, {done} of {total}: {name}, about {duration(left)} left"
        if self.live is not None:
            self.live.update(Text(f"hakmem: {words}", no_wrap=True), refresh=True)
        elif now - self.last >= REPORT_EVERY_S:
            self.last = now
            say(words)


def result_console() -> Console:
    """Standard output; wide where nobody's window limits it. NO_COLOR is rich's to respect."""
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


def print_results(results: Results, subject: str, base: str) -> None:
    """The table that suits what was compared, then what failed."""
    console = result_console()
    for table in _tables(results, subject, base):
        console.print(table)
    console.print(Text(tables.LEGEND, style="dim"), soft_wrap=True)
    goals = tables.goals(results)
    if goals is not None:
        console.print(goals)
    for line in tables.failures(results):
        console.print(Text(f"failed: {line}", style="red"), soft_wrap=True)


def print_words(sentences: Sequence[str]) -> None:
    console = result_console()
    for sentence in sentences:
        console.print(Text(sentence), soft_wrap=True)


def _tables(results: Results, subject: str, base: str) -> Iterator[Table]:
    benchmarks, arms = results.benchmark_names(), results.allocator_names()
    metrics = tables.measured_metrics(results, SHOWN)
    counted = tables.measured_metrics(results, COUNTED)
    if len(benchmarks) == 1:
        for group in (metrics, counted):
            if group:
                yield tables.line_up(results, benchmarks[0], group, base)
        return
    for metric in [*(name for name in metrics if name != "page_faults"), *counted]:
        if len(arms) == 2:
            yield tables.duel(results, metric, base, subject)
        else:
            yield tables.matrix(results, metric, subject)
