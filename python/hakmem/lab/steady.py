"""What the goals need beyond the rounds: page faults in steady state, and how much was live.

None of it depends on how busy the machine is, so few runs are enough.
"""

from collections.abc import Sequence
from dataclasses import replace

from hakmem.clone import RELEASE, Clone
from hakmem.lab.execute import Executor, preload_problem
from hakmem.lab.goals import Goal, How
from hakmem.lab.model import Arm, Case, Results, Row, Sample, row_for
from hakmem.lab.precise import Advance
from hakmem.lab.statistics import COUNTED
from hakmem.terminal import say

STEADY = "steady_faults_per_op"
LIVE_KEYS = ("peak_live_kib", "tables_kib")
TIMES = 3
LIVE_BYTES = "liblive_bytes.so"


def live_arm(clone: Clone) -> Arm:
    """Not an allocator to compare, but glibc's with a count of bytes."""
    return Arm("live bytes", "", clone.build_folder(RELEASE) / "bench" / LIVE_BYTES)


def asked(goals: Sequence[Goal], cases: Sequence[Case], metrics: set[str]) -> list[Case]:
    """The cases for which some goal needs one of these metrics."""
    groups = {case.name: str(case.group) for case in cases}
    wanted = {name for goal in goals if metrics & {*goal.metrics} for name in goal.among(groups)}
    return [case for case in cases if case.name in wanted]


def counted_cases(goals: Sequence[Goal], cases: Sequence[Case]) -> list[Case]:
    """Those whose instructions or misses a goal asks about."""
    return asked(goals, cases, set(COUNTED))


def measure(
    goals: Sequence[Goal],
    cases: Sequence[Case],
    arm: Arm,
    executor: Executor,
    live: Arm,
    results: Results,
    advance: Advance,
) -> None:
    """Adds rows of steady_faults_per_op under `arm`, and each benchmark's live bytes."""
    steady = [case for case in asked(goals, cases, {STEADY}) if case.lengths]
    loaded = _loaded(goals, cases, live, executor)
    total = len(steady) + len(loaded)
    for number, case in enumerate(steady, start=1):
        results.rows.append(steady_row(case, arm, executor))
        advance(number, total, case.name)
    for number, case in enumerate(loaded, start=len(steady) + 1):
        results.benchmarks[case.name] |= live_bytes(case, live, executor)
        advance(number, total, case.name)


def steady_row(case: Case, arm: Arm, executor: Executor) -> Row:
    """Faults per operation of what the full length does beyond the quick one."""
    samples: list[float | None] = []
    failed = None
    for _ in range(TIMES):
        few, many = (_run(case, words, arm, executor) for words in case.lengths)
        failed = few.failed or many.failed
        more = (many.ops or 0) - (few.ops or 0)
        if failed is None and more <= 0:
            failed = "both runs had the same number of operations"
        if failed is not None:
            return row_for(case, arm, STEADY, [None], failed)
        # Of thousands of faults at the start a few more or fewer are chance.
        samples.append(max(0, many.page_faults - few.page_faults) / more)
    return row_for(case, arm, STEADY, samples)


def live_bytes(case: Case, live: Arm, executor: Executor) -> dict[str, float]:
    """The most that was live, and the harness' tables; nothing if it could not be seen."""
    words = case.lengths[0] if case.lengths else case.command[1:]
    sample = _run(case, words, live, executor)
    return {key: sample.extra[key] for key in LIVE_KEYS if key in sample.extra}


def _run(case: Case, words: Sequence[str], arm: Arm, executor: Executor) -> Sample:
    return executor.run(replace(case, command=(case.command[0], *words)), arm)


def _loaded(
    goals: Sequence[Goal], cases: Sequence[Case], live: Arm, executor: Executor
) -> list[Case]:
    wanted = [goal for goal in goals if goal.how is How.FAULTS_BY_LIVE_BYTES]
    problem = preload_problem(live, executor.environment) if wanted else None
    if problem:
        say(f"live bytes are not counted: {problem}")
        return []
    return asked(wanted, cases, {metric for goal in wanted for metric in goal.metrics})
