"""Rows of a table that add up, each perhaps made of others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

NAMED_LEAST = 0.01  # of the whole: what is less is not named by itself
NAMED_MOST = 5
OTHERS = "_others"  # what such a row's key ends with


@dataclass(frozen=True)
class Row:
    key: str
    label: str
    bytes: int
    exact: bool = True
    note: str = ""
    children: tuple["Row", ...] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "Row"]]:
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def sum_of(key: str, label: str, children: Sequence[Row], note: str = "") -> Row:
    there = tuple(child for child in children if child.bytes)
    exact = all(child.exact for child in there)
    total = sum(child.bytes for child in there)
    if len(there) == 1 and there[0].key.endswith(OTHERS):
        there = ()  # nothing is worth a name
    return Row(key, label, total, exact, note, there)


def few(rows: list[Row], key: str, label: str, whole: int, unnamed: str = "") -> list[Row]:
    """The largest by name, and the others as one; `unnamed`: the label if none has a name."""
    ranked = sorted(rows, key=lambda row: row.bytes, reverse=True)
    named = [row for row in ranked[:NAMED_MOST] if row.bytes >= whole * NAMED_LEAST]
    others = ranked[len(named) :]
    if not others:
        return named
    exact = all(row.exact for row in others)
    label = label if named else unnamed or label
    return [*named, Row(key + OTHERS, label, sum(row.bytes for row in others), exact)]


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in these proportions that add up to the total; zeros without weights."""
    whole = sum(weights)
    if whole == 0:
        return [0 for _ in weights]
    ends = [0]
    for weight in weights:
        ends.append(ends[-1] + weight)
    return [total * end // whole - total * start // whole for start, end in pairwise(ends)]


def clamped(rows: list[Row], excess: int) -> list[Row]:
    """More was counted than there is: the process gave memory back meanwhile. It is taken from
    the largest rows, so that the sum is right."""
    left = excess
    found = {row.key: row for row in rows}
    for row in sorted(rows, key=lambda row: row.bytes, reverse=True):
        cut = min(left, row.bytes)
        if cut:
            found[row.key] = _reduced(row, cut)
        left -= cut
    return [found[row.key] for row in rows]


def _reduced(row: Row, cut: int) -> Row:
    note = f"{cut} bytes less than counted: it changed meanwhile"
    sizes = apportion(row.bytes - cut, [child.bytes for child in row.children])
    children = tuple(
        _reduced(child, child.bytes - size) if child.bytes != size else child
        for child, size in zip(row.children, sizes, strict=True)
    )
    return replace(row, bytes=row.bytes - cut, exact=False, note=note, children=children)
