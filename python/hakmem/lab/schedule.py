"""Which run comes when: rounds in random order, within a time budget, more where it is undecided.

A round of a case is one run under every arm, in random order and directly after each other, so
that a slow minute of the machine falls on all of them alike and their ratio stays what it is. The
cases of a round are in random order too.

Single-threaded benchmarks are pinned to one processor, the same one for all arms of a round and
the next one in the next round. A move to another processor in the middle of a run costs as much as
some of the differences looked for; a fixed processor for all rounds would measure that processor.
What has several threads, and every real program, is left to the kernel as it is in daily use.
"""

import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hakmem.lab.execute import Executor
from hakmem.lab.model import Arm, Case, Results, Sample, rows_of

# After these numbers of rounds it is looked whether a case is clear. Few and far between, because
# every look is a chance to be misled.
LOOKS = frozenset((6, 9, 13, 19, 28, 41))

Runs = dict[str, list[Sample | None]]
Settled = Callable[[Case, Mapping[str, Sequence[Sample | None]]], bool]


@dataclass(frozen=True)
class Plan:
    """How long to measure. With `rounds`, exactly so many; else until clear or out of time.

    Whatever the budget says, a case gets `least_rounds`, unless it is clear before.
    """

    budget_s: float = math.inf
    rounds: int | None = None
    least_rounds: int = 0
    most_rounds: int = 60
    seed: int = 1
    # Once per case is enough for the program's own pages; a single command can afford every arm.
    warm_every_arm: bool = False

    @property
    def limit(self) -> int:
        return self.rounds if self.rounds is not None else self.most_rounds


class Observer(Protocol):
    """Told what happens, to show it."""

    def begin(self, cases: Sequence[Case], arms: Sequence[Arm], plan: Plan) -> None: ...

    def step(self, case: Case, arm: Arm, round_number: int, left_s: float | None) -> None: ...

    def round_done(self, case: Case, runs: Mapping[str, Sequence[Sample | None]]) -> None: ...


class Silence:
    """An observer that shows nothing."""

    def begin(self, cases: Sequence[Case], arms: Sequence[Arm], plan: Plan) -> None:
        pass

    def step(self, case: Case, arm: Arm, round_number: int, left_s: float | None) -> None:
        pass

    def round_done(self, case: Case, runs: Mapping[str, Sequence[Sample | None]]) -> None:
        pass


@dataclass
class _Progress:
    """One case so far."""

    case: Case
    runs: Runs
    failed: set[str] = field(default_factory=set)
    rounds: int = 0
    # What a round of it takes, guessed from the warm-up at first.
    round_s: float = 0.0
    done: bool = False


@dataclass
class Schedule:
    cases: Sequence[Case]
    arms: Sequence[Arm]
    executor: Executor
    plan: Plan
    settled: Settled = lambda _case, _runs: False
    observer: Observer = field(default_factory=Silence)

    def __post_init__(self) -> None:
        self._order = random.Random(self.plan.seed)
        self._processors = sorted(os.sched_getaffinity(0))
        self._begun = time.monotonic()
        self._progress = [
            _Progress(case, {arm.name: [] for arm in self.arms}) for case in self.cases
        ]

    def run(self) -> None:
        self.observer.begin(self.cases, self.arms, self.plan)
        self._begun = time.monotonic()
        for progress in self._progress:
            self._warm_up(progress)
        for number in range(1, self.plan.limit + 1):
            active = [progress for progress in self._progress if not progress.done]
            if not active:
                break
            for progress in self._order.sample(active, len(active)):
                self._round(progress, number)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun

    @property
    def left_out(self) -> list[str]:
        """Cases there was no time for."""
        return [progress.case.name for progress in self._progress if not progress.rounds]

    def fill(self, results: Results) -> None:
        """Puts the rows of everything measured into `results`, and how it was measured."""
        for arm in self.arms:
            results.describe_arm(arm)
        for progress in self._progress:
            if progress.rounds:
                results.describe_case(progress.case)
                for arm in self.arms:
                    results.rows += rows_of(progress.case, arm, progress.runs[arm.name])
        rounds = {progress.case.name: progress.rounds for progress in self._progress}
        results.sections["method"] = {
            "seed": self.plan.seed,
            "rounds": rounds,
            "elapsed_s": round(self.elapsed_s, 1),
            "budget_s": None if math.isinf(self.plan.budget_s) else self.plan.budget_s,
            "left_out": self.left_out,
        }

    def _warm_up(self, progress: _Progress) -> None:
        """Not counted: brings the program and its data into the page cache.

        A failure is left for the first round to find and to report.
        """
        arms = self.arms if self.plan.warm_every_arm else self.arms[:1]
        begun = time.monotonic()
        for arm in arms:
            if self.elapsed_s < self.plan.budget_s:
                self._run(progress.case, arm, 0)
        progress.round_s = (time.monotonic() - begun) * len(self.arms) / len(arms)

    def _round(self, progress: _Progress, number: int) -> None:
        if not self._affordable(progress):
            progress.done = True
            return
        begun = time.monotonic()
        for arm in self._order.sample(self.arms, len(self.arms)):
            runs = progress.runs[arm.name]
            if arm.name in progress.failed:
                # Once is enough: a run that hangs takes the whole time-out.
                runs.append(None)
                continue
            sample = self._run(progress.case, arm, number)
            if sample.failed is not None:
                progress.failed.add(arm.name)
            runs.append(sample)
        progress.round_s = time.monotonic() - begun
        progress.rounds += 1
        self.observer.round_done(progress.case, progress.runs)
        progress.done = self._finished(progress)

    def _finished(self, progress: _Progress) -> bool:
        if len(progress.failed) == len(self.arms):
            return True
        if self.plan.rounds is not None or progress.rounds not in LOOKS:
            return False
        return self.settled(progress.case, progress.runs)

    def _affordable(self, progress: _Progress) -> bool:
        if progress.rounds < self.plan.least_rounds:
            return True
        return self.elapsed_s + progress.round_s <= self.plan.budget_s

    def _run(self, case: Case, arm: Arm, number: int) -> Sample:
        self.observer.step(case, arm, number, self._left_s())
        return self.executor.run(case, arm, cpu=self._processor(case, number))

    def _processor(self, case: Case, number: int) -> int | None:
        if case.threads != 1 or case.group != "benchmark":
            return None
        return self._processors[number % len(self._processors)]

    def _left_s(self) -> float | None:
        """The most it can still take: until the last round, or until the budget is used up."""
        waiting = [progress for progress in self._progress if not progress.done]
        if any(progress.round_s == 0.0 for progress in waiting):
            return None if math.isinf(self.plan.budget_s) else self._budget_left_s
        rest = sum(one.round_s * (self.plan.limit - one.rounds) for one in waiting)
        least = sum(one.round_s * (self.plan.least_rounds - one.rounds) for one in waiting)
        return max(least, min(rest, self._budget_left_s))

    @property
    def _budget_left_s(self) -> float:
        return max(0.0, self.plan.budget_s - self.elapsed_s)
