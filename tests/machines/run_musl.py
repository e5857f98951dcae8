"""Builds everything that is C for musl and runs it: preloaded, linked, and as a static program.

usage: run_musl.py --source SOURCE_DIR

Skipped where musl-gcc is missing.
"""

import argparse
from pathlib import Path

from build_and_test import LABELS, build_preset, require, test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    source: Path = parser.parse_args().source
    require(["musl-gcc"])
    test(build_preset(source, "musl"), "-L", LABELS)


if __name__ == "__main__":
    main()
