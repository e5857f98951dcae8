"""Runs the tests of the Rust crate against the built library.

usage: run_rust.py --source SOURCE_DIR --build BUILD_DIR

Skipped where cargo is missing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from commands import SKIPPED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    arguments = parser.parse_args()
    if shutil.which("cargo") is None:
        print("skipped: there is no cargo")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="hakmem-rust-") as target:
        return subprocess.run(
            ["cargo", "test", "--locked", "--offline"],
            cwd=arguments.source / "rust" / "hakmem",
            env=os.environ | {"CARGO_TARGET_DIR": target, "LIBHAKMEM_DIR": str(arguments.build)},
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
