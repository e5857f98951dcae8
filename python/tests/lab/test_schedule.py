"""The order of runs, the time budget, and when a case gets no more rounds."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hakmem.errors import HakmemError
from hakmem.lab import precise, schedule, session
from hakmem.lab.execute import Executor
from hakmem.lab.model import Arm, Case, Results, Sample
from hakmem.lab.schedule import Plan, Schedule
from hakmem.lab.session import Question, settled_rule

ARMS = [Arm(name, "1", None) for name in ("glibc", "hakmem", "peer")]


def case(name: str, threads: int = 1) -> Case:
    return Case(name, (), threads, "op", "", "", ("true",), 60)


@dataclass
class Clock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(schedule, "time", clock)
    return clock


@dataclass
class Runs:
    """In the executor's place: notes what is run, and lets a second pass for each."""

    clock: Clock
    result: Callable[[Case, Arm], Sample] = lambda _case, _arm: Sample(time_s=1.0)
    seen: list[tuple[str, str, int | None]] = field(default_factory=list)

    def run(self, case: Case, arm: Arm, cpu: int | None = None) -> Sample:
        self.clock.now += 1.0
        self.seen.append((case.name, arm.name, cpu))
        return self.result(case, arm)


def measured(runs: Runs, cases: list[Case], plan: Plan, **others: object) -> Schedule:
    done = Schedule(cases, ARMS, runs, plan, **others)  # type: ignore[arg-type]
    done.run()
    return done


def test_arms_of_a_case_run_next_to_each_other(clock: Clock) -> None:
    runs = Runs(clock)
    measured(runs, [case("a"), case("b")], Plan(rounds=4))
    counted = runs.seen[2:]  # Behind one warm-up each.
    groups = [counted[at : at + 3] for at in range(0, len(counted), 3)]
    assert len(groups) == 8
    for group in groups:
        assert len({name for name, _, _ in group}) == 1
        assert {arm for _, arm, _ in group} == {"glibc", "hakmem", "peer"}


def test_a_case_gets_its_least_rounds_whatever_the_budget(clock: Clock) -> None:
    none, some = Runs(clock), Runs(clock)
    measured(none, [case("a")], Plan(budget_s=5.0))
    clock.now = 0.0
    measured(some, [case("a")], Plan(budget_s=5.0, least_rounds=4))
    assert len(none.seen) == 1 + 1 * 3  # One warm-up; the second round would end too late.
    assert len(some.seen) == 1 + 4 * 3


def test_order_is_random_and_repeatable(clock: Clock) -> None:
    def orders(seed: int) -> list[tuple[str, str]]:
        runs = Runs(clock)
        measured(runs, [case("a"), case("b"), case("c")], Plan(rounds=6, seed=seed))
        return [(name, arm) for name, arm, _ in runs.seen]

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_warm_up_is_not_counted(clock: Clock) -> None:
    runs = Runs(clock)
    results = Results({}, "", "")
    measured(runs, [case("a")], Plan(rounds=2, warm_every_arm=True)).fill(results)
    assert len(runs.seen) == 9
    assert {len(row.samples) for row in results.rows} == {2}


def test_budget_is_kept(clock: Clock) -> None:
    runs = Runs(clock)
    done = measured(runs, [case("a"), case("b")], Plan(budget_s=20))
    assert clock.now <= 20
    assert len(runs.seen) == 2 + 6 * 3
    assert done.left_out == []


def test_what_found_no_time_is_named(clock: Clock) -> None:
    names = [case(name) for name in "abcdef"]
    done = measured(Runs(clock), names, Plan(budget_s=12))
    assert len(done.left_out) == 4
    results = Results({}, "", "")
    done.fill(results)
    assert results.sections["method"]["left_out"] == done.left_out
    assert len(results.benchmark_names()) == 2


def test_failed_arm_is_not_tried_again(clock: Clock) -> None:
    def result(_case: Case, arm: Arm) -> Sample:
        return Sample(failed="crashed") if arm.name == "peer" else Sample(time_s=1.0)

    runs = Runs(clock, result)
    results = Results({}, "", "")
    measured(runs, [case("a")], Plan(rounds=5)).fill(results)
    assert [arm for _, arm, _ in runs.seen].count("peer") == 1
    row = results.row("a", "peer", "time_s")
    assert row is not None
    assert (row.failed, row.median, len(row.samples)) == ("crashed", None, 5)


def test_case_that_fails_everywhere_ends(clock: Clock) -> None:
    runs = Runs(clock, lambda _case, _arm: Sample(failed="no"))
    measured(runs, [case("a")], Plan(rounds=50))
    assert len(runs.seen) == 1 + 3


def test_time_goes_to_what_is_undecided(clock: Clock) -> None:
    runs = Runs(clock)
    done = measured(
        runs, [case("a"), case("b")], Plan(budget_s=100), settled=lambda case, _: case.name == "a"
    )
    results = Results({}, "", "")
    done.fill(results)
    rounds = results.sections["method"]["rounds"]
    assert rounds["a"] == min(schedule.LOOKS)
    assert rounds["b"] > 2 * rounds["a"]


def test_fixed_rounds_are_never_cut_short(clock: Clock) -> None:
    runs = Runs(clock)
    measured(runs, [case("a")], Plan(rounds=10), settled=lambda *_: True)
    assert len(runs.seen) == 1 + 10 * 3


def test_one_thread_is_pinned_alike_for_all_arms(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule.os, "sched_getaffinity", lambda _: {2, 5})
    runs = Runs(clock)
    measured(runs, [case("one"), case("two", threads=2)], Plan(rounds=4))
    pinned = [cpu for name, _, cpu in runs.seen[2:] if name == "one"]
    assert [set(pinned[at : at + 3]) for at in range(0, 12, 3)] == [{5}, {2}, {5}, {2}]
    assert {cpu for name, _, cpu in runs.seen if name == "two"} == {None}


def samples(middle: float, spread: float, seed: int) -> list[Sample | None]:
    noise = random.Random(seed)
    return [Sample(time_s=middle * (1 + noise.uniform(-spread, spread))) for _ in range(9)]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (samples(1.5, 0.01, 1), True),  # Clear.
        (samples(1.0, 0.001, 2), True),  # Clearly the same.
        (samples(1.02, 0.2, 3), False),  # Noise.
    ],
)
def test_settled(other: list[Sample | None], expected: bool) -> None:
    settled = settled_rule("hakmem", ("time_s",))
    runs = {"hakmem": samples(1.0, 0.001, 4), "peer": other}
    assert settled(case("a"), runs) is expected


def test_what_is_not_known_is_not_settled_unless_a_side_failed() -> None:
    settled = settled_rule("hakmem", ("ops_per_s",))
    runs: dict[str, list[Sample | None]] = {
        "hakmem": samples(1.0, 0.001, 4),
        "peer": samples(1.5, 0.01, 1),
    }
    assert settled(case("a"), runs) is False
    runs["peer"] = [Sample(failed="killed"), *[None] * 8]
    assert settled(case("a"), runs) is True
    runs["peer"] = [*samples(1.0, 0.2, 3)[:2], Sample(failed="killed"), *[None] * 6]
    assert settled(case("a"), runs) is True


def test_valgrind_is_asked_for_where_it_counts_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precise.shutil, "which", lambda _: None)
    threads = case("threads", threads=2)
    arms = (Arm("glibc", "", None), Arm("hakmem", "", None))
    question = Question([threads], arms, "hakmem", Plan(), precise=True)
    assert session._counted(question) == []
    assert precise.measure([threads], arms, Executor(Path("none")), lambda *_: None) == []
    alone = replace(threads, threads=1, precise=(("1",), ("2",)))
    with pytest.raises(HakmemError, match="valgrind"):
        session._counted(replace(question, cases=[alone, threads]))
