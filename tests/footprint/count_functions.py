#!/usr/bin/env python3
"""How many programs run each of the library's functions: what cmake/layout.ld goes by.

    count_functions.py LIBRARY [COMMAND...]

Runs each command under callgrind on the library (without any: the ones below), with all that it
starts, and prints for each part of the layout its functions, by how many of the processes ran them,
and at the end how many processes touched the part at all. Takes some minutes.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
COMMANDS = (
    "true",
    "ls -lR /usr/include",
    "sh -c 'for i in 1 2 3; do echo $i | cat; done'",
    f"git -C {SOURCE} log --stat -n 100",
    f"git -C {SOURCE} status",
    f"gcc -O1 -I{SOURCE}/src -I{SOURCE}/include -fsyntax-only {SOURCE}/src/purge/purge.c",
    f"find {SOURCE}/src -name '*.c' -newer {SOURCE}/README.md",
    f"tar cf /dev/null {SOURCE}/src",
    f"sort {SOURCE}/docs/limits.md",
    f"awk '{{a[$1]=$0}} END {{for (k in a) n++; print n}}' {SOURCE}/CHANGELOG.md",
    "python3 -c 'import json; json.loads(json.dumps([str(i) for i in range(30000)]))'",
    "env PYTHONMALLOC=malloc python3 -c 'x = {str(i): [i] for i in range(30000)}'",
    "perl -e 'push @a, \"k$_\" for 1..30000; print scalar(@a)'",
    "bash -c 'for i in 1 2 3; do a[i]=$(echo $i); done; echo ${a[@]}'",
    "openssl dgst -sha256 /etc/passwd",
    "xz -0 -k -c /etc/passwd",
)
PARTS = (".text", ".hak_usual", ".hak_often", ".hak_seldom")
LINE = re.compile(r"(ob|cob|fn|cfn|fl|fi|fe|cfi|cfl)=\((\d+)\)(?: (.*))?")
# Callgrind has no name for the second mapping of code that an object has.
NAMELESS = "???"


@dataclass(frozen=True)
class Function:
    name: str
    address: int
    size: int
    part: str


def sections(library: str) -> dict[str, range]:
    out = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True)
    found = re.findall(r"\] (\S+) +\w+ +(\w+) \w+ (\w+)", out.stdout)
    return {name: range(int(at, 16), int(at, 16) + int(size, 16)) for name, at, size in found}


def functions(library: str) -> Iterator[Function]:
    parts = {name: place for name, place in sections(library).items() if name in PARTS}
    out = subprocess.run(["nm", "-S", library], capture_output=True, text=True, check=True)
    for at, size, name in re.findall(r"^(\w+) (\w+) [tTwW] (\S+)$", out.stdout, re.MULTILINE):
        for part, place in parts.items():
            if int(at, 16) in place:
                yield Function(name, int(at, 16), int(size, 16), part)


def told_apart(found: Iterable[Function]) -> Iterator[Function]:
    """Of several with one name, which callgrind does not tell apart, that of the most used part."""
    seen = set()
    for function in sorted(found, key=lambda f: (PARTS.index(f.part), f.address)):
        if function.name not in seen:
            yield function
        seen.add(function.name)


def ran(profile: Path, library: str) -> set[str]:
    """Functions of the library in one of callgrind's files, in which a name is said once."""
    names: defaultdict[str, dict[str, str]] = defaultdict(dict)
    found, here = set(), ""
    for match in filter(None, map(LINE.match, profile.read_text(errors="replace").splitlines())):
        kind, number, name = match.groups()
        table = names[kind.removeprefix("c") if kind in ("cob", "cfn") else kind]
        if name:
            table[number] = name.strip()
        if kind == "ob":
            here = table.get(number, "")
        elif kind == "fn" and (here == NAMELESS or Path(here).name.startswith(library)):
            found.add(table.get(number, "").partition("'")[0])
    return found


def run(command: str, library: str, folder: str) -> None:
    subprocess.run(
        [
            *("valgrind", "--tool=callgrind", "--trace-children=yes"),
            *(f"--callgrind-out-file={folder}/%p", "env", f"LD_PRELOAD={library}"),
            *("sh", "-c", f"exec {command}"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )


def main(library: str, commands: Iterable[str]) -> None:
    name = os.path.realpath(library)
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda command: run(command, name, folder), commands))
        processes = [ran(file, Path(name).name) for file in Path(folder).iterdir()]
    processes = [names for names in processes if "front_alloc_slow" in names]
    all_functions = list(told_apart(functions(library)))
    uses = Counter(name for names in processes for name in names)
    for part in PARTS:
        here = [f for f in all_functions if f.part == part]
        touched = sum(1 for names in processes if names & {f.name for f in here})
        print(f"{part}: {touched} of {len(processes)} processes")
        for f in sorted(here, key=lambda f: (-uses[f.name], f.address)):
            print(f"{uses[f.name]:6} {f.size:6} {f.name}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:] or COMMANDS)
