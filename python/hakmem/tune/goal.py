"""What shall become less: time, memory, or a weighted mixture of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hakmem.errors import HakmemError
from hakmem.lab.model import Sample, metric_named
from hakmem.lab.statistics import log_cost, minimum_effect

# What a user says, and the metric of a run that it means.
MEASURES = {
    "time": "time_s",
    "cpu": "cpu_s",
    "memory": "peak_rss_kib",
    "mean_memory": "mean_rss_kib",
}
KINDS = f"{', '.join(MEASURES)}, or several with weights, as in time:0.7,memory:0.3"


@dataclass(frozen=True)
class Goal:
    """The weights of measures, by their names; they add up to 1."""

    weights: Mapping[str, float]

    def __str__(self) -> str:
        if len(self.weights) == 1:
            return next(iter(self.weights))
        return ",".join(f"{name}:{weight:g}" for name, weight in self.weights.items())

    def margin(self, first: Sample, second: Sample) -> float:
        """How much more the second run cost, as a logarithm; nan if nobody can tell."""
        mine, others = first.values(), second.values()
        total = 0.0
        for name, weight in self.weights.items():
            metric = metric_named(MEASURES[name])
            cost = log_cost(
                metric, others.get(metric.name, math.nan), mine.get(metric.name, math.nan)
            )
            total += weight * cost
        return total

    @property
    def least(self) -> float:
        """The smallest difference that matters, as a logarithm."""
        effects = {name: minimum_effect(metric_named(MEASURES[name])) for name in self.weights}
        return sum(weight * math.log1p(effects[name]) for name, weight in self.weights.items())


def parse_goal(text: str) -> Goal:
    """ "time", or "time:0.7,memory:0.3"; weights are scaled to add up to 1."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, colon, number = part.strip().partition(":")
        if name not in MEASURES:
            raise HakmemError(f"--goal {text}: '{part.strip()}' is none of {KINDS}")
        if name in weights:
            raise HakmemError(f"--goal {text}: '{name}' is there twice; give it one weight")
        weights[name] = _weight(text, number) if colon else 1.0
    total = sum(weights.values())
    return Goal({name: weight / total for name, weight in weights.items()})


def _weight(text: str, number: str) -> float:
    try:
        weight = float(number)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise HakmemError(f"--goal {text}: a weight is a number above 0, not '{number}'")
    return weight
