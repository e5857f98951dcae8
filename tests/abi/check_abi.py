"""Holds the interface of libhakmem.so.1 against the one that was promised: tests/abi/libhakmem.abi.

usage: check_abi.py LIBRARY
       check_abi.py --update LIBRARY

A function or variable that is gone, and one whose types are others, is a failure; new ones are not.
With --update the description is written anew. Exits with 77 (skipped) where abidw or abidiff is
missing.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
HERE = Path(__file__).resolve().parent
DESCRIPTION = HERE / "libhakmem.abi"
SUPPRESSIONS = HERE / "public.suppr"
HEADERS = HERE.parents[1] / "include" / "hakmem"
# What abidw writes down: what programs can rely on, and nothing of where it was built.
LEAN = (
    *("--drop-private-types", "--drop-undefined-syms", "--exported-interfaces-only"),
    *("--no-architecture", "--no-corpus-path", "--no-comp-dir-path", "--no-elf-needed"),
    *("--no-parameter-names", "--no-show-locs", "--no-write-default-sizes"),
    *("--type-id-style", "hash"),
)
USAGE, WRONG = 1 | 2, 4 | 8  # bits of abidiff's exit status


def describe(library: Path) -> str:
    command = ["abidw", *LEAN, "--headers-dir", HEADERS, library]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "<function-decl name='hak_malloc'" not in said:
        sys.exit(f"FAILED: {library} has no debug information: nothing but names could be compared")
    # The folder it was built in says nothing of the interface.
    return re.sub(r" path='[^']*/(src/[^']*)'", r" path='\1'", said)


def differences(before: str, after: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="hakmem-abi-") as folder:
        files = [Path(folder, name) for name in ("before.abi", "after.abi")]
        for file, text in zip(files, (before, after), strict=True):
            file.write_text(text, encoding="utf-8")
        command = ["abidiff", "--no-added-syms", "--suppressions", SUPPRESSIONS, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode & USAGE:
        sys.exit(f"FAILED: abidiff: {done.stdout}{done.stderr}")
    return done.returncode & WRONG, done.stdout


def with_one_more(description: str) -> str:
    """As if the library had once had a function more."""
    row = re.search(r"\n *<elf-symbol name='hak_purge'[^\n]*", description)
    assert row is not None
    return description.replace(row[0], row[0] + row[0].replace("hak_purge", "hak_purge_all"), 1)


def with_another_result(description: str) -> str:
    """As if hak_purge had once had no result, as hak_free."""
    types = [
        re.search(rf"function-decl name='{name}'.*?<return type-id='(\w+)'", description, re.DOTALL)
        for name in ("hak_purge", "hak_free")
    ]
    assert types[0] is not None and types[1] is not None
    begin, end = types[0].span(1)
    return description[:begin] + types[1][1] + description[end:]


def with_a_field_moved(description: str) -> str:
    """As if the first two numbers of hak_stats had once been in the other order."""
    swapped = {"live_bytes": "live_blocks", "live_blocks": "live_bytes"}
    return re.sub(
        r"(?<=var-decl name=')(live_bytes|live_blocks)(?=')",
        lambda name: swapped[name[1]],
        description,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the description anew")
    parser.add_argument("library", type=Path)
    arguments = parser.parse_args()
    for tool in ("abidw", "abidiff"):
        if shutil.which(tool) is None:
            print(f"skipped: there is no {tool} (Debian: abigail-tools)")
            return SKIPPED
    if arguments.update:
        DESCRIPTION.write_text(describe(arguments.library), encoding="utf-8")
        return 0
    now = describe(arguments.library)
    status, text = differences(DESCRIPTION.read_text(encoding="utf-8"), now)
    if status != 0:
        print(text)
        print("FAILED: this breaks programs, unless hak_stats has only grown: see CONTRIBUTING.md")
        return 1
    for change in (with_one_more, with_another_result, with_a_field_moved):
        if differences(change(now), now)[0] == 0:
            sys.exit(f"FAILED: {change.__name__} goes unnoticed: this checks nothing")
    print("the interface is the promised one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
