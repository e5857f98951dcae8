"""One measurement from beginning to end: arms checked, runs scheduled, instructions counted."""

import datetime
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hakmem.errors import HakmemError
from hakmem.lab import precise, steady
from hakmem.lab.execute import Executor, preload_problem
from hakmem.lab.goals import Goal
from hakmem.lab.host import describe_host
from hakmem.lab.model import Arm, Case, Metric, Results, Sample, metric_named
from hakmem.lab.schedule import Plan, Schedule, Settled
from hakmem.lab.statistics import Verdict, compare_samples, far_beyond_chance, paired_logs
from hakmem.lab.terminal import counting, watching
from hakmem.lab.timeline import watch_all
from hakmem.terminal import say


@dataclass(frozen=True)
class Question:
    """What is to be found out."""

    cases: Sequence[Case]
    arms: Sequence[Arm]
    subject: str
    plan: Plan
    # The metrics that must be clear before a case gets no more rounds.
    metrics: tuple[str, ...] = ("time_s",)
    precise: bool = False
    goals: Sequence[Goal] = ()
    live: Arm | None = None  # counts bytes, for the goals
    timelines: bool = True


def measure(question: Question, executor: Executor, command: str) -> Results:
    """Runs everything; arms that cannot be preloaded are named and left out."""
    arms = usable_arms(question.arms)
    counted = _counted(question)
    results = Results(describe_host(), now(), command)
    settled = settled_rule(question.subject, question.metrics)
    with watching(question.subject) as observer:
        schedule = Schedule(question.cases, arms, executor, question.plan, settled, observer)
        schedule.run()
    schedule.fill(results)
    if schedule.left_out:
        say(f"out of time, not measured: {', '.join(schedule.left_out)}")
    measured = [case for case in question.cases if case.name not in schedule.left_out]
    if question.timelines and measured:
        say("watching memory over time")
        watch_all(measured, arms, executor, results)
    if counted:
        with counting("counting instructions") as advance:
            results.rows += precise.measure(counted, arms, executor, advance)
    if question.live:
        _measure_for_goals(question, question.live, executor, results)
    return results


def _counted(question: Question) -> Sequence[Case]:
    """The cases under callgrind; that it is there is seen to before half an hour is spent."""
    cases = question.cases
    if not question.precise:
        cases = steady.counted_cases(question.goals, cases)
    counted = [case for case in cases if precise.can_be_precise(case)]
    if counted:
        precise.require_valgrind()
    return counted


def _measure_for_goals(question: Question, live: Arm, executor: Executor, results: Results) -> None:
    cases = [case for case in question.cases if case.name in results.benchmarks]
    subject = next((arm for arm in question.arms if arm.name == question.subject), None)
    if subject is None or subject.name not in results.arms:
        return
    with counting("page faults and live bytes") as advance:
        steady.measure(question.goals, cases, subject, executor, live, results, advance)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def usable_arms(arms: Sequence[Arm]) -> list[Arm]:
    usable = []
    for arm in arms:
        problem = preload_problem(arm, os.environ)
        if problem is None:
            usable.append(arm)
        else:
            say(f"{arm.name} is left out: {problem}")
    if len(usable) < 2:
        raise HakmemError("fewer than two allocators are left to compare")
    return usable


def settled_rule(subject: str, metrics: Sequence[str]) -> Settled:
    """Whether more rounds of a case would change what is said about the subject."""
    kinds = [metric_named(name) for name in metrics]

    def settled(_case: Case, runs: Mapping[str, Sequence[Sample | None]]) -> bool:
        own = runs.get(subject)
        if own is None:
            return False
        others = [samples for name, samples in runs.items() if name != subject]
        return all(_clear(kind, own, samples) for samples in others for kind in kinds)

    return settled


def _clear(
    metric: Metric, subject: Sequence[Sample | None], other: Sequence[Sample | None]
) -> bool:
    if any(sample is not None and sample.failed for sample in (*subject, *other)):
        return True  # of a side that failed there are no more runs
    series = [[_value(sample, metric.name) for sample in runs] for runs in (subject, other)]
    found = compare_samples(metric, *series)
    if found.negligible:
        return True
    logs = np.array(paired_logs(metric, *series))
    return found.verdict is not Verdict.CANNOT_TELL and far_beyond_chance(logs)


def _value(sample: Sample | None, metric: str) -> float | None:
    return sample.values().get(metric) if sample is not None else None
