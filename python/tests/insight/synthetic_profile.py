"""Profiles of programs that never ran: what they allocate is made up and sampled as hakmem does."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hakmem.insight.profile import LIFETIME_MS, Block, Module, Profile, Site, TimePoint
from hakmem.insight.symbols import Frame, Symbols

INTERVAL = 512 << 10
SHOWN_MS = 5_000_000
CODE = 0x400000
MODULES = (Module(CODE, CODE + 0x100000, 0, "/opt/app/bin/app", "ab" * 20),)
FOREVER = np.inf


class NamedSymbols(Symbols):
    """Names as they were given; addresses are where they lie in one made-up program."""

    def __init__(self, modules: tuple[Module, ...], names: dict[int, str]) -> None:
        super().__init__(modules)
        self._given = names

    def _lookup(self, address: int) -> tuple[Frame, ...]:
        name = self._given[address]
        return (Frame(name, "app", f"/src/{name}.c", address - CODE),)


@dataclass
class _Drawn:
    """Of one site: sampled blocks, and what they stand for."""

    born: NDArray[np.float64]
    life: NDArray[np.float64]
    size: int
    weight: float


class Simulation:
    """A program that ran for `seconds` and is looked at now."""

    def __init__(self, seed: int = 1, seconds: float = 1000.0, interval: int = INTERVAL) -> None:
        self.seconds = seconds
        self.interval = interval
        self._random = np.random.default_rng(seed)
        self._stacks: list[tuple[str, ...]] = []
        self._drawn: list[list[_Drawn]] = []
        self._addresses: dict[str, int] = {}

    def site(self, *names: str) -> int:
        """A call stack, outermost first."""
        for name in names:
            self._addresses.setdefault(name, CODE + 16 * (len(self._addresses) + 1))
        self._stacks.append(names)
        self._drawn.append([])
        return len(self._stacks) - 1

    def allocate(
        self,
        site: int,
        size: int,
        count: int,
        span: tuple[float, float] | None = None,
        life: float = FOREVER,
        mean_life: float | None = None,
        until: float | None = None,
    ) -> None:
        """So many blocks, at random moments of `span`; only those that get sampled are drawn.

        They live for `life`, or for random times, or until a moment.
        """
        chance = -np.expm1(-size / self.interval)
        taken = int(self._random.binomial(count, chance))
        born = self._random.uniform(*(span or (0.0, self.seconds)), taken)
        lives = np.full(taken, life)
        if mean_life is not None:
            lives = self._random.exponential(mean_life, taken)
        if until is not None:
            lives = until - born
        self._drawn[site].append(_Drawn(born, lives, size, size / chance))

    def profile(self) -> Profile:
        sites = []
        blocks: list[Block] = []
        for index, drawn in enumerate(self._drawn):
            found = [block for one in drawn for block in self._blocks(index, one)]
            blocks += found
            if sum(len(one.born) for one in drawn):
                sites.append(self._site(index, drawn, found))
        live = sum(block.weight_bytes for block in blocks)
        moments = [SHOWN_MS + round(self.seconds * 10 * step) for step in range(101)]
        points = [
            TimePoint(
                ms=moment,
                live_bytes=sum(block.weight_bytes for block in blocks if block.born_ms <= moment),
                dirty_bytes=live // 20,
                held_bytes=live + live // 8,
            )
            for moment in moments
        ]
        return Profile(
            pid=4711,
            command="/opt/app/bin/app --serve",
            version="0.0-test",
            interval=self.interval,
            shown_ms=SHOWN_MS,
            now_ms=SHOWN_MS + round(self.seconds * 1000),
            settings={"retain": 2 << 20, "from_retain": 0, "profile": 1, "from_profile": 1},
            sites=tuple(sites),
            blocks=tuple(
                replace(block, address=0x10000 + 64 * i) for i, block in enumerate(blocks)
            ),
            timeline=tuple(points),
            modules=MODULES,
            page={
                "page_size": 4096,
                "samples": sum(s.samples for s in sites),
                "intervals": sum(s.samples for s in sites) * self.interval,
                "samples_lost": 0,
            },
            taken_at=1_700_000_000.0,
            source="process 4711",
        )

    @property
    def symbols(self) -> NamedSymbols:
        names = {address: name for name, address in self._addresses.items()}
        return NamedSymbols(MODULES, names)

    def _blocks(self, site: int, drawn: _Drawn) -> list[Block]:
        alive = drawn.born + drawn.life > self.seconds
        return [
            Block(
                address=0,
                size=drawn.size,
                usable=drawn.size + -drawn.size % 16,
                weight_bytes=round(drawn.weight),
                weight_objects=drawn.weight / drawn.size,
                born_ms=SHOWN_MS + int(born * 1000),
                site=site,
                tid=100 + site % 3,
            )
            for born in drawn.born[alive]
        ]

    def _site(self, index: int, drawn: list[_Drawn], live: list[Block]) -> Site:
        born = np.concatenate([one.born for one in drawn])
        ages = np.concatenate([one.life for one in drawn]) * 1000
        dead = ages[born + ages / 1000 <= self.seconds]
        lifetimes = np.bincount(np.searchsorted(LIFETIME_MS, dead, side="right"), minlength=8)
        total = sum(len(one.born) * one.weight for one in drawn)
        return Site(
            index=index,
            stack=tuple(self._addresses[name] for name in reversed(self._stacks[index])),
            live_bytes=sum(block.weight_bytes for block in live),
            live_objects=sum(block.weight_objects for block in live),
            live_rounding=0,
            total_bytes=round(total),
            total_objects=sum(len(one.born) * one.weight / one.size for one in drawn),
            peak_bytes=round(total),
            peak_objects=sum(len(one.born) * one.weight / one.size for one in drawn),
            peak_samples=sum(len(one.born) for one in drawn),
            tight_bytes=0,
            tight_objects=0.0,
            tight_samples=0,
            first_ms=SHOWN_MS + int(born.min() * 1000),
            last_ms=SHOWN_MS + int(born.max() * 1000),
            samples=len(born),
            live_samples=len(live),
            lifetimes=tuple(int(count) for count in lifetimes),
        )


def busy_program(seed: int = 1) -> Simulation:
    """One of each kind: a leak, tables, a cache that fills and stays, a working set, junk."""
    made = Simulation(seed)
    leak = made.site("main", "serve", "handle", "remember_session")
    tables = made.site("main", "load_tables", "read_table")
    cache = made.site("main", "serve", "handle", "cache_insert")
    work = made.site("main", "serve", "handle", "parse_request")
    junk = made.site("main", "serve", "log_line", "format_line")
    made.allocate(leak, 4096, 20_000)
    made.allocate(tables, 65_536, 1_000, (0, 2))
    made.allocate(cache, 16_384, 4_000, (0, 300))
    made.allocate(work, 32_768, 40_000, mean_life=20)
    made.allocate(junk, 200, 2_000_000, mean_life=0.01)
    return made
