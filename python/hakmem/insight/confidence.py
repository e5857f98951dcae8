"""How far an estimate from samples may be from the truth.

A block is sampled with probability p = 1 - exp(-size / interval), of the size in whole words of 8
bytes, and then stands for size / p bytes. The sum over sampled blocks has no bias, and its
variance is estimated, without bias too, by the sum of weight^2 (1 - p). Few samples make a skewed
sum, so the interval is the one of a gamma distribution with that mean and variance (Fay and
Feuer, Statistics in Medicine 16, 1997), which is the exact Poisson interval where all weights are
equal.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import gammaincinv

# Below this many samples a figure says hardly more than that there is something.
FEW = 10
TAIL = 0.025


@dataclass(frozen=True)
class Interval:
    """A 95 % interval around an estimate."""

    value: float
    low: float
    high: float
    samples: int

    @property
    def is_rough(self) -> bool:
        return self.samples < FEW

    def scaled(self, factor: float) -> "Interval":
        return Interval(self.value * factor, self.low * factor, self.high * factor, self.samples)


@dataclass(frozen=True)
class Sampled:
    """What one sample is, and what it stands for."""

    size: int
    weight: float

    @property
    def unseen(self) -> float:
        """1 - p: the chance that such a block is not sampled."""
        return max(0.0, 1.0 - self.size / self.weight) if self.weight > 0 else 0.0


def of_samples(samples: Iterable[Sampled], spacing: float = 0.0) -> Interval:
    """Of the sum of the weights. What was sampled is there for sure: the least it can be.

    `spacing`: bytes between samples, which one that was not seen may stand for. It is what bounds
    a sum of which no sample tells.
    """
    value = variance = sure = 0.0
    largest = spacing**2
    count = 0
    for sample in samples:
        count += 1
        value += sample.weight
        sure += sample.size
        one = sample.weight**2 * sample.unseen
        variance += one
        largest = max(largest, one)
    low, high = _gamma(value, variance, math.sqrt(largest))
    return Interval(value, max(low, min(sure, value)), high, count)


def of_total(value: float, count: int, mean_size: float, spacing: float = 0.0) -> Interval:
    """Of a sum whose samples are gone, taken to be of one size; `spacing` as above."""
    if count <= 0 or value <= 0:
        return Interval(value, value, max(value, of_samples((), spacing).high), 0)
    weight = value / count
    unseen = max(0.0, 1.0 - mean_size / weight)
    one_more = max(weight * math.sqrt(unseen), spacing)
    low, high = _gamma(value, count * weight**2 * unseen, one_more)
    return Interval(value, low, high, count)


def _gamma(value: float, variance: float, one_more: float) -> tuple[float, float]:
    """`one_more`: what a further sample would add."""
    low = _quantile(TAIL, value, variance)
    return low, _quantile(1 - TAIL, value + one_more, variance + one_more**2)


def _quantile(share: float, mean: float, variance: float) -> float:
    if mean <= 0 or variance <= 0:
        return mean
    return float(gammaincinv(mean**2 / variance, share) * variance / mean)
