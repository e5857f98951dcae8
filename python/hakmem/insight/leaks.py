"""Leak suspects: call stacks whose blocks keep surviving, whenever they were allocated.

The time since a site's first sample is cut into four periods. What was allocated in each of them
and is still there tells sites apart: tables made at the start survive from the first period alone,
a working set from the last, a cache that is full from those in which it filled. Only what grows
survives from all of them. docs/insight/leaks.md has the reasons and the limits.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem.insight.confidence import Interval, of_samples
from hakmem.insight.profile import Block, Profile
from hakmem.insight.views import Stack
from hakmem.insight.words import count_text, growth_text, percent_text, time_text

PERIODS = 4
# Of each period: with fewer, chance alone leaves periods empty or full.
LEAST_SAMPLES = 4
# The period with the least survivors, by the median of all: even growth has about 1, and what is
# freed after a third of the time 0.3.
LEAST_EVENNESS = 0.5
LEAST_WINDOW_MS = 1000
# A site that has only just begun, by the age of its process.
LEAST_PART_OF_LIFE = 0.05
HOUR_MS = 3_600_000.0


@dataclass(frozen=True)
class Suspect:
    """A stack that grows: `growth` in bytes per hour, `since_ms` from the start of the process."""

    stack: Stack
    growth: Interval
    since_ms: int
    survival: float
    periods: tuple[float, ...]

    def sentence(self) -> str:
        share = percent_text(self.survival)
        return (
            f"grows {growth_text(self.growth.value)} (at least {growth_text(self.growth.low)}) "
            f"since {time_text(self.since_ms)}: {share} of what it allocated is still there; "
            f"{count_text(self.stack.site.live_samples)} samples"
        )


def suspects(profile: Profile, stacks: Sequence[Stack]) -> list[Suspect]:
    """The surest growth first."""
    found = [one for one in (_suspect(profile, stack) for stack in stacks) if one is not None]
    return sorted(found, key=lambda one: -one.growth.low)


def _suspect(profile: Profile, stack: Stack) -> Suspect | None:
    # The child of a fork has call stacks and blocks of its parent's, which are tables to it.
    begin = max(stack.site.first_ms, profile.shown_ms)
    window = profile.now_ms - begin
    if window < max(LEAST_WINDOW_MS, LEAST_PART_OF_LIFE * profile.age_ms):
        return None
    blocks = [block for site in stack.sites for block in profile.blocks_of.get(site.index, ())]
    periods = by_period([block for block in blocks if block.born_ms >= begin], begin, window)
    if min(map(len, periods)) < LEAST_SAMPLES:
        return None
    rates = [sum(block.weight_bytes for block in period) for period in periods]
    if min(rates) < LEAST_EVENNESS * statistics.median(rates):
        return None
    # The first has what is made at the start, the last what is soon freed: neither is growth.
    middle = sorted(periods, key=lambda period: sum(block.weight_bytes for block in period))[1:-1]
    length = window / PERIODS * len(middle)
    survived = of_samples(block.sampled for period in middle for block in period)
    return Suspect(
        stack=stack,
        growth=survived.scaled(HOUR_MS / length),
        since_ms=begin - profile.shown_ms,
        survival=min(1.0, stack.site.live_bytes / max(1, stack.site.total_bytes)),
        periods=tuple(float(rate) for rate in rates),
    )


def by_period(blocks: Sequence[Block], begin: int, window: int) -> list[list[Block]]:
    """The blocks by when they were allocated, oldest first."""
    periods: list[list[Block]] = [[] for _ in range(PERIODS)]
    for block in blocks:
        index = (block.born_ms - begin) * PERIODS // window
        periods[min(max(index, 0), PERIODS - 1)].append(block)
    return periods
