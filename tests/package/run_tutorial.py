"""Runs docs/tutorial.md: every block of commands as it stands, one after another in one shell.

usage: run_tutorial.py --source SOURCE_DIR

Skipped where the first command would have to install something.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from commands import SKIPPED, TIMEOUT_S

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXTRAS = ("base", "lab", "insight")
FEWEST_BLOCKS = 8


def is_set_up(source: Path) -> bool:
    """As the front door decides it, which compares what it has installed with what is wanted."""
    wanted = (source / "pyproject.toml").read_bytes()
    marks = [source / ".venv" / f"installed-{extra}.toml" for extra in EXTRAS]
    return all(mark.exists() and mark.read_bytes() == wanted for mark in marks)


def run_blocks(blocks: list[str], source: Path) -> tuple[int, str]:
    """In a group of its own: a program that the tutorial leaves behind must not outlive it."""
    script = "set -eux\n" + "\n".join(blocks)
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=source,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = shell.communicate(timeout=TIMEOUT_S)
        return shell.returncode, output
    except subprocess.TimeoutExpired:
        return -1, f"did not end within {TIMEOUT_S} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--build", type=Path, help="not used: the tutorial builds what it needs")
    source: Path = parser.parse_args().source.resolve()
    if not is_set_up(source):
        print("skipped: not set up; ./hakmem setup does that")
        return SKIPPED
    os.environ.pop("LD_PRELOAD", None)
    blocks = BLOCK.findall((source / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    if len(blocks) < FEWEST_BLOCKS:
        sys.exit(f"FAILED: {len(blocks)} blocks of commands found: this checks nothing")
    (source / "build").mkdir(exist_ok=True)
    status, output = run_blocks(blocks, source)
    if status != 0:
        sys.exit(f"FAILED with {status}:\n{output}")
    print(f"{len(blocks)} blocks of commands ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())
