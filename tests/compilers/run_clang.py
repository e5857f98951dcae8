"""Builds everything with clang, warnings being errors, and runs the tests of units and interface.

usage: run_clang.py --source SOURCE_DIR
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

SKIPPED = 77
OLDEST, NEWEST = 14, 30
LABELS = "^(unit|abi|misuse)$"


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def compilers() -> tuple[str, str]:
    """clang and clang++ of the same version; the oldest supported one if there are several."""
    for suffix in (*(f"-{version}" for version in range(OLDEST, NEWEST)), ""):
        c, cpp = shutil.which(f"clang{suffix}"), shutil.which(f"clang++{suffix}")
        if c is not None and cpp is not None:
            return c, cpp
    skip("there is no clang (Debian: clang-14)")


def run(*command: str, **environment: str) -> None:
    print("+", *command, flush=True)
    done = subprocess.run(command, env=os.environ | environment)
    if done.returncode != 0:
        sys.exit(f"FAILED with {done.returncode}: {' '.join(command)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    source: Path = parser.parse_args().source
    c, cpp = compilers()
    with tempfile.TemporaryDirectory(prefix="hakmem-clang-") as build:
        preset = ("--preset", "release", "-S", str(source), "-B", build)
        run("cmake", *preset, CC=c, CXX=cpp)
        run("cmake", "--build", build)
        run("ctest", "--test-dir", build, "-L", LABELS, "-LE", "^long$", "--output-on-failure")


if __name__ == "__main__":
    main()
