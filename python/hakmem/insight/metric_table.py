"""The one table that names and explains the figures of a process, of its classes and threads.

The text and JSON of `stats`, its OpenMetrics, and docs/insight/metrics.md are made from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hakmem.insight.states import HeapState, state_name
from hakmem.insight.window import UNIT

if TYPE_CHECKING:
    from hakmem.insight.numbers import Numbers, SizeClass, Thread
    from hakmem.insight.processes import Status

COUNTER_ROW = re.compile(r'^COUNTER\((\w+), "([^"]*)"\)', re.MULTILINE)

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
        "blocks in size classes, up to 1 MiB, as large as their class",
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
    Metric(
        "run_bytes",
        "blocks of whole pages up to 1 MiB: aligned ones, samples",
        _word("run_bytes"),
        group=LIVE,
    ),
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
    ClassMetric("class_live_bytes", "blocks the program holds", lambda c: c.blocks_shown * c.size),
    ClassMetric(
        "class_live_blocks", "number of blocks the program holds", lambda c: c.blocks_shown
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
