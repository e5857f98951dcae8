"""Goals: known answers on made-up results, what is missing or failed, and the file itself."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hakmem.clone import Clone
from hakmem.errors import HakmemError
from hakmem.lab import suite
from hakmem.lab.bounds import State, amount_position, best_of_others, ratio_position
from hakmem.lab.goals import BY_PEERS, Goal, How, goals_file, read, whole_suite
from hakmem.lab.judge import Judgement, judge
from hakmem.lab.model import METRICS, Arm, Case, Results, Row, metric_named, row_for
from hakmem.lab.tables import goal_cells, goals

ROOT = Path(__file__).resolve().parents[3]
TIME = METRICS["time_s"]
PEERS = ("glibc", "jemalloc")
# Six rounds of a quiet machine: enough for a verdict on a few percent.
NOISE = (1.0, 1.004, 0.996, 1.002, 0.998, 1.001)
Figures = Mapping[str, Mapping[str, float | Sequence[float | None] | str]]


def results_of(figures: Figures, metric: str = "time_s", group: str = "benchmark") -> Results:
    """{benchmark: {allocator: factor on the noise, or samples, or why it failed}}."""
    results = Results({"page_size": 4096}, "2026-01-01T00:00:00+00:00", "hakmem bench --goals")
    for benchmark, arms in figures.items():
        case = Case(benchmark, (), 1, "", "", "", (), 1)
        results.describe_case(case)
        results.benchmarks[benchmark]["group"] = group
        for place, (name, figure) in enumerate(arms.items()):
            arm = Arm(name, "", None)
            results.describe_arm(arm)
            results.rows.append(_row(case, arm, metric, figure, place))
    return results


def _row(
    case: Case, arm: Arm, metric: str, figure: float | Sequence[float | None] | str, place: int
) -> Row:
    if isinstance(figure, str):
        return row_for(case, arm, "time_s", [None], figure)
    if isinstance(figure, float):
        # Each allocator has its noise in another order: ratios are not all alike.
        figure = [figure * one for one in NOISE[place % 6 :] + NOISE[: place % 6]]
    return row_for(case, arm, metric, list(figure))


def goal(how: How, bound: float, **more: object) -> Goal:
    peers = PEERS if how in BY_PEERS else ()
    values: dict[str, Any] = {"metrics": ("time_s",), "bound": bound, "peers": peers} | more
    return Goal("g", how, **values)


def judged(results: Results, one: Goal, whole: Sequence[str] = ()) -> Judgement:
    return judge(results, [one], "hakmem", dict.fromkeys(whole, "benchmark"))[0]


TWO = {
    "a": {"hakmem": 0.8, "glibc": 1.0, "jemalloc": 2.0},
    "b": {"hakmem": 0.9, "glibc": 1.0, "jemalloc": 0.75},
}


@pytest.mark.parametrize(
    ("how", "bound", "state", "value", "decided_by"),
    [
        # glibc: sqrt(.8 * .9) = .849; jemalloc: sqrt(.4 * 1.2) = .693
        (How.SUITE_BY_EACH_PEER, 0.95, State.HOLDS, 0.849, "glibc"),
        (How.SUITE_BY_EACH_PEER, 0.80, State.FAILS, 0.849, "glibc"),
        (How.SUITE_BY_EACH_PEER, 0.849, State.UNKNOWN, 0.849, "glibc"),
        # The best are glibc on a and jemalloc on b: sqrt(.8 * 1.2) = .980
        (How.SUITE_BY_BEST_PEER, 1.05, State.HOLDS, 0.980, "2 benchmarks"),
        (How.SUITE_BY_BEST_PEER, 0.90, State.FAILS, 0.980, "2 benchmarks"),
        (How.BENCHMARK_BY_BEST_PEER, 1.25, State.HOLDS, 1.2, "b, jemalloc"),
        (How.BENCHMARK_BY_BEST_PEER, 1.10, State.FAILS, 1.2, "b, jemalloc"),
        (How.BENCHMARK_BY_EACH_PEER, 1.00, State.FAILS, 1.2, "b, jemalloc"),
        (How.BENCHMARK_BY_EACH_PEER, 1.50, State.HOLDS, 1.2, "b, jemalloc"),
    ],
)
def test_ratios(how: How, bound: float, state: State, value: float, decided_by: str) -> None:
    found = judged(results_of(TWO), goal(how, bound), ["a", "b"])
    assert (found.state, found.decided_by) == (state, decided_by), found
    assert found.position.value == pytest.approx(value, rel=0.01)
    assert found.position.low <= found.position.value <= found.position.high


def test_the_aim_has_a_verdict_of_its_own() -> None:
    found = judged(results_of(TWO), goal(How.SUITE_BY_EACH_PEER, 0.95, aim=0.80))
    assert (found.state, found.aim) == (State.HOLDS, State.FAILS)
    entry = judged(results_of(TWO), goal(How.SUITE_BY_EACH_PEER, 0.95, aim=0.90)).as_json()
    assert "holds, so does the aim" in goal_cells(entry)


@pytest.mark.parametrize("how", sorted(BY_PEERS))
def test_a_missing_peer_is_named_and_keeps_a_goal_from_holding(how: How) -> None:
    one = goal(how, 1.3, peers=("glibc", "jemalloc", "tcmalloc"))
    found = judged(results_of(TWO), one)
    assert found.state is State.UNKNOWN
    assert "without tcmalloc" in found.notes
    # It cannot make up for what is lost already.
    lost = judged(results_of(TWO), goal(how, 0.5, peers=("glibc", "jemalloc", "tcmalloc")))
    assert lost.state is State.FAILS


def test_a_part_of_the_suite_decides_on_no_mean_but_on_what_fails() -> None:
    suite_of = judged(results_of(TWO), goal(How.SUITE_BY_EACH_PEER, 0.5), ["a", "b", "c"])
    assert suite_of.state is State.UNKNOWN
    assert any("not measured: c" in note for note in suite_of.notes)
    single = judged(results_of(TWO), goal(How.BENCHMARK_BY_EACH_PEER, 1.0), ["a", "b", "c"])
    assert single.state is State.FAILS
    held = judged(results_of(TWO), goal(How.BENCHMARK_BY_EACH_PEER, 1.5), ["a", "b", "c"])
    assert held.state is State.UNKNOWN


def test_a_crash_of_the_subject_fails_every_goal_and_a_peers_does_not() -> None:
    for how in BY_PEERS:
        own = judged(results_of({**TWO, "c": {"hakmem": "SIGSEGV", "glibc": 1.0}}), goal(how, 9.0))
        assert own.state is State.FAILS, how
        assert any("hakmem failed: c (SIGSEGV)" in note for note in own.notes)
        others = {"hakmem": 0.9, "glibc": 1.0, "jemalloc": "no end within 1 s"}
        peer = judged(results_of({**TWO, "c": others}), goal(how, 9.0))
        assert peer.state is State.HOLDS, how
        assert "failed: c on jemalloc" in peer.notes


def test_nothing_measured() -> None:
    found = judged(results_of(TWO), goal(How.AMOUNT, 36.0, metrics=("page_faults",)), ["a", "b"])
    assert (found.state, found.as_json()["measured"]) == (State.UNKNOWN, None)
    assert found.notes == ("not measured: a, b",)


def test_amounts() -> None:
    counts = {"x": {"hakmem": [35.0]}, "y": {"hakmem": [31.0]}}
    results = results_of(counts, "malloc_instructions_per_op")
    one = goal(How.AMOUNT, 36.0, metrics=("malloc_instructions_per_op",), aim=30.0)
    found = judged(results, one)
    assert (found.state, found.aim, found.decided_by) == (State.HOLDS, State.FAILS, "x")
    faults = results_of({"x": {"hakmem": [2e-6, 3e-5, 8e-6]}}, "steady_faults_per_op")
    one = goal(How.AMOUNT, 1e-5, metrics=("steady_faults_per_op",), aim=0)
    assert judged(faults, one).state is State.UNKNOWN
    assert amount_position([0.0, 0.0], 0).state is State.HOLDS


def test_misses_are_counted_and_need_no_second_round() -> None:
    results = results_of({"a": {"hakmem": [1.2], "glibc": [1.0]}}, "d1_misses_per_op")
    one = goal(How.BENCHMARK_BY_EACH_PEER, 1.0, metrics=("d1_misses_per_op",), peers=("glibc",))
    found = judged(results, one)
    assert (found.state, found.decided_by) == (State.FAILS, "a, glibc")
    assert found.position.value == pytest.approx(1.2)


@pytest.mark.parametrize(("faults", "state"), [(1500, State.HOLDS), (1900, State.FAILS)])
def test_faults_by_live_bytes(faults: float, state: State) -> None:
    """1,000 pages live and 100 of tables: 1.15 * 1,000 + 500 + 100 = 1,750."""
    results = results_of({"a": {"hakmem": [faults, faults + 4]}}, "page_faults")
    one = goal(
        How.FAULTS_BY_LIVE_BYTES, 1.0, metrics=("page_faults",), factor=1.15, allowance=500.0
    )
    assert judged(results, one).state is State.UNKNOWN
    results.benchmarks["a"] |= {"peak_live_kib": 4000.0, "tables_kib": 400.0}
    found = judged(results, one)
    assert found.state is state
    assert found.position.low == pytest.approx((faults - 100) / 1650)


def test_several_metrics_and_groups() -> None:
    results = results_of({"l": {"hakmem": 2.0, "glibc": 1.0}}, "free_p999_ns")
    results.rows += results_of({"l": {"hakmem": 1.0, "glibc": 1.0}}, "malloc_p999_ns").rows
    metrics = ("malloc_p999_ns", "free_p999_ns")
    one = goal(How.BENCHMARK_BY_EACH_PEER, 1.0, metrics=metrics, peers=("glibc",))
    assert judged(results, one).decided_by == "l, free_p999_ns, glibc"
    programs = goal(How.BENCHMARK_BY_EACH_PEER, 1.0, metrics=metrics, group="program")
    assert not math.isfinite(judged(results, programs).position.value)


def test_who_is_best_is_chosen_without_the_round_it_is_used_in() -> None:
    """Seven equal rivals: by the luckiest of them one looks slow, by hindsight alone."""
    generator = np.random.default_rng(5)
    plain, fair = [], []
    for _ in range(200):
        times = np.exp(0.03 * generator.standard_normal((8, 6)))
        others = {f"p{place}": list(row) for place, row in enumerate(times[1:])}
        best = best_of_others(TIME, list(times[0]), others)
        plain.append(math.log(best.plain))
        fair.append(float(np.median(best.logs)))
    assert np.mean(plain) > 0.012
    assert abs(float(np.mean(fair))) < 0.004


def test_a_clear_best_is_found_whatever_is_missing() -> None:
    others: dict[str, list[float | None]] = {
        "slow": [2.0, 2.0, 2.0, None],
        "fast": [0.5, None, 0.5, 0.5],
        "gone": [None, None, None, None],
    }
    best = best_of_others(TIME, [1.0, 1.0, 1.0, 1.0], others)
    assert best.name == "fast"
    assert np.exp(best.logs) == pytest.approx([2.0, 0.5, 2.0, 2.0])
    assert best.plain == pytest.approx(2.0)
    assert best_of_others(TIME, [1.0], {}).logs == ()


def test_equal_arms_seldom_pass_or_fail_a_bound_of_one() -> None:
    generator = np.random.default_rng(11)
    for rounds in (3, 5, 8):
        states = [
            ratio_position(TIME, list(0.02 * generator.standard_normal(rounds)), 1.0).state
            for _ in range(150)
        ]
        assert sum(state is not State.UNKNOWN for state in states) <= 8, rounds


def test_one_who_is_beyond_a_peer_is_beyond_the_best() -> None:
    """Two peers that are best by turns: which is better cannot be told, that both are can."""
    figures = {
        "hakmem": [6.0, 6.1, 5.9, 6.0, 6.05, 5.95],
        "glibc": [1.0, 1.01, 0.99, 1.0, 1.0, 1.0],
        "jemalloc": [0.2, 5.0, 0.3, 4.0, 0.2, 5.0],
    }
    found = judged(results_of({"a": figures}), goal(How.BENCHMARK_BY_BEST_PEER, 1.25))
    assert found.state is State.FAILS


def test_the_table_names_all_of_it() -> None:
    results = results_of(TWO)
    assert goals(results) is None
    found = judge(results, [goal(How.SUITE_BY_BEST_PEER, 1.05, aim=1.0)], "hakmem", {})
    results.sections["goals"] = [one.as_json() for one in found]
    table = goals(Results.from_json(results.as_json()))
    assert table is not None
    assert "1 of 1 hold" in str(table.title)
    cells = goal_cells(results.sections["goals"][0])
    assert cells[1:4] == ["1.05", "1.00", "0.98"]
    assert cells[5:7] == ["holds, so does the aim", "2 benchmarks"]
    assert "plain 0.98" in cells[7]


# ---- the file ----


def test_every_goal_of_the_file_asks_about_something_there_is() -> None:
    clone = Clone(ROOT)
    whole = whole_suite(clone)
    named = {benchmark.name for benchmark in suite.read(suite.suite_file(clone))}
    for one in read(goals_file(clone)):
        assert one.among(whole), one.name
        assert one.bound > 0, one.name
        assert one.aim is None or one.aim <= one.bound, one.name
        assert all(metric_named(metric).better == "lower" for metric in one.metrics)
        if "steady_faults_per_op" in one.metrics:
            # Else it could never hold.
            lengths = {
                case.name
                for case in suite.read(suite.suite_file(clone))
                if case.quick or case.shorter
            }
            assert set(one.among(whole)) <= lengths
        if "d1_misses_per_op" in one.metrics or "malloc_instructions_per_op" in one.metrics:
            precise = {b.name for b in suite.read(suite.suite_file(clone)) if b.precise}
            assert set(one.among(whole)) <= precise & named, one.name


GOAL = 'peers = ["glibc"]\n[[goal]]\nname = "n"\nhow = "amount"\nmetrics = ["time_s"]\nbound = 1\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no goal"),
        (GOAL + GOAL.partition("\n")[2], "more than one goal is named n"),
        (GOAL + "limit = 3\n", "unknown keys: limit"),
        (GOAL.replace("bound = 1", ""), "lacks bound"),
        (GOAL.replace("amount", "magic"), "goal 'n': 'magic' is not a valid How"),
        (GOAL + 'benchmarks = "("\n', "goal 'n'"),
        (GOAL.replace("amount", "suite_by_each_peer").replace("= 1", "= 0"), "a bound above 0"),
        ("bound", "not well-formed"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "goals.toml"
    path.write_text(text)
    with pytest.raises(HakmemError, match=said.replace("(", r"\(")):
        read(path)


NEVER: tuple[None, ...] = (None,) * 6


@pytest.mark.parametrize("how", sorted(BY_PEERS))
def test_what_has_no_ratio_keeps_a_goal_from_holding(how: How) -> None:
    """Each was measured, but in no round both."""
    first, last = (1.0, 1.0, 1.0, *NEVER[:3]), (*NEVER[:3], 1.0, 1.0, 1.0)
    apart = {"hakmem": first, "glibc": last, "jemalloc": last}
    found = judged(results_of({**TWO, "c": apart}), goal(how, 9.0))
    assert found.state is State.UNKNOWN
    assert any(note.startswith("no ratio: c") for note in found.notes), found.notes
    if how in (How.BENCHMARK_BY_BEST_PEER, How.BENCHMARK_BY_EACH_PEER):
        assert judged(results_of({**TWO, "c": apart}), goal(how, 1.0)).state is State.FAILS


def test_a_percentile_of_nothing_is_a_figure() -> None:
    """On a clock of coarse steps most calls take no time."""
    none, some = (0.0,) * 6, (20.0,) * 6
    one = goal(How.BENCHMARK_BY_EACH_PEER, 1.0, metrics=("free_p999_ns",), peers=("glibc",))
    for own, other, state in ((none, some, State.HOLDS), (some, none, State.FAILS)):
        made = results_of({"a": {"hakmem": own, "glibc": other}}, "free_p999_ns")
        assert judged(made, one).state is state
