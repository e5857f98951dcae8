"""Quantities as people read them."""

import pytest

from hakmem.insight.words import power_text, size_text


@pytest.mark.parametrize(
    ("power", "text"), [(0, "1 B"), (9, "512 B"), (10, "1 KiB"), (57, "128 PiB"), (63, "8192 PiB")]
)
def test_powers_of_two(power: int, text: str) -> None:
    assert power_text(power) == text


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999 B"), (-1024, "-1.00 KiB"), (1 << 63, "8192 PiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text
