"""Runs every misuse of table.toml in a process of its own and checks what is said about it.

usage: run_misuse.py --program MISUSE --flavour {release,debug,secure} [--library LIBRARY] [NAME...]
       run_misuse.py --markdown

A detected misuse ends with SIGABRT and a line on standard error, which starts with "hakmem: ",
names the address and matches the row's regular expression; for an address in hakmem's memory one
more line says what lies there. An undetected one lets the program go on. LIBRARY is preloaded into
the programs; without it the environment decides.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

FLAVOURS = ("release", "debug", "secure")
DETECTED, UNDETECTED, NOT_RUN = "detected", "undetected", "not run"
TABLE = Path(__file__).with_name("table.toml")
TIMEOUT_S = 120


@dataclass(frozen=True)
class Row:
    name: str
    misuse: str
    release: str
    debug: str
    secure: str
    message: str

    def expected(self, flavour: str) -> str:
        return getattr(self, flavour)


def read_table() -> list[Row]:
    rows = [Row(**row) for row in tomllib.loads(TABLE.read_text())["row"]]
    for row in rows:
        for flavour in FLAVOURS:
            if row.expected(flavour) not in (DETECTED, UNDETECTED, NOT_RUN):
                sys.exit(f"{TABLE.name}: {row.name}: {flavour} = {row.expected(flavour)!r}")
    return rows


def markdown(rows: list[Row]) -> str:
    words = {DETECTED: "detected", UNDETECTED: "-", NOT_RUN: "-"}
    lines = ["| misuse | " + " | ".join(FLAVOURS) + " |", "|---|" + "---|" * len(FLAVOURS)]
    for row in rows:
        cells = [row.misuse.replace("|", "\\|")] + [words[row.expected(f)] for f in FLAVOURS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def detection_errors(row: Row, done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is wrong with the end of a program whose misuse has to be detected."""
    errors = []
    if done.returncode != -signal.SIGABRT:
        errors.append(f"ended with {done.returncode} instead of SIGABRT")
    lines = done.stderr.splitlines()
    if len(lines) not in (1, 2) or not all(line.startswith("hakmem: ") for line in lines):
        return [*errors, "standard error is not one or two lines that start with 'hakmem: '"]
    address = re.search(r"^address (0x[0-9a-f]+)$", done.stdout, re.MULTILINE)
    if address is None:
        errors.append("the program did not reach its misuse")
    elif re.search(rf"\b{address[1]}\b", lines[0]) is None:
        errors.append(f"the line does not name {address[1]}")
    elif any(not line.startswith(f"hakmem: the address {address[1]} is ") for line in lines[1:]):
        errors.append("the second line does not explain it")
    if re.search(row.message, lines[0]) is None:
        errors.append(f"the line does not match /{row.message}/")
    return errors


def survival_errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is wrong with the end of a program whose misuse goes undetected."""
    errors = []
    if done.returncode != 0 or not done.stdout.endswith("survived\n"):
        errors.append(f"ended with {done.returncode} instead of going on")
    if "hakmem: " in done.stderr:
        errors.append("detected, though the table says it is not")
    return errors


def run_row(row: Row, program: str, flavour: str, environment: dict[str, str]) -> list[str]:
    expected = row.expected(flavour)
    if expected == NOT_RUN:
        return []
    done = subprocess.run(
        [program, row.name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    errors = detection_errors(row, done) if expected == DETECTED else survival_errors(done)
    if errors and done.stderr:
        errors.append("standard error: " + done.stderr.strip())
    return errors


def check_names(rows: list[Row], program: str) -> None:
    """The table and the program have to know the same misuses."""
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    difference = set(listed.stdout.split()) ^ {row.name for row in rows}
    if difference:
        sys.exit(f"in only one of {TABLE.name} and {program}: {', '.join(sorted(difference))}")


def run_table(rows: list[Row], arguments: argparse.Namespace) -> int:
    # Of a sampled block more is detected, and which ones are sampled is chance.
    environment = {"HAKMEM_PROFILE": "0"} | os.environ
    if arguments.library:
        environment["LD_PRELOAD"] = arguments.library
    failed = 0
    for row in rows:
        errors = run_row(row, arguments.program, arguments.flavour, environment)
        verdict = "FAILED" if errors else "ok"
        print(f"{verdict:6} {row.name}: {row.expected(arguments.flavour)}")
        for error in errors:
            print(f"       {error}")
        failed += bool(errors)
    print(f"{len(rows) - failed} of {len(rows)} as the table says")
    return 1 if failed else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="the built misuse.c")
    parser.add_argument("--flavour", choices=FLAVOURS, default="release")
    parser.add_argument("--library", help="library to preload into the programs")
    parser.add_argument("--markdown", action="store_true", help="print the table and end")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these rows")
    arguments = parser.parse_args()
    if not arguments.markdown and not arguments.program:
        parser.error("--program is missing")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    rows = read_table()
    if arguments.markdown:
        print(markdown(rows))
        return 0
    check_names(rows, arguments.program)
    unknown = set(arguments.names) - {row.name for row in rows}
    if unknown:
        sys.exit(f"not in {TABLE.name}: {', '.join(sorted(unknown))}")
    chosen = [row for row in rows if not arguments.names or row.name in arguments.names]
    return run_table(chosen, arguments)


if __name__ == "__main__":
    sys.exit(main())
