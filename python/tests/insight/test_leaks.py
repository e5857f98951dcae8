"""Leak suspects: a planted leak is found and put in figures, and what is none is left alone."""

from collections.abc import Callable

import pytest
from synthetic_profile import Simulation, busy_program

from hakmem.insight.leaks import Suspect, suspects
from hakmem.insight.views import stacks_of

Fill = Callable[[Simulation, int], None]


def found(made: Simulation) -> list[Suspect]:
    profile = made.profile()
    return suspects(profile, stacks_of(profile, made.symbols))


def test_only_the_leak_is_found() -> None:
    (one,) = found(busy_program())
    assert one.stack.culprit.function == "remember_session"
    # 20,000 blocks of 4 KiB in 1000 s.
    truth = 20_000 * 4096 * 3.6
    assert one.growth.low < truth < one.growth.high
    assert one.survival == 1.0
    assert one.sentence().startswith("grows ") and "samples" in one.sentence()


def leak(made: Simulation, site: int) -> None:
    made.allocate(site, 4096, 10_000)


def leak_among_working_set(made: Simulation, site: int) -> None:
    made.allocate(site, 4096, 10_000)
    made.allocate(site, 4096, 90_000, mean_life=30)


def leak_after_tables(made: Simulation, site: int) -> None:
    made.allocate(site, 4096, 100_000, (0, 5))
    made.allocate(site, 4096, 10_000)


def leak_of_a_child(made: Simulation, site: int) -> None:
    """By a call stack that its parent had for hours before the fork."""
    made.allocate(site, 4096, 10_000, (-14_400, -14_000))
    made.allocate(site, 4096, 10_000)


def working_set(mean: float) -> Fill:
    def fill(made: Simulation, site: int) -> None:
        # Always some hundred samples alive.
        count = int(20_000 * made.seconds / mean)
        made.allocate(site, 4096, count, mean_life=mean)

    return fill


def steps(made: Simulation, site: int) -> None:
    """Ten phases; at its end each gives back all that it had."""
    length = made.seconds / 10
    for phase in range(10):
        end = (phase + 1) * length
        made.allocate(site, 4096, 10_000, (phase * length, end), until=end)


def queue(made: Simulation, site: int) -> None:
    """First in, first out: every block stays for a fifth of the time."""
    made.allocate(site, 4096, 50_000, life=made.seconds / 5)


def cache(made: Simulation, site: int) -> None:
    """Fills for half the time, then stays as it is."""
    made.allocate(site, 4096, 20_000, (0, made.seconds / 2))


def tables(made: Simulation, site: int) -> None:
    made.allocate(site, 4096, 50_000, (0, 10))


def late_tables(made: Simulation, site: int) -> None:
    """Made just now, in 2 % of the time."""
    made.allocate(site, 4096, 50_000, (0.98 * made.seconds, made.seconds))


SEEDS = range(100)
NO_LEAKS = {
    "of a second": working_set(1),
    "of a tenth": working_set(100),
    "of a quarter": working_set(250),
    "steps": steps,
    "queue": queue,
    "cache": cache,
    "tables": tables,
    "late tables": late_tables,
}


def share_found(fill: Fill) -> float:
    hits = 0
    for seed in SEEDS:
        made = Simulation(seed)
        fill(made, made.site("main", "work"))
        hits += bool(found(made))
    return hits / len(SEEDS)


@pytest.mark.parametrize("fill", NO_LEAKS.values(), ids=NO_LEAKS)
def test_what_is_no_leak_is_left_alone(fill: Fill) -> None:
    assert share_found(fill) <= 0.02


@pytest.mark.parametrize("fill", [leak, leak_among_working_set, leak_after_tables, leak_of_a_child])
def test_leaks_are_found(fill: Fill) -> None:
    assert share_found(fill) >= 0.9


def test_a_child_has_grown_since_it_began() -> None:
    made = Simulation()
    leak_of_a_child(made, made.site("main", "work"))
    (one,) = found(made)
    assert 0 <= one.since_ms < 100_000
    assert one.growth.low < 10_000 * 4096 * 3.6 < one.growth.high


def test_few_samples_say_nothing() -> None:
    made = Simulation()
    made.allocate(made.site("main", "seldom"), 4096, 1_000)
    assert made.profile().sites[0].live_samples < 16
    assert not found(made)


def test_the_surest_growth_comes_first() -> None:
    made = Simulation()
    for name, count in (("slow", 5_000), ("fast", 50_000)):
        made.allocate(made.site("main", name), 4096, count)
    assert [one.stack.culprit.function for one in found(made)] == ["fast", "slow"]


def test_growth_interval_holds_its_promise() -> None:
    """The true growth lies within the interval in about 95 of 100 programs."""
    inside = 0
    for seed in SEEDS:
        made = Simulation(seed)
        made.allocate(made.site("main", "work"), 4096, 20_000)
        inside += any(one.growth.low < 20_000 * 4096 * 3.6 < one.growth.high for one in found(made))
    assert inside >= 90
