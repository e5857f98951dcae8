"""Runs the command once under one arm, by the Laboratory's means, with its mean memory too."""

from dataclasses import dataclass, replace

import numpy as np

from hakmem.lab.execute import Executor
from hakmem.lab.model import Arm, Case, Sample
from hakmem.lab.timeline import FINEST_S, POINTS, Watch


@dataclass
class CommandRunner:
    case: Case
    executor: Executor
    # Of the run before, from which follows how often to look.
    expected_s: float = 0.0

    def __call__(self, arm: Arm) -> Sample:
        watch = Watch(max(FINEST_S, self.expected_s / POINTS))
        # What a driver starts is not the process that would be watched.
        on_start = None if self.case.self_preloading else watch.start
        sample = self.executor.run(self.case, arm, on_start=on_start)
        watch.stop()
        if sample.failed:
            return sample
        self.expected_s = sample.time_s
        extra = {"cpu_s": sample.user_s + sample.sys_s}
        if on_start is not None:
            extra["mean_rss_kib"] = _mean(watch, sample.peak_rss_kib)
        return replace(sample, extra=sample.extra | extra)


def _mean(watch: Watch, peak: float) -> float:
    """Over the time of the run; of one too short to be looked at twice, its peak."""
    seen = [(at, size) for at, size in zip(watch.times, watch.sizes, strict=True) if size > 0]
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return peak
    times, sizes = np.array(seen).T
    return float(np.trapezoid(sizes, times) / (times[-1] - times[0]))
