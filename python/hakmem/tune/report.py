"""What is said of a search when it has ended: table, words, figures, picture."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from hakmem.lab.words import enumerate_names
from hakmem.tune.goal import MEASURES
from hakmem.tune.ratings import Estimate
from hakmem.tune.session import DEFAULT, Search

# Two-sided 95 % of one estimate.
Z95 = 1.96
CHART = 21
KIB_PER_MIB = 1024


def ratio(search: Search, number: int) -> tuple[float, float, float]:
    """Cost by the default's, with an interval that holds for all arms together."""
    gain = search.gain(number)
    if number == DEFAULT:
        return 1.0, 1.0, 1.0
    low, high = gain.bounds(search.z())
    return math.exp(-gain.value), math.exp(-high), math.exp(-low)


def middle(search: Search, number: int, metric: str) -> float | None:
    """The median over an arm's runs."""
    values = [sample.values().get(metric) for sample in search.samples[number]]
    known = [value for value in values if value is not None]
    return median(known) if known else None


# ---- the table, while it runs and at the end ----


def table(search: Search) -> Table:
    """The strongest first; arms not compared yet, and those that failed, last."""
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("arm", no_wrap=True)
    for name in ("duels", "rating", f"{search.goal} by default's", "s", "peak MiB", "mean MiB"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    known = search.known if search.duels else []
    elos = {number: search.ratings.elo(number) for number in known}
    for number in known:
        shown.add_row(*_cells(search, number, elos), style="bold" if number == known[0] else None)
    for number, arm in enumerate(search.arms):
        if number not in known:
            why = search.failed.get(number)
            shown.add_row(arm.name, *[""] * 6, Text(f"failed: {why}" if why else ""), style="dim")
    return shown


def _cells(search: Search, number: int, elos: dict[int, Estimate]) -> Sequence[str | Text]:
    value, low, high = ratio(search, number)
    by_default = f"{value:.3f}"
    if number != DEFAULT:
        by_default += f" ({low:.3f}-{high:.3f})"
    elo = elos[number]
    return (
        search.arms[number].name,
        str(search.duels_of(number)),
        f"{elo.value:.0f} \N{PLUS-MINUS SIGN}{Z95 * elo.error:.0f}",
        by_default,
        _number(middle(search, number, MEASURES["time"]), 1, ".3g"),
        _number(middle(search, number, MEASURES["memory"]), KIB_PER_MIB, ".1f"),
        _number(middle(search, number, MEASURES["mean_memory"]), KIB_PER_MIB, ".1f"),
        chart(elo, list(elos.values())),
    )


def _number(value: float | None, unit: float, form: str) -> str:
    return "" if value is None else format(value / unit, form)


def chart(elo: Estimate, all_of_them: Sequence[Estimate]) -> str:
    """The rating among all ratings, as a line of characters with its interval."""
    ends = [bound for one in all_of_them for bound in one.bounds(Z95)]
    low, width = min(ends), max(max(ends) - min(ends), 1e-9)

    def at(value: float) -> int:
        return round((value - low) / width * (CHART - 1))

    first, last = (at(bound) for bound in elo.bounds(Z95))
    line = [" "] * first + ["-"] * (last - first + 1)
    line[at(elo.value)] = "o"
    return "".join(line).ljust(CHART)


# ---- words ----


def conclusion(search: Search) -> list[str]:
    """What was found, how sure that is, and why it ended."""
    said = [_verdict(search)]
    if search.proven:
        said.append(_confirmation(search))
    rivals = [search.arms[number].name for number in search.rivals()]
    if rivals and search.proven:
        said.append(f"Not told apart from it: {enumerate_names(rivals)}.")
    for number, why in search.failed.items():
        said.append(f"{search.arms[number].name} failed: {why}.")
    missing = [
        arm.name
        for number, arm in enumerate(search.arms)
        if number not in search.known and number not in search.failed
    ]
    if missing:
        said.append(f"Not measured: {enumerate_names(missing)}.")
    said.append(
        f"It ended after {len(search.duels)} duels in {search.runs} runs because {search.ending}."
    )
    return said


def _verdict(search: Search) -> str:
    best = search.leader
    name = search.arms[best].name
    goal = str(search.goal)
    if search.known == [DEFAULT]:
        return "Nothing can be said of the default: it was compared with no arm that works."
    if search.proven:
        return f"{name} is best: {goal} by the default's is {_span(search, best)}."
    if best == DEFAULT:
        if search.rivals():
            return "The default is as good as can be told: no arm looks better."
        return "The default is as good as any that was measured."
    if search.gain(best).bounds(search.z())[1] < search.goal.least:
        return f"The default is as good: {name}, which leads, is at {_span(search, best)} of it."
    return (
        f"The default is as good as can be told: {name} leads, at {_span(search, best)} of the "
        f"default's {goal}, which proves no difference."
    )


def _confirmation(search: Search) -> str:
    margins = search.fresh.get(search.leader, [])
    if not search.confirmed:
        return "Duels with the default alone have not confirmed it: there was no time for them."
    won = sum(margin > 0 for margin in margins)
    return f"Duels with the default alone have confirmed it: it won {won} of {len(margins)}."


def _span(search: Search, number: int) -> str:
    value, low, high = ratio(search, number)
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


# ---- figures ----


def as_json(search: Search) -> dict[str, Any]:
    known = search.known
    return {
        "goal": dict(search.goal.weights),
        "ended": str(search.ending),
        "runs": search.runs,
        "elapsed_s": round(search.elapsed_s, 1),
        "seed": search.seed,
        "leader": search.arms[search.leader].name,
        "proven": search.proven,
        "confirmed": search.confirmed,
        "not_told_apart": [search.arms[number].name for number in search.rivals()],
        "noise": search.ratings.noise,
        "arms": [_arm_as_json(search, number, known) for number in range(len(search.arms))],
        "duels": [
            [search.arms[duel.first].name, search.arms[duel.second].name, duel.margin]
            for duel in search.duels
        ],
    }


def _arm_as_json(search: Search, number: int, known: Sequence[int]) -> dict[str, Any]:
    arm = search.arms[number]
    form: dict[str, Any] = {
        "name": arm.name,
        "settings": dict(arm.environment),
        "duels": search.duels_of(number),
        "failed": search.failed.get(number),
        "medians": {name: middle(search, number, metric) for name, metric in MEASURES.items()},
        "rating": None,
        "by_default": None,
    }
    if number in known:
        elo = search.ratings.elo(number)
        low, high = elo.bounds(Z95)
        form["rating"] = {"value": elo.value, "low": low, "high": high}
        form["by_default"] = dict(zip(("value", "low", "high"), ratio(search, number), strict=True))
    return form


# ---- the picture ----


def plot(search: Search, path: Path) -> None:
    """Each arm's cost by the default's, the strongest first."""
    from hakmem.lab.canvas import Interval, add_heading
    from hakmem.lab.palette import Colours, marks_for
    from hakmem.lab.plots import DotRow, dots

    key = "hakmem"
    rows = []
    for number in search.known:
        value, low, high = ratio(search, number)
        rating = f"{search.ratings.elo(number).value:.0f}, {search.duels_of(number)} duels"
        rows.append(DotRow(search.arms[number].name, {key: Interval(low, value, high)}, rating))
    drawing = dots(rows, Colours(marks_for([key], key), key, for_page=False), note_head="rating")
    head = f"{search.goal} by the default's"
    note = "intervals: 95 % for all arms together; further left is better"
    add_heading(drawing, head, note).png(path)
