"""Runs every misuse in a process of its own, and compares how it ends with table.toml.

usage: run_misuse.py --program MISUSE --flavour {release,guarded,debug,secure} [--library LIBRARY]
                     [NAME...]
       run_misuse.py --program MISUSE --peers [--library LIBRARY] [--allocator NAME=LIBRARY]...
       run_misuse.py --program MISUSE --markdown

The program writes the address that it misuses, does so, says "written" or "passed" when that went
through, and goes on until it returns from main. LIBRARY is preloaded into it; without it the
environment decides. --record writes what was seen into table.toml. --peers counts what other
allocators stop: glibc, those in build/peers, and what --allocator names.

The flavour `guarded` is the release build with every block sampled, and those of up to 60 KiB
guarded while places last. On which side of a block the closed page lies is chance: of several
rounds that are recorded the worst counts, and the table says what is to be expected at least.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

RELEASE, GUARDED = "release", "guarded"
FLAVOURS = (RELEASE, GUARDED, "debug", "secure")
EVERY_BLOCK_GUARDED = {
    "HAKMEM_PROFILE": "1",
    "HAKMEM_PROFILE_INTERVAL": "1",
    "HAKMEM_PROFILE_RATE": "1000000",
    "HAKMEM_GUARDS": "8192",
}
DETECTED, NOTICED, STOPPED = "detected", "noticed", "stopped"
CRASHED, UNDETECTED, VARIES, NOT_RUN = "crashed", "undetected", "varies", "not run"
OUTCOMES = (DETECTED, NOTICED, STOPPED, CRASHED, UNDETECTED, VARIES, NOT_RUN)
FROM_BEST = OUTCOMES[:5]
NAMED = (DETECTED, NOTICED)
ENDED = (*NAMED, STOPPED)
FAULTS = (-signal.SIGSEGV, -signal.SIGBUS)
TABLE = Path(__file__).with_name("table.toml")
PAGE = Path(__file__).parents[2] / "docs/misuse.md"
RECORDED = "# What each build does.\n"
PEERS = Path(__file__).parents[2] / "build" / "peers"
TIMEOUT_S = 120
# What the builds promise, whatever has been recorded: shares that are stopped and named, and of
# which kinds none passes.
STOPPED_LEAST = {RELEASE: 0.60, "secure": 0.90}
NAMED_LEAST = {"secure": 0.70}
NEVER_SILENT = ("double free", "double free across threads", "pointer into a block")
DOUBLE_FREES = NEVER_SILENT[:2]
LINES_MOST = (
    4  # of a call that is refused: the reason, the place, and of a sampled block two stacks
)
EMULATOR = "qemu: "  # says of its own that the program was ended
PEER_TIMEOUT_S = 10  # some hang in lists that lead back to themselves
SKIPPED = 77


@dataclass(frozen=True)
class Misuse:
    kind: str
    name: str
    text: str


@dataclass(frozen=True)
class End:
    status: int | None  # None: it hung
    stdout: str
    stderr: str

    @property
    def went_through(self) -> bool:
        return re.search(r"^(written|passed)$", self.stdout, re.MULTILINE) is not None


@dataclass(frozen=True)
class Table:
    messages: dict[str, str]  # by kind: what names it
    outcomes: dict[str, dict[str, str]]  # by name, then by flavour

    def outcome(self, name: str, flavour: str) -> str:
        return self.outcomes[name][flavour]


def read_table() -> Table:
    read = tomllib.loads(TABLE.read_text())
    table = Table(read["message"], read.get("outcome", {}))
    for name, row in table.outcomes.items():
        for flavour in FLAVOURS:
            if row.get(flavour) not in OUTCOMES:
                sys.exit(f"{TABLE.name}: {name}: {flavour} = {row.get(flavour)!r}")
    return table


def record(table: Table, misuses: list[Misuse], flavour: str, seen: dict[str, str]) -> None:
    """Writes what was seen of one flavour into the table."""
    lines = ["[outcome]"]
    for misuse in misuses:
        row = dict.fromkeys(FLAVOURS, NOT_RUN) | table.outcomes.get(misuse.name, {})
        if misuse.name in seen:
            row[flavour] = seen[misuse.name]
        cells = ", ".join(f'{flavour} = "{row[flavour]}"' for flavour in FLAVOURS)
        lines.append(f"{misuse.name} = {{ {cells} }}")
    head = TABLE.read_text().split(RECORDED)[0]
    TABLE.write_text(head + RECORDED + "\n".join(lines) + "\n")


def list_misuses(program: str) -> list[Misuse]:
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    return [Misuse(*line.split("\t")) for line in listed.stdout.splitlines()]


def run_one(
    program: str, misuse: Misuse, environment: dict[str, str], timeout: int = TIMEOUT_S
) -> End:
    try:
        done = subprocess.run(
            [program, misuse.name],
            env=environment,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return End(None, "", "")
    errors = done.stderr.decode(errors="replace").splitlines(keepends=True)
    return End(
        done.returncode,
        done.stdout.decode(errors="replace"),
        "".join(line for line in errors if not line.startswith(EMULATOR)),
    )


def run_all(
    program: str, misuses: list[Misuse], environment: dict[str, str], timeout: int = TIMEOUT_S
) -> list[tuple[Misuse, End]]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ends = pool.map(lambda misuse: run_one(program, misuse, environment, timeout), misuses)
        return list(zip(misuses, ends, strict=True))


def outcome_of(end: End, message: str) -> str:
    """How a misuse under hakmem has ended."""
    if end.status == SKIPPED:
        return NOT_RUN
    if end.status == 0:
        return UNDETECTED
    if end.status is None or end.status > 0:
        return f"ended with {end.status}"
    lines = end.stderr.splitlines()
    if end.status not in FAULTS and (not lines or not lines[0].startswith("hakmem: ")):
        return CRASHED  # by another's abort, or without a word
    if any(re.search(message, line) for line in lines):
        return NOTICED if end.went_through else DETECTED
    return CRASHED if end.status in FAULTS else STOPPED


def report_errors(outcome: str, end: End, kind: str) -> list[str]:
    """What is wrong with what was said, at the call itself or later."""
    if outcome not in NAMED:
        return []
    address = re.search(r"^address (0x[0-9a-f]+)$", end.stdout, re.MULTILINE)
    if address is None:
        return ["the program did not reach its misuse"]
    lines = end.stderr.splitlines()
    if outcome == NOTICED:
        is_named = re.search(rf"\b{address[1]}\b", end.stderr) is not None
        return [] if is_named or kind not in DOUBLE_FREES else [f"no line names {address[1]}"]
    if not all(line.startswith("hakmem: ") for line in lines):
        return ["standard error has lines that are not hakmem's"]
    if end.status == -signal.SIGABRT and re.search(rf"\b{address[1]}\b", lines[0]) is None:
        return [f"the line does not name {address[1]}"]
    if end.status == -signal.SIGABRT and len(lines) > LINES_MOST:
        return [f"more than {LINES_MOST} lines for a call that was refused"]
    return []


def is_at_least(outcome: str, expected: str) -> bool:
    return outcome in FROM_BEST[: FROM_BEST.index(expected) + 1]


def row_errors(expected: str, outcome: str, end: End, kind: str, flavour: str) -> list[str]:
    errors = report_errors(outcome, end, kind)
    enough = flavour == GUARDED and expected in FROM_BEST and is_at_least(outcome, expected)
    if expected not in (outcome, VARIES) and not enough:
        errors.append(f"{outcome} instead of {expected}")
    if errors and end.stderr:
        errors.append("standard error: " + end.stderr.strip())
    return errors


def percent(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "none"


def totals(outcomes: list[str]) -> str:
    count = Counter(outcomes)
    ran = len(outcomes) - count[NOT_RUN]
    stopped = sum(count[outcome] for outcome in ENDED)
    named = sum(count[outcome] for outcome in NAMED)
    return (
        f"stopped {percent(stopped, ran)}, with a message that names the kind "
        f"{percent(named, ran)}; at the call {count[DETECTED]}, crashed {count[CRASHED]}, "
        f"undetected {count[UNDETECTED] + count[VARIES]}"
    )


def share_of(outcomes: list[str], wanted: tuple[str, ...]) -> float:
    ran = [outcome for outcome in outcomes if outcome != NOT_RUN]
    return sum(outcome in wanted for outcome in ran) / len(ran)


def broken_promises(table: Table, misuses: list[Misuse], flavour: str) -> list[str]:
    """Of what the table says: it is written from what was seen."""
    outcomes = [table.outcome(misuse.name, flavour) for misuse in misuses]
    broken = [
        f"{flavour}: {word} {share_of(outcomes, wanted):.3f} of all, promised are {least[flavour]}"
        for word, wanted, least in (
            ("stops", ENDED, STOPPED_LEAST),
            ("names", NAMED, NAMED_LEAST),
        )
        if flavour in least and share_of(outcomes, wanted) < least[flavour]
    ]
    return broken + [
        f"{misuse.name}: {outcome}, and that kind never passes without a word"
        for misuse, outcome in zip(misuses, outcomes, strict=True)
        if misuse.kind in NEVER_SILENT and outcome in (UNDETECTED, VARIES)
    ]


def environment_for(library: str | None, flavour: str = RELEASE) -> dict[str, str]:
    # Of a sampled block more is detected, and which ones are sampled is chance.
    samples = EVERY_BLOCK_GUARDED if flavour == GUARDED else {"HAKMEM_PROFILE": "0"}
    environment = samples | os.environ
    if library is not None:
        environment["LD_PRELOAD"] = library
    return environment


def worse_of(one: str, other: str) -> str:
    if one not in FROM_BEST or other not in FROM_BEST:
        return one if one == other else VARIES
    return max(one, other, key=FROM_BEST.index)


def record_rounds(table: Table, misuses: list[Misuse], arguments: argparse.Namespace) -> int:
    environment = environment_for(arguments.library, arguments.flavour)
    seen: dict[str, str] = {}
    for _ in range(arguments.rounds):
        for misuse, end in run_all(arguments.program, misuses, environment):
            outcome = outcome_of(end, table.messages[misuse.kind])
            seen[misuse.name] = worse_of(seen.get(misuse.name, outcome), outcome)
    print(f"{arguments.flavour}: {totals(list(seen.values()))}")
    record(table, list_misuses(arguments.program), arguments.flavour, seen)
    return 0


def run_table(table: Table, misuses: list[Misuse], arguments: argparse.Namespace) -> int:
    flavour, failed, seen = arguments.flavour, 0, []
    ends = run_all(arguments.program, misuses, environment_for(arguments.library, flavour))
    for misuse, end in ends:
        outcome = outcome_of(end, table.messages[misuse.kind])
        seen.append(outcome)
        expected = table.outcome(misuse.name, flavour)
        if arguments.faults and {expected, outcome} == {UNDETECTED, CRASHED}:
            expected = outcome
        errors = row_errors(expected, outcome, end, misuse.kind, flavour)
        print(f"{'FAILED' if errors else 'ok':6} {misuse.name}: {expected}")
        for error in errors:
            print(f"       {error}")
        failed += bool(errors)
    print(f"{flavour}: {totals(seen)}")
    print(f"{len(misuses) - failed} of {len(misuses)} as the table says")
    return 1 if failed else 0


# ---- other allocators ----


def peer_libraries(arguments: argparse.Namespace) -> dict[str, str]:
    """Library by allocator; no library: glibc."""
    libraries = {"glibc": ""}
    for library in sorted(PEERS.glob("*/lib*.so")):
        libraries[library.parent.name] = str(library)
    for named in arguments.allocator:
        name, _, library = named.partition("=")
        if not Path(library).is_file():
            sys.exit(f"--allocator {named}: '{library}' is not a file; say NAME=LIBRARY")
        libraries[name] = library
    if arguments.library:
        libraries["hakmem " + arguments.flavour] = arguments.library
    return libraries


def cell_of(ends: list[End]) -> str:
    """How many ended by a signal; of them, those that crashed after a plus sign."""
    statuses = [end.status for end in ends if end.status is not None and end.status < 0]
    crashed = sum(status in FAULTS for status in statuses)
    return f"{len(statuses) - crashed}" + (f" + {crashed}" if crashed else "")


def table_of(heads: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "--:|" * (len(heads) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def by_kind(
    misuses: list[Misuse], columns: dict[str, Callable[[list[Misuse]], str]]
) -> list[list[str]]:
    groups: dict[str, list[Misuse]] = {}
    for misuse in misuses:
        groups.setdefault(misuse.kind, []).append(misuse)
    groups["all"] = misuses
    return [
        [kind, str(len(group)), *(column(group) for column in columns.values())]
        for kind, group in groups.items()
    ]


def peer_column(program: str, misuses: list[Misuse], library: str) -> Callable[[list[Misuse]], str]:
    environment = environment_for(library) | {"HAK_TEST_ANY_MALLOC": "1"}
    ran = run_all(program, misuses, environment, PEER_TIMEOUT_S)
    ends = {misuse.name: end for misuse, end in ran}
    return lambda group: cell_of([ends[misuse.name] for misuse in group])


def run_peers(misuses: list[Misuse], arguments: argparse.Namespace) -> int:
    columns = {}
    for name, library in peer_libraries(arguments).items():
        print(f"{name} ...", file=sys.stderr)
        columns[name] = peer_column(arguments.program, misuses, library)
    print(table_of(["kind", "programs", *columns], by_kind(misuses, columns)))
    return 0


# ---- documentation ----


def flavour_column(table: Table, flavour: str) -> Callable[[list[Misuse]], str]:
    def cell(group: list[Misuse]) -> str:
        count = Counter(table.outcome(misuse.name, flavour) for misuse in group)
        stopped = sum(count[outcome] for outcome in ENDED)
        return f"{stopped}, {count[DETECTED]} at the call"

    return cell


def markdown(table: Table, misuses: list[Misuse]) -> str:
    columns = {flavour: flavour_column(table, flavour) for flavour in FLAVOURS}
    parts = [table_of(["kind", "programs", *columns], by_kind(misuses, columns))]
    for flavour in FLAVOURS:
        outcomes = [table.outcome(misuse.name, flavour) for misuse in misuses]
        parts.append(f"{flavour}: {totals(outcomes)}.")
    rows = [
        [misuse.text, *(table.outcome(misuse.name, flavour) for flavour in FLAVOURS)]
        for misuse in misuses
    ]
    return "\n\n".join([*parts, table_of(["misuse", *FLAVOURS], rows)])


def missing_in_page(table: Table, misuses: list[Misuse]) -> list[str]:
    page = PAGE.read_text()
    parts = markdown(table, misuses).split("\n\n")
    return [
        f"docs/{PAGE.name} has another table than {TABLE.name} (--markdown): {part[:60]}..."
        for part in parts
        if part not in page
    ]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="the built misuse program")
    parser.add_argument("--flavour", choices=FLAVOURS, default="release")
    parser.add_argument("--library", help="library to preload into the programs")
    parser.add_argument("--record", action="store_true", help="write the outcomes into table.toml")
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N", help="so often, with --record"
    )
    parser.add_argument("--peers", action="store_true", help="count under other allocators")
    parser.add_argument(
        "--allocator",
        action="append",
        default=[],
        metavar="NAME=LIBRARY",
        help="one more, with --peers",
    )
    parser.add_argument(
        "--faults",
        action="store_true",
        help="what is not detected faults or not, as other things lie beside the blocks",
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables and end")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these misuses")
    return parser.parse_args()


def choose(misuses: list[Misuse], names: list[str]) -> list[Misuse]:
    unknown = set(names) - {misuse.name for misuse in misuses}
    if unknown:
        sys.exit(f"no such misuse: {', '.join(sorted(unknown))}")
    return [misuse for misuse in misuses if not names or misuse.name in names]


def main() -> int:
    arguments = parse_arguments()
    misuses, table = list_misuses(arguments.program), read_table()
    if arguments.peers:
        return run_peers(choose(misuses, arguments.names), arguments)
    difference = {misuse.name for misuse in misuses} ^ set(table.outcomes)
    if difference and not arguments.record:
        sys.exit(f"in only one of {TABLE.name} and the program: {', '.join(sorted(difference))}")
    if arguments.markdown:
        print(markdown(table, misuses))
        return 0
    broken = broken_promises(table, misuses, arguments.flavour) + missing_in_page(table, misuses)
    if broken and not arguments.record:
        sys.exit("FAILED: " + "\n".join(broken))
    run = record_rounds if arguments.record else run_table
    return run(table, choose(misuses, arguments.names), arguments)


if __name__ == "__main__":
    sys.exit(main())
