"""Process ids as they are typed."""

import pytest
from conftest import Run

from hakmem.pids import pid_of

LONG = "9" * 5000  # more digits than Python makes a number of


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        ("1", 1),
        ("0", 0),
        ("4294967296", 1 << 32),
        ("", None),
        ("-1", None),
        ("٣", None),
        (LONG, None),
    ],
)
def test_what_is_one(text: str, pid: int | None) -> None:
    assert pid_of(text) == pid


@pytest.mark.parametrize("command", ["stats", "top", "why", "report", "doctor", "rules"])
def test_one_that_is_too_long(hakmem: Run, command: str) -> None:
    result = hakmem(command, LONG)
    assert result.returncode not in (0, 70)
    assert "Traceback" not in result.stderr
    assert len(result.stderr) < 1000
    assert "99..." in result.stderr
