"""A flaw planted on purpose is found, by the figures that no busy machine can disturb.

Time is left out here: how small a difference in time can be told depends on what else runs.
bench/planted/README.md has the commands for that.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from hakmem.lab import precise
from hakmem.lab.execute import Executor, ensure_launcher
from hakmem.lab.model import Arm, Case, Results
from hakmem.lab.schedule import Plan, Schedule
from hakmem.lab.statistics import Verdict, compare_suite

BENCH = Path(__file__).resolve().parents[3] / "bench"
FLAWS = {"none": (), "slow": ("-DSPIN=1",), "fat": ("-DPERCENT=5",)}
# Few operations and more of them, for the instructions, then how many blocks live.
ARGUMENTS = {"small": ("20000 4096 1", "60000 4096 1"), "large": ("20000 65536 1", "60000 65536 1")}


@pytest.fixture(scope="module")
def folder(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("planted")
    for name, flags in FLAWS.items():
        words = ["-shared", "-fPIC", *flags, str(BENCH / "planted" / "planted.c")]
        compiled(compiler, place / f"{name}.so", words)
    sources = [str(BENCH / file) for file in ("bench_random_mixed.c", "common.c", "lanes.c")]
    flags = ["-D_GNU_SOURCE", "-fno-builtin-malloc", "-fno-builtin-free", "-pthread", "-ldl"]
    compiled(compiler, place / "program", [*sources, *flags])
    return place


def compiled(compiler: str, target: Path, words: list[str]) -> None:
    subprocess.run([compiler, "-O2", "-o", str(target), *words], check=True)


def cases(folder: Path) -> list[Case]:
    return [
        Case(
            name=name,
            arguments=tuple(few.split()),
            threads=1,
            unit="pair",
            models="",
            cannot_show="",
            command=(str(folder / "program"), *few.split()),
            timeout_s=120,
            precise=(tuple(few.split()), tuple(many.split())),
        )
        for name, (few, many) in ARGUMENTS.items()
    ]


def arms(folder: Path, *names: str) -> list[Arm]:
    return [Arm(name, "", folder / f"{name}.so") for name in names]


def test_memory_that_is_kept(folder: Path) -> None:
    results = Results({}, "", "")
    executor = Executor(ensure_launcher(folder))
    schedule = Schedule(cases(folder), arms(folder, "none", "fat"), executor, Plan(rounds=8))
    schedule.run()
    schedule.fill(results)
    found = compare_suite(results, "peak_rss_kib", "fat", "none")
    assert found.verdict is Verdict.WORSE, found
    assert 1.02 < found.ratio < 1.08


def test_instructions_that_are_added(folder: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    results = Results({}, "", "")
    executor = Executor(ensure_launcher(folder))
    pair = arms(folder, "none", "slow")
    results.rows = precise.measure(cases(folder), pair, executor, lambda *_: None)
    found = compare_suite(results, "instructions_per_op", "slow", "none")
    assert found.verdict is Verdict.WORSE, found
    none, slow = (results.row("small", arm.name, "instructions_per_op") for arm in pair)
    assert none is not None
    assert slow is not None
    assert none.median is not None
    assert 1.9 < slow.median - none.median < 8
