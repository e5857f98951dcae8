"""The figures that a live area amounts to, and the one table that names and explains them.

The text and JSON of `stats`, its OpenMetrics, and docs/insight/metrics.md are made from that table.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from operator import mul
from pathlib import Path

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
from hakmem.insight.processes import Status, command_name, status, thread_name
from hakmem.insight.states import HeapState, state_name
from hakmem.pids import threads_inside
from hakmem.terminal import legible

UNIT = 64 << 10
ORIGINS = {0: "default", 1: "environment", 2: "program"}
# Of heaps, and some of threads without one; each may have wrapped, their sum of one moment has not.
SHARED = ("run_bytes", "run_blocks", "inbox_bytes")
COUNTER_ROW = re.compile(r'^COUNTER\((\w+), "([^"]*)"\)', re.MULTILINE)


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
        return self.used - self.magazine

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

    def shown(self) -> "list[tuple[Metric, int]]":
        """What is known of it, in the table's order."""
        found = []
        for metric in metric_table(tuple(self.counters)).values():
            try:
                found.append((metric, metric.value(self)))
            except KeyError:
                # A library of another version may have no such word, a file no resident memory.
                continue
        return found


GAUGE, COUNTER = "gauge", "counter"
# As enum lock_kind in src/os/lock.h.
SHARED_LOCKS, HEAP_LOCKS = 0, 1
SUPERS_MADE, SUPERS_COLLAPSED = 0, 1
CACHE_HITS, CACHE_MISSES = 0, 1


@dataclass(frozen=True)
class Metric:
    """A figure of a process."""

    name: str
    text: str
    value: Callable[[Numbers], int]
    kind: str = GAUGE
    group: str = ""

    @property
    def unit(self) -> str:
        return unit_of(self.name)


@dataclass(frozen=True)
class ClassMetric:
    name: str
    text: str
    value: Callable[[SizeClass], int]
    kind: str = GAUGE


@dataclass(frozen=True)
class ThreadMetric:
    name: str
    text: str
    value: Callable[[Thread], int]
    kind: str = GAUGE


def is_peak_now(live: int, peak: int, known_live: int) -> bool:
    """Whether more is live now than at the peak that the library has noted, all by estimates.

    It notes one when it is over: while a process grows, it is now. But of what is known to live an
    estimate of twice as much is chance: a short-lived sample that stands for very much.
    """
    return peak < live and (peak == 0 or live <= 2 * known_live)


def _sampled_peak(n: Numbers) -> int:
    live, peak = n.word("sampled_live"), n.word("sampled_peak")
    return live if is_peak_now(live, peak, n["live_bytes"]) else peak


def unit_of(name: str) -> str:
    return "bytes" if name.endswith("_bytes") else ""


def _word(name: str) -> Callable[[Numbers], int]:
    return lambda n: n.word(name)


def _all(*names: str) -> Callable[[Numbers], int]:
    return lambda n: sum(n[name] for name in names)


def _classes(value: Callable[[SizeClass], int]) -> Callable[[Numbers], int]:
    return lambda n: sum(map(value, n.classes))


def _status(n: Numbers) -> Status:
    if n.status is None:
        raise KeyError("resident")
    return n.status


LIVE = "In use by the program"
FREE = "Kept for reuse"
MEMORY = "Memory"
LIMIT = "Memory limit"
PROFILE = "Profile"
EVENTS = "Since the start"

METRICS = [
    Metric(
        "live_bytes",
        "all blocks the program holds",
        _all("small_bytes", "run_bytes", "big_bytes"),
        group=LIVE,
    ),
    Metric(
        "live_blocks",
        "number of blocks the program holds",
        _all("small_blocks", "run_blocks", "big_blocks"),
        group=LIVE,
    ),
    Metric(
        "small_bytes",
        "blocks in size classes, up to 256 KiB, as large as their class",
        # Magazines change while they are read: of few blocks it might be fewer than none.
        lambda n: max(0, sum(c.blocks * c.size for c in n.classes) + n.apart_bytes),
        group=LIVE,
    ),
    Metric(
        "small_blocks",
        "number of blocks in size classes",
        lambda n: max(0, sum(c.blocks for c in n.classes) + n.apart_blocks),
        group=LIVE,
    ),
    Metric("run_bytes", "blocks of whole pages, up to 1 MiB", _word("run_bytes"), group=LIVE),
    Metric("run_blocks", "number of blocks of whole pages", _word("run_blocks"), group=LIVE),
    Metric("big_bytes", "blocks above 1 MiB", _word("big_bytes"), group=LIVE),
    Metric("big_blocks", "number of blocks above 1 MiB", _word("big_blocks"), group=LIVE),
    Metric(
        "magazine_bytes",
        "blocks in the magazines of threads, ready for malloc",
        _classes(lambda c: c.magazine * c.size),
        group=FREE,
    ),
    Metric(
        "magazine_blocks",
        "number of blocks in magazines",
        _classes(lambda c: c.magazine),
        group=FREE,
    ),
    Metric(
        "slab_free_bytes",
        "pages of slabs that were written to, less the blocks handed out",
        _classes(lambda c: c.free_bytes),
        group=FREE,
    ),
    Metric(
        "kept_bytes",
        "written pages of empty slabs that stay with their class",
        _word("kept_bytes"),
        group=FREE,
    ),
    Metric(
        "inbox_bytes",
        "about what other threads freed that its heap has not taken back: in use until then",
        _word("inbox_bytes"),
        group=FREE,
    ),
    Metric("warm_bytes", "magazines of ended threads' heaps", _word("warm_bytes"), group=FREE),
    Metric(
        "dirty_bytes",
        "free units and runs that may hold pages, units counted whole",
        lambda n: n.word("units_dirty") * UNIT + n.word("pages_dirty"),
        group=FREE,
    ),
    Metric(
        "big_cached_bytes",
        "freed blocks above 1 MiB that keep their pages",
        _word("big_cached"),
        group=FREE,
    ),
    Metric(
        "allowed_bytes",
        "free memory that may keep its pages now",
        _word("allowed_bytes"),
        group=FREE,
    ),
    Metric(
        "resident_bytes",
        "memory of the whole process (RSS), by the system",
        lambda n: _status(n).resident,
        group=MEMORY,
    ),
    Metric(
        "resident_peak_bytes",
        "the highest that memory ever was, by the system",
        lambda n: _status(n).resident_peak,
        group=MEMORY,
    ),
    Metric(
        "mapped_bytes",
        "address space for blocks up to 1 MiB",
        _word("super_bytes"),
        group=MEMORY,
    ),
    Metric("slab_bytes", "slabs of all classes", lambda n: n.slabs_bytes, group=MEMORY),
    Metric(
        "slab_touched_bytes",
        "pages of slabs that were written to",
        _classes(lambda c: c.touched_bytes),
        group=MEMORY,
    ),
    Metric(
        "heaps",
        "heaps, those of ended threads and shared ones included",
        lambda n: len(n.threads),
        group=MEMORY,
    ),
    Metric(
        "threads",
        "threads that have a heap",
        lambda n: sum(t.state == state_name(HeapState.RUNNING) for t in n.threads),
        group=MEMORY,
    ),
    Metric(
        "sample_interval_bytes",
        "bytes allocated between samples now, on average; 0: no profile",
        _word("interval"),
        group=PROFILE,
    ),
    Metric(
        "sampled_live_bytes",
        "requested bytes of live blocks, estimated",
        _word("sampled_live"),
        group=PROFILE,
    ),
    Metric(
        "sampled_peak_bytes",
        "requested bytes of live blocks at their peak, estimated",
        _sampled_peak,
        group=PROFILE,
    ),
    Metric("sampled_blocks", "live blocks that were sampled", lambda n: n.sampled, group=PROFILE),
    Metric("sites", "call stacks that allocated", lambda n: n.sites, group=PROFILE),
    Metric(
        "allocated_blocks",
        "blocks that were asked for, estimated",
        lambda n: n.allocated,
        COUNTER,
        PROFILE,
    ),
    Metric(
        "reused_blocks",
        "of these, freed ones that never left their thread's magazines",
        # An estimate less exact counts: it may fall.
        lambda n: max(0, n.allocated - n.counters["ss_taken"] - n.counters["remote_to_magazine"]),
        group=PROFILE,
    ),
    Metric("samples", "samples taken", _word("samples"), COUNTER, PROFILE),
    Metric(
        "samples_lost",
        "samples not recorded because a table was full",
        _word("samples_lost"),
        COUNTER,
        PROFILE,
    ),
    Metric(
        "guarded_samples",
        "samples that were put between closed pages",
        _word("guarded"),
        COUNTER,
        PROFILE,
    ),
    Metric(
        "pressure_level",
        "how near the memory limit is: 0 not near, 1 near, 2 tight",
        _word("pressure_level"),
        group=LIMIT,
    ),
    Metric(
        "pressure_limit_bytes",
        "the limit, of the control group or soft_limit; 0: none was found",
        _word("pressure_limit"),
        group=LIMIT,
    ),
    Metric(
        "pressure_left_bytes",
        "what was left of it at the last look",
        _word("pressure_left"),
        group=LIMIT,
    ),
    Metric("pressure_looks", "looks at the limit", _word("pressure_looks"), COUNTER, LIMIT),
    Metric("pressure_near", "times the limit came near", _word("pressure_near"), COUNTER, LIMIT),
    Metric("pressure_tight", "times memory became tight", _word("pressure_tight"), COUNTER, LIMIT),
    Metric(
        "pressure_gave_bytes",
        "given back near the limit",
        _word("pressure_gave"),
        COUNTER,
        LIMIT,
    ),
    Metric(
        "ss_local",
        "blocks that came back to their slabs: those taken that are not out",
        # Not a counter: two figures that are not of one moment may differ by less the next time.
        lambda n: max(0, n.counters["ss_taken"] - sum(c.used for c in n.classes)),
        group=EVENTS,
    ),
    Metric(
        "big_cache_hits",
        "blocks above 1 MiB that were taken from the freed ones",
        lambda n: n.words("big_cache")[CACHE_HITS],
        COUNTER,
        EVENTS,
    ),
    Metric(
        "big_cache_misses",
        "blocks above 1 MiB that were made without a freed one",
        lambda n: n.words("big_cache")[CACHE_MISSES],
        COUNTER,
        EVENTS,
    ),
    Metric("purged_bytes", "free memory given back", _word("purged_bytes"), COUNTER, EVENTS),
    Metric(
        "supers_made",
        "SuperSlabs mapped",
        lambda n: n.words("supers")[SUPERS_MADE],
        COUNTER,
        EVENTS,
    ),
    Metric(
        "supers_collapsed",
        "full SuperSlabs that got a huge page",
        lambda n: n.words("supers")[SUPERS_COLLAPSED],
        COUNTER,
        EVENTS,
    ),
    Metric(
        "heap_lock_waits",
        "times a heap's lock was not free",
        lambda n: n.words("lock_waits")[HEAP_LOCKS],
        COUNTER,
        EVENTS,
    ),
    Metric(
        "shared_lock_waits",
        "times a lock of what all threads share was not free",
        lambda n: n.words("lock_waits")[SHARED_LOCKS],
        COUNTER,
        EVENTS,
    ),
]

CLASS_METRICS = [
    # Rows are read while they change.
    ClassMetric(
        "class_live_bytes", "blocks the program holds", lambda c: max(0, c.blocks) * c.size
    ),
    ClassMetric(
        "class_live_blocks", "number of blocks the program holds", lambda c: max(0, c.blocks)
    ),
    ClassMetric("class_magazine_bytes", "blocks in magazines", lambda c: c.magazine * c.size),
    ClassMetric(
        "class_slab_free_bytes",
        "pages of slabs that were written to, less the blocks handed out",
        lambda c: c.free_bytes,
    ),
    ClassMetric("class_slab_bytes", "slabs", lambda c: c.slab_bytes),
]

THREAD_METRICS = [
    ThreadMetric(
        "thread_live_bytes",
        "blocks the program holds of the thread's heap; below 0 if it caches those of others",
        lambda t: t.live_bytes,
    ),
    ThreadMetric("thread_magazine_bytes", "blocks in its magazines", lambda t: t.magazine_bytes),
    ThreadMetric("thread_refill", "its refills", lambda t: t.counters["refill"], COUNTER),
    ThreadMetric("thread_flush", "its flushes", lambda t: t.counters["flush"], COUNTER),
]


@cache
def metric_table(counters: tuple[str, ...]) -> dict[str, Metric]:
    """METRICS and those of a library that has these counters."""
    return {metric.name: metric for metric in [*METRICS, *map(_counter, counters)]}


def _counter(name: str) -> Metric:
    return Metric(name, counter_texts()[name], lambda n: n.counters[name], COUNTER, EVENTS)


@cache
def counter_texts() -> dict[str, str]:
    """The library's own words: the wheel carries its list of counters along."""
    folder = Path(__file__).resolve().parent
    clone = folder.parents[2] / "src" / "control" / "counters.def"
    path = folder / "counters.def"
    return dict(COUNTER_ROW.findall((path if path.exists() else clone).read_text()))


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
