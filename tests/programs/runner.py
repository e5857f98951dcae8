#!/usr/bin/env python3
"""Runs a real program without and with a preloaded library and compares what it writes.

runner.py --library PATH NAME...   run these (all: every one)
runner.py --list                   name, weight and time-out of every program, one per line
runner.py --packages               the Debian packages that the programs come from

Exits with 0 if all were equal, 1 if one was not, else 77 if one is missing.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import catalogue
import compare
import loaded
import sandbox as sandboxes

MISSING = 77


def failed_run(outcome: sandboxes.Outcome) -> list[str]:
    """Says why a run that ended badly did."""
    label = outcome.directory.name
    if outcome.status == 0:
        return []
    how = "timed out" if outcome.status is None else f"ended with status {outcome.status}"
    said = outcome.stdout[-2000:] + outcome.stderr[-2000:]
    shown = said.decode(errors="replace").splitlines()
    return [f"run {label} {how}", *shown, *compare.tail_of_logs(outcome.directory)]


def examine(box: sandboxes.Sandbox) -> list[str]:
    """Runs the program both ways; returns everything that is wrong."""
    complaints = loaded.check_probe(box) + loaded.check_binaries(box)
    if complaints:
        return complaints
    plain = box.run("without", preload=False)
    if complaints := failed_run(plain):
        return complaints
    if not compare.wrote_something(plain):
        return ["the workload wrote nothing that could be compared"]
    preloaded = box.run("with", preload=True)
    rules = compare.rules_of(box.program.normalise)
    complaints = failed_run(preloaded)
    complaints += compare.compare_streams(plain, preloaded, rules, box.program.unordered)
    complaints += compare.compare_files(plain, preloaded, rules)
    complaints += loaded.check_evidence(box, plain, preloaded)
    complaints += compare.own_lines(preloaded)
    print(f"{box.program.name}: {plain.seconds:.1f} s without, {preloaded.seconds:.1f} s with")
    return complaints


def try_program(program: catalogue.Program, library: Path, keep: bool) -> int:
    missing = program.missing()
    if missing:
        packages = " ".join(program.packages)
        print(f"{program.name}: skipped, lacks {', '.join(missing)} (packages: {packages})")
        return MISSING
    box = sandboxes.Sandbox(program, library)
    try:
        complaints = examine(box)
    finally:
        sandboxes.end_children()
        if not keep:
            box.remove()
    for line in complaints:
        print(f"{program.name}: {line}")
    verdict = "FAILED" if complaints else "equal"
    where = f" (kept in {box.base})" if keep else ""
    print(f"{program.name}: {verdict}{where}", flush=True)
    return 1 if complaints else 0


def run(programs: dict[str, catalogue.Program], args: argparse.Namespace) -> int:
    names = list(programs) if args.names == ["all"] else args.names
    unknown = [name for name in names if name not in programs]
    if unknown or not names:
        print(f"no such program: {' '.join(unknown) or '(none named)'}", file=sys.stderr)
        return 2
    library = args.library.resolve()
    if not library.is_file():
        print(f"no such library: {library}", file=sys.stderr)
        return 2
    sandboxes.adopt_orphans()
    # A terminated runner must still end its servers and remove its directory.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = [try_program(programs[name], library, args.keep) for name in names]
    if len(results) > 1:
        print(
            f"{results.count(0)} equal, {results.count(1)} failed, {results.count(MISSING)} skipped"
        )
    return 1 if 1 in results else max(results)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", type=Path, help="the library to preload")
    parser.add_argument("--keep", action="store_true", help="keep the directories of the runs")
    parser.add_argument("--list", action="store_true", help="list the programs")
    parser.add_argument("--packages", action="store_true", help="list their packages")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    programs = catalogue.load()
    if args.list:
        for program in programs.values():
            print(program.name, program.weight, program.timeout)
        return 0
    if args.packages:
        print("\n".join(sorted({name for p in programs.values() for name in p.packages})))
        return 0
    if args.library is None:
        parser.error("--library is needed to run a program")
    return run(programs, args)


if __name__ == "__main__":
    sys.exit(main())
