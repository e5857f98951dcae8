"""What the drivers of this folder share: shown commands with their time, and skipping."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

SKIPPED = 77
LABELS = "^(unit|abi|misuse|stress|golden)$"


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def require(programs: Iterable[str]) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        skip(f"there is no {', '.join(missing)}")


def run(*command: str | Path, **environment: str) -> None:
    print("+", *command, *(f"{name}={value}" for name, value in environment.items()), flush=True)
    begun = time.monotonic()
    done = subprocess.run(command, env=os.environ | environment)
    print(f"took {time.monotonic() - begun:.0f} s", flush=True)
    if done.returncode != 0:
        sys.exit(f"FAILED with {done.returncode}: {' '.join(map(str, command))}")


def build_preset(source: Path, preset: str) -> Path:
    """Returns the build folder."""
    folder = source / "build" / preset
    run("cmake", "--preset", preset, "-S", source)
    run("cmake", "--build", folder)
    return folder


def test(build: Path, *selection: str, **environment: str) -> None:
    ctest = ("ctest", "--test-dir", build, "-LE", "^long$", "--output-on-failure", "-j2")
    run(*ctest, "--no-tests=error", *selection, **environment)
