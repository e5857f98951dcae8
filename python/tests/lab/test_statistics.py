"""How often verdicts are wrong and how often they are found, on made-up noise; and the edges.

All noise comes from fixed seeds: these tests end the same way on any machine, however busy.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from hakmem.lab import statistics as lab
from hakmem.lab.model import METRICS, Arm, Case, Results, Sample, metric_named, rows_of
from hakmem.lab.statistics import Verdict, compare_samples

Noise = Callable[[Generator, int], NDArray[np.float64]]
TIME = METRICS["time_s"]
RSS = METRICS["peak_rss_kib"]
OPS = METRICS["ops_per_s"]
ARMS = 8


def quiet(generator: Generator, rounds: int, sigma: float = 0.015) -> NDArray[np.float64]:
    return sigma * generator.standard_normal((rounds, 2))


def heavy(generator: Generator, rounds: int, sigma: float = 0.015) -> NDArray[np.float64]:
    """Student's t with 2 degrees of freedom: its variance is not even finite."""
    return sigma * generator.standard_t(2, (rounds, 2))


def skewed(generator: Generator, rounds: int) -> NDArray[np.float64]:
    return 0.03 * generator.exponential(1.0, (rounds, 2))


def stolen(generator: Generator, rounds: int) -> NDArray[np.float64]:
    """Now and then the host takes the processor away for a good part of a run."""
    lost = generator.random((rounds, 2)) < 0.12
    return quiet(generator, rounds) + lost * generator.exponential(0.3, (rounds, 2))


def two_modes(generator: Generator, rounds: int) -> NDArray[np.float64]:
    """A run either gets its huge pages or does not."""
    return quiet(generator, rounds, 0.004) + 0.05 * (generator.random((rounds, 2)) < 0.5)


def drifting(generator: Generator, rounds: int) -> NDArray[np.float64]:
    """A random walk over all runs of all allocators; within a round they come in random order."""
    walk = np.cumsum(0.01 * generator.standard_normal((rounds, ARMS)), axis=None)
    shuffled = generator.permuted(walk.reshape(rounds, ARMS), axis=1)
    return shuffled[:, :2] + quiet(generator, rounds, 0.01)


NOISES: list[Noise] = [
    quiet,
    partial(quiet, sigma=0.04),
    heavy,
    skewed,
    stolen,
    two_modes,
    drifting,
]


def verdicts(noise: Noise, rounds: int, shift: float, count: int, seed: int) -> list[Verdict]:
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        subject, base = np.exp(noise(generator, rounds)).T
        found.append(compare_samples(TIME, list((1 + shift) * subject), list(base)).verdict)
    return found


@pytest.mark.parametrize("rounds", [3, 4, 5, 6, 7, 8, 10, 12])
def test_false_alarms_are_rare_whatever_the_noise(rounds: int) -> None:
    count = 40 if rounds > 9 else 120
    alarms = [
        sum(verdict is not Verdict.CANNOT_TELL for verdict in verdicts(noise, rounds, 0, count, 11))
        for noise in NOISES
    ]
    total = count * len(NOISES)
    assert sum(alarms) <= 0.03 * total
    # With a true rate of 2.5 % and 120 trials, more than 8 would come once in 250 times.
    assert max(alarms) <= max(8, 0.05 * count)


@pytest.mark.parametrize(
    ("rounds", "shift", "at_least"),
    [(8, 0.03, 0.7), (8, -0.03, 0.7), (12, 0.03, 0.85), (5, 0.06, 0.7)],
)
def test_a_true_shift_is_found(rounds: int, shift: float, at_least: float) -> None:
    count = 60 if rounds > 9 else 200
    right = Verdict.WORSE if shift > 0 else Verdict.BETTER
    wrong = Verdict.BETTER if shift > 0 else Verdict.WORSE
    found = verdicts(quiet, rounds, shift, count, 12)
    assert found.count(right) >= at_least * count
    assert wrong not in found


@pytest.mark.parametrize("noise", [quiet, heavy, drifting])
@pytest.mark.parametrize("rounds", [6, 8])
def test_the_interval_covers_the_truth(noise: Noise, rounds: int) -> None:
    generator = np.random.default_rng(13)
    inside = 0
    for _ in range(200):
        subject, base = np.exp(noise(generator, rounds)).T
        found = compare_samples(TIME, list(1.1 * subject), list(base))
        inside += found.low <= 1.1 <= found.high
    assert inside >= 0.92 * 200


def arm(name: str) -> Arm:
    return Arm(name, "1", None)


def case(name: str) -> Case:
    return Case(name, (), 1, "pair", "", "", ("true",), 1.0)


def made_up(values: dict[str, dict[str, list[float | None]]]) -> Results:
    """Results of time from benchmark -> allocator -> samples; None is a failed run."""
    results = Results({}, "", "")
    for benchmark, arms in values.items():
        for name, times in arms.items():
            samples = [Sample(failed="killed") if t is None else Sample(time_s=t) for t in times]
            rows = rows_of(case(benchmark), arm(name), samples)
            results.rows += [row for row in rows if row.metric == "time_s"]
    return results


def suite_verdict(
    generator: Generator, shift: float, benchmarks: int, rounds: int, mixed: float = 0.0
) -> Verdict:
    values: dict[str, dict[str, list[float | None]]] = {}
    # Benchmarks may differ wildly from each other, in effects that cancel out.
    effects = np.linspace(-mixed, mixed, benchmarks)
    for number, effect in enumerate(effects):
        noise = quiet(generator, rounds, generator.uniform(0.02, 0.04))
        subject, base = np.exp(noise).T
        factor = (1 + shift) * math.exp(effect)
        values[f"b{number}"] = {"a": list(factor * subject), "b": list(base)}
    return lab.compare_suite(made_up(values), "time_s", "a", "b").verdict


def test_a_small_shift_of_a_whole_suite_is_found() -> None:
    generator = np.random.default_rng(14)
    found = [suite_verdict(generator, 0.03, 22, 6) for _ in range(40)]
    assert found.count(Verdict.WORSE) >= 39
    found = [suite_verdict(generator, -0.03, 22, 6, mixed=0.7) for _ in range(20)]
    assert found.count(Verdict.BETTER) >= 19


@pytest.mark.parametrize(("benchmarks", "rounds"), [(2, 3), (2, 6), (5, 5), (22, 6)])
def test_false_alarms_of_a_suite_are_rare(benchmarks: int, rounds: int) -> None:
    generator = np.random.default_rng(15)
    count = 150
    found = [suite_verdict(generator, 0.0, benchmarks, rounds) for _ in range(count)]
    assert count - found.count(Verdict.CANNOT_TELL) <= 0.04 * count


def test_constant_memory_is_certain_or_not_worth_a_word() -> None:
    more = compare_samples(RSS, [105.0] * 5, [100.0] * 5)
    assert more.verdict is Verdict.WORSE
    assert (more.ratio, more.low, more.high) == pytest.approx((1.05, 1.05, 1.05))
    hardly = compare_samples(RSS, [100.1] * 5, [100.0] * 5)
    assert hardly.verdict is Verdict.CANNOT_TELL and hardly.negligible
    same = compare_samples(RSS, [100.0] * 5, [100.0] * 5)
    assert same.verdict is Verdict.CANNOT_TELL and same.negligible and same.ratio == 1.0
    two = compare_samples(RSS, [105.0] * 2, [100.0] * 2)
    assert two.verdict is Verdict.CANNOT_TELL and not two.negligible


def test_memory_that_is_mostly_the_same_is_not_worse() -> None:
    found = compare_samples(RSS, [105.0, 100, 105, 100, 105, 105, 105], [100.0] * 7)
    assert found.verdict is Verdict.CANNOT_TELL and not found.negligible


def test_ties_do_not_hide_a_difference() -> None:
    found = compare_samples(RSS, [105.0, 105, 105, 106, 105, 105, 106, 105], [100.0] * 8)
    assert found.verdict is Verdict.WORSE


def test_a_tiny_difference_is_no_verdict_however_sure() -> None:
    base = [1.0 + 0.0001 * n for n in range(12)]
    found = compare_samples(TIME, [1.005 * value for value in base], base)
    assert found.verdict is Verdict.CANNOT_TELL and found.negligible


def test_more_operations_per_second_are_better() -> None:
    found = compare_samples(OPS, [120.0] * 6, [100.0] * 6)
    assert found.verdict is Verdict.BETTER
    assert found.ratio == pytest.approx(1 / 1.2)


def test_pairs_are_by_round_and_gaps_cost_both() -> None:
    subject = [1.1, None, 2.2, 3.3, math.nan, 4.4, 5.5]
    base = [1.0, 9.0, 2.0, 3.0, 1.0, None, 5.0]
    found = compare_samples(TIME, subject, base)
    assert found.n == 4
    assert found.ratio == pytest.approx(1.1)


def test_nothing_in_common_is_not_known() -> None:
    found = compare_samples(TIME, [1.0, None], [None, 1.0])
    assert not found.known and found.verdict is Verdict.CANNOT_TELL
    assert found.as_json()["ratio"] is None


def test_one_round_has_no_interval() -> None:
    found = compare_samples(TIME, [2.0], [1.0])
    assert (found.n, found.verdict) == (1, Verdict.CANNOT_TELL)
    assert found.ratio == pytest.approx(2.0)
    assert math.isnan(found.low) and math.isnan(found.high)


def test_counts_of_zero_can_be_compared() -> None:
    faults = METRICS["major_faults"]
    assert compare_samples(faults, [0.0] * 6, [0.0] * 6).ratio == 1.0
    assert compare_samples(faults, [8.0] * 6, [0.0] * 6).verdict is Verdict.WORSE
    assert compare_samples(METRICS["sys_s"], [0.0] * 6, [0.0005] * 6).ratio == 1.0


def test_one_count_of_instructions_is_enough() -> None:
    counted = METRICS["instructions_per_op"]
    assert compare_samples(counted, [100.6], [100.0]).verdict is Verdict.WORSE
    assert compare_samples(counted, [100.4], [100.0]).verdict is Verdict.CANNOT_TELL
    assert compare_samples(counted, [99.0], [100.0]).verdict is Verdict.BETTER


def test_minimum_effect_goes_by_unit() -> None:
    assert lab.minimum_effect(TIME) == 0.01
    assert lab.minimum_effect(metric_named("rss_end_kib")) == 0.005


def test_the_same_samples_give_the_same_figures() -> None:
    subject, base = np.exp(quiet(np.random.default_rng(1), 9)).T
    first = compare_samples(TIME, list(subject), list(base))
    lab._compare_logs.cache_clear()
    assert compare_samples(TIME, list(subject), list(base)) == first


STEADY: list[float | None] = [1.0] * 6
SLOWER: list[float | None] = [1.1] * 6


def test_failures_are_named_and_left_out_of_the_mean() -> None:
    results = made_up(
        {
            "sound": {"a": SLOWER, "b": STEADY},
            "fine": {"a": SLOWER, "b": STEADY},
            "crash": {"a": [None] * 6, "b": STEADY},
            "flaky": {"a": [1.1, None, 1.1, 1.1, 1.1, 1.1], "b": STEADY},
            "alone": {"b": STEADY},
        }
    )
    crash = lab.compare(results, "crash", "time_s", "a", "b")
    assert not crash.known and crash.failed == "a: killed"
    assert lab.compare(results, "crash", "peak_rss_kib", "a", "b").failed == "a: killed"
    flaky = lab.compare(results, "flaky", "time_s", "a", "b")
    assert flaky.n == 5 and flaky.failed == "a: 1 of 6 runs: killed"
    assert flaky.known and not flaky.sound and flaky.verdict is Verdict.CANNOT_TELL
    suite = lab.compare_suite(results, "time_s", "a", "b")
    assert suite.named(Verdict.WORSE) == ["sound", "fine"] and suite.n == 2
    assert set(suite.left_out) == {"crash", "flaky", "alone"}
    assert suite.ratio == pytest.approx(1.1) and suite.verdict is Verdict.WORSE
    assert suite.as_json()["benchmarks"]["sound"]["verdict"] == "worse"


def test_a_suite_of_one_is_that_one_and_of_none_unknown() -> None:
    results = made_up({"one": {"a": SLOWER, "b": STEADY}})
    suite = lab.compare_suite(results, "time_s", "a", "b")
    one = lab.compare(results, "one", "time_s", "a", "b")
    assert (suite.ratio, suite.verdict, suite.n) == (one.ratio, one.verdict, 1)
    assert not lab.compare_suite(results, "time_s", "a", "c").known


def test_the_mean_is_geometric() -> None:
    results = made_up(
        {"half": {"a": [0.5] * 6, "b": STEADY}, "double": {"a": [2.0] * 6, "b": STEADY}}
    )
    suite = lab.compare_suite(results, "time_s", "a", "b")
    assert suite.ratio == pytest.approx(1.0) and suite.verdict is Verdict.CANNOT_TELL
    assert suite.benchmarks["half"].verdict is Verdict.BETTER


def test_distance_to_the_best() -> None:
    results = made_up(
        {
            "x": {"a": [1.0] * 3, "b": [2.0] * 3, "c": [1.0] * 3},
            "y": {"a": [4.0] * 3, "b": [2.0] * 3, "c": [None] * 3},
        }
    )
    found = lab.distance_to_best(results, "time_s")
    assert found["a"].benchmarks == pytest.approx({"x": 1.0, "y": 2.0})
    assert found["a"].geomean == pytest.approx(math.sqrt(2))
    assert found["c"].benchmarks == {"x": 1.0} and found["c"].missing == ("y",)
    assert math.isnan(lab.distance_to_best(results, "time_s", ["d"])["d"].geomean)


def test_distance_turns_with_the_metric() -> None:
    results = Results({}, "", "")
    for name, ops in (("a", 100), ("b", 50)):
        results.rows += rows_of(case("x"), arm(name), [Sample(time_s=1.0, ops=ops)])
    found = lab.distance_to_best(results, "ops_per_s")
    assert (found["a"].geomean, found["b"].geomean) == pytest.approx((1.0, 2.0))
