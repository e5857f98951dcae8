"""What counts as a regression against a baseline, and what does not."""

from pathlib import Path
from typing import Any

import pytest

from hakmem.errors import HakmemError
from hakmem.lab import baseline
from hakmem.lab.baseline import Level
from hakmem.lab.model import Arm, Case, Results, Sample, row_for, rows_of

GLIBC = Arm("glibc", "2.36", None, kind="glibc")
HAKMEM = Arm("hakmem", "1", None, kind="hakmem")
CASE = Case("pairs", ("100",), 1, "pair", "", "", ("true",), 1.0)


def results(
    time: float = 0.8,
    memory: float = 0.9,
    instructions: float = 100.0,
    glibc: Arm = GLIBC,
    failed: str | None = None,
    case: Case = CASE,
) -> Results:
    found = Results({}, "2026-01-01T00:00:00+00:00", "hakmem bench --precise")
    noise = [1.0, 1.002, 0.999, 1.001, 0.998, 1.0, 1.001, 0.999]
    theirs = [Sample(time_s=1.0, peak_rss_kib=1000.0) for _ in noise]
    ours = [Sample(time_s=time * n, peak_rss_kib=memory * 1000.0) for n in noise]
    if failed:
        ours = [Sample(failed=failed) for _ in noise]
    found.rows += rows_of(case, glibc, theirs) + rows_of(case, HAKMEM, ours)
    if not failed:
        found.rows.append(row_for(case, HAKMEM, "instructions_per_op", [instructions]))
    return found


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "baseline.json"
    baseline.write(results(), path)
    return baseline.load(path)


def levels(stored: dict[str, Any], now: Results) -> dict[str, Level]:
    return {one.metric: one.level for one in baseline.compare(stored, now)}


def test_nothing_changed(stored: dict[str, Any]) -> None:
    found = baseline.compare(stored, results())
    assert {one.level for one in found} == {Level.NONE}
    assert len(found) == 3 and baseline.regressions(found) == []


@pytest.mark.parametrize(
    ("now", "level"), [(100.4, Level.NONE), (100.6, Level.CERTAIN), (90.0, Level.NONE)]
)
def test_instructions_decide_at_half_a_percent(
    stored: dict[str, Any], now: float, level: Level
) -> None:
    assert levels(stored, results(instructions=now))["instructions_per_op"] is level


def test_more_memory_is_certain_next_to_the_same_libc(stored: dict[str, Any]) -> None:
    more = results(memory=0.9 * 1.05)
    assert levels(stored, more)["peak_rss_kib"] is Level.CERTAIN
    other = results(memory=0.9 * 1.05, glibc=Arm("glibc", "2.40", None))
    assert levels(stored, other)["peak_rss_kib"] is Level.SUSPECTED
    assert levels(stored, results(memory=0.9 * 1.01))["peak_rss_kib"] is Level.NONE


def test_a_ratio_of_times_is_a_suspicion(stored: dict[str, Any]) -> None:
    assert levels(stored, results(time=0.9))["time_s"] is Level.SUSPECTED
    assert levels(stored, results(time=0.81))["time_s"] is Level.NONE
    assert levels(stored, results(time=0.5))["time_s"] is Level.NONE


def test_accusations_come_first_and_are_readable(stored: dict[str, Any]) -> None:
    found = baseline.compare(stored, results(time=0.9, instructions=110.0))
    assert [one.level for one in found] == [Level.CERTAIN, Level.SUSPECTED, Level.NONE]
    said = baseline.describe(found[0])
    assert said == "certain: pairs: instructions_per_op +10.0 % (100 -> 110; counted)"


def test_a_new_failure_is_a_regression(stored: dict[str, Any]) -> None:
    (found,) = baseline.compare(stored, results(failed="killed by signal 11"))
    assert found.level is Level.CERTAIN
    assert "killed by signal 11" in baseline.describe(found)


def test_other_arguments_are_not_compared(stored: dict[str, Any]) -> None:
    other = Case("pairs", ("200",), 1, "pair", "", "", ("true",), 1.0)
    with pytest.raises(HakmemError, match="hakmem bench --precise"):
        baseline.compare(stored, results(case=other))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99, "benchmarks": {}}'])
def test_other_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(HakmemError, match=r"other\.json"):
        baseline.load(path)


def test_no_baseline_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(HakmemError, match="both hakmem and glibc"):
        baseline.write(Results({}, "", ""), tmp_path / "baseline.json")


def test_a_figure_that_was_nothing_has_no_share(stored: dict[str, Any]) -> None:
    stored["benchmarks"]["pairs"]["counts"]["instructions_per_op"] = 0.0
    (found,) = baseline.regressions(baseline.compare(stored, results()))
    assert baseline.describe(found) == "certain: pairs: instructions_per_op (0 -> 100; counted)"
