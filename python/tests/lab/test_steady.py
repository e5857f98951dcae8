"""What is counted for the goals: instructions by file, faults in steady state, live bytes."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hakmem.lab import steady
from hakmem.lab.execute import Executor, ensure_launcher
from hakmem.lab.goals import Goal, How
from hakmem.lab.model import Arm, Case, Results, Sample
from hakmem.lab.precise import instructions_in

ARM = Arm("hakmem", "", None, kind="hakmem")
LIVE = Arm("live bytes", "", None)
# A file is written out with its number once; a call's own line counts to the one that is called.
PROFILE = """\
version: 1
positions: line
events: Ir Dr Dw
ob=(1) /lib/libhakmem.so
fl=(1)
fn=(1) malloc
10 16 1
+2 4
ob=(2) /build/bench/larson
fl=(2)
fn=(2) main
5 100 7 7
cob=(1)
cfi=(1)
cfn=(1)
calls=3 10
* 60 3
-1 20
cob=(3) /lib/libc.so.6
cfn=(3) exit
calls=1 7
6 900
fn=(4) other
* 5
ob=(3)
fn=(3)
7 900
totals: 1045
"""


@dataclass
class Scripted:
    """An executor that runs nothing: the sample depends on the words of the command."""

    sample: Callable[[tuple[str, ...]], Sample]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, case: Case, _arm: Arm) -> Sample:
        return self.sample(case.command)


def case(name: str = "c", lengths: tuple[tuple[str, ...], ...] = (("10",), ("110",))) -> Case:
    return Case(name, (), 1, "", "", "", ("prog", "110"), 1, lengths=lengths)


def test_instructions_are_told_apart_by_file() -> None:
    assert instructions_in(PROFILE, "larson") == 125
    assert instructions_in(PROFILE, "libhakmem.so") == 20
    assert instructions_in(PROFILE, "libc.so.6") == 900
    assert instructions_in(PROFILE, "server") == 0


def faults(start: int, each: int) -> Callable[[tuple[str, ...]], Sample]:
    def sample(command: tuple[str, ...]) -> Sample:
        ops = int(command[1])
        return Sample(time_s=1.0, page_faults=start + each * ops, ops=ops)

    return sample


@pytest.mark.parametrize("each", [0, 3])
def test_faults_of_the_start_do_not_count(each: int) -> None:
    row = steady.steady_row(case(), ARM, Scripted(faults(5000, each)))  # type: ignore[arg-type]
    assert row.samples == [each] * steady.TIMES
    assert (row.metric, row.allocator, row.failed) == (steady.STEADY, "hakmem", None)


def test_fewer_faults_in_the_longer_run_are_none() -> None:
    row = steady.steady_row(case(), ARM, Scripted(faults(5000, -1)))  # type: ignore[arg-type]
    assert row.median == 0


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (lambda _: Sample(failed="crashed, SIGSEGV"), "crashed, SIGSEGV"),
        (lambda _: Sample(time_s=1.0, ops=7), "the same number of operations"),
    ],
)
def test_failures_are_rows(sample: Callable[[tuple[str, ...]], Sample], said: str) -> None:
    row = steady.steady_row(case(), ARM, Scripted(sample))  # type: ignore[arg-type]
    assert row.values == []
    assert row.failed is not None
    assert said in row.failed


def test_only_what_a_goal_asks_for_is_run() -> None:
    goals = [
        Goal("s", How.AMOUNT, (steady.STEADY,), 1e-5, benchmarks="^a"),
        Goal("f", How.FAULTS_BY_LIVE_BYTES, ("page_faults",), 1.0, benchmarks="b$"),
        Goal("i", How.AMOUNT, ("malloc_instructions_per_op",), 36, benchmarks="^c"),
    ]
    cases = [case("a"), case("a-short", ()), case("ab"), case("b"), case("c"), case("d")]
    assert [one.name for one in steady.counted_cases(goals, cases)] == ["c"]
    results = Results({}, "", "")
    for one in cases:
        results.describe_case(one)
    seen: list[str] = []
    figures = {"peak_live_kib": 12.5, "tables_kib": 4.0, "other": 1.0}

    def sample(command: tuple[str, ...]) -> Sample:
        return Sample(time_s=1.0, ops=int(command[1]), extra=figures)

    executor = Scripted(sample)
    steady.measure(goals, cases, ARM, executor, LIVE, results, lambda *at: seen.append(at[2]))  # type: ignore[arg-type]
    assert seen == ["a", "ab", "ab", "b"]
    assert [row.benchmark for row in results.rows] == ["a", "ab"]
    assert results.benchmarks["b"]["peak_live_kib"] == 12.5
    assert "other" not in results.benchmarks["b"]
    assert "peak_live_kib" not in results.benchmarks["a"]


def test_a_count_of_bytes_that_cannot_be_had_costs_no_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goals = [Goal("f", How.FAULTS_BY_LIVE_BYTES, ("page_faults",), 1.0)]
    live = Arm("live bytes", "", tmp_path / "no.so")
    results = Results({}, "", "")
    executor = Scripted(faults(1, 1))
    steady.measure(goals, [case()], ARM, executor, live, results, lambda *_: None)  # type: ignore[arg-type]
    assert "live bytes are not counted" in capsys.readouterr().err
    assert results.benchmarks == {}


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    char *kept = malloc(1000 * 1024), *gone = calloc(500, 1024), *aligned;
    if (posix_memalign((void **)&aligned, 4096, 24 * 1024) != 0) return 1;
    memset(aligned, 1, 24 * 1024);
    free(gone);
    kept = realloc(kept, 1400 * 1024);
    int bad = kept == NULL || aligned[4095] != 1;
    free(kept);
    free(aligned);
    puts("ops 1");
    return bad;
}
"""


def test_live_bytes(compiler: str, tmp_path: Path) -> None:
    """1,000 + 500 + 24 KiB, then 1,400 + 24: to the byte, up to what stdio and the loader take."""
    source = Path(__file__).resolve().parents[3] / "bench" / "live_bytes.c"
    (tmp_path / "p.c").write_text(PROGRAM)
    flags = ["-O1", "-fno-builtin", "-D_GNU_SOURCE"]
    for words in ([*flags, "p.c", "-o", "p"], ["-shared", "-fPIC", *flags, str(source), "-o", "l"]):
        subprocess.run([compiler, *words], cwd=tmp_path, check=True)
    program = Case("p", (), 1, "", "", "", (str(tmp_path / "p"),), 10)
    executor = Executor(ensure_launcher(tmp_path))
    found = steady.live_bytes(program, Arm("live bytes", "", tmp_path / "l"), executor)
    assert 1524 <= found["peak_live_kib"] < 1532
    assert found["tables_kib"] == 0
