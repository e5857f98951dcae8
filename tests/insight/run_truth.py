#!/usr/bin/env python3
"""Holds the heap profile against a program that knows what its call sites hold (truth.c).

run_truth.py --library PATH --program EXE

Some times with many samples, which must give each site's bytes to 5 %, and many times with few,
where the 95 % intervals must hold the truth about as often as they say. Exits with 0 if so, 1 if
not, 77 if the packages that name addresses are missing.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from programs import NotReadyError, parser_for, started, status_of, until_ready

if TYPE_CHECKING:
    from hakmem.insight.confidence import Interval

SITES = 3
# Some 4,500 samples a site tell its bytes to 1.2 % (one standard deviation): a right profile is off
# by 5 % once in 60,000 sites, and at two of 15 once in 40 million times.
FINE = "2K"
FINE_RUNS = 5
LEAST_SAMPLES = 10_000
OFF_BY = 0.05
OFF_MOST = 1
# Some 370 samples a site. If each interval misses the truth with a chance of 5 %, more than so many
# of the 180 do once in 2.7 million times; of intervals half as wide it would be 60.
COARSE = "32K"
COARSE_RUNS = 60
MISSES_MOST = 26
WIDTH_MOST = 0.4  # of so many samples 0.2 are to be expected; of 180 the widest had 0.22


class WrongError(Exception):
    """What the profile says cannot be."""


@dataclass(frozen=True)
class Compared:
    """A call site: what it holds, and what the profile says it does."""

    name: str
    truth: int
    told: Interval

    @property
    def off(self) -> float:
        return self.told.value / self.truth - 1

    @property
    def is_off(self) -> bool:
        return abs(self.off) > OFF_BY

    @property
    def is_covered(self) -> bool:
        return self.told.low <= self.truth <= self.told.high

    @property
    def width(self) -> float:
        """Of the interval, by what it is about."""
        return (self.told.high - self.told.low) / self.truth


def look(program: Path, library: Path, interval: str) -> list[Compared]:
    from hakmem.insight.attaching import attach
    from hakmem.insight.profile import from_area
    from hakmem.insight.symbols import Symbols
    from hakmem.insight.views import LIVE, sites_interval, stacks_of

    settings = {"HAKMEM_PROFILE_INTERVAL": interval, "HAKMEM_PROFILE_RATE": "1000000"}
    with (
        tempfile.TemporaryDirectory(prefix="truth-") as folder,
        started([str(program)], library, Path(folder), settings) as child,
    ):
        said = until_ready(child)
        profile = from_area(attach(child.pid))
    if profile.spacing != profile.interval:
        raise WrongError(f"samples are {profile.spacing:.0f} apart, not {profile.interval}")
    stacks = stacks_of(profile, Symbols(profile.modules))
    found = []
    for name, truth in re.findall(r"site (\w+) (\d+) ", said):
        # By frame pointers, what is behind the first frame may differ from call to call.
        sites = [site for s in stacks if s.culprit.function == name for site in s.sites]
        told = sites_interval(profile, sites, LIVE)
        if sum(site.live_bytes for site in sites) != round(told.value):
            raise WrongError(f"{name}: its row and its live blocks differ")
        found.append(Compared(name, int(truth), told))
    if len(found) != SITES:
        raise WrongError(f"{SITES} sites were expected, the program has said: {said}")
    return found


def try_fine(program: Path, library: Path) -> list[str]:
    found, off = [], []
    for _ in range(FINE_RUNS):
        sites = look(program, library, FINE)
        samples = sum(site.told.samples for site in sites)
        print(f"{samples} live samples:", *(f"{site.name} {site.off:+.2%}" for site in sites))
        if samples < LEAST_SAMPLES:
            found.append(f"only {samples} live samples")
        off += [f"{s.name}: {s.truth}, told {s.told.value:.0f}" for s in sites if s.is_off]
    return found + (off if len(off) > OFF_MOST else [])


def try_coarse(program: Path, library: Path) -> list[str]:
    sites = [site for _ in range(COARSE_RUNS) for site in look(program, library, COARSE)]
    missed = [site for site in sites if not site.is_covered]
    widest = max(sites, key=lambda site: site.width)
    held = len(sites) - len(missed)
    print(f"{held} of {len(sites)} intervals hold, the widest has {widest.width:.0%}")
    if widest.width > WIDTH_MOST:
        return [f"{widest.name}: an interval of {widest.width:.0%} says nothing"]
    if len(missed) <= MISSES_MOST:
        return []
    return [f"{s.name}: {s.truth}, told {s.told.low:.0f} to {s.told.high:.0f}" for s in missed]


def complaints(program: Path, library: Path) -> list[str]:
    try:
        return try_fine(program, library) + try_coarse(program, library)
    except (NotReadyError, WrongError) as error:
        return [str(error)]


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--program", type=Path, required=True, help="truth")
    args = parser.parse_args()
    return status_of(lambda: complaints(args.program.resolve(), args.library.resolve()))


if __name__ == "__main__":
    sys.exit(main())
