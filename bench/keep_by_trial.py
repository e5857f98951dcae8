#!/usr/bin/env python3
"""How long to keep freed memory: scored after the fact, or found by trial (UCB1 over the times).

Simulated. Memory falls free and is used again after a gap; to keep it for a time costs the shorter
of both, and KEEP_WORTH more if it was purged when it was wanted. Printed is the cost by that of the
best fixed time in hindsight, for programs of several kinds, after so many falls.

Example:  python3 bench/keep_by_trial.py
"""

import math
import random
import statistics

# Those of src/mind/keep.c, in milliseconds; what a change takes is a share of all there is to win.
TIMES = (0, 250, 500, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 12000, 16000)
KEEP_WORTH = 4000
MARGIN = 1 / 16
NEVER = 60_000
SEEDS = 20
FALLS = (10, 50, 400)


def cost(time: int, gap: float) -> float:
    return min(gap, time) + (KEEP_WORTH if gap >= time else 0)


def scored(gaps: list[float]) -> float:
    """Each gap says what every time would have cost."""
    would_have = dict.fromkeys(TIMES, 0.0)
    chosen, total = 0, 0.0
    for count, gap in enumerate(gaps, 1):
        total += cost(chosen, gap)
        for time in TIMES:
            would_have[time] += cost(time, gap)
        best = min(TIMES, key=would_have.__getitem__)
        if would_have[chosen] - would_have[best] > count * KEEP_WORTH * MARGIN:
            chosen = best
    return total


def by_trial(gaps: list[float]) -> float:
    """UCB1 (Auer, Cesa-Bianchi, Fischer 2002); rewards scaled to 0 .. 1."""
    pulls = [0] * len(TIMES)
    rewards = [0.0] * len(TIMES)
    total = 0.0
    for i, gap in enumerate(gaps):
        arm = i
        if i >= len(TIMES):
            bounds = [
                r / n + math.sqrt(2 * math.log(i) / n) for r, n in zip(rewards, pulls, strict=True)
            ]
            arm = bounds.index(max(bounds))
        spent = cost(TIMES[arm], gap)
        pulls[arm] += 1
        rewards[arm] += 1 - spent / (KEEP_WORTH + max(TIMES))
        total += spent
    return total


def programs(draw: random.Random, falls: int) -> dict[str, list[float]]:
    return {
        "a rhythm of 2.2 s": [draw.gauss(2200, 150) for _ in range(falls)],
        "half after 0.8 s, half never": [draw.choice((800, NEVER)) for _ in range(falls)],
        "never": [NEVER] * falls,
        "anything from 0.1 to 60 s": [100 * 600 ** draw.random() for _ in range(falls)],
    }


def main() -> None:
    print(f"{'':32}" + "".join(f"{falls:>8} falls      " for falls in FALLS))
    print(f"{'':32}" + "scored  by trial    " * len(FALLS))
    for name in programs(random.Random(0), 1):
        line = f"{name:32}"
        for falls in FALLS:
            ratios = []
            for seed in range(SEEDS):
                gaps = programs(random.Random(seed), falls)[name]
                best = min(sum(cost(time, gap) for gap in gaps) for time in TIMES)
                ratios.append((scored(gaps) / best, by_trial(gaps) / best))
            after, trial = (statistics.fmean(column) for column in zip(*ratios, strict=True))
            line += f"{after:6.2f}  {trial:8.2f}    "
        print(line)


if __name__ == "__main__":
    main()
