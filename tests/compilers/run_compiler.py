"""Builds and tests with another compiler, another level or parts left out, warnings being errors.

usage: run_compiler.py --source SOURCE_DIR --compiler {gcc-11,clang-oldest,clang-newest,...}
                       [--flags="-O3 -flto"] [--off OPTION] [--without REGEX] [--beside LIBRARY]

LIBRARY is one without any part left out: what those parts add to its fast paths is counted.
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
GOLDEN = Path(__file__).parents[1] / "golden/check_golden.py"


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def versions(name: str) -> list[str]:
    """What to look for: of clang, which has no oldest or newest by name, each version in turn."""
    if name == "clang-oldest":
        return [*(f"clang-{version}" for version in range(OLDEST, NEWEST)), "clang"]
    if name == "clang-newest":
        return [f"clang-{version}" for version in range(NEWEST, OLDEST, -1)]
    return [name]


def compilers(name: str) -> tuple[str, str]:
    """For C and C++, of the same version."""
    for candidate in versions(name):
        other = candidate.replace("clang", "clang++").replace("gcc", "g++")
        c, cpp = shutil.which(candidate), shutil.which(other)
        if c is not None and cpp is not None:
            return c, cpp
    skip(f"there is no {name} that has C++ as well")


def run(*command: str, may_skip: bool = False, **environment: str) -> None:
    print("+", *command, flush=True)
    done = subprocess.run(command, env=os.environ | environment)
    if done.returncode != 0 and not (may_skip and done.returncode == SKIPPED):
        sys.exit(f"FAILED with {done.returncode}: {' '.join(command)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", default="-O2", help="of compiler and linker")
    parser.add_argument("--off", action="append", default=[], help="option of CMakeLists.txt")
    parser.add_argument("--without", default="^$", help="tests that do not fit the flags")
    parser.add_argument("--beside", help="libhakmem.so with all parts")
    arguments = parser.parse_args()
    c, cpp = compilers(arguments.compiler)
    flags = f"{arguments.flags} -g -DNDEBUG"
    with tempfile.TemporaryDirectory(prefix="hakmem-compiler-") as build:
        run(
            *("cmake", "--preset", "release", "-S", str(arguments.source), "-B", build),
            *(f"-DCMAKE_C_FLAGS_RELEASE={flags}", f"-DCMAKE_CXX_FLAGS_RELEASE={flags}"),
            *("-DHAKMEM_BENCHMARKS=OFF", "-DHAK_TESTS=unit;abi;misuse"),
            *(f"-D{option}=OFF" for option in arguments.off),
            CC=c,
            CXX=cpp,
        )
        run("cmake", "--build", build)
        selection = ("-L", LABELS, "-LE", "^long$", "-E", arguments.without)
        if arguments.beside:
            library = str(Path(build) / "libhakmem.so")
            golden = (sys.executable, "-B", str(GOLDEN))
            run(*golden, arguments.beside, "--without", library, may_skip=True)
        run("ctest", "--test-dir", build, "-j2", *selection, "--output-on-failure")


if __name__ == "__main__":
    main()
