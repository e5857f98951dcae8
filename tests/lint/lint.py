"""Runs one linter over the sources: `lint.py LINTER SOURCE_DIR BUILD_DIR`.

Exits with 77 (skipped) if the linter is not installed: versions of clang's tools other than 14
format and judge differently, so they do not count.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

CLANG_VERSION = "14"
FORMATTED = ("src", "include", "tests", "bench")
SUFFIXES = {".c", ".h", ".cpp", ".hpp"}
SKIPPED = 77


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def clang_tool(name: str) -> str:
    for candidate in (f"{name}-{CLANG_VERSION}", name):
        path = shutil.which(candidate)
        if path is None:
            continue
        banner = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        found = re.search(r"version (\d+)", banner)
        if found and found[1] == CLANG_VERSION:
            return path
    skip(f"there is no {name} of version {CLANG_VERSION}")


def sources(root: Path) -> list[str]:
    """What git tracks; all there is where there is no repository."""
    listing = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", *FORMATTED], capture_output=True, text=True
    )
    if listing.returncode == 0 and listing.stdout:
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        names = [
            str(path.relative_to(root))
            for folder in FORMATTED
            for path in (root / folder).rglob("*")
        ]
    return sorted(
        name for name in names if Path(name).suffix in SUFFIXES and (root / name).is_file()
    )


def library_sources(root: Path) -> list[str]:
    return [name for name in sources(root) if name.startswith("src/") and name.endswith(".c")]


def lint_format(root: Path, build: Path) -> int:
    command = [clang_tool("clang-format"), "--dry-run", "--Werror", *sources(root)]
    return subprocess.run(command, cwd=root).returncode


def lint_cppcheck(root: Path, build: Path) -> int:
    cppcheck = shutil.which("cppcheck")
    if cppcheck is None:
        skip("there is no cppcheck")
    common = [cppcheck, "--quiet", "--error-exitcode=1", "--std=c11", "--language=c"]
    common += ["--enable=warning,performance,portability", "-Isrc", "-Iinclude"]
    # Its parser gives up on the designated ranges of heap.c, a file it therefore does not check.
    common += ["--suppress=internalAstError:src/slab/size_classes.def"]
    common += ["-D__x86_64__", "-DHAK_INTERPOSE=1"]
    builds = ([], ["-DHAK_CHECKED=1"], ["-DHAK_SECURE=1"])
    flavours = [[*common, *definitions] for definitions in builds]
    files = library_sources(root)
    return max(subprocess.run([*flavour, *files], cwd=root).returncode for flavour in flavours)


def tidy_file(command: list[str], root: Path, name: str) -> int:
    done = subprocess.run([*command, name], cwd=root, capture_output=True, text=True)
    # Its standard error holds counts of what it did not show, unless it could not run at all.
    print(done.stdout or (done.stderr if done.returncode else ""), end="", flush=True)
    return done.returncode


# Flags of gcc's that clang does not know, which is an error and not a warning.
GCC_ALONE = re.compile(
    r" -fno-(reorder-blocks-and-partition|align-\w+|shrink-wrap|tree-tail-merge)(?= )"
)


def lint_tidy(root: Path, build: Path) -> int:
    commands = build / "compile_commands.json"
    if not commands.exists():
        skip("the build has no compile_commands.json")
    with TemporaryDirectory() as known:
        (Path(known) / commands.name).write_text(GCC_ALONE.sub("", commands.read_text()))
        command = [clang_tool("clang-tidy"), "--quiet", "-p", known]
        command += ["--extra-arg=-Wno-unknown-warning-option"]  # the flags are gcc's
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return max(pool.map(partial(tidy_file, command, root), library_sources(root)))


ORDERS = Path("src/base/atomic.h")  # names each atomic operation by its order
RAW_ATOMIC = re.compile(r"\b(atomic_(load|store|exchange|compare|fetch)\w*|__atomic_\w+) *\(")


def lint_orders(root: Path, build: Path) -> int:
    """Atomic operations stand there by the names of atomic.h, which say their order."""
    found = [
        f"{name}:{number}: {match[0]}...: use a name of {ORDERS}"
        for name in sources(root)
        if name.startswith("src/") and Path(name) != ORDERS
        for number, line in enumerate((root / name).read_text().splitlines(), 1)
        if (match := RAW_ATOMIC.search(line)) is not None
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


INCLUDED = re.compile(r'#include "(\w+)/(\w+\.\w+)"')
FIRST_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
CALLS = re.compile(r"\bCalls: (.*?)\.(?= [A-Z]|$)")
CALLERS = re.compile(r"\bCalled by:? (.*?)\.(?= [A-Z]|$)")
# What all layers use, and what is data alone.
FOR_ALL = {"base", "hakmem", "options.h"}


def included(file: Path) -> set[tuple[str, str]]:
    """Folder and name of each header of the library's that a file names; tables (.def) are data."""
    found = INCLUDED.findall(file.read_text()) if file.is_file() else []
    return {(folder, name) for folder, name in found if not name.endswith(".def")}


def compare(said: str | None, folders: set[str], own: str, layers: set[str]) -> str:
    """What a map says too much or too little; empty if it is true, or there is none."""
    if said is None:
        return ""
    told = set(re.findall(r"\w+", re.sub(r"\([^)]*\)", "", said))) & layers - {own}
    faults = [("lacks", folders - told), ("names for nothing", told - folders)]
    return "; ".join(f"{what} {', '.join(sorted(which))}" for what, which in faults if which)


def lint_maps(root: Path, build: Path) -> int:
    """The call map at the top of a header names the folders that it and its source include, and
    those that include it."""
    folder = root / "src"
    files = [folder / name.removeprefix("src/") for name in sources(root) if name[:4] == "src/"]
    layers = {file.parent.name for file in files} - FOR_ALL
    uses = {file: included(file) for file in files}
    bad = False
    for header in (file for file in files if file.suffix == ".h"):
        own = header.parent.name
        comment = FIRST_COMMENT.match(header.read_text())
        text = re.sub(r"[\s*/]+", " ", comment[0]).strip() if comment else ""
        both = uses[header] | uses.get(header.with_suffix(".c"), set())
        calls = {a for a, name in both if not {a, name} & FOR_ALL} - {own}
        callers = {file.parent.name for file in files if (own, header.name) in uses[file]} - {own}
        for pattern, folders in ((CALLS, calls), (CALLERS, callers)):
            said = pattern.search(text)
            fault = compare(said[1] if said else None, folders, own, layers)
            if fault:
                print(f"{header.relative_to(root)}: '{said[0] if said else ''}' {fault}")
                bad = True
    return int(bad)


LINTERS = {
    "format": lint_format,
    "cppcheck": lint_cppcheck,
    "tidy": lint_tidy,
    "orders": lint_orders,
    "maps": lint_maps,
}


def main(arguments: list[str]) -> int:
    linter, root, build = arguments
    return LINTERS[linter](Path(root), Path(build))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
