"""Counts the instructions of every entry point's fast path and compares them with the golden file.

usage: check_golden.py LIBRARY [--inlined LIBRARY] [--update]
       check_golden.py LIBRARY --without LIBRARY

The second library is a user's, whose functions have the fast paths of inline.h compiled in; or
hakmem's without figures and profile, whose paths may be shorter by a little.

Fails if a limit is exceeded or if a path became longer than in the golden file; another difference
is only shown. --update writes the golden file anew. Another compiler may choose other instructions,
so a longer path fails only with the compiler that the golden file was written with.
There is a golden file for each machine. Exits with 77 (skipped) where there is none for the
library's, or its objdump is missing.
"""

import argparse
import difflib
import re
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from fast_path import (
    FastPath,
    Machine,
    disassemble,
    fast_path,
    machine_of,
    run_tool,
    symbol_ranges,
)

SKIPPED = 77
ENTRY_POINTS = {
    "malloc": "malloc",
    "free": "free",
    "calloc": "calloc",
    "realloc": "realloc",
    "operator new": "_Znwm",
    "operator delete": "_ZdlPv",
    "sized delete": "_ZdlPvm",
}

INLINED = {
    "inline malloc": "inline_malloc",
    "inline malloc, size known": "inline_malloc_64",
    "inline free": "inline_free",
    "inline free, size known": "inline_free_64",
}

# At most so many instructions and so many conditional branches.
LIMITS = {
    "x86_64": {
        "malloc": (16, 3),
        "free": (20, 4),
        "inline malloc, size known": (14, 2),
        "inline free, size known": (15, 3),
    },
    "aarch64": {
        "malloc": (23, 3),
        "free": (27, 3),
        "inline malloc, size known": (20, 2),
        "inline free, size known": (19, 3),
    },
}

# So many instructions and branches may figures and profile add.
INSIGHT_ADDS = {"malloc": (3, 1), "free": (0, 0)}

HEADING = re.compile(r"^\[(.+)\] (\d+) instructions, (\d+) branches$")
COMPILER = "compiler: "


def compiler_of(library: str) -> str:
    """What the compiler has written into the library about itself."""
    text = run_tool("readelf", "--string-dump=.comment", library)
    names = sorted(set(re.findall(r"^\s*\[\s*[0-9a-f]+\]\s+(.+)$", text, re.MULTILINE)))
    return "; ".join(names) or "unknown"


def measure(
    library: str, entry_points: dict[str, str], machine: Machine
) -> dict[str, FastPath | None]:
    ranges = symbol_ranges(library)
    missing = [symbol for symbol in entry_points.values() if symbol not in ranges]
    if missing:
        sys.exit(f"not exported by {library}: {', '.join(missing)}")
    return {
        name: fast_path(disassemble(library, *ranges[symbol], machine))
        for name, symbol in entry_points.items()
    }


def render(paths: dict[str, FastPath | None], compiler: str) -> str:
    """The golden file: per entry point the longest way through it without a call."""
    lines = [COMPILER + compiler]
    for name, path in paths.items():
        lines.append("")
        if path is None:
            lines.append(f"[{name}] no path without a call")
            continue
        lines.append(f"[{name}] {path.instructions} instructions, {path.branches} branches")
        lines += path.mnemonics
    return "\n".join(lines) + "\n"


def golden_counts(text: str) -> dict[str, tuple[int, int]]:
    headings = (HEADING.match(line) for line in text.splitlines())
    return {match[1]: (int(match[2]), int(match[3])) for match in headings if match}


def limit_errors(paths: dict[str, FastPath | None], machine: Machine) -> list[str]:
    errors = []
    for name, (instructions, branches) in LIMITS[machine.name].items():
        if name not in paths:
            continue
        path = paths[name]
        if path is None:
            errors.append(f"{name}: every path makes a call or leaves the function")
            continue
        if path.stores == 0:
            # Such as free(NULL): what does the work must then make a call.
            errors.append(f"{name}: the only paths without a call store nothing")
        if path.instructions > instructions:
            errors.append(f"{name}: {path.instructions} instructions, at most {instructions}")
        if path.branches > branches:
            errors.append(f"{name}: {path.branches} conditional branches, at most {branches}")
    return errors


def insight_errors(
    paths: dict[str, FastPath | None], without: dict[str, FastPath | None]
) -> list[str]:
    errors = []
    for name, (most, most_branches) in INSIGHT_ADDS.items():
        one, other = paths[name], without[name]
        if one is None or other is None:
            errors.append(f"{name}: no path without a call, with or without figures and profile")
            continue
        more, branches = one.instructions - other.instructions, one.branches - other.branches
        print(f"figures and profile add {more} instructions to {name}")
        if more > most or branches > most_branches:
            errors.append(f"{name}: they add {more} instructions and {branches} branches")
    return errors


def growth_errors(paths: dict[str, FastPath | None], golden: str) -> list[str]:
    errors = []
    for name, (instructions, branches) in golden_counts(golden).items():
        path = paths.get(name)
        if path is None:
            errors.append(f"{name}: had a path without a call, has none now")
        elif path.instructions > instructions or path.branches > branches:
            now = f"{path.instructions} instructions and {path.branches} branches"
            errors.append(f"{name}: {now}, were {instructions} and {branches}")
    return errors


def show_difference(name: str, golden: str, current: str) -> None:
    difference = difflib.unified_diff(
        golden.splitlines(), current.splitlines(), name, "this build", "", "", 3, ""
    )
    for line in difference:
        print(line)


def compare(
    paths: dict[str, FastPath | None], file: Path, current: str, compiler: str
) -> list[str]:
    if not file.exists():
        return [f"{file.name} is missing: run with --update and commit it"]
    golden = file.read_text()
    if golden == current:
        return []
    show_difference(file.name, golden, current)
    errors = growth_errors(paths, golden)
    if COMPILER + compiler not in golden.splitlines():
        print("note: another compiler than the golden file's, so only the limits count")
        for error in errors:
            print(f"note: {error}")
        return []
    if not errors:
        print("note: differs, but no path became longer: update the golden file")
    return errors


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def readable_machine(library: str) -> Machine:
    if shutil.which("nm") is None or shutil.which("readelf") is None:
        skip("there is no nm or no readelf")
    machine = machine_of(library)
    if machine is None:
        skip("made for a machine that there is no golden file of")
    if shutil.which(machine.tool("objdump")) is None:
        skip(f"there is no {machine.tool('objdump')}")
    return machine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="libhakmem.so of a release build")
    parser.add_argument("--inlined", help="a library that has inline.h's paths compiled in")
    parser.add_argument("--without", help="libhakmem.so of a build with HAKMEM_INSIGHT=OFF")
    parser.add_argument("--update", action="store_true", help="write the golden file anew")
    arguments = parser.parse_args()
    machine = readable_machine(arguments.library)
    golden = Path(__file__).with_name(f"{machine.name}.txt")
    paths = measure(arguments.library, ENTRY_POINTS, machine)
    if arguments.without:
        if compiler_of(arguments.without) != compiler_of(arguments.library):
            skip("the two were made by different compilers")
        return told(insight_errors(paths, measure(arguments.without, ENTRY_POINTS, machine)))
    if arguments.inlined:
        paths |= measure(arguments.inlined, INLINED, machine)
    compiler = compiler_of(arguments.library)
    current = render(paths, compiler)
    for line in current.splitlines():
        if line.startswith("["):
            print(line)
    if arguments.update:
        golden.write_text(current)
        print(f"{golden.name} written")
    errors = limit_errors(paths, machine)
    if not arguments.update:
        errors += compare(paths, golden, current, compiler)
    return told(errors)


def told(errors: list[str]) -> int:
    for error in errors:
        print(f"error: {error}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
