"""The goals that bench/goals.toml names, and which benchmarks each of them asks about."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from hakmem.clone import Clone
from hakmem.errors import HakmemError
from hakmem.lab.forms import read_toml


class How(StrEnum):
    """How a goal's figure is computed; the file's head explains each."""

    SUITE_BY_EACH_PEER = "suite_by_each_peer"
    SUITE_BY_BEST_PEER = "suite_by_best_peer"
    BENCHMARK_BY_BEST_PEER = "benchmark_by_best_peer"
    BENCHMARK_BY_EACH_PEER = "benchmark_by_each_peer"
    AMOUNT = "amount"
    FAULTS_BY_LIVE_BYTES = "faults_by_live_bytes"


BY_PEERS = frozenset(How) - {How.AMOUNT, How.FAULTS_BY_LIVE_BYTES}


@dataclass(frozen=True)
class Goal:
    """A [[goal]] table; `peers` those of the file unless it names its own."""

    name: str
    how: How
    metrics: tuple[str, ...]
    bound: float
    aim: float | None = None
    benchmarks: str = ""
    group: str = ""
    peers: tuple[str, ...] = ()
    factor: float = 1.0
    allowance: float = 0.0

    def among(self, groups: Mapping[str, str]) -> list[str]:
        """Those of the benchmarks, given with the group of each, that the goal asks about."""
        pattern = re.compile(self.benchmarks)
        return [
            name
            for name, group in groups.items()
            if pattern.search(name) and self.group in ("", group)
        ]


def goals_file(clone: Clone) -> Path:
    return clone.root / "bench" / "goals.toml"


def whole_suite(clone: Clone) -> dict[str, str]:
    """Every benchmark and real program of the full suite, with its group."""
    from hakmem.lab.suite import read as read_suite
    from hakmem.lab.suite import suite_file
    from hakmem.lab.workload_catalogue import WORKLOADS

    benchmarks = {one.name: "benchmark" for one in read_suite(suite_file(clone))}
    return benchmarks | {one.name: "program" for one in WORKLOADS}


def read(path: Path) -> list[Goal]:
    form = read_toml(path)
    peers = tuple(form.get("peers", ()))
    goals = [_goal(path, table, peers) for table in form.get("goal", [])]
    names = [goal.name for goal in goals]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins or not goals:
        raise HakmemError(f"{path}: more than one goal is named {twins[0]}" if twins else
                          f"{path} names no goal")  # fmt: skip
    return goals


def _goal(path: Path, table: Mapping[str, Any], peers: Sequence[str]) -> Goal:
    where = f"{path}: goal '{table.get('name', '?')}'"
    known = {field.name for field in fields(Goal)}
    unknown = sorted(table.keys() - known)
    lacking = sorted({"name", "how", "metrics", "bound"} - table.keys())
    if unknown or lacking:
        said = f"has unknown keys: {', '.join(unknown)}" if unknown else f"lacks {lacking[0]}"
        raise HakmemError(f"{where} {said}")
    try:
        how = How(table["how"])
        re.compile(table.get("benchmarks", ""))
    except (ValueError, re.error) as error:
        raise HakmemError(f"{where}: {error}") from error
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}
    goal = Goal(**({"peers": tuple(peers) if how in BY_PEERS else ()} | values | {"how": how}))
    if how in BY_PEERS and not (goal.peers and goal.bound > 0):
        raise HakmemError(f"{where}: a ratio needs peers and a bound above 0")
    return goal
