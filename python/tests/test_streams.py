"""Standard streams that are closed or full: the exit status stays what it should be."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Shell = Callable[[str], subprocess.CompletedProcess[str]]
FULL = "hakmem: cannot write standard output: No space left on device\n"


@pytest.fixture
def shell(marker_library: Path) -> Shell:
    """Runs a line of the shell, in which `hakmem` is the command line."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    program = shlex.join([sys.executable, "-I", "-m", "hakmem"])

    def run(line: str) -> subprocess.CompletedProcess[str]:
        script = f'hakmem() {{ {program} "$@"; }}\n{line}'
        return subprocess.run(
            ["bash", "-c", script],
            env=inherited | {"LIBRARY": str(marker_library)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "<&-", ">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ('run --library "$LIBRARY" -- sh -c "exit 7"', 7),
        ('run --library "$LIBRARY" --report page.html -- nosuch', 127),
        ("stats 99999999", 1),
        ("no-such-command", 2),
        ("doctor", 0),
    ],
)
def test_streams_that_cannot_be_used(
    shell: Shell, streams: str, arguments: str, status: int
) -> None:
    result = shell(f"hakmem {arguments} {streams}")
    if arguments == "doctor" and ">&-" in streams.replace("2>&-", ""):
        status = 1  # what it has to say goes nowhere
    assert result.returncode == status, result.stderr
    assert "Traceback" not in result.stderr


def test_closed_standard_output_is_said(shell: Shell) -> None:
    result = shell("hakmem doctor >&-")
    assert result.returncode == 1
    assert result.stderr == "hakmem: cannot write standard output: Bad file descriptor\n"


def test_what_was_closed_is_closed_for_the_program(shell: Shell) -> None:
    result = shell('hakmem run --library "$LIBRARY" -- test ! -e /dev/fd/0 <&-')
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "status"), [("doctor", 1), ("doctor --json", 1), ("--help", 1), ("run -h", 125)]
)
def test_full_standard_output(shell: Shell, arguments: str, status: int) -> None:
    result = shell(f"hakmem {arguments} >/dev/full")
    assert (result.returncode, result.stderr) == (status, FULL)


def test_nobody_reads_on(shell: Shell) -> None:
    result = shell("hakmem doctor | true; exit ${PIPESTATUS[0]}")
    assert (result.returncode, result.stderr) == (1, "")
