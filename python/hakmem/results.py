"""Results of measured runs: rows in the project's JSON form."""

import datetime
import os
import platform
from dataclasses import dataclass, field
from statistics import median
from typing import Any

UNITS = {
    "time_s": "s",
    "user_s": "s",
    "sys_s": "s",
    "peak_rss_kib": "KiB",
    "page_faults": "count",
}


@dataclass
class Series:
    """All runs of one job on one allocator."""

    benchmark: str
    arguments: list[str]
    allocator: str
    version: str
    runs: list[dict[str, float]] = field(default_factory=list)
    failed: str | None = None

    def samples(self, *metrics: str) -> list[float]:
        """One figure per run: the metric, or the sum of several."""
        return [sum(run[metric] for metric in metrics) for run in self.runs]

    def median(self, *metrics: str) -> float:
        return median(self.samples(*metrics))

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "benchmark": self.benchmark,
                "arguments": self.arguments,
                "threads": 1,
                "allocator": self.allocator,
                "version": self.version,
                "metric": metric,
                "unit": unit,
                "better": "lower",
                "samples": self.samples(metric),
                "median": self.median(metric) if self.runs else None,
                "failed": self.failed,
            }
            for metric, unit in UNITS.items()
        ]


def as_document(series: list[Series]) -> dict[str, Any]:
    return {
        "host": {
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "memory_kib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024,
        },
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "rows": [row for one in series for row in one.rows()],
    }
