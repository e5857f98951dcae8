"""Which two arms run next: those of which one is most likely to turn out the leader.

First a knock-out, which links all arms by duels and spends them on those that win. Then UCB1: to
each strength it adds what the arm may be better than it looks, sqrt(2 ln t) standard errors after t
pulls, and pulls the highest. In a duel two are pulled: that one, and whoever may beat it by most.
"""

import math
import random
from collections.abc import Iterable, Sequence

import numpy as np

from hakmem.tune.ratings import Duel, Ratings

Pair = tuple[int, int]


def next_pair(
    ratings: Ratings, arms: Sequence[int], duels: Sequence[Duel], chance: random.Random
) -> Pair:
    """Of the arms that still take part, in random order: who runs first has no advantage."""
    groups = linked(arms, duels)
    if len(groups) > 1:
        smallest = sorted(chance.sample(groups, len(groups)), key=len)[:2]
        pair = [leader(ratings, group) for group in smallest]
    else:
        pair = list(_most_hopeful(ratings, arms, len(duels)))
    first, second = chance.sample(pair, 2)
    return first, second


def linked(arms: Iterable[int], duels: Sequence[Duel]) -> list[list[int]]:
    """Arms that duels connect; two of different groups nobody can compare yet."""
    groups = {arm: [arm] for arm in arms}
    for duel in duels:
        one, other = groups.get(duel.first), groups.get(duel.second)
        if one is not None and other is not None and one is not other:
            one += other
            groups |= dict.fromkeys(other, one)
    return list({id(group): group for group in groups.values()}.values())


def leader(ratings: Ratings, arms: Sequence[int]) -> int:
    return arms[int(np.argmax(ratings.strength[list(arms)]))]


def _most_hopeful(ratings: Ratings, arms: Sequence[int], pulls: int) -> Pair:
    optimism = math.sqrt(2 * math.log(max(pulls, 2)))
    hopes = ratings.strength + optimism * ratings.errors()
    first = max(arms, key=lambda arm: hopes[arm])

    def against_first(arm: int) -> float:
        found = ratings.against(arm, first)
        return found.value + optimism * found.error

    return first, max((arm for arm in arms if arm != first), key=against_first)
