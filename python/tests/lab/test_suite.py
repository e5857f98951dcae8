"""The suite of benchmark programs: what is read from its file, and that the file is in order."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hakmem.clone import Clone
from hakmem.errors import HakmemError
from hakmem.lab import suite

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
[program.spin]
unit = "turn"
models = "A wheel."
cannot_show = "A road."
"""
BENCHMARK = """
[[benchmark]]
name = "spin-fast"
program = "spin"
threads = 2
arguments = "9 fast"
quick = "3 fast"
precise = ["1 fast", "2 fast"]

[[benchmark]]
name = "spin-slow"
program = "spin"
threads = 1
arguments = "9 slow"
"""
MakeClone = Callable[[str], Clone]


@pytest.fixture
def make_clone(tmp_path: Path) -> MakeClone:
    """A clone with the given suite, in which `spin` is built."""

    def make(text: str) -> Clone:
        (tmp_path / "bench").mkdir()
        (tmp_path / "bench" / "suite.toml").write_text(text)
        built = tmp_path / "build" / "release" / "bench"
        built.mkdir(parents=True)
        (built / "spin").write_text("#!/bin/sh\n")
        (built / "spin").chmod(0o755)
        return Clone(tmp_path)

    return make


def test_full_suite_has_every_benchmark(make_clone: MakeClone) -> None:
    clone = make_clone(PROGRAM + BENCHMARK)
    fast, slow = suite.load(clone)
    assert (fast.name, fast.threads, fast.unit) == ("spin-fast", 2, "turn")
    assert (fast.models, fast.cannot_show) == ("A wheel.", "A road.")
    assert fast.arguments == ("9", "fast")
    assert fast.command == (str(clone.root / "build/release/bench/spin"), "9", "fast")
    assert fast.precise == (("1", "fast"), ("2", "fast"))
    assert (slow.name, slow.precise) == ("spin-slow", ())


def test_quick_suite_has_its_own_arguments(make_clone: MakeClone) -> None:
    (case,) = suite.load(make_clone(PROGRAM + BENCHMARK), quick=True)
    assert (case.name, case.arguments) == ("spin-fast", ("3", "fast"))


def test_program_that_is_not_built(make_clone: MakeClone) -> None:
    clone = make_clone(PROGRAM + BENCHMARK)
    (clone.root / "build/release/bench/spin").unlink()
    with pytest.raises(HakmemError, match=r"spin is not built; run \./hakmem build"):
        suite.load(clone)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[program", "not well-formed"),
        (PROGRAM.replace('unit = "turn"', ""), "program.spin lacks unit"),
        (PROGRAM.replace("A wheel.", " "), "program.spin: models is not a text"),
        (PROGRAM + BENCHMARK.replace("threads = 2", "threads = 0"), "not a whole number above 0"),
        (PROGRAM + BENCHMARK.replace("threads = 2", ""), "'spin-fast' lacks threads"),
        (PROGRAM + BENCHMARK.replace("quick =", "quik ="), "unknown keys: quik"),
        (PROGRAM + BENCHMARK.replace('"spin"', '"spun"'), "'spun' without a table"),
        (PROGRAM + BENCHMARK.replace('"9 slow"', "9"), "arguments is not a text: 9"),
        (PROGRAM + BENCHMARK.replace("spin-slow", "spin-fast"), "more than one benchmark"),
        (PROGRAM + BENCHMARK.replace(', "2 fast"]', "]"), "precise takes two entries, not 1"),
    ],
)
def test_mistakes_in_the_file(make_clone: MakeClone, text: str, complaint: str) -> None:
    clone = make_clone(text)
    with pytest.raises(HakmemError, match=complaint):
        suite.load(clone)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(HakmemError, match=r"cannot read .*suite\.toml"):
        suite.load(Clone(tmp_path))


# The suite that hakmem comes with.


def shipped() -> list[suite.Benchmark]:
    return suite.read(suite.suite_file(Clone(ROOT)))


def test_shipped_suite_is_of_the_size_its_time_allows() -> None:
    quick = [benchmark for benchmark in shipped() if benchmark.quick is not None]
    assert 22 <= len(quick) <= 28
    assert 45 <= len(shipped()) <= 60


@pytest.mark.parametrize("benchmark", shipped(), ids=lambda benchmark: benchmark.name)
def test_shorter_runs_of_shipped_benchmark(benchmark: suite.Benchmark) -> None:
    """They differ from the full one in numbers alone, and none does more."""
    for words in (benchmark.quick, benchmark.shorter, *benchmark.precise):
        if words is not None:
            for short, full in zip(words, benchmark.arguments, strict=True):
                assert short == full or int(short) < int(full)
    assert not benchmark.precise or benchmark.threads == 1
    assert benchmark.name.startswith(benchmark.program.name)


@pytest.mark.parametrize("benchmark", shipped(), ids=lambda benchmark: benchmark.name)
def test_program_takes_the_arguments_of_its_benchmark(benchmark: suite.Benchmark) -> None:
    """A wrong argument would only be found in the middle of a long measurement.

    It is refused at once, so a program that is still busy after a moment has taken them.
    """
    program = Clone(ROOT).build_folder("release") / "bench" / benchmark.program.name
    if not program.exists():
        pytest.skip("the benchmark programs are not built")
    command = [str(program), *benchmark.arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=0.05)
    except subprocess.TimeoutExpired:
        return
    assert done.returncode == 0, done.stderr
