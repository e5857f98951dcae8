"""Checks what libhakmem.so shows to others: its symbols, and how much static TLS it takes.

usage: check_library.py symbols LIBRARY ALLOW_LIST
       check_library.py tls LIBRARY

Exits with 77 (skipped) where nm or readelf is missing.
"""

import fnmatch
import re
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
MOST_TLS_BYTES = 64  # dlopen fails where the static TLS that glibc keeps in reserve is used up


def run_tool(*command: str) -> str:
    if shutil.which(command[0]) is None:
        print(f"skipped: {command[0]} is not installed")
        sys.exit(SKIPPED)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def visible_symbols(library: str) -> set[str]:
    lines = run_tool("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.strip()}


def read_allow_list(path: str) -> tuple[set[str], list[str]]:
    """Returns the names that have to be there and the patterns of those that may be."""
    lines = (line.strip() for line in Path(path).read_text().splitlines())
    names = [line for line in lines if line and not line.startswith("#")]
    required = {name for name in names if not name.startswith("?")}
    return required, [name.removeprefix("?") for name in names]


def check_symbols(library: str, allow_list: str) -> list[str]:
    visible = visible_symbols(library)
    required, patterns = read_allow_list(allow_list)
    errors = [f"missing: {name}" for name in sorted(required - visible)]
    for name in sorted(visible):
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            errors.append(f"not in {Path(allow_list).name}, should be hidden: {name}")
    print(f"{len(visible)} visible symbols")
    return errors


def tls_bytes(library: str) -> int:
    """Sum of the sizes in memory of all TLS segments (the sixth column of readelf's wide table)."""
    total = 0
    for line in run_tool("readelf", "--program-headers", "--wide", library).splitlines():
        if re.match(r"\s*TLS\s", line):
            total += int(line.split()[5], 16)
    return total


def check_tls(library: str) -> list[str]:
    size = tls_bytes(library)
    print(f"{size} bytes of static TLS, at most {MOST_TLS_BYTES} allowed")
    return [] if size <= MOST_TLS_BYTES else ["too much static TLS"]


def main() -> None:
    what, *arguments = sys.argv[1:]
    errors = {"symbols": check_symbols, "tls": check_tls}[what](*arguments)
    for error in errors:
        print(error)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
