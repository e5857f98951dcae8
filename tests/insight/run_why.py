#!/usr/bin/env python3
"""Looks at real programs with `hakmem why` and compares with what the kernel counts.

run_why.py --library PATH NAME...        these programs (see programs.py)
run_why.py --library PATH --all          every one; fails if fewer than ten were there
run_why.py --library PATH --threads EXE  many_threads, which knows what it has allocated

Exits with 0 if each adds up, 1 if one does not, 77 if a program that was named is missing.
"""

import re
import sys
import tempfile
from pathlib import Path

from programs import (
    MISSING,
    PROGRAMS,
    NotReadyError,
    Program,
    find,
    parser_for,
    started,
    until_ready,
)

from hakmem.errors import HakmemError
from hakmem.insight.rows import Row
from hakmem.insight.why import Explanation, why

LEAST_PROGRAMS = 10
UNEXPLAINED_MOST = 0.01  # of RSS
# What many_threads knows against what is counted.
USABLE_MOST = 0.01
REQUESTED_MOST = 0.05


def wrong_sums(e: Explanation) -> list[str]:
    complaints = []
    if sum(row.bytes for row in e.rows) != e.rss:
        complaints.append("the rows do not add up to RSS")
    rows = [row for top in e.rows for _, row in top.walk()]
    complaints += [f"{row.key} is below zero: {row.bytes}" for row in rows if row.bytes < 0]
    complaints += [f"the parts of {row.key} do not add up to it" for row in rows if torn(row)]
    if abs(e.unexplained) > UNEXPLAINED_MOST * e.rss:
        complaints.append(f"{e.unexplained} bytes of {e.rss} are unexplained")
    if not e.row("live").bytes:
        complaints.append("nothing is live")
    return complaints


def torn(row: Row) -> bool:
    return bool(row.children) and sum(child.bytes for child in row.children) != row.bytes


def says(name: str, e: Explanation) -> None:
    own = 1 - e.share(e.bytes("not_ours"))
    print(
        f"{name}: {e.rss} bytes, {own * 100:.0f} % hakmem's, "
        f"{e.share(e.unexplained) * 100:.3f} % unexplained",
        flush=True,
    )
    for note in e.unknown:
        print(f"  {note}")


def try_program(name: str, program: Program, library: Path) -> int:
    try:
        find(program.program)
    except FileNotFoundError:
        print(f"{name}: skipped, {program.program} is not installed")
        return MISSING
    with tempfile.TemporaryDirectory(prefix="why-") as folder:
        try:
            with program.running(library, Path(folder)) as (pid, _):
                e = why(str(pid))
        except (NotReadyError, HakmemError) as error:
            errors = (Path(folder) / "errors").read_text(errors="replace")
            print(f"{name}: FAILED: {error}\n{errors[-1000:]}")
            return 1
    says(name, e)
    return verdict(name, wrong_sums(e))


def verdict(name: str, complaints: list[str]) -> int:
    for complaint in complaints:
        print(f"{name}: FAILED: {complaint}")
    return 1 if complaints else 0


def try_all(library: Path) -> int:
    results = [try_program(name, program, library) for name, program in PROGRAMS.items()]
    looked = len(results) - results.count(MISSING)
    failed = results.count(1)
    print(f"{looked - failed} add up, {failed} failed, {results.count(MISSING)} skipped")
    if looked < LEAST_PROGRAMS:
        print(f"FAILED: {LEAST_PROGRAMS} programs are wanted")
        return 1
    return 1 if failed else 0


def try_threads(executable: Path, library: Path) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="why-") as folder,
        started([str(executable)], library, Path(folder), {}) as child,
    ):
        said = until_ready(child)
        e = why(str(child.pid))
    says("many_threads", e)
    known = {word: int(number) for word, number in re.findall(r"(\w+) (\d+)", said)}
    return verdict("many_threads", [*wrong_sums(e), *wrong_counts(e, known)])


def wrong_counts(e: Explanation, known: dict[str, int]) -> list[str]:
    """What another thread has freed may wait in a parcel; magazines' lengths may be old."""
    late = known["beside"]
    if e.holdings.lengths is None:
        late += known["own"]
    requested = e.bytes("live") + e.untouched
    complaints = []
    for word, counted, most in (
        ("usable", requested + e.bytes("rounding"), USABLE_MOST),
        ("requested", requested, REQUESTED_MOST),
    ):
        print(f"  {word} {known[word]}, counted {counted}, of which {late} may be on the way")
        if not known[word] * (1 - most) <= counted <= known[word] * (1 + most) + late:
            complaints.append(f"{known[word]} bytes are {word}, {counted} were counted")
    return complaints


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--all", action="store_true", help="every program there is")
    parser.add_argument("--threads", type=Path, metavar="EXE", help="many_threads")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    library = args.library.resolve()
    unknown = [name for name in args.names if name not in PROGRAMS]
    if unknown or not library.is_file():
        print(f"no such {'program' if unknown else 'library'}: {' '.join(unknown) or library}")
        return 2
    if args.threads is not None:
        return try_threads(args.threads.resolve(), library)
    if args.all:
        return try_all(library)
    if not args.names:
        parser.error("name a program, or --all, or --threads")
    results = [try_program(name, PROGRAMS[name], library) for name in args.names]
    return 1 if 1 in results else max(results)


if __name__ == "__main__":
    sys.exit(main())
