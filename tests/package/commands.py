"""What the drivers of this folder share."""

import os
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
TIMEOUT_S = 300


def environment(folder: Path) -> tuple[Path, tuple[Path | str, ...]]:
    """A Python without packages, and its pip. Ends the test where packages cannot be fetched."""
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", folder / "venv")
    pip = (python, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input")
    reachable = subprocess.run(
        [*map(str, pip), "download", "--quiet", "--no-deps", "-d", str(folder), "click"],
        capture_output=True,
        check=False,
    )
    if reachable.returncode != 0:
        print("skipped: no Python packages can be fetched")
        sys.exit(SKIPPED)
    return python, pip


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        words = " ".join(str(word) for word in command)
        sys.exit(f"FAILED with {done.returncode}: {words}\n{done.stdout}{done.stderr}")
    return done.stdout
