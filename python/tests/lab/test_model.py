"""Samples become rows, rows become JSON and come back."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from hakmem.errors import HakmemError
from hakmem.lab.model import Arm, Case, Results, Sample, metric_named, rows_of

GLIBC = Arm("glibc", "2.36", None, kind="glibc")
CASE = Case("pairs", ("100", "7"), 1, "pair", "pairs", "all else", ("bench", "100", "7"), 10.0)


def sample(time: float, **extra: float) -> Sample:
    return Sample(time, time, 0.0, 1000.0, 25, 0, 1, 2, 50, dict(extra))


def test_rows_keep_rounds_in_place() -> None:
    rows = rows_of(CASE, GLIBC, [sample(2.0), None, Sample(failed="killed"), sample(1.0)])
    by_metric = {row.metric: row for row in rows}
    assert by_metric["time_s"].samples == [2.0, None, None, 1.0]
    assert by_metric["time_s"].median == 1.5
    assert by_metric["ops_per_s"].samples == [25.0, None, None, 50.0]
    assert by_metric["ops_per_s"].better == "higher"
    assert {row.failed for row in rows} == {"1 of 3 runs: killed"}


def test_a_program_s_own_figures_are_metrics() -> None:
    rows = {row.metric: row for row in rows_of(CASE, GLIBC, [sample(1.0, p50_ns=12.0)])}
    assert (rows["p50_ns"].unit, rows["p50_ns"].samples) == ("ns", [12.0])
    assert metric_named("rss_end_kib").unit == "KiB"
    assert metric_named("spins").unit == "1"


def test_only_failures_leave_one_row_that_says_so() -> None:
    (row,) = rows_of(CASE, GLIBC, [Sample(failed="killed by signal 11")] * 3)
    assert (row.metric, row.samples, row.median) == ("time_s", [None] * 3, None)
    assert row.failed == "killed by signal 11"


def test_figures_that_are_not_numbers_are_left_out() -> None:
    assert "time_s" not in Sample(time_s=math.nan).values()
    assert "ops_per_s" not in sample(0.0).values()


def make_results() -> Results:
    results = Results({"processors": 2}, "2026-01-01T00:00:00+00:00", "hakmem bench")
    results.describe_arm(GLIBC)
    results.describe_case(CASE)
    results.rows += rows_of(CASE, GLIBC, [sample(1.0), Sample(failed="killed")])
    results.sections["layers"] = [{"key": "entry"}]
    return results


def test_json_round_trip(tmp_path: Path) -> None:
    results, path = make_results(), tmp_path / "results.json"
    results.save(path)
    assert Results.load(path) == results
    form = json.loads(path.read_text())
    promised = {"benchmark", "arguments", "threads", "allocator", "version", "metric", "unit"}
    promised |= {"better", "samples", "median", "failed"}
    assert set(form["rows"][0]) == promised
    assert form["layers"] == [{"key": "entry"}]


def test_keys_of_other_writers_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    form = make_results().as_json()
    form["rows"][0]["colour"] = "green"
    path.write_text(json.dumps(form))
    assert Results.load(path).rows == make_results().rows


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": [{}]}', '{"rows": 5}'])
def test_other_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(HakmemError, match=r"other\.json"):
        Results.load(path)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("rows", 0, "benchmark"), None, "benchmark: None is no str"),
        (("rows", 0, "samples"), "1", "samples: '1' is no list"),
        (("rows", 0, "samples"), ["1"], "time_s: '1' is no figure"),
        (("rows", 0, "samples"), [math.inf], "time_s: inf is no figure"),
        (("rows", 0, "median"), {}, "time_s: {} is no figure"),
        (("rows", 0, "failed"), 7, "failed: 7 is no str"),
        (("rows", 0), 7, "row: 7 is no dict"),
        (("host",), [], "host: .. is no dict"),
        (("arms", "glibc"), 7, "arms: glibc: 7 is no dict"),
        (("arms", "glibc", "version"), 7, "arms: glibc: version: 7 is no str"),
        (("benchmarks", "pairs", "threads"), "4", "benchmarks: pairs: threads: '4' is no int"),
    ],
)
def test_values_of_another_kind_are_refused(
    tmp_path: Path, path: tuple[str | int, ...], value: object, says: str
) -> None:
    form = make_results().as_json()
    place: Any = form
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file = tmp_path / "damaged.json"
    file.write_text(json.dumps(form))
    with pytest.raises(HakmemError, match=rf"damaged\.json does not hold results.*{says}"):
        Results.load(file)


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(HakmemError, match=r"none\.json: No such file"):
        Results.load(tmp_path / "none.json")


def test_lookup_and_order() -> None:
    results = make_results()
    assert results.benchmark_names() == ["pairs"]
    assert results.allocator_names() == ["glibc"]
    row = results.row("pairs", "glibc", "peak_rss_kib")
    assert row is not None and row.median == 1000.0
    assert results.row("pairs", "hakmem", "peak_rss_kib") is None
