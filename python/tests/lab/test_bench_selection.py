"""Which cases `bench --only` picks."""

import pytest

from hakmem.errors import HakmemError
from hakmem.lab.model import Case, matching

CASES = [Case(name, (), 1, "", "", "", ("true",), 1) for name in ("spin-slow", "spin-fast")]


def test_only_searches_names() -> None:
    assert [case.name for case in matching(CASES, "slow|none")] == ["spin-slow"]


@pytest.mark.parametrize(
    ("only", "complaint"),
    [("square", "--only square: matches none of spin-slow, spin-fast"), ("(", "no regular expr")],
)
def test_only_that_finds_nothing(only: str, complaint: str) -> None:
    with pytest.raises(HakmemError, match=complaint):
        matching(CASES, only)
