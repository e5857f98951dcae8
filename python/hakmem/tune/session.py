"""One search from beginning to end: duels until the leader is clear or the budget is spent."""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from hakmem.errors import HakmemError
from hakmem.lab.model import Arm, Sample
from hakmem.lab.statistics import beyond_chance, far_beyond_chance
from hakmem.tune.choice import Pair, leader, linked, next_pair
from hakmem.tune.goal import Goal
from hakmem.tune.ratings import Duel, Estimate, Ratings, fit, simultaneous

# For all arms together. A look after every duel may stop on better evidence only.
LEVEL = 0.95
INTERIM_LEVEL = 0.99
# What is said of an arm that ran less often is the prior's opinion more than the duels'.
FEWEST_DUELS = 3
# Of the leader against the default alone, once it seems clear: who leads was chosen by all others.
CONFIRMING_DUELS = 8
# The library as it is comes first.
DEFAULT = 0

Run = Callable[[Arm], Sample]


class Ending(StrEnum):
    """Why there were no more runs."""

    CLEAR = "it was clear"
    RUNS = "the runs were used up"
    BUDGET = "the time was used up"
    INTERRUPTED = "it was interrupted"
    ALONE = "no other arm worked"


@dataclass(frozen=True)
class Limits:
    budget_s: float = math.inf
    runs: int | None = None


class Observer(Protocol):
    """Told before each run, to show what is known."""

    def step(self, search: "Search", arm: Arm) -> None: ...


class Silence:
    """An observer that shows nothing."""

    def step(self, search: "Search", arm: Arm) -> None:
        pass


@dataclass
class Search:
    """The arms, what is known of them so far, and how to know more."""

    arms: Sequence[Arm]
    run: Run
    goal: Goal
    limits: Limits
    seed: int = 1
    observer: Observer = field(default_factory=Silence)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.samples: list[list[Sample]] = [[] for _ in self.arms]
        self.duels: list[Duel] = []
        self.failed: dict[int, str] = {}
        self.runs = 0
        self.ratings: Ratings = fit(len(self.arms), [])
        self.fresh: dict[int, list[float]] = {}
        self.ending: Ending | None = None
        self._chance = random.Random(self.seed)
        self._begun = self.clock()
        self._ended: float | None = None

    # ---- running ----

    def tune(self) -> None:
        try:
            self._warm_up()
            while (ending := self._reason_to_end()) is None:
                if self._is_clear:
                    self._confirm()
                else:
                    self._duel(*self._next_pair())
            self.ending = ending
        except KeyboardInterrupt:
            self.ending = Ending.INTERRUPTED
        self._ended = self.clock()

    def _warm_up(self) -> None:
        """Not rated: brings the program and its data into the page cache."""
        sample = self._one_run(DEFAULT)
        if sample.failed:
            raise HakmemError(f"the command does not work on hakmem as it is: {sample.failed}")

    def _next_pair(self) -> Pair:
        """Where it seems clear, whoever ran least gets a chance against the leader.

        Where not all can be compared, the first has the default in it: nothing could be said else.
        """
        if not self.duels and self._spent(len(self.working) - 1):
            return self._in_random_order(DEFAULT, self._chance.choice(self._others(DEFAULT)))
        if not self._seems_clear:
            return next_pair(self.ratings, self.working, self.duels, self._chance)
        best = self.leader
        return self._in_random_order(best, min(self._others(best), key=self.duels_of))

    def _others(self, one: int) -> list[int]:
        return [number for number in self.working if number != one]

    def _in_random_order(self, one: int, other: int) -> Pair:
        first, second = self._chance.sample((one, other), 2)
        return first, second

    def _confirm(self) -> None:
        """Duels of the leader and the default that had no part in choosing it."""
        best = self.leader
        margins = self.fresh.setdefault(best, [])
        for _ in range(CONFIRMING_DUELS):
            if self._spent() is not None or best in self.failed:
                return
            fought = len(self.duels)
            self._duel(*self._in_random_order(best, DEFAULT))
            margins += [
                duel.margin if duel.first == best else -duel.margin for duel in self.duels[fought:]
            ]

    def _duel(self, first: int, second: int) -> None:
        pair = []
        for number in (first, second):
            sample = self._one_run(number)
            if sample.failed:
                self._exclude(number, sample.failed)
                return
            pair.append(sample)
        margin = self.goal.margin(*pair)
        if not math.isfinite(margin):
            raise HakmemError(f"--goal {self.goal}: a run of this command has no such figure")
        self.samples[first].append(pair[0])
        self.samples[second].append(pair[1])
        self.duels.append(Duel(first, second, margin))
        self.ratings = fit(len(self.arms), self.duels)

    def _one_run(self, number: int) -> Sample:
        self.observer.step(self, self.arms[number])
        self.runs += 1
        return self.run(self.arms[number])

    def _exclude(self, number: int, failed: str) -> None:
        if number == DEFAULT:
            raise HakmemError(f"the command worked once on hakmem as it is, then not: {failed}")
        self.failed[number] = failed

    def _reason_to_end(self) -> Ending | None:
        if len(self.working) < 2:
            return Ending.ALONE
        if self._is_clear and (self.confirmed or not self._leads_the_default):
            return Ending.CLEAR
        return self._spent()

    def _spent(self, duels: int = 1) -> Ending | None:
        """Why there cannot be so many more."""
        runs = 2 * duels
        if self.limits.runs is not None and self.runs + runs > self.limits.runs:
            return Ending.RUNS
        if self.elapsed_s + runs * self.elapsed_s / max(self.runs, 1) > self.limits.budget_s:
            return Ending.BUDGET
        return None

    @property
    def _seems_clear(self) -> bool:
        return self.linked and self.settled(INTERIM_LEVEL)

    @property
    def _is_clear(self) -> bool:
        return self._seems_clear and min(map(self.duels_of, self.working)) >= FEWEST_DUELS

    @property
    def elapsed_s(self) -> float:
        return (self.clock() if self._ended is None else self._ended) - self._begun

    @property
    def left_s(self) -> float | None:
        """The most it can still take; None if only clarity ends it, or nothing is known yet."""
        left = self.limits.budget_s - self.elapsed_s
        if self.limits.runs is not None and self.runs:
            left = min(left, (self.limits.runs - self.runs) * self.elapsed_s / self.runs)
        return max(left, 0.0) if math.isfinite(left) else None

    # ---- what is known ----

    @property
    def working(self) -> list[int]:
        return [number for number in range(len(self.arms)) if number not in self.failed]

    def duels_of(self, number: int) -> int:
        return sum(number in (duel.first, duel.second) for duel in self.duels)

    @property
    def linked(self) -> bool:
        """Whether every arm can be compared with every other."""
        return len(linked(self.working, self.duels)) == 1

    @property
    def known(self) -> list[int]:
        """The arms that can be compared with the default, the strongest first."""
        groups = linked(self.working, self.duels)
        group = next((group for group in groups if DEFAULT in group), [])
        return sorted(group, key=lambda number: -self.ratings.strength[number])

    @property
    def leader(self) -> int:
        return leader(self.ratings, self.known)

    def z(self, level: float = LEVEL) -> float:
        return simultaneous(level, len(self.arms) - 1)

    def gain(self, number: int) -> Estimate:
        """How much stronger than the default."""
        return self.ratings.against(number, DEFAULT)

    @property
    def _leads_the_default(self) -> bool:
        return self._better(self.gain(self.leader), LEVEL)

    @property
    def confirmed(self) -> bool:
        """Whether duels of the leader and the default alone say so as well.

        As long as more may follow, each look is a chance to be misled.
        """
        margins = np.array(self.fresh.get(self.leader, []))
        if len(margins) < CONFIRMING_DUELS or margins.sum() <= 0:
            return False
        in_time = self.ending is not None or far_beyond_chance(margins)
        return in_time and beyond_chance(margins)

    @property
    def proven(self) -> bool:
        """Whether the leader is better than the default by what matters, beyond doubt."""
        looked = len(self.fresh.get(self.leader, [])) >= CONFIRMING_DUELS
        return self._leads_the_default and (self.confirmed or not looked)

    def rivals(self, level: float = LEVEL) -> list[int]:
        """Who may be better than the leader by what matters."""
        first = self.leader
        against = {n: self.ratings.against(n, first) for n in self.known if n != first}
        z = self.z(level)
        return [n for n, found in against.items() if found.bounds(z)[1] >= self.goal.least]

    def settled(self, level: float) -> bool:
        """Whether more runs would change neither who leads nor what is said of the default."""
        if self.rivals(level):
            return False
        gain = self.gain(self.leader)
        return gain.bounds(self.z(level))[1] < self.goal.least or self._better(gain, level)

    def _better(self, gain: Estimate, level: float) -> bool:
        return gain.value >= self.goal.least and gain.bounds(self.z(level))[0] > 0
