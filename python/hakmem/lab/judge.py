"""Holds a run against the goals: for each, its figure, whether it holds, and what decides."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem.lab.bounds import (
    Best,
    Position,
    State,
    amount_position,
    best_of_others,
    ratio_position,
    suite_position,
)
from hakmem.lab.goals import BY_PEERS, Goal, How
from hakmem.lab.model import Results, Row, metric_named
from hakmem.lab.statistics import geometric_mean, paired_logs

MOST_NAMES = 3


@dataclass(frozen=True)
class Part:
    """One of the comparisons a goal is made of, with a name such as "larson-8-128-1t, glibc"."""

    name: str
    position: Position
    # Of a comparison with the best peer: by the peer with the best median of all rounds.
    plain: float = math.nan


@dataclass(frozen=True)
class Judgement:
    """What a run says of one goal; `decided_by` is the part that decides."""

    goal: Goal
    state: State
    position: Position
    aim: State | None
    decided_by: str
    plain: float
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        position = self.position
        return {
            "name": self.goal.name,
            "how": str(self.goal.how),
            "bound": self.goal.bound,
            "aim": self.goal.aim,
            "measured": _or_none(position.value),
            "low": _or_none(position.low),
            "high": _or_none(position.high),
            "plain": _or_none(self.plain),
            "verdict": str(self.state),
            "aim_verdict": str(self.aim) if self.aim else None,
            "decided_by": self.decided_by,
            "notes": list(self.notes),
        }


def judge(
    results: Results, goals: Sequence[Goal], subject: str, whole: Mapping[str, str]
) -> list[Judgement]:
    """All goals. `whole` is the whole suite with the group of each benchmark: what a goal asks
    about and was not measured is named, and keeps it from holding."""
    rows = {(row.benchmark, row.allocator, row.metric): row for row in results.rows}
    return [_Bench(results, rows, goal, subject, whole).judgement() for goal in goals]


class _Bench:
    """One goal before the results."""

    def __init__(
        self,
        results: Results,
        rows: Mapping[tuple[str, str, str], Row],
        goal: Goal,
        subject: str,
        whole: Mapping[str, str],
    ) -> None:
        self.results = results
        self.rows = rows
        self.goal = goal
        self.subject = subject
        groups = {
            name: results.benchmarks.get(name, {}).get("group", "benchmark")
            for name in results.benchmark_names()
        }
        self.wanted = goal.among({**whole, **groups})
        present = results.allocator_names()
        self.peers = [peer for peer in goal.peers if peer in present and peer != subject]
        self.absent = [peer for peer in goal.peers if peer not in present]
        self.subject_failed: list[str] = []
        self.peer_failed: list[str] = []
        self.unmeasured: list[str] = []
        self.unknown: list[str] = []

    def judgement(self) -> Judgement:
        parts = list(self._parts(self.goal.bound))
        decisive = _decisive(parts)
        if decisive is None:
            notes = tuple(self._notes([]) or ["not measured"])
            state = State.FAILS if self.subject_failed else State.UNKNOWN
            return Judgement(self.goal, state, Position(), None, "", math.nan, notes)
        aim = None
        if self.goal.aim is not None:
            there = _decisive(list(self._parts(self.goal.aim)))
            aim = self._state(there) if there else State.UNKNOWN
        return Judgement(
            self.goal,
            self._state(decisive),
            decisive.position,
            aim,
            decisive.name,
            decisive.plain,
            tuple(self._notes(parts)),
        )

    def _state(self, decisive: Part) -> State:
        """What one part says is said of the goal, unless something is missing."""
        if self.subject_failed:
            return State.FAILS
        state = decisive.position.state
        partial = bool(self.unmeasured or self.unknown) or not self.wanted
        # A mean over a part of the suite is another mean; a single benchmark that fails, fails.
        if partial and self.goal.how in (How.SUITE_BY_EACH_PEER, How.SUITE_BY_BEST_PEER):
            return State.UNKNOWN
        if state is State.HOLDS and (partial or self.absent):
            return State.UNKNOWN
        return state

    def _parts(self, bound: float) -> Iterator[Part]:
        for names in (self.subject_failed, self.peer_failed, self.unmeasured, self.unknown):
            names.clear()
        compute: dict[How, Callable[[float], Iterator[Part]]] = {
            How.SUITE_BY_EACH_PEER: self._suite_by_each_peer,
            How.SUITE_BY_BEST_PEER: self._suite_by_best_peer,
            How.BENCHMARK_BY_BEST_PEER: self._benchmark_by_best_peer,
            How.BENCHMARK_BY_EACH_PEER: self._benchmark_by_each_peer,
            How.AMOUNT: self._amount,
            How.FAULTS_BY_LIVE_BYTES: self._faults_by_live_bytes,
        }
        return compute[self.goal.how](bound)

    # ---- the figures, one method for each `how` ----

    def _suite_by_each_peer(self, bound: float) -> Iterator[Part]:
        for peer in self.peers:
            for metric in self.goal.metrics:
                series = [
                    logs
                    for name in self._measured(metric)
                    if (logs := self._logs(name, metric, peer))
                ]
                yield Part(peer, suite_position(metric_named(metric), series, bound))

    def _suite_by_best_peer(self, bound: float) -> Iterator[Part]:
        for metric in self.goal.metrics:
            found = [best for _, best in self._bests(metric)]
            series = [best.logs for best in found if best.logs]
            plain = geometric_mean([best.plain for best in found])
            position = suite_position(metric_named(metric), series, bound)
            yield Part(f"{len(found)} benchmarks", position, plain)

    def _benchmark_by_best_peer(self, bound: float) -> Iterator[Part]:
        for metric in self.goal.metrics:
            for name, best in self._bests(metric):
                position = ratio_position(metric_named(metric), best.logs, bound)
                own = Part(f"{name}, {best.name}", position, best.plain)
                # Who is certainly beyond the bound of one peer is beyond that of the best, too,
                # also where it cannot be told which that is.
                lost = [] if position.state is State.FAILS else self._lost(name, metric, bound)
                yield max(lost, key=lambda part: part.position.value, default=own)

    def _lost(self, name: str, metric: str, bound: float) -> list[Part]:
        """The peers against which the bound is certainly not kept."""
        parts = [
            Part(f"{name}, {peer}", ratio_position(metric_named(metric), logs, bound))
            for peer in self.peers
            if (logs := self._logs(name, metric, peer))
        ]
        return [part for part in parts if part.position.state is State.FAILS]

    def _benchmark_by_each_peer(self, bound: float) -> Iterator[Part]:
        several = len(self.goal.metrics) > 1
        for metric in self.goal.metrics:
            for name in self._measured(metric):
                for peer in self.peers:
                    logs = self._logs(name, metric, peer)
                    title = f"{name}, {metric}, {peer}" if several else f"{name}, {peer}"
                    yield Part(title, ratio_position(metric_named(metric), logs, bound))

    def _amount(self, bound: float) -> Iterator[Part]:
        for metric in self.goal.metrics:
            for name in self._measured(metric):
                yield Part(name, amount_position(self._values(name, metric), bound))

    def _faults_by_live_bytes(self, bound: float) -> Iterator[Part]:
        goal, page = self.goal, self.results.host.get("page_size", 4096) / 1024
        for metric in goal.metrics:
            for name in self._measured(metric):
                about = self.results.benchmarks.get(name, {})
                if "peak_live_kib" not in about:
                    self.unmeasured.append(name)
                    continue
                allowed = goal.factor * about["peak_live_kib"] / page + goal.allowance
                tables = about.get("tables_kib", 0.0) / page
                values = [(faults - tables) / allowed for faults in self._values(name, metric)]
                yield Part(name, amount_position(values, bound))

    # ---- what they are made of ----

    def _measured(self, metric: str) -> Iterator[str]:
        """The benchmarks with figures of the subject; what has none is kept in mind."""
        for name in self.wanted:
            failed = self._failure(name, self.subject, metric)
            if failed is not None:
                _keep(self.subject_failed, f"{name} ({failed})")
            elif not self._values(name, metric):
                _keep(self.unmeasured, name)
            else:
                yield name

    def _failure(self, name: str, arm: str, metric: str) -> str | None:
        """Of a benchmark that never worked there is a row of times and no other."""
        rows = (self.rows.get((name, arm, one)) for one in (metric, "time_s"))
        return next((row.failed for row in rows if row and row.failed), None)

    def _values(self, name: str, metric: str) -> list[float]:
        row = self.rows.get((name, self.subject, metric))
        return row.values if row else []

    def _logs(self, name: str, metric: str, peer: str) -> tuple[float, ...]:
        """Nothing if the peer failed there or was not measured."""
        own, other = (self.rows.get((name, arm, metric)) for arm in (self.subject, peer))
        if own is None or other is None or not self._rated(name, metric, peer):
            return ()
        logs = paired_logs(metric_named(metric), own.samples, other.samples)
        if not logs:
            _keep(self.unknown, f"{name} on {peer}")
        return logs

    def _rated(self, name: str, metric: str, peer: str) -> bool:
        """A peer that fails is no rival there; one that was not run might have been."""
        failed = self._failure(name, peer, metric)
        row = self.rows.get((name, peer, metric))
        if failed is not None:
            _keep(self.peer_failed, f"{name} on {peer}")
        elif row is None or not row.values:
            _keep(self.unmeasured, f"{name} on {peer}")
        else:
            return True
        return False

    def _bests(self, metric: str) -> Iterator[tuple[str, Best]]:
        for name in self._measured(metric):
            own = self.rows[name, self.subject, metric]
            others = {
                peer: self.rows[name, peer, metric].samples
                for peer in self.peers
                if self._rated(name, metric, peer)
            }
            best = best_of_others(metric_named(metric), own.samples, others)
            if others and not best.logs:
                _keep(self.unknown, name)
            if best.name:
                yield name, best

    # ---- words ----

    def _notes(self, parts: Sequence[Part]) -> list[str]:
        said = []
        if self.subject_failed:
            said.append(f"{self.subject} failed: {_some(self.subject_failed)}")
        if len(parts) > 1:
            for state, words in ((State.FAILS, "beyond it"), (State.UNKNOWN, "undecided")):
                count = sum(part.position.state is state for part in parts)
                said += [f"{count} of {len(parts)} {words}"] if count else []
        if self.absent:
            said.append(f"without {', '.join(self.absent)}")
        if self.unmeasured:
            gone = [name for name in self.unmeasured if name in self.wanted]
            many = f"{len(gone)} of {len(self.wanted)} benchmarks"
            names = _some([name for name in self.unmeasured if name not in gone])
            here = many if len(gone) > MOST_NAMES else ", ".join(gone)
            said.append(f"not measured: {', '.join(filter(None, (here, names)))}")
        if self.unknown:
            said.append(f"no ratio: {_some(self.unknown)}")
        if self.peer_failed:
            said.append(f"failed: {_some(self.peer_failed)}")
        if self.goal.how in BY_PEERS and not self.peers:
            said.append("no peer to compare with")
        return said


def _keep(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _decisive(parts: Sequence[Part]) -> Part | None:
    """The highest figure of those that fail; without any, of those nobody can tell; else of all.
    Parts without a figure decide nothing; they only keep a goal from holding."""
    known = [part for part in parts if part.position.known]
    for state in (State.FAILS, State.UNKNOWN, State.HOLDS):
        there = [part for part in known if part.position.state is state]
        if there:
            return max(there, key=lambda part: part.position.value)
    return None


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
