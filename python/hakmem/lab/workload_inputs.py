"""Inputs that the real programs work on, made from a fixed seed: every machine has the same."""

import json
import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SEED = 20240229
LETTERS = "abcdefghijklmnop"
WORDS = 900


@cache
def vocabulary() -> tuple[str, ...]:
    source = random.Random(SEED)
    return tuple("".join(source.choices(LETTERS, k=source.randint(3, 14))) for _ in range(WORDS))


def write_document(path: Path, records: int) -> None:
    """A JSON array of records with strings, numbers, lists and objects in them."""
    source, words = random.Random(SEED), vocabulary()
    document = [
        {
            "id": number,
            "name": " ".join(source.choices(words, k=3)),
            "tags": source.choices(words, k=source.randint(1, 8)),
            "position": [source.uniform(-180, 180), source.uniform(-90, 90)],
            "owner": {"name": source.choice(words), "active": source.random() < 0.5, "score": None},
            "history": [
                {"at": source.randrange(10**9), "note": " ".join(source.choices(words, k=4))}
                for _ in range(source.randint(0, 5))
            ],
        }
        for number in range(records)
    ]
    path.write_text(json.dumps(document), encoding="utf-8")


def write_text(path: Path, lines: int) -> None:
    """Lines of words and numbers: compresses to about a third, as text does."""
    source, words = random.Random(SEED + 1), vocabulary()
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            chosen = source.choices(words, k=source.randint(3, 12))
            file.write(f"{number} {' '.join(chosen)} {source.randrange(10**6)}\n")


def write_queens(path: Path, size: int) -> None:
    """Queens on a board, none of which attacks another, as integer arithmetic."""
    lines = ["(set-logic QF_LIA)"]
    for column in range(size):
        lines.append(f"(declare-const q{column} Int)")
        lines.append(f"(assert (and (>= q{column} 1) (<= q{column} {size})))")
    for right in range(size):
        for left in range(right):
            lines += [f"(assert {rule})" for rule in _apart(left, right)]
    path.write_text("\n".join([*lines, "(check-sat)"]) + "\n", encoding="utf-8")


def _apart(left: int, right: int) -> Iterable[str]:
    yield f"(distinct q{left} q{right})"
    yield f"(distinct (- q{left} q{right}) {right - left})"
    yield f"(distinct (- q{right} q{left}) {right - left})"
