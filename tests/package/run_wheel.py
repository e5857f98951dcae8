"""Builds a wheel, installs it into an empty environment and runs programs on the hakmem inside.

usage: run_wheel.py --source SOURCE_DIR --build BUILD_DIR

Skipped where packages cannot be fetched.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from commands import TIMEOUT_S, environment, run

SHOW_LIBRARY = "grep -c 'r-xp.*hakmem/libhakmem.so' /proc/self/maps"


def check_missing_package(hakmem: Path) -> None:
    """What needs more than the wheel brings along says so."""
    command = [hakmem, "compare", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 125 or "pip install 'hakmem[lab,insight]'" not in done.stderr:
        sys.exit(f"FAILED: compare ended with {done.returncode} and said:\n{done.stderr}")
    if "Traceback" in done.stderr:
        sys.exit(f"FAILED: compare did not end in words:\n{done.stderr}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    arguments = parser.parse_args()
    os.environ.pop("CLONE_OF_HAKMEM", None)
    with tempfile.TemporaryDirectory(prefix="hakmem-wheel-") as name:
        folder = Path(name)
        python, pip = environment(folder)
        source = folder / "source"
        for part in ("python", "profiles", "src/control", "packaging"):
            shutil.copytree(arguments.source / part, source / part)
        for part in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(arguments.source / part, source)
        library = arguments.build / "libhakmem.so"
        run(*pip, "wheel", "--no-deps", "-w", folder / "dist", source, LIBHAKMEM=str(library))
        wheel = next((folder / "dist").glob("hakmem-*.whl"))
        print(wheel.name)
        run(*pip, "install", "--quiet", wheel)
        hakmem = python.with_name("hakmem")
        for page in ("man1/hakmem-run.1", "man7/hakmem.7"):
            if not (folder / "venv" / "share" / "man" / page).is_file():
                sys.exit(f"FAILED: the wheel has no manual page {page}")
        run(hakmem, "run", "--", "true")
        run(hakmem, "run", "--profile", "lean", "--", "sh", "-c", SHOW_LIBRARY)
        run(hakmem, "doctor", "--", "true")
        check_missing_package(hakmem)
    return 0


if __name__ == "__main__":
    sys.exit(main())
