"""A made-up machine on which searches are tried: what is planted is known, and each seed repeats.

As a program it prints how often the planted arm is found, for the figures of the decision page.
"""

import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from unittest import mock

import numpy as np

from hakmem.lab.model import Arm, Sample
from hakmem.tune import session
from hakmem.tune.goal import parse_goal
from hakmem.tune.ratings import Duel, Ratings
from hakmem.tune.session import Limits, Search

ARMS = 16
RUNS = 64


class Machine:
    """Times of runs: each arm's own; a drift, a random walk of 1 % a run and a slow swing of
    5 %; noise of 3 to 5 % a run; and 3 runs in 100 that something else makes 22 to 100 % longer.

    Memory is `memory` times as much in that arm, to 0.1 %.
    """

    def __init__(
        self, seed: int, costs: Sequence[float], noise: float | None = None, outliers: float = 0.03
    ) -> None:
        self.chance = np.random.default_rng(seed)
        self.costs = costs
        self.noise = self.chance.uniform(0.03, 0.05) if noise is None else noise
        self.outliers = outliers
        self.phase = self.chance.uniform(0, 2 * math.pi)
        self.level = 0.0
        self.runs = 0

    def __call__(self, arm: Arm) -> Sample:
        self.runs += 1
        self.level += self.chance.normal(0, 0.01)
        swing = 0.05 * math.sin(self.runs / 12 + self.phase)
        log = math.log(self.costs[int(arm.name)]) + self.level + swing
        log += self.chance.normal(0, self.noise)
        if self.chance.random() < self.outliers:
            log += self.chance.uniform(0.2, 0.7)
        memory = 50_000 * self.costs[int(arm.name)] * math.exp(self.chance.normal(0, 0.001))
        return Sample(time_s=math.exp(log), peak_rss_kib=memory)


class Stretches(Machine):
    """All arms equal and 0.4 % of noise a run, but in stretches of some 33 runs half of them take
    25 % longer: as where something else works on the machine now and then."""

    def __init__(self, seed: int, count: int) -> None:
        super().__init__(seed, [1.0] * count)
        self.busy = False

    def __call__(self, arm: Arm) -> Sample:
        if self.chance.random() < (0.03 if self.busy else 0.01):
            self.busy = not self.busy
        log = self.chance.normal(0, 0.004)
        if self.busy and self.chance.random() < 0.5:
            log += 0.22 + self.chance.normal(0, 0.02)
        return Sample(time_s=math.exp(log), peak_rss_kib=1000.0)


def arms(count: int = ARMS) -> list[Arm]:
    """Named by their numbers; 0 is the default."""
    return [Arm(str(number), "", None) for number in range(count)]


def planted(seed: int, cost: float = 0.9) -> tuple[int, list[float]]:
    """One of the arms, not the default, costs that; all others 1."""
    best = 1 + seed % (ARMS - 1)
    return best, [cost if number == best else 1.0 for number in range(ARMS)]


def search(
    machine: Callable[[Arm], Sample], seed: int, goal: str = "time", runs: int = RUNS
) -> Search:
    count = len(machine.costs) if isinstance(machine, Machine) else ARMS
    found = Search(arms(count), machine, parse_goal(goal), Limits(runs=runs), seed)
    found.tune()
    return found


def wins_only(count: int, duels: Sequence[Duel]) -> Ratings:
    """Bradley and Terry's own likelihood, of who won alone: to compare with."""
    design = np.zeros((len(duels), count))
    for row, duel in enumerate(duels):
        side = 1.0 if duel.margin > 0 else -1.0
        design[row, duel.first], design[row, duel.second] = side, -side
    strength = np.zeros(count)
    curvature = np.eye(count) / 1.5**2
    for _ in range(30):
        lost = 1 / (1 + np.exp(design @ strength))
        curvature = (design.T * (lost * (1 - lost))) @ design + np.eye(count) / 1.5**2
        strength = strength + np.linalg.solve(curvature, lost @ design - strength / 1.5**2)
    return Ratings(strength, np.linalg.inv(curvature), 1.0)


def least_squares(count: int, duels: Sequence[Duel]) -> Ratings:
    """The margins taken at their word, normal noise of 5.7 %: to compare with."""
    design = np.zeros((len(duels), count))
    for row, duel in enumerate(duels):
        design[row, duel.first], design[row, duel.second] = 1.0, -1.0
    margins = np.array([duel.margin for duel in duels])
    curvature = design.T @ design / 0.057**2 + np.eye(count) / 0.06**2
    strength = np.linalg.solve(curvature, margins @ design / 0.057**2)
    return Ratings(strength, np.linalg.inv(curvature), 0.03)


METHODS = {"graded": session.fit, "wins only": wins_only, "least squares": least_squares}


def trial(
    seed: int, method: str = "graded", noise: float | None = None, cost: float = 0.9
) -> tuple[bool, bool, bool]:
    """Whether the planted arm was found, was proven, and whether another one was."""
    best, costs = planted(seed, cost)
    with mock.patch.object(session, "fit", METHODS[method]):
        found = search(Machine(seed, costs, noise), seed)
        right = found.leader == best and cost != 1.0
        return right, right and found.proven, not right and found.proven


def claim(seed: int) -> tuple[bool, bool, int]:
    """Whether an arm is called better, whether that was confirmed, and the runs of the search."""
    found = search(Stretches(seed, ARMS + 1), seed, runs=400)
    return found.proven, found.confirmed, found.runs


def show_stretches(pool: ProcessPoolExecutor, trials: int) -> None:
    ran = list(pool.map(claim, range(trials)))
    claimed, confirmed, runs = (sum(column) for column in zip(*ran, strict=True))
    print(
        f"in stretches, all arms equal: {claimed} of {trials} proven, {confirmed} confirmed, "
        f"{runs / trials:.0f} runs in the mean",
        flush=True,
    )


def main() -> None:
    trials = int(sys.argv[1])
    cases: dict[str, dict[str, float]] = {
        "noise of 3 to 5 %": {},
        "3 %": {"noise": 0.03},
        "5 %": {"noise": 0.05},
        "all arms equal": {"cost": 1.0},
    }
    with ProcessPoolExecutor(2) as pool:
        show_stretches(pool, trials)
        for method in METHODS:
            for name, case in cases.items():
                if method != "graded" and "cost" in case:
                    continue
                ran = list(pool.map(partial(trial, method=method, **case), range(trials)))
                shares = [sum(column) / trials for column in zip(*ran, strict=True)]
                words = "found {:.3f}, proven {:.3f}, another proven {:.3f}".format(*shares)
                print(f"{method}, {name}: {words}", flush=True)


if __name__ == "__main__":
    main()
