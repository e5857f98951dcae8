"""Conclusions in plain words, from results alone: losses first, nothing rounded in our favour.

"8 % faster" means 8 % less time, "8 % slower" 8 % more; behind it, in brackets, the interval.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hakmem.lab.model import Results, metric_named
from hakmem.lab.statistics import (
    Comparison,
    Verdict,
    compare,
    compare_suite,
    distance_to_best,
    minimum_effect,
)

TIME = "time_s"
MEMORY = "peak_rss_kib"
FAULTS = "page_faults"
MOST_NAMES = 5
# From here on a factor says more than a percentage.
FACTOR = 2.0


@dataclass(frozen=True)
class Phrase:
    """How one metric is spoken of: "uses 8 % less memory than X", "in memory"."""

    verb: str
    less: str
    more: str
    noun: str
    topic: str

    def difference(self, amount: str, better: bool) -> str:
        return f"{self.verb} {amount} {self.less if better else self.more}{self.noun}"


PLURAL = {"is": "are", "uses": "use", "takes": "take", "causes": "cause", "has": "have"}
SPEED = Phrase("is", "faster", "slower", "", "time")
PHRASES = {
    TIME: SPEED,
    "ops_per_s": SPEED,
    MEMORY: Phrase("uses", "less", "more", " memory", "memory"),
    "user_s": Phrase("takes", "less", "more", " user time", "user time"),
    "sys_s": Phrase("takes", "less", "more", " system time", "system time"),
    FAULTS: Phrase("causes", "fewer", "more", " page faults", "page faults"),
    "instructions_per_op": Phrase("executes", "fewer", "more", " instructions", "instructions"),
    "d1_misses_per_op": Phrase("has", "fewer", "more", " cache misses", "cache misses"),
}


def phrase_for(metric: str) -> Phrase:
    return PHRASES.get(metric, Phrase("has", "less", "more", f" {metric}", metric))


def headline(results: Results, subject: str, base: str = "glibc") -> str:
    """One sentence: the subject against the base, in time and in memory."""
    base = _base_of(results, subject, base)
    found = [_overall(results, metric, subject, base) for metric in (TIME, MEMORY)]
    if not any(one.sound for one in found):
        why = next((one.failed for one in found if one.failed), "nothing was measured")
        return f"{subject} and {base} could not be compared: {why}."
    time, memory = found
    known = [predicate(one, base) for one in found if one.sound]
    if time.sound and memory.sound and _certain(time) and _certain(memory):
        known[1] = predicate(memory, None)
    return f"{_scope(results)}{subject} {' and '.join(known)}."


def conclusion(results: Results, subject: str, base: str = "glibc") -> list[str]:
    """The headline, then what speaks against the subject, then the rest."""
    base = _base_of(results, subject, base)
    said = [headline(results, subject, base), *_failures(results)]
    peers = [name for name in results.allocator_names() if name not in (subject, base)]
    if len(results.benchmark_names()) > 1:
        for metric in (TIME, MEMORY):
            said += _losses_to_base(results, metric, subject, base)
            said += _losses(results, metric, subject)
    for metric in (TIME, MEMORY):
        said += _against_peers(results, metric, subject, peers)
    if len(results.benchmark_names()) == 1:
        said += _faults(results, subject, base)
        said += _against_peers(results, FAULTS, subject, peers)
    said += _distances(results, subject)
    return said


def _faults(results: Results, subject: str, base: str) -> list[str]:
    found = _overall(results, FAULTS, subject, base)
    return [sentence(found, subject, base)] if found.sound else []


def sentence(found: Comparison, subject: str, base: str) -> str:
    """One comparison as a sentence."""
    return f"{subject} {predicate(found, base)}."


def predicate(found: Comparison, base: str | None) -> str:
    """What is said of the subject; without a base, "than whom" is left to the context."""
    phrase = phrase_for(found.metric)
    other = base or "it"
    if not found.sound:
        return f"cannot be compared with {other}: {found.failed or 'not measured'}"
    if _certain(found):
        than = f" than {base}" if base else ""
        return _difference(found, phrase, than)
    if found.negligible:
        bound = 100 * minimum_effect(metric_named(found.metric))
        return f"equals {other} in {phrase.topic} (within {bound:g} %)"
    if found.low > 1 or found.high < 1:
        return f"may differ from {other} in {phrase.topic}{_span(found)}, too few rounds to tell"
    return f"is not distinguishable from {other} in {phrase.topic}{_span(found)}"


def amount(found: Comparison) -> str:
    """The size of a difference: "8 % (6-10)", or a factor "2.1 times (1.9-2.3)"."""
    if max(found.ratio, 1 / found.ratio) >= FACTOR:
        values = [max(ratio, 1 / ratio) for ratio in (found.ratio, found.low, found.high)]
        return f"{values[0]:.1f} times{_bracket(values, 1)}"
    values = [100 * abs(ratio - 1) for ratio in (found.ratio, found.low, found.high)]
    coarse = values[0] >= 10 or (values[0] >= 3 and abs(values[2] - values[1]) >= 1)
    digits = 0 if coarse else 1
    return f"{_figure(values[0], digits)} %{_bracket(values, digits)}"


def enumerate_names(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """ "a, b and c", cut short where there are many."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _certain(found: Comparison) -> bool:
    return found.verdict is not Verdict.CANNOT_TELL


def _difference(found: Comparison, phrase: Phrase, than: str) -> str:
    better = found.verdict is Verdict.BETTER
    if max(found.ratio, 1 / found.ratio) < FACTOR:
        return phrase.difference(amount(found), better) + than
    if phrase is SPEED:
        words = "is {} as fast as" if better else "takes {} as long as"
        times, _, bracket = amount(found).partition(" (")
        who = than.removeprefix(" than ") or "the other"
        return f"{words.format(times)} {who}" + (f" ({bracket}" if bracket else "")
    if better:
        percent = 100 * (1 - found.ratio)
        return phrase.difference(f"{percent:.0f} %", better) + than
    factor = f"{found.ratio:.1f} times"
    return f"{phrase.verb} {factor} as much{phrase.noun}{than.replace(' than', ' as')}"


def _bracket(values: Sequence[float], digits: int) -> str:
    """The interval, where there is one that is more than the figure itself."""
    bounds = sorted(values[1:])
    if not all(math.isfinite(value) for value in bounds):
        return ""
    low, high = (_figure(value, digits) for value in bounds)
    return "" if low == high else f" ({low}-{high})"


def _figure(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removesuffix(".0")


def _span(found: Comparison) -> str:
    """How far apart the two may still be."""
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return " (a single round)"
    ends = [f"{100 * (ratio - 1):+.1f} %" for ratio in (found.low, found.high)]
    return f" ({ends[0]} to {ends[1]})"


def _scope(results: Results) -> str:
    count = len(results.benchmark_names())
    return f"Over {count} benchmarks (geometric mean), " if count > 1 else ""


def _base_of(results: Results, subject: str, base: str) -> str:
    """Results without glibc are measured against whoever comes first."""
    names = results.allocator_names()
    others = [name for name in names if name != subject]
    return base if base in others or not others else others[0]


def _overall(results: Results, metric: str, subject: str, base: str) -> Comparison:
    names = results.benchmark_names()
    if len(names) == 1:
        return compare(results, names[0], metric, subject, base)
    return compare_suite(results, metric, subject, base)


def _failures(results: Results) -> list[str]:
    """Each allocator that failed, with the benchmarks and the reasons."""
    found: dict[str, dict[str, str]] = {}
    for row in results.rows:
        if row.failed:
            found.setdefault(row.allocator, {}).setdefault(row.benchmark, row.failed)
    return [
        f"{allocator} failed: "
        + enumerate_names([f"{name} ({reason})" for name, reason in where.items()])
        + "."
        for allocator, where in found.items()
    ]


def _losses_to_base(results: Results, metric: str, subject: str, base: str) -> list[str]:
    """The benchmarks on which the subject is worse than the base."""
    suite = compare_suite(results, metric, subject, base)
    lost = suite.named(Verdict.WORSE)
    if not lost:
        return []
    listed = [f"{name} ({_size(suite.benchmarks[name])})" for name in lost]
    return [
        f"In {phrase_for(metric).topic}, {subject} is worse than {base} on {len(lost)} of "
        f"{len(suite.benchmarks)} benchmarks: {enumerate_names(listed)}."
    ]


def _losses(results: Results, metric: str, subject: str) -> list[str]:
    """The benchmarks on which any other allocator is better, each with the best of those."""
    lost: dict[str, tuple[float, str]] = {}
    names = results.benchmark_names()
    others = [name for name in results.allocator_names() if name != subject]
    for name in names:
        found = {other: compare(results, name, metric, subject, other) for other in others}
        beaten = {o: one.ratio for o, one in found.items() if one.verdict is Verdict.WORSE}
        if beaten:
            other = max(beaten, key=lambda key: beaten[key])
            lost[name] = (beaten[other], other)
    topic = phrase_for(metric).topic
    if not lost:
        return [f"In {topic}, no other allocator is clearly better than {subject} anywhere."]
    worst = sorted(lost, key=lambda name: -lost[name][0])
    listed = [f"{name} ({lost[name][0]:.2f} times {lost[name][1]}'s)" for name in worst]
    return [
        f"In {topic}, another allocator is clearly better than {subject} on {len(lost)} of "
        f"{len(names)} benchmarks: {enumerate_names(listed)}."
    ]


def _against_peers(results: Results, metric: str, subject: str, peers: Iterable[str]) -> list[str]:
    """Those that are better than the subject one by one, the others grouped."""
    found = {peer: _overall(results, metric, peer, subject) for peer in peers}
    found = {peer: one for peer, one in found.items() if one.sound}
    ranked = sorted(found, key=lambda peer: found[peer].ratio)
    better = [peer for peer in ranked if found[peer].verdict is Verdict.BETTER]
    worse = [peer for peer in ranked if found[peer].verdict is Verdict.WORSE]
    level = [peer for peer in ranked if peer not in better and peer not in worse]
    phrase = phrase_for(metric)
    said = [sentence(found[peer], peer, subject) for peer in better]
    if level:
        verb = "is" if len(level) == 1 else "are"
        names = enumerate_names(level, len(level))
        said.append(f"{names} {verb} not distinguishable from {subject} in {phrase.topic}.")
    if worse:
        listed = [f"{peer} ({_size(found[peer])})" for peer in worse]
        verb = phrase.verb if len(worse) == 1 else PLURAL[phrase.verb]
        names = enumerate_names(listed, len(listed))
        said.append(f"{names} {verb} {phrase.more}{phrase.noun} than {subject}.")
    return said


def _size(found: Comparison) -> str:
    return amount(found).partition(" (")[0]


def _distances(results: Results, subject: str) -> list[str]:
    """How far from the best of each benchmark; says nothing of a single one."""
    if len(results.benchmark_names()) < 2:
        return []
    said = []
    for metric in (TIME, MEMORY):
        found = distance_to_best(results, metric)
        rated = {name: one.geomean for name, one in found.items() if one.benchmarks}
        if subject not in rated or len(rated) < 2:
            continue
        first = min(rated, key=lambda name: rated[name])
        topic = phrase_for(metric).topic
        closest = "the closest of all" if first == subject else f"{first} {rated[first]:.2f} times"
        said.append(
            f"Against the best of each benchmark, {subject} needs {rated[subject]:.2f} times "
            f"the {topic} on average, {closest}."
        )
    return said
