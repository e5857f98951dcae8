"""Checks what libhakmem.so shows to others: symbols, probes, and how much static TLS it takes.

usage: check_library.py symbols LIBRARY ALLOW_LIST
       check_library.py tls LIBRARY
       check_library.py probes LIBRARY TABLE

Exits with 77 (skipped) where nm or readelf is missing.
"""

import fnmatch
import re
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
# Such as 8@%rax, or 8@[x19, 24].
PROBE_ARGUMENT = re.compile(r"-?\d@(?:\[[^]]*\]|\S)")
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


def probes_in(library: str) -> dict[str, set[int]]:
    """The numbers of arguments with which each probe of ours occurs."""
    notes = run_tool("readelf", "--notes", "--wide", library)
    probes: dict[str, set[int]] = {}
    for found in re.finditer(r"Provider: (\S+)\s+Name: (\S+)\s.*\n\s+Arguments: (.*)", notes):
        provider, name, arguments = found.groups()
        probes.setdefault(f"{provider}:{name}", set()).add(len(PROBE_ARGUMENT.findall(arguments)))
    return probes


def check_probes(library: str, table: str) -> list[str]:
    """Each row of the table is a probe, there at least once and always with its arguments."""
    rows = re.findall(r"^PROBE(\d)\((\w+)", Path(table).read_text(), re.MULTILINE)
    wanted = {f"hakmem:{name}": {int(count)} for count, name in rows}
    found = probes_in(library)
    print(f"{len(found)} probes")
    return [
        f"{name}: {found.get(name)} arguments in the library, {wanted.get(name)} in the table"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    ]


def main() -> None:
    what, *arguments = sys.argv[1:]
    checks = {"symbols": check_symbols, "tls": check_tls, "probes": check_probes}
    errors = checks[what](*arguments)
    for error in errors:
        print(error)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
