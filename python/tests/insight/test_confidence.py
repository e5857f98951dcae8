"""Intervals around estimates: they hold the truth about as often as they say."""

import pytest
from synthetic_profile import Simulation

from hakmem.insight.confidence import Interval, Sampled, of_samples, of_total
from hakmem.insight.profile import total_of

RUNS = 400


def share_inside(size: int, count: int, other: tuple[int, int] = (1, 0)) -> float:
    truth = size * count + other[0] * other[1]
    inside = 0
    for seed in range(RUNS):
        made = Simulation(seed)
        site = made.site("main")
        made.allocate(site, size, count)
        made.allocate(site, other[0], other[1])
        live = made.profile().live
        # No sample at all is no interval at all.
        inside += live.samples > 0 and live.low <= truth <= live.high
    return inside / RUNS


@pytest.mark.parametrize(
    ("size", "count", "other"),
    [
        (100, 50_000, (1, 0)),
        (4096, 10_000, (1, 0)),
        (262_144, 40, (1, 0)),
        (1_048_576, 30, (1, 0)),
        (4096, 2_000, (524_288, 20)),
    ],
)
def test_the_truth_is_inside(size: int, count: int, other: tuple[int, int]) -> None:
    assert share_inside(size, count, other) >= 0.94


def test_interval_is_no_wider_than_needed() -> None:
    """A hundred equal samples: near 1.96 / sqrt(100) on both sides."""
    one = of_samples([Sampled(100, 1e6)] * 100)
    assert one.value == 1e8
    assert 0.80e8 < one.low < 0.83e8
    assert 1.19e8 < one.high < 1.23e8


def test_blocks_that_cannot_be_missed_are_exact() -> None:
    one = of_samples([Sampled(1 << 30, 1 << 30)])
    assert (one.low, one.value, one.high) == (1 << 30, 1 << 30, 1 << 30)


def test_a_single_sample_is_rough() -> None:
    one = of_samples([Sampled(1000, 500_000)])
    assert one.is_rough
    assert one.low >= 1000
    assert one.high > 4 * one.value


def test_nothing_is_nothing() -> None:
    assert of_samples([]) == Interval(0, 0, 0, 0)
    assert of_total(0, 0, 0) == Interval(0, 0, 0, 0)


def test_total_of_freed_blocks() -> None:
    inside = 0
    for seed in range(RUNS):
        made = Simulation(seed)
        made.allocate(made.site("main"), 1000, 50_000, life=0.001)
        one = total_of(made.profile().sites[0])
        inside += one.low <= 50_000_000 <= one.high
    assert inside / RUNS >= 0.94


def test_what_no_sample_tells_of_is_bounded_by_their_distance() -> None:
    nothing = of_samples([], 1e6)
    assert (nothing.value, nothing.low) == (0, 0)
    assert nothing.high == pytest.approx(3.69e6, rel=0.01)  # exp(-3.69) = 0.025
    near = of_samples([Sampled(100, 5e5)] * 20)
    assert of_samples([Sampled(100, 5e5)] * 20, 1e6).high > near.high


def test_a_sum_without_samples_is_bounded_by_their_distance() -> None:
    assert of_total(0, 0, 0, 1e6) == of_samples([], 1e6)
    near = of_total(1e7, 20, 100)
    far = of_total(1e7, 20, 100, 5e6)
    assert (far.value, far.low) == (near.value, near.low)
    assert far.high > near.high
