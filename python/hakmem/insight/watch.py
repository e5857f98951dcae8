"""What `top` shows: one process in detail, or all in a table, with rates from look to look.

A picture is plain lines: laid out by rich, it took five times as long as reading the process.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from hakmem.errors import HakmemError
from hakmem.insight.area import OBJECT, Area, number
from hakmem.insight.attaching import Places, attach
from hakmem.insight.look import Targets
from hakmem.insight.naming import Naming, naming_of
from hakmem.insight.numbers import NUMBERS_TABLES, Numbers, Thread, numbers_of
from hakmem.insight.processes import command_line
from hakmem.insight.text import CLASS_TITLES, as_json, by_waste, class_row
from hakmem.insight.words import size_text, time_text

BARS = "▁▂▃▄▅▆▇█"
HISTORY = 60
# Lines beside the three tables: header, titles, blank lines.
FIXED_LINES = 17
FEWEST_ROWS = 3
LISTED_EVERY_S = 10.0
DASH = "-"
# Numbers of objects are in this many parts.
JSON_SITES = 100
THREAD_TITLES = ("name", "state", "thread", "live", "magazines", "refills/s")
SITE_TITLES = ("live", "blocks", "in all", "where")
PROCESS_TITLES = (
    *("pid", "RSS", "live", "magazines", "in slabs", "dirty", "cached", "purged"),
    "command",
)
PROCESS_COLUMNS = (
    *("live_bytes", "magazine_bytes", "slab_free_bytes", "dirty_bytes", "big_cached_bytes"),
    "purged_bytes",
)
LEFT = ("name", "state", "where", "command")
Cells = tuple[str, ...]


@dataclass(frozen=True)
class Line:
    text: str
    is_title: bool = False


@dataclass(frozen=True)
class Look:
    """A process at a moment of CLOCK_MONOTONIC."""

    at: float
    area: Area
    numbers: Numbers

    @property
    def allocated(self) -> int:
        """Requested since the start, as sampling estimates it."""
        return sum(self.area.table("sites").column("total_bytes"))


def look_at(pid: int) -> Look:
    area = attach(pid)
    return Look(time.monotonic(), area, numbers_of(area, pid))


@dataclass
class Watch:
    """One process, from look to look."""

    pid: int
    look: Look
    before: Look | None = None
    resident: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))
    live: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))
    naming: Naming | None = None

    @classmethod
    def begin(cls, pid: int) -> "Watch":
        watch = cls(pid, look_at(pid))
        watch._note()
        return watch

    def again(self) -> None:
        self.before, self.look = self.look, look_at(self.pid)
        self._note()

    def _note(self) -> None:
        numbers = self.look.numbers
        self.live.append(numbers["live_bytes"])
        if numbers.status is not None:
            self.resident.append(numbers.status.resident)

    def rate(self, value: Callable[[Look], int]) -> float | None:
        """Per second, since the look before."""
        if self.before is None or self.look.at <= self.before.at:
            return None
        return (value(self.look) - value(self.before)) / (self.look.at - self.before.at)

    def picture(self, height: int) -> list[Line]:
        most = max(FEWEST_ROWS, (height - FIXED_LINES) // 3)
        classes = map(class_row, by_waste(self.look.numbers)[:most])
        return [
            *self._header(),
            Line(""),
            Line("Size classes, those first that keep most unused", is_title=True),
            *table(CLASS_TITLES, classes),
            Line(""),
            Line("Threads, those first that keep most", is_title=True),
            *table(THREAD_TITLES, self._threads(most)),
            Line(""),
            Line("Call sites by live bytes (sampled)", is_title=True),
            *table(SITE_TITLES, self._sites(most)),
        ]

    def _header(self) -> list[Line]:
        n = self.look.numbers
        past = self.look.area.table("timeline").column("live_bytes")[-HISTORY:]
        resident, peak = (
            size_text(value) if value else DASH
            for value in (n.status and n.status.resident, n.status and n.status.resident_peak)
        )
        title = f"{n.command} ({n.pid}) on hakmem {n.version}, {time_text(n.uptime_ms)}"
        facts = (
            f"RSS {resident}, peak {peak}    live {size_text(n['live_bytes'])} in "
            f"{n['live_blocks']:,} blocks    requested {size_text(n['sampled_live_bytes'])}, "
            f"peak {size_text(n['sampled_peak_bytes'])}",
            f"magazines {size_text(n['magazine_bytes'])}    in slabs "
            f"{size_text(n['slab_free_bytes'])}    dirty {size_text(n['dirty_bytes'])}    "
            f"cached {size_text(n['big_cached_bytes'])}    samples {n['samples']:,}"
            f" (lost {n['samples_lost']:,})",
            f"allocated {_per_second(self.rate(lambda look: look.allocated), size_text)}    "
            f"purged {_per_second(self._rate_of('purged_bytes'), size_text)}    "
            f"refills {_per_second(self._rate_of('refill'))}    "
            f"flushes {_per_second(self._rate_of('flush'))}",
            f"live      {sparkline(self.live)}",
            f"RSS       {sparkline(self.resident)}",
            f"requested {sparkline(past)} since it began",
        )
        return [Line(title, is_title=True), *map(Line, facts)]

    def _rate_of(self, name: str) -> float | None:
        return self.rate(lambda look: look.numbers[name])

    def _threads(self, most: int) -> Iterator[Cells]:
        for t in nlargest(most, self.look.numbers.threads, key=lambda t: t.magazine_bytes):
            yield (
                *(t.name or DASH, t.state, str(t.tid)),
                *(size_text(t.live_bytes), size_text(t.magazine_bytes)),
                _per_second(self.rate(_refills_of(t)), unit=""),
            )

    def as_json(self) -> dict[str, Any]:
        names = ("live_bytes", "live_objects", "total_bytes", "where")
        sites = [dict(zip(names, site, strict=True)) for site in self._live_sites(JSON_SITES)]
        return as_json(self.look.numbers) | {"call_sites": sites}

    def _sites(self, most: int) -> Iterator[Cells]:
        for live, objects, total, where in self._live_sites(most):
            yield size_text(live), f"{objects:,.0f}", size_text(total), where

    def _live_sites(self, most: int) -> Iterator[tuple[int, float, int, str]]:
        """Those that hold most: bytes and objects live, bytes in all, and where it is."""
        sites = self.look.area.table("sites")
        live = sites.column("live_bytes")
        first = [i for i in nlargest(most, range(len(live)), key=live.__getitem__) if live[i]]
        if first:
            self.naming = self.naming or naming_of(self.look.area)
        for row in map(sites.row, first):
            yield (
                number(row, "live_bytes"),
                number(row, "live_objects") / OBJECT,
                number(row, "total_bytes"),
                self._where(number(row, "stack"), number(row, "depth")),
            )

    def _where(self, begin: int, depth: int) -> str:
        stacks = self.look.area.table("stacks")
        rows = map(stacks.row, range(begin, min(begin + depth, stacks.used)))
        assert self.naming is not None
        return self.naming([number(row, "address") for row in rows])


def _refills_of(thread: Thread) -> Callable[[Look], int]:
    def refills(look: Look) -> int:
        rows = look.numbers.threads
        return rows[thread.heap].counters["refill"] if thread.heap < len(rows) else 0

    return refills


def table(titles: Sequence[str], rows: Iterable[Cells]) -> list[Line]:
    """Columns to the right, but those of LEFT."""
    cells = [tuple(titles), *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = ["<" if title in LEFT else ">" for title in titles]
    return [
        Line("  ".join(f"{c:{s}{w}}" for c, s, w in zip(row, sides, widths, strict=True)).rstrip())
        for row in cells
    ]


def _per_second(
    rate: float | None, words: Callable[[float], str] = "{:,.0f}".format, unit: str = "/s"
) -> str:
    return DASH if rate is None else f"{words(rate)}{unit}"


def sparkline(values: Iterable[int]) -> str:
    """Bars from nothing up to the highest."""
    drawn = list(values)
    top = max(drawn, default=0) or 1
    return "".join(BARS[min(max(v, 0) * len(BARS) // top, len(BARS) - 1)] for v in drawn)


class Everyone:
    """All processes of this user on hakmem, in a table."""

    def __init__(self) -> None:
        self.listed_at = -math.inf
        self.pids: tuple[str, ...] = ()
        self.places = Places(NUMBERS_TABLES)
        self.again()

    def again(self) -> None:
        # To find new ones, the mappings of every process are read: too much for every look.
        if time.monotonic() - self.listed_at >= LISTED_EVERY_S:
            self.pids = Targets((), every=True).current()
            self.listed_at = time.monotonic()
            self.places.forget()
        self.seen = [numbers for pid in self.pids if (numbers := self._look(int(pid)))]

    def _look(self, pid: int) -> Numbers | None:
        """None: it cannot be read, or is just ending and nothing but the area is left."""
        try:
            numbers = numbers_of(self.places.attach(pid), pid)
        except HakmemError:
            return None
        return numbers if numbers.status else None

    def as_json(self) -> list[dict[str, Any]]:
        return [as_json(numbers) for numbers in self.seen]

    def picture(self, height: int) -> list[Line]:
        if not self.seen:
            return [Line("no process of yours runs on hakmem; start one: hakmem run -- COMMAND")]
        ordered = sorted(self.seen, key=lambda n: -(n.status.resident if n.status else 0))
        return table(PROCESS_TITLES, map(_process, ordered[: height - 1]))


def _process(n: Numbers) -> Cells:
    return (
        str(n.pid),
        size_text(n.status.resident) if n.status else DASH,
        *(size_text(n[name]) for name in PROCESS_COLUMNS),
        command_line(n.pid) or n.command,
    )
