"""Instructions and simulated cache misses per operation, which no busy machine can disturb.

A case is run twice under callgrind, with few and with more operations. The difference of the two,
by the difference in operations, leaves out the start of the process and the filling of its tables.
The caches that are simulated are always the same ones, so that figures of different machines can
be compared. Threads take turns under valgrind, so only single-threaded cases have such figures.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from os import sched_getaffinity
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.lab.execute import Executor, Outcome, scratch_folder
from hakmem.lab.model import Arm, Case, Row, row_for

CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64")
TIMEOUT_S = 300.0
OPS_LINE = re.compile(rb"^ops (\d+)\s*$", re.MULTILINE)
METRICS = ("instructions_per_op", "d1_misses_per_op", "malloc_instructions_per_op")
# Lines of a callgrind file: whose code follows, what one place in it cost, and a call, behind
# which stands what was spent in there.
OBJECT_LINE = re.compile(r"ob=\((\d+)\)(?: (.*))?")
COST_LINE = re.compile(r"([-+*]?(?:0x)?[0-9a-f]*) (\d+(?: \d+)*)")

# Told how many of the runs are done, of how many, and which case it was.
Advance = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Count:
    """What callgrind counted in one run."""

    instructions: int
    d1_misses: int
    ops: int
    # Of the instructions, those outside the benchmark program's own code.
    outside: int


def can_be_precise(case: Case) -> bool:
    return case.threads == 1 and len(case.precise) == 2


def require_valgrind() -> None:
    if shutil.which("valgrind") is None:
        raise HakmemError("--precise needs valgrind, which is not installed: apt install valgrind")


def measure(
    cases: Sequence[Case], arms: Sequence[Arm], executor: Executor, advance: Advance
) -> list[Row]:
    """The rows of both metrics, for every case that can have them, under every arm."""
    pairs = [(case, arm) for case in cases if can_be_precise(case) for arm in arms]
    found: dict[tuple[str, str], list[Row]] = {}
    with ThreadPoolExecutor(len(sched_getaffinity(0))) as pool:
        waiting = {pool.submit(_rows, case, arm, executor): (case, arm) for case, arm in pairs}
        try:
            for number, future in enumerate(as_completed(waiting), start=1):
                case, arm = waiting[future]
                found[case.name, arm.name] = future.result()
                advance(number, len(pairs), case.name)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return [row for case, arm in pairs for row in found[case.name, arm.name]]


def _rows(case: Case, arm: Arm, executor: Executor) -> list[Row]:
    try:
        few, many = (_count(case, words, arm, executor) for words in case.precise)
        if many.ops <= few.ops:
            raise HakmemError("both runs had the same number of operations")
    except HakmemError as error:
        return [row_for(case, arm, name, [None], str(error)) for name in METRICS]
    ops = many.ops - few.ops
    # Where nothing misses, a handful at the start can make the difference negative.
    misses = max(0, many.d1_misses - few.d1_misses)
    values = (
        (many.instructions - few.instructions) / ops,
        misses / ops,
        (many.outside - few.outside) / ops,
    )
    return [row_for(case, arm, name, [value]) for name, value in zip(METRICS, values, strict=True)]


def _count(case: Case, words: Sequence[str], arm: Arm, executor: Executor) -> Count:
    ops, text = run_counted(case, words, arm, executor)
    events = dict(_events(text))
    outside = events["Ir"] - instructions_in(text, Path(case.command[0]).name)
    return Count(events["Ir"], events["D1mr"] + events["D1mw"], ops, outside)


def run_counted(
    case: Case, words: Sequence[str], arm: Arm, executor: Executor, more: Sequence[str] = ()
) -> tuple[int, str]:
    """Runs a case with these arguments under callgrind, which has `more` of its own: the number of
    operations, and what callgrind wrote."""
    short = replace(case, command=(case.command[0], *words), timeout_s=TIMEOUT_S)
    with scratch_folder() as place:
        folder = place / "run"
        folder.mkdir()
        profile = place / "callgrind"
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--cache-sim=yes", *CACHES, *more]
        outcome = executor.launch(
            short,
            arm,
            folder,
            wrapper=[*valgrind, f"--callgrind-out-file={profile}"],
            # Which addresses share a line of the cache must not change from run to run.
            fixed_layout=True,
        )
        _check(outcome)
        ops = OPS_LINE.search(outcome.output)
        if ops is None or not profile.exists():
            raise HakmemError("under callgrind: no result")
        return int(ops[1]), profile.read_text(encoding="utf-8", errors="replace")


def instructions_in(profile: str, file: str) -> int:
    """Those that a callgrind file says were executed in the code of one file, without calls."""
    costs = own_costs(profile)
    return sum(counts[0] for object_, _, counts in costs if Path(object_).name == file)


def own_costs(profile: str) -> Iterator[tuple[str, str, list[int]]]:
    """Of each line of a callgrind file that is no call's: the object, the position as it is
    written, and the counts in the order of event_names, of which zeros at the end are left out."""
    names: dict[str, str] = {}
    current = ""
    called = False
    for line in profile.splitlines():
        if match := OBJECT_LINE.fullmatch(line):
            # A name is written out where it comes first, and then only its number.
            current = names.setdefault(match[1], match[2] or "")
        elif line.startswith("cob="):
            number, _, name = line.removeprefix("cob=(").partition(")")
            names.setdefault(number, name.strip())
        elif not called and (match := COST_LINE.fullmatch(line)):
            yield current, match[1], [int(word) for word in match[2].split()]
        called = line.startswith("calls=")


def event_names(profile: str) -> list[str]:
    found = re.search(r"^events: (.*)$", profile, re.MULTILINE)
    if found is None:
        raise HakmemError("under callgrind: unreadable counts")
    return found[1].split()


def _check(outcome: Outcome) -> None:
    status = int(outcome.figures.get("status", 125))
    if outcome.figures.get("timed_out"):
        raise HakmemError(f"under callgrind: no end within {TIMEOUT_S:g} s")
    if status != 0:
        said = outcome.errors.strip().splitlines()
        raise HakmemError(f"under callgrind: {said[-1] if said else f'status {status}'}")


def _events(profile: str) -> Iterator[tuple[str, int]]:
    """The totals of a callgrind file, by the names its header gives to the columns."""
    totals = re.search(r"^(?:totals|summary): (.*)$", profile, re.MULTILINE)
    if totals is None:
        raise HakmemError("under callgrind: unreadable counts")
    yield from zip(event_names(profile), map(int, totals[1].split()), strict=False)
