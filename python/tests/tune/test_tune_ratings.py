"""The likelihood fit, and the choice of the next pair."""

import math
import random

import numpy as np
import pytest

from hakmem.tune.choice import leader, linked, next_pair
from hakmem.tune.ratings import ELO, MEAN_ELO, Duel, fit, simultaneous


def duels(seed: int, strengths: list[float], each: int, noise: float) -> list[Duel]:
    """Everyone against everyone."""
    chance = np.random.default_rng(seed)
    return [
        Duel(a, b, strengths[a] - strengths[b] + chance.logistic(0, noise))
        for a in range(len(strengths))
        for b in range(a)
        for _ in range(each)
    ]


def test_strengths_and_noise_are_found_again() -> None:
    strengths = [0.0, 0.1, -0.05, 0.4]
    found = fit(4, duels(1, strengths, 40, 0.03))
    assert found.noise == pytest.approx(0.03, rel=0.15)
    for arm in (1, 2, 3):
        gain = found.against(arm, 0)
        assert abs(gain.value - strengths[arm]) < 3 * gain.error < 0.03


def test_elo_difference_is_the_chance_to_win() -> None:
    """400 points more: ten wins to one loss."""
    strength = 0.03 * math.log(10)
    many = duels(2, [strength, 0.0], 2000, 0.03)
    found = fit(2, many)
    apart = found.elo(0).value - found.elo(1).value
    assert apart == pytest.approx(400, rel=0.06)
    assert found.elo(0).value + found.elo(1).value == pytest.approx(2 * MEAN_ELO)
    wins = sum((duel.margin > 0) == (duel.first == 0) for duel in many)
    assert wins / len(many) == pytest.approx(1 / (1 + math.exp(-apart / ELO)), abs=0.02)


def test_disturbed_duels_weigh_little() -> None:
    quiet = duels(3, [0.0, 0.05, 0.0], 10, 0.01)
    disturbed = [*quiet, Duel(0, 1, 0.6), Duel(2, 1, 0.5)]
    for found in (fit(3, quiet), fit(3, disturbed)):
        assert found.against(1, 0).value == pytest.approx(0.05, abs=0.015)


def test_large_difference_that_repeats_is_no_disturbance() -> None:
    found = fit(2, [Duel(1, 0, 0.7), Duel(0, 1, -0.7), Duel(1, 0, 0.71)])
    assert found.against(1, 0).value == pytest.approx(0.7, abs=0.05)


def test_without_duels_nothing_is_known() -> None:
    found = fit(3, [])
    assert found.strength == pytest.approx([0, 0, 0])
    assert found.errors() == pytest.approx([found.errors()[0]] * 3)


def test_more_duels_narrow_the_interval() -> None:
    errors = [fit(2, duels(4, [0, 0.1], each, 0.04)).against(0, 1).error for each in (4, 16, 64)]
    assert errors[0] > 1.5 * errors[1] > 2.25 * errors[2]


def test_simultaneous_intervals_are_wider() -> None:
    assert simultaneous(0.95, 1) == pytest.approx(1.96, abs=0.001)
    assert simultaneous(0.95, 15) == pytest.approx(2.94, abs=0.01)


def test_knock_out_links_all_arms_first() -> None:
    """With n arms n - 1 duels, each between groups, of their strongest."""
    strengths = [0.0, 0.3, -0.2, 0.1, 0.2, -0.1, 0.05]
    chance, fought = random.Random(1), []
    arms = range(7)
    for _ in range(6):
        found = fit(7, fought)
        first, second = next_pair(found, arms, fought, chance)
        groups = {id(group): group for group in linked(arms, fought)}.values()
        mine, other = (next(g for g in groups if arm in g) for arm in (first, second))
        assert mine is not other
        assert leader(found, mine) == first
        assert leader(found, other) == second
        fought.append(Duel(first, second, strengths[first] - strengths[second]))
    assert len(linked(arms, fought)) == 1
    assert leader(fit(7, fought), arms) == 1


def test_arms_that_left_link_nobody() -> None:
    fought = [Duel(0, 1, 0.1), Duel(1, 2, 0.1)]
    assert len(linked([0, 2], fought)) == 2
    pair = next_pair(fit(3, fought), [0, 2], fought, random.Random(1))
    assert sorted(pair) == [0, 2]


def test_hopeless_arms_get_no_more_duels() -> None:
    fought = duels(5, [0.0, 0.01, -1.0, -1.0], 8, 0.01)
    found, chance = fit(4, fought), random.Random(1)
    assert {frozenset(next_pair(found, range(4), fought, chance)) for _ in range(5)} == {
        frozenset((0, 1))
    }
