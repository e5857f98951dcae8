"""Where a figure lies against a bound, and what the best of the others costs without hindsight."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from hakmem.lab.model import Metric
from hakmem.lab.statistics import (
    CONFIDENCE,
    COUNTED,
    MIN_ROUNDS,
    SUITE_CONFIDENCE,
    beyond_chance,
    interval_of,
    log_cost,
    suite_beyond_chance,
)

Array = NDArray[np.float64]
Samples = Sequence[float | None]


class State(StrEnum):
    """What can be said of a goal."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class Position:
    """A figure with its interval, and on which side of a bound it lies."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    state: State = State.UNKNOWN

    @property
    def known(self) -> bool:
        return math.isfinite(self.value)


@dataclass(frozen=True)
class Best:
    """The subject's log-costs by the best of the others, a round each, and which one that was."""

    logs: tuple[float, ...] = ()
    name: str = ""
    # By the peer with the best median of all: partly the luckiest one.
    plain: float = math.nan


def ratio_position(metric: Metric, logs: Sequence[float], bound: float) -> Position:
    """The median ratio of one benchmark against the largest that is allowed."""
    if not logs:
        return Position()
    middle, away = float(np.median(logs)), np.array(logs) - math.log(bound)
    if metric.name in COUNTED:
        low, high = min(logs), max(logs)
        proven = True
    else:
        low, high = interval_of([np.array(logs)], CONFIDENCE)
        alike = len(logs) >= MIN_ROUNDS and bool(np.ptp(away) == 0)
        proven = alike or beyond_chance(away)
    return _ratio_position(low, middle, high, bound, proven)


def suite_position(metric: Metric, series: Sequence[Sequence[float]], bound: float) -> Position:
    """The geometric mean of the benchmarks' ratios against the largest that is allowed."""
    if len(series) < 2:
        return ratio_position(metric, series[0], bound) if series else Position()
    logs = [np.array(one) for one in series]
    middle = float(np.mean([np.median(one) for one in logs]))
    if metric.name in COUNTED:
        return _ratio_position(middle, middle, middle, bound, True)
    low, high = interval_of(logs, SUITE_CONFIDENCE)
    enough = all(len(one) >= 2 for one in logs)
    proven = enough and suite_beyond_chance([one - math.log(bound) for one in logs])
    return _ratio_position(low, middle, high, bound, proven)


def amount_position(values: Sequence[float], bound: float) -> Position:
    """Counts that hardly vary: all of them must lie on the same side."""
    if not values:
        return Position()
    low, high = min(values), max(values)
    state = State.HOLDS if high <= bound else State.FAILS if low > bound else State.UNKNOWN
    return Position(float(np.median(values)), low, high, state)


def best_of_others(metric: Metric, subject: Samples, others: Mapping[str, Samples]) -> Best:
    """Round by round, the subject by whoever is best in all the *other* rounds.

    The peer with the lowest median is partly the one that was lucky, and a ratio to it partly a
    ratio to its luck. Who was chosen without looking at a round cannot have been chosen for its
    luck in that round.
    """
    names = [name for name, samples in others.items() if any(s is not None for s in samples)]
    if not names:
        return Best()
    grid = np.array([_log_costs(metric, subject, others[name]) for name in names])
    measured = np.isfinite(grid)
    plain = math.exp(max(_middle(row) for row in grid)) if measured.any() else math.nan
    logs: list[float] = []
    chosen: Counter[str] = Counter()
    for place in range(grid.shape[1]):
        rest = np.delete(grid, place, axis=1)
        # The subject's own figure is the same in all of them, and says nothing of who is best.
        scores = {
            index: _middle(rest[index])
            for index in range(len(names))
            if measured[index, place] and np.isfinite(rest[index]).any()
        }
        if scores:
            best = max(scores, key=lambda index: scores[index])
            # Rounded as in paired_logs: equal ratios are equal.
            logs.append(round(float(grid[best, place]), 12))
            chosen[names[best]] += 1
    if not logs:
        return Best(name=names[int(np.argmax([_middle(row) for row in grid]))], plain=plain)
    return Best(tuple(logs), chosen.most_common(1)[0][0], plain)


def _log_costs(metric: Metric, subject: Samples, other: Samples) -> list[float]:
    """A place for every round; nan where either has no figure."""
    pairs = zip(subject, [*other, *[None] * len(subject)], strict=False)
    return [
        math.nan if one is None or two is None else log_cost(metric, one, two) for one, two in pairs
    ]


def _middle(row: Array) -> float:
    known = row[np.isfinite(row)]
    return float(np.median(known)) if len(known) else -math.inf


def _ratio_position(low: float, middle: float, high: float, bound: float, proven: bool) -> Position:
    # A figure of exactly the bound keeps it; rounding must not decide.
    limit = math.log(bound) + 1e-9
    state = State.UNKNOWN
    if proven and high <= limit:
        state = State.HOLDS
    elif proven and low > limit:
        state = State.FAILS
    return Position(math.exp(middle), math.exp(low), math.exp(high), state)
