"""How sure the Laboratory is: paired ratios, their intervals, verdicts, and means over a suite.

All ratios are costs: below 1 the subject is better than the base, whichever way the metric itself
is oriented. docs/method.md gives the reasons for what is chosen here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hakmem.lab.model import Metric, Results, Row, metric_named

Array = NDArray[np.float64]

# Nominal level of the bootstrap for one benchmark. Of few rounds it is too narrow by nature: at
# 99 % it contains the true ratio 95 times in 100 from 6 rounds on, 93 times at 5.
CONFIDENCE = 0.99
# Over a suite the same bootstrap errs on the wide side.
SUITE_CONFIDENCE = 0.97
# Two-sided, of the test that the interval must agree with.
ALPHA = 0.025
# A look in between may end it only on far better evidence than the verdict at the end needs, so
# that many looks do not add up to many false verdicts (the Haybittle-Peto rule).
INTERIM_ALPHA = 0.001
MIN_ROUNDS = 3
RESAMPLES = 2000
SIGN_FLIPS = 4096
# From so many rounds on, over all benchmarks together, the bootstrap alone is to be trusted.
MANY_PAIRS = 60
SEED = 20_250_101  # Of no importance, but fixed: the same results give the same report.

# Programs of one build differ that much from link order and environment alone.
MINIMUM_EFFECT = 0.01
# Memory does not depend on those, and counted instructions hardly.
MINIMUM_BY_UNIT = {"KiB": 0.005, "instructions": 0.005, "misses": 0.02}
# What moves a whole suite is rarely the accident of one program's layout.
SUITE_SHARE = 0.5

# Simulated, not measured: the same program gives the same count again.
COUNTED = frozenset({"instructions_per_op", "d1_misses_per_op", "malloc_instructions_per_op"})

# Below these, values are taken as equal to them: the kernel's clock ticks are no finer, and a
# ratio to no fault at all, or to no nanosecond, means nothing.
GRAIN = {"user_s": 0.001, "sys_s": 0.001, "d1_misses_per_op": 0.01}
GRAIN_BY_UNIT = {"count": 1.0, "ns": 1.0}


class Verdict(StrEnum):
    """On the subject, seen from the base."""

    BETTER = "better"
    WORSE = "worse"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Comparison:
    """Subject against base in one metric. Figures are nan where nothing could be compared.

    `negligible`: not only is no difference proven, but one that matters is excluded.
    """

    metric: str
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    verdict: Verdict = Verdict.CANNOT_TELL
    negligible: bool = False
    failed: str | None = None

    @property
    def known(self) -> bool:
        return math.isfinite(self.ratio)

    @property
    def sound(self) -> bool:
        """Known, and of runs that all worked."""
        return self.known and self.failed is None

    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "ratio": _or_none(self.ratio),
            "low": _or_none(self.low),
            "high": _or_none(self.high),
            "n": self.n,
            "verdict": str(self.verdict),
            "failed": self.failed,
        }


@dataclass(frozen=True)
class SuiteComparison(Comparison):
    """The geometric mean of the benchmarks' ratios; `n` counts benchmarks.

    `left_out` says of each benchmark that could not be compared, why.
    """

    benchmarks: dict[str, Comparison] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def named(self, verdict: Verdict) -> list[str]:
        """The benchmarks with this verdict, the largest difference first."""
        names = [name for name, one in self.benchmarks.items() if one.verdict is verdict]
        return sorted(names, key=lambda name: -abs(math.log(self.benchmarks[name].ratio)))

    def as_json(self) -> dict[str, Any]:
        parts = {name: one.as_json() for name, one in self.benchmarks.items()}
        return super().as_json() | {"benchmarks": parts, "left_out": self.left_out}


@dataclass(frozen=True)
class Distance:
    """How many times the cost of the best allocator of each benchmark; 1 is the best itself."""

    geomean: float
    benchmarks: dict[str, float]
    missing: tuple[str, ...]


def minimum_effect(metric: Metric) -> float:
    """The smallest relative difference that is worth a verdict."""
    return MINIMUM_BY_UNIT.get(metric.unit, MINIMUM_EFFECT)


def log_cost(metric: Metric, subject: float, base: float) -> float:
    """The logarithm of the cost ratio: above 0 where the subject is worse; nan if meaningless."""
    grain = GRAIN.get(metric.name, GRAIN_BY_UNIT.get(metric.unit, 0.0))
    subject, base = max(subject, grain), max(base, grain)
    if not (0 < subject < math.inf and 0 < base < math.inf):
        return math.nan
    ratio = math.log(subject / base)
    return -ratio if metric.better == "higher" else ratio


def paired_logs(
    metric: Metric, subject: Sequence[float | None], base: Sequence[float | None]
) -> tuple[float, ...]:
    """The log-cost of every round in which both have a value."""
    logs = (
        log_cost(metric, one, other)
        for one, other in zip(subject, base, strict=False)
        if one is not None and other is not None
    )
    # Rounding makes equal ratios equal, which the rank test needs to know.
    return tuple(round(value, 12) for value in logs if not math.isnan(value))


def compare_samples(
    metric: Metric, subject: Sequence[float | None], base: Sequence[float | None]
) -> Comparison:
    """Compare samples that are paired by their position."""
    return _compare_logs(metric, paired_logs(metric, subject, base))


def compare_rows(metric: str, subject: Row | None, base: Row | None) -> Comparison:
    """Compare two rows of one benchmark. Failed runs are named, and left out with their round; to
    who sometimes crashes no verdict is given."""
    failed = _failures(subject, base)
    if subject is None or base is None:
        return Comparison(metric, failed=failed)
    found = compare_samples(metric_named(metric), subject.samples, base.samples)
    if failed is None:
        return found
    return replace(found, failed=failed, verdict=Verdict.CANNOT_TELL, negligible=False)


def compare(results: Results, benchmark: str, metric: str, subject: str, base: str) -> Comparison:
    """Compare two allocators on one benchmark."""
    rows = (results.row(benchmark, arm, metric) for arm in (subject, base))
    found = compare_rows(metric, *rows)
    if found.known:
        return found
    failed = next(
        (
            f"{row.allocator}: {row.failed}"
            for row in results.rows
            if row.benchmark == benchmark and row.allocator in (subject, base) and row.failed
        ),
        found.failed,
    )
    return Comparison(metric, failed=failed)


def compare_suite(
    results: Results,
    metric: str,
    subject: str,
    base: str,
    benchmarks: Sequence[str] | None = None,
) -> SuiteComparison:
    """Compare two allocators over all benchmarks, or over those named."""
    names = results.benchmark_names() if benchmarks is None else benchmarks
    parts: dict[str, Comparison] = {}
    logs: list[tuple[float, ...]] = []
    left_out: dict[str, str] = {}
    for name in names:
        found = compare(results, name, metric, subject, base)
        if not found.sound:
            left_out[name] = found.failed or "not measured in the same round"
            continue
        rows = [results.row(name, arm, metric) for arm in (subject, base)]
        parts[name] = found
        logs.append(paired_logs(metric_named(metric), *(row.samples for row in rows if row)))
    overall = _combine(metric_named(metric), list(parts.values()), logs)
    figures = vars(overall) | {"n": len(parts)}
    return SuiteComparison(**figures, benchmarks=parts, left_out=left_out)


def distance_to_best(
    results: Results, metric: str, allocators: Sequence[str] | None = None
) -> dict[str, Distance]:
    """How far each allocator's median is from the best one's, benchmark by benchmark.

    An allocator that failed on a benchmark is neither its best nor rated there.
    """
    arms = results.allocator_names() if allocators is None else allocators
    kind = metric_named(metric)
    costs: dict[str, dict[str, float]] = {arm: {} for arm in arms}
    for name in results.benchmark_names():
        medians = _medians(results, name, metric, arms)
        if not medians:
            continue
        choose = max if kind.better == "higher" else min
        best = choose(medians.values())
        for arm, value in medians.items():
            costs[arm][name] = math.exp(max(0.0, log_cost(kind, value, best)))
    measured = list(dict.fromkeys(name for one in costs.values() for name in one))
    return {
        arm: Distance(geometric_mean(list(one.values())), one, _absent(measured, one))
        for arm, one in costs.items()
    }


def geometric_mean(ratios: Sequence[float]) -> float:
    """nan of nothing."""
    return float(stats.gmean(ratios)) if len(ratios) else math.nan


def _medians(
    results: Results, benchmark: str, metric: str, arms: Sequence[str]
) -> dict[str, float]:
    kind = metric_named(metric)
    rows = (results.row(benchmark, arm, metric) for arm in arms)
    return {
        row.allocator: row.median
        for row in rows
        if row is not None
        and row.failed is None
        and row.median is not None
        and not math.isnan(log_cost(kind, row.median, row.median))
    }


def _absent(measured: Sequence[str], have: dict[str, float]) -> tuple[str, ...]:
    return tuple(name for name in measured if name not in have)


def _failures(*rows: Row | None) -> str | None:
    said = [f"{row.allocator}: {row.failed}" for row in rows if row is not None and row.failed]
    if said:
        return "; ".join(said)
    return "not measured under both" if None in rows else None


# One call per cell of a table that is drawn again and again: remember.
@lru_cache(maxsize=4096)
def _compare_logs(metric: Metric, logs: tuple[float, ...]) -> Comparison:
    if not logs:
        return Comparison(metric.name)
    limit = math.log1p(minimum_effect(metric))
    if metric.name in COUNTED:
        low, middle, high = min(logs), float(np.median(logs)), max(logs)
        proven = low > 0 or high < 0
    else:
        low, high = interval_of([np.array(logs)], CONFIDENCE)
        middle = float(np.median(logs))
        proven = (low > 0 or high < 0) and beyond_chance(np.array(logs))
    return _judged(metric, (low, middle, high), limit, proven, len(logs))


def _combine(metric: Metric, parts: list[Comparison], logs: list[tuple[float, ...]]) -> Comparison:
    if len(parts) < 2:
        # Of one benchmark the suite knows no more than the benchmark itself.
        return parts[0] if parts else Comparison(metric.name)
    limit = SUITE_SHARE * math.log1p(minimum_effect(metric))
    series = [np.array(one) for one in logs]
    middle = float(np.mean([math.log(one.ratio) for one in parts]))
    low, high = (middle, middle)
    proven = True
    if metric.name not in COUNTED:
        low, high = interval_of(series, SUITE_CONFIDENCE)
        proven = (low > 0 or high < 0) and suite_beyond_chance(series)
    return _judged(metric, (low, middle, high), limit, proven, len(parts))


def _judged(
    metric: Metric,
    logs: tuple[float, float, float],
    limit: float,
    proven: bool,
    n: int,
) -> Comparison:
    low, middle, high = logs
    # A difference of exactly the limit is one; rounding must not decide.
    tolerance = 1e-9
    verdict = Verdict.CANNOT_TELL
    if proven and abs(middle) >= limit - tolerance:
        verdict = Verdict.WORSE if middle > 0 else Verdict.BETTER
    return Comparison(
        metric.name,
        math.exp(middle),
        math.exp(low),
        math.exp(high),
        n,
        verdict,
        negligible=-limit < low and high < limit and n >= MIN_ROUNDS,
    )


def interval_of(series: Sequence[Array], confidence: float) -> tuple[float, float]:
    """Percentile bootstrap of the mean of the medians; nan where there is only one round.

    Rounds are drawn anew within each benchmark. Benchmarks are not: the suite is the question
    that is asked, not a sample of some larger world of programs.
    """
    if any(len(one) < 2 for one in series):
        return math.nan, math.nan
    found = stats.bootstrap(
        tuple(series),
        _mean_of_medians,
        n_resamples=RESAMPLES,
        vectorized=True,
        paired=False,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(found.low), float(found.high)


def _mean_of_medians(*series: Array, axis: int = -1) -> Array:
    medians = [np.median(one, axis=axis) for one in series]
    return np.asarray(np.mean(medians, axis=0))


def beyond_chance(logs: Array) -> bool:
    """Whether an exact test against "no difference" rejects.

    Within a round all allocators run in random order, so without a difference each log-ratio is
    as likely to be -x as x, whatever the noise looks like and however it drifts: the signed-rank
    test is exact. With fewer than 7 rounds no outcome is rare enough for it. There all rounds
    must agree in direction, and also in size, by Student's test.
    """
    moved = logs[logs != 0]
    n = len(moved)
    if n < MIN_ROUNDS:
        return False
    if np.ptp(logs) == 0:
        return True
    if 2 / 2**n > ALPHA:
        same_side = bool(np.all(moved > 0) or np.all(moved < 0))
        return same_side and float(stats.ttest_1samp(logs, 0.0).pvalue) <= ALPHA
    # This is the signed-rank test; scipy's own is exact only without ties, which RSS has.
    # All assignments of signs are tried up to 12 rounds, a sample of them beyond.
    found = stats.permutation_test(
        (stats.rankdata(np.abs(moved)) * np.sign(moved),),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=SIGN_FLIPS,
        rng=np.random.default_rng(SEED),
    )
    return float(found.pvalue) <= ALPHA


def far_beyond_chance(logs: Array) -> bool:
    """Student's test for a look in between: of few rounds no ranks are rare enough."""
    if np.ptp(logs) == 0:
        return len(logs) > 1
    return float(stats.ttest_1samp(logs, 0.0).pvalue) <= INTERIM_ALPHA


def suite_beyond_chance(series: Sequence[Array]) -> bool:
    """Welch's test over the benchmarks' means, where rounds are too few to trust the bootstrap.

    Signs cannot be flipped here: benchmarks that differ much in opposite directions are no noise.
    """
    if sum(len(one) for one in series) >= MANY_PAIRS:
        return True
    variances = np.array([np.var(one, ddof=1) / len(one) for one in series])
    total = float(variances.sum())
    if total == 0:
        return True
    freedom = total**2 / sum(
        variance**2 / (len(one) - 1) for variance, one in zip(variances, series, strict=True)
    )
    distance = abs(sum(float(np.mean(one)) for one in series)) / math.sqrt(total)
    return 2 * float(stats.t.sf(distance, freedom)) <= ALPHA


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
