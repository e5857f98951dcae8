"""What the mind has decided, and what came of it."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hakmem.insight.area import Area, Row, number, numbers
from hakmem.insight.naming import Naming, naming_of
from hakmem.insight.narrow import Fitted
from hakmem.insight.words import percent_text, size_text, time_text

KIB = 1024
# What touching a KiB anew costs, as in docs/decisions/0047.
TOUCH_US_PER_KIB = 0.22
MS_PER_S = 1000
NS_PER_US = 1000
# In place of a size: the rule of keys that have none of their own.
ANY_SIZE = 1
# Blocks from here on have keys by powers of two.
LEAST = 256 * KIB
# Columns of rules that go first where there is too little room: costs, then gains.
SPARE = (4, 3, 2)


class Policy(IntEnum):
    """src/mind/log.h: enum policy."""

    KEEP = 0
    MAGAZINE = 1
    HUGE = 2


@dataclass(frozen=True)
class Rule:
    """A key: blocks of a size, perhaps of one call site; and how long their pages are kept."""

    least_bytes: int
    site: str  # what calls for it; empty: by size alone
    signature: int  # of its call stack, the same in each run; 0: by size alone
    is_loaded: bool  # it began with what an earlier run had learnt
    keep_ms: int
    saved_bytes: int
    vain_bytes: int
    held_byte_s: int
    # Used again, by the shortest time that would have kept it; first what none would have.
    kib: tuple[int, ...]

    @property
    def name(self) -> str:
        return name_of(self.least_bytes, self.site)


def _cost_text(us: float) -> str:
    return f"{us:.3g} us" if us < MS_PER_S else f"{us / MS_PER_S:.3g} ms"


def _shadow_text(is_shadow: bool) -> str:
    return " (shadow)" if is_shadow else ""


def name_of(least_bytes: int, site: str) -> str:
    if not least_bytes:
        return "blocks of size classes"
    if least_bytes == ANY_SIZE:
        return "blocks of which nothing is known"
    sizes = f"blocks of {size_text(least_bytes)} to {size_text(2 * least_bytes)}"
    return f"{sizes} of {site}" if site else sizes


@dataclass(frozen=True)
class Decision:
    """For how long a kind of freed memory keeps its pages from then on."""

    after_ms: int  # since the process began to show what it does
    rule: Rule
    from_ms: int
    to_ms: int
    is_shadow: bool
    episodes: int
    gap_ms: int
    reused_bytes: int
    seen_bytes: int

    @property
    def saved_us(self) -> float:
        """What each time saves, if it goes on as it went."""
        return self.reused_bytes / KIB * TOUCH_US_PER_KIB / max(1, self.episodes)

    def sentence(self) -> str:
        times = f"{time_text(self.from_ms)} -> {time_text(self.to_ms)}"
        return f"keep {self.rule.name} {times}{_shadow_text(self.is_shadow)}: {self._reason()}"

    def as_json(self) -> dict[str, Any]:
        saved = {"saved_us": round(self.saved_us, 1)}
        return {"policy": "keep"} | vars(self) | {"rule": self.rule.name} | saved

    def _reason(self) -> str:
        share = percent_text(self.reused_bytes / max(1, self.seen_bytes))
        longer = time_text(max(self.from_ms, self.to_ms))
        words = f"{share} of {size_text(self.seen_bytes)} were used again within {longer}"
        if self.reused_bytes:
            words += f", after {time_text(self.gap_ms)} in the mean"
        if self.to_ms > self.from_ms:
            words += f"; saves {_cost_text(self.saved_us)} each time"
        return words


@dataclass(frozen=True)
class Growth:
    """A thread's magazine of a class becomes longer."""

    after_ms: int
    block_bytes: int
    from_slots: int
    to_slots: int
    is_shadow: bool
    swings: int

    def sentence(self) -> str:
        reason = (
            f"{self.swings} times it ran over, and then was emptied in one go"
            if self.swings
            else "the setting 'magazines' wants it"
        )
        slots = f"{self.from_slots} -> {self.to_slots} slots{_shadow_text(self.is_shadow)}"
        return f"a magazine of {self.block_bytes} B blocks {slots}: {reason}"

    def as_json(self) -> dict[str, Any]:
        return {"policy": "magazine"} | vars(self)


@dataclass(frozen=True)
class Whole:
    """Whether big blocks of a size may have huge pages: if they are touched as a whole."""

    after_ms: int
    least_bytes: int
    may_be_huge: bool
    is_shadow: bool
    touched: float  # share of the pages of those looked at

    def sentence(self) -> str:
        shadow = _shadow_text(self.is_shadow)
        may = "may" if self.may_be_huge else "may not"
        blocks = name_of(self.least_bytes, "")
        share = percent_text(self.touched)
        return f"{blocks} {may} have huge pages{shadow}: {share} of their pages are touched"

    def as_json(self) -> dict[str, Any]:
        return {"policy": "whole"} | vars(self)


@dataclass(frozen=True)
class Price:
    """Which pages they get: those whose first touch is cheaper."""

    after_ms: int
    is_huge: bool
    huge_ns: int
    small_ns: int

    def sentence(self) -> str:
        pages = "huge" if self.is_huge else "small"
        huge, small = (_cost_text(ns / NS_PER_US) for ns in (self.huge_ns, self.small_ns))
        return f"{pages} pages: 2 MiB cost {huge} with huge and {small} with small ones"

    def as_json(self) -> dict[str, Any]:
        return {"policy": "huge"} | vars(self)


AnyDecision = Decision | Growth | Whole | Price


@dataclass(frozen=True)
class Mind:
    rules: tuple[Rule, ...]
    # Oldest first.
    decisions: tuple[AnyDecision, ...]
    # When times are counted from; of a process that has ended nobody knows.
    began: datetime | None
    learns: bool = True

    def when(self, decision: AnyDecision) -> str:
        if self.began is None:
            return f"after {time_text(decision.after_ms)}"
        return f"{self.began + timedelta(milliseconds=decision.after_ms):%H:%M:%S}"


def mind_of(area: Area, is_running: bool) -> Mind:
    shown_ms = number(area.row("process"), "shown_ms")
    naming = naming_of(area, shown=1)
    rules = [_rule(row, naming) for row in area.table("rules").rows()]
    sizes = [number(row, "size") for row in area.table("classes").rows()]
    rows = [row for row in area.table("decisions").rows() if number(row, "number")]
    rows.sort(key=lambda row: number(row, "number"))
    decisions = tuple(_any_decision(row, rules, sizes, shown_ms) for row in rows)
    used = [r for r in rules if r.keep_ms or r.saved_bytes or r.vain_bytes or any(r.kib)]
    boot = time.time() - time.monotonic()
    began = datetime.fromtimestamp(boot + shown_ms / MS_PER_S) if is_running else None
    learns = all(row.get("learn", 1) for row in area.table("settings").rows())
    return Mind(tuple(used), decisions, began, learns)


def _rule(row: Row, naming: Naming) -> Rule:
    address = number(row, "site")
    return Rule(
        least_bytes=number(row, "least_bytes"),
        site=naming([address]) if address else "",
        signature=number(row, "stack"),
        is_loaded=bool(number(row, "loaded")),
        keep_ms=number(row, "keep_ms"),
        saved_bytes=number(row, "saved_kib") * KIB,
        vain_bytes=number(row, "vain_kib") * KIB,
        held_byte_s=number(row, "held_kib_s") * KIB,
        kib=numbers(row, "kib"),
    )


def _any_decision(row: Row, rules: list[Rule], sizes: list[int], shown_ms: int) -> AnyDecision:
    match number(row, "policy"):
        case Policy.MAGAZINE:
            return _growth(row, sizes, shown_ms)
        case Policy.HUGE:
            return _whole(row, shown_ms) if number(row, "key") else _price(row, shown_ms)
        case _:
            return _decision(row, rules, shown_ms)


def _decision(row: Row, rules: list[Rule], shown_ms: int) -> Decision:
    return Decision(
        after_ms=number(row, "ms") - shown_ms,
        rule=rules[number(row, "key")],
        from_ms=number(row, "from"),
        to_ms=number(row, "to"),
        is_shadow=bool(number(row, "is_shadow")),
        episodes=number(row, "episodes"),
        gap_ms=number(row, "gap_ms"),
        reused_bytes=number(row, "reused_kib") * KIB,
        seen_bytes=number(row, "seen_kib") * KIB,
    )


def _growth(row: Row, sizes: list[int], shown_ms: int) -> Growth:
    return Growth(
        after_ms=number(row, "ms") - shown_ms,
        block_bytes=sizes[number(row, "key")],
        from_slots=number(row, "from"),
        to_slots=number(row, "to"),
        is_shadow=bool(number(row, "is_shadow")),
        swings=number(row, "episodes"),
    )


def _price(row: Row, shown_ms: int) -> Price:
    return Price(
        after_ms=number(row, "ms") - shown_ms,
        is_huge=bool(number(row, "to")),
        huge_ns=number(row, "reused_kib"),
        small_ns=number(row, "seen_kib"),
    )


def _whole(row: Row, shown_ms: int) -> Whole:
    return Whole(
        after_ms=number(row, "ms") - shown_ms,
        least_bytes=LEAST << number(row, "key") - 1,
        may_be_huge=bool(number(row, "to")),
        is_shadow=bool(number(row, "is_shadow")),
        touched=number(row, "reused_kib") / max(1, number(row, "seen_kib")),  # damaged: 0
    )


def why_nothing(learns: bool) -> str:
    if not learns:
        return "learn:0 is set"
    return "that takes memory that falls free and is used again a few times"


def mind_text(mind: Mind) -> RenderableType:
    if not mind.rules and not mind.decisions:
        return Text(f"nothing decided yet: {why_nothing(mind.learns)}")
    rules = Table(box=None, pad_edge=False)
    rules.add_column("what", no_wrap=True)
    for title in ("kept for", "kept and used again", "kept in vain", "held (s)"):
        rules.add_column(title, justify="right", no_wrap=True)
    for rule in mind.rules:
        saved, vain, held = map(size_text, (rule.saved_bytes, rule.vain_bytes, rule.held_byte_s))
        name = f"{rule.name} (from a file)" if rule.is_loaded else rule.name
        rules.add_row(name, time_text(rule.keep_ms), saved, vain, held)
    lines = (Text(f"{mind.when(one)} {one.sentence()}") for one in mind.decisions)
    return Group(*lines, "", Fitted(rules, SPARE)) if mind.rules else Group(*lines)


def mind_json(mind: Mind) -> dict[str, Any]:
    return {
        "began": mind.began and mind.began.isoformat(timespec="milliseconds"),
        "rules": [vars(rule) | {"name": rule.name} for rule in mind.rules],
        "decisions": [decision.as_json() for decision in mind.decisions],
    }
