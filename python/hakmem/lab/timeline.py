"""Resident memory over the time of one run, for the picture of it."""

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hakmem.lab.execute import Executor
from hakmem.lab.model import Arm, Case, Results

FINEST_S = 0.002
POINTS = 300
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
# Below this much memory a curve shows the program's start and little else.
WORTH_SHOWING_KIB = 8192
MOST_CASES = 4


@dataclass
class Watch:
    """Reads a process's resident size from time to time until told to stop."""

    interval_s: float
    times: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, pid: int) -> None:
        self._thread = threading.Thread(target=self._watch, args=(pid,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, pid: int) -> None:
        begun = time.monotonic()
        # The process ends at a moment of its own choosing.
        with suppress(OSError, ValueError):
            while not self._stop.is_set():
                pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
                self.times.append(round(time.monotonic() - begun, 4))
                self.sizes.append(pages * PAGE_KIB)
                self._stop.wait(self.interval_s)


def worth_watching(cases: Sequence[Case], results: Results) -> list[Case]:
    """Those with the most memory: that is where curves differ."""
    peaks = {}
    for case in cases:
        rows = [r for r in results.rows if (r.benchmark, r.metric) == (case.name, "peak_rss_kib")]
        peak = max((row.median or 0.0 for row in rows), default=0.0)
        if peak >= WORTH_SHOWING_KIB and not case.self_preloading:
            peaks[case.name] = peak
    names = sorted(peaks, key=lambda name: -peaks[name])[:MOST_CASES]
    return [case for case in cases if case.name in names]


def watch(case: Case, arm: Arm, executor: Executor, expected_s: float) -> dict[str, list[float]]:
    """One more run, not counted among the others: to look at it disturbs it."""
    seen = Watch(max(FINEST_S, expected_s / POINTS))
    executor.run(case, arm, on_start=seen.start)
    seen.stop()
    # The last reading may be of a process that has let go of its memory and not ended yet.
    points = [(at, size) for at, size in zip(seen.times, seen.sizes, strict=True) if size > 0]
    return {"t_s": [at for at, _ in points], "rss_kib": [float(size) for _, size in points]}


def watch_all(
    cases: Sequence[Case], arms: Sequence[Arm], executor: Executor, results: Results
) -> None:
    curves: dict[str, dict[str, dict[str, list[float]]]] = {}
    for case in worth_watching(cases, results):
        for arm in arms:
            row = results.row(case.name, arm.name, "time_s")
            if row is not None and row.median is not None and row.failed is None:
                curve = watch(case, arm, executor, row.median)
                curves.setdefault(case.name, {})[arm.name] = curve
    if curves:
        results.sections["rss_over_time"] = curves
