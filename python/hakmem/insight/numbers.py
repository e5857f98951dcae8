"""The figures that a live area amounts to; metric_table.py names and explains them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import mul

from hakmem.insight.area import (
    OBJECT,
    Area,
    Row,
    Table,
    clock_ms,
    number,
    numbers,
    optional,
    signed,
)
from hakmem.insight.attaching import program_of
from hakmem.insight.magazines import at_this_moment, read_lengths
from hakmem.insight.metric_table import Metric, counter_texts, metric_table
from hakmem.insight.processes import Status, command_name, status, thread_name
from hakmem.insight.states import HeapState, state_name
from hakmem.insight.window import UNIT
from hakmem.pids import threads_inside
from hakmem.terminal import legible

ORIGINS = {0: "default", 1: "environment", 2: "program"}
# Of heaps, and some of threads without one; each may have wrapped, their sum of one moment has not.
SHARED = ("run_bytes", "run_blocks", "inbox_bytes")


@dataclass(frozen=True)
class SizeClass:
    """A size class, over all heaps."""

    size: int
    slab_bytes: int
    used: int
    touched_bytes: int
    magazine: int

    @property
    def blocks(self) -> int:
        """That the program holds. Below 0 where magazines changed while they were read: what is
        one too few here is one too many elsewhere, so this is what sums are made of."""
        return self.used - self.magazine

    @property
    def blocks_shown(self) -> int:
        return max(0, self.blocks)

    @property
    def free_bytes(self) -> int:
        return max(0, self.touched_bytes - self.used * self.size)

    @property
    def waste(self) -> int:
        """Resident, but of no use to the program now."""
        return self.free_bytes + self.magazine * self.size


@dataclass(frozen=True)
class Thread:
    """A heap, and the thread that it is of, or was."""

    heap: int
    tid: int
    state: str
    live_bytes: int
    magazine_bytes: int
    counters: dict[str, int]
    # Where its name is, if it runs: process and thread, as seen from here.
    running_as: tuple[int, int] | None = None

    @cached_property
    def name(self) -> str:
        """Looked for when it is wanted, as reading that of hundreds takes long."""
        return thread_name(*self.running_as) if self.running_as else ""


@dataclass(frozen=True)
class Numbers:
    """One look at one process."""

    pid: int
    command: str
    version: str
    process: Row
    settings: dict[str, tuple[int, str]]
    classes: list[SizeClass]
    threads: list[Thread]
    counters: dict[str, int]
    sites: int
    # Blocks since the start, estimated.
    allocated: int
    sampled: int
    # Of these, those that are in no slab.
    apart_blocks: int
    apart_bytes: int
    status: Status | None
    # By CLOCK_MONOTONIC; of a file, when something in it last changed.
    now_ms: int

    def __getitem__(self, name: str) -> int:
        """A figure of the process by its name in the table."""
        return metric_table(tuple(self.counters))[name].value(self)

    def word(self, name: str) -> int:
        return number(self.process, name)

    def words(self, name: str) -> tuple[int, ...]:
        return numbers(self.process, name)

    @property
    def slabs_bytes(self) -> int:
        return sum(c.slab_bytes for c in self.classes)

    @property
    def uptime_ms(self) -> int:
        return max(0, self.now_ms - self.word("shown_ms"))

    def shown(self) -> list[tuple[Metric, int]]:
        """What is known of it, in the table's order."""
        found = []
        for metric in metric_table(tuple(self.counters)).values():
            try:
                found.append((metric, metric.value(self)))
            except KeyError:
                # A library of another version may have no such word, a file no resident memory.
                continue
        return found


# All that it reads.
NUMBERS_TABLES = frozenset({"process", "settings", "classes", "heaps", "blocks", "sites"})


def numbers_of(area: Area, pid: int | None) -> Numbers:
    """Of a running process, or (without pid) of a profile in a file."""
    process = area.row("process")
    heaps = area.table("heaps")
    # By column: a process may have hundreds of threads.
    counters = {name: heaps.column(name) for name in heaps.names if name in counter_texts()}
    rows = heaps.rows()
    if pid is not None:
        rows = at_this_moment(rows, read_lengths(pid, area))
    outside = threads_inside(pid) if pid is not None and pid != area.pid else {}
    blocks = area.table("blocks")
    sizes = area.table("classes").column("size")
    return Numbers(
        pid=number(process, "pid") if pid is None else pid,
        command=_file_name(program_of(area)) if pid is None else command_name(pid),
        version=area.version,
        process=process | _with_heaps(process, heaps),
        settings=_settings(area),
        classes=_size_classes(area, rows),
        threads=[_thread(i, row, pid, outside, sizes, counters) for i, row in enumerate(rows)],
        counters={name: sum(column) for name, column in counters.items()},
        sites=area.table("sites").used,
        allocated=sum(area.table("sites").column("total_objects")) // OBJECT,
        sampled=sum(map(bool, blocks.column("address"))),
        apart_blocks=number(process, "apart_blocks"),
        apart_bytes=number(process, "apart_bytes"),
        status=None if pid is None else status(pid),
        now_ms=_moment(area, process) if pid is None else clock_ms(),
    )


def _moment(area: Area, process: Row) -> int:
    """Of a file: when it was saved, or else last changed."""
    return area.saved.ms if area.saved else number(process, "changed_ms")


def _with_heaps(process: Row, heaps: Table) -> Row:
    """Figures that heaps keep a part of each."""
    return {
        name: max(0, signed(sum(heaps.column(name)) + optional(process, name)))
        for name in SHARED
        if name in heaps.names
    }


def _settings(area: Area) -> dict[str, tuple[int, str]]:
    row = area.row("settings")
    return {
        name: (number(row, name), ORIGINS.get(number(row, f"from_{name}"), "unknown"))
        for name in row
        if f"from_{name}" in row
    }


def _size_classes(area: Area, heaps: Iterable[Row]) -> list[SizeClass]:
    page = number(area.row("process"), "page_size")
    words = [numbers(row, "by_class") for row in heaps if number(row, "state") != HeapState.LOST]
    # By column: of a hundred processes each look reads all of them.
    columns = (area.table("classes").column(name) for name in ("size", "units", "capacity"))
    classes = list(zip(*columns, strict=True))
    sums = [sum(column) for column in zip(*words, strict=True)] or [0] * (len(classes) * 4)
    found = []
    for index, (size, units, capacity) in enumerate(classes):
        used, slabs, touched, magazine = counts = sums[index * 4 : index * 4 + 4]
        if not any(counts):
            continue
        slab = -(-size // page) * page if capacity == 1 else units * UNIT
        found.append(SizeClass(size, slabs * slab, used, touched * page, magazine))
    return found


def _thread(
    index: int,
    row: Row,
    pid: int | None,
    outside: Mapping[int, int],
    sizes: list[int],
    counters: dict[str, list[int]],
) -> Thread:
    state, tid = number(row, "state"), number(row, "tid")
    # A heap torn by a fork may say anything.
    words = numbers(row, "by_class") if state != HeapState.LOST else ()
    magazine = sum(map(mul, words[3::4], sizes))
    runs = state == HeapState.RUNNING
    return Thread(
        heap=index,
        tid=tid,
        state=state_name(state),
        live_bytes=sum(map(mul, words[0::4], sizes)) - magazine + signed(number(row, "run_bytes")),
        magazine_bytes=magazine,
        counters={name: column[index] for name, column in counters.items()},
        running_as=None if pid is None or not runs else (pid, outside.get(tid, tid)),
    )


def _file_name(path: str) -> str:
    return legible(path.rpartition("/")[2])
