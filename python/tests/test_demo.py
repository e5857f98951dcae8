"""The demonstration, with jobs that take no time."""

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from hakmem import demo, jobs
from hakmem.demo import Allocator, measure, run_once
from hakmem.errors import HakmemError
from hakmem.jobs import Job
from hakmem.results import Series, as_document

ALLOCATORS = [
    Allocator("one", "1", {"WHO": "one"}),
    Allocator("two", "2", {"WHO": "two"}),
]


def shell_job(folder: Path, script: str) -> Job:
    return Job("job", "a job", ["/bin/sh", "-c", script], folder / "stdout")


def test_costs_are_those_of_the_child(tmp_path: Path) -> None:
    code = "block = bytearray(64 << 20); import time; end = time.process_time() + 0.2\n"
    code += "while time.process_time() < end: pass"
    job = Job("job", "a job", [sys.executable, "-I", "-c", code], tmp_path / "stdout")
    cost = run_once(job, ALLOCATORS[0], tmp_path)
    assert 64 << 10 < cost["peak_rss_kib"] < 200 << 10
    assert cost["user_s"] + cost["sys_s"] >= 0.2
    assert cost["page_faults"] > 0


def test_peak_is_not_that_of_this_process(tmp_path: Path) -> None:
    ballast = bytearray(os.urandom(1 << 20) * 100)
    cost = run_once(shell_job(tmp_path, ":"), ALLOCATORS[0], tmp_path)
    assert cost["peak_rss_kib"] < len(ballast) >> 11


def test_allocators_take_turns(tmp_path: Path) -> None:
    record = tmp_path / "record"
    series = measure([shell_job(tmp_path, f"echo $WHO >> {record}")], ALLOCATORS, 2, tmp_path)
    assert record.read_text().split() == ["one", "two", "one", "two"]
    assert [len(one.runs) for one in series] == [2, 2]
    assert not any(one.failed for one in series)


def test_unequal_output_is_a_failure(tmp_path: Path) -> None:
    series = measure([shell_job(tmp_path, "echo $WHO")], ALLOCATORS, 1, tmp_path)
    assert series[0].failed is None
    assert "differs" in (series[1].failed or "")


def test_failed_run_tells_why(tmp_path: Path) -> None:
    script = 'if [ "$WHO" = two ]; then echo oh no >&2; kill -ABRT $$; fi'
    series = measure([shell_job(tmp_path, script)], ALLOCATORS, 2, tmp_path)
    assert series[0].failed is None
    assert series[1].failed == "SIGABRT: oh no"


def test_program_that_is_missing(tmp_path: Path) -> None:
    job = Job("job", "a job", ["/no/such/program"], tmp_path / "stdout")
    with pytest.raises(HakmemError):
        run_once(job, ALLOCATORS[0], tmp_path)


def test_library_that_cannot_be_preloaded(tmp_path: Path) -> None:
    library = tmp_path / "libnothing.so"
    library.write_text("no library")
    with pytest.raises(HakmemError, match="cannot be preloaded"):
        demo.demonstrate(library, "nothing", {}, quick=True, as_json=True)


def test_rows_have_the_documented_form() -> None:
    run = {"time_s": 2.0, "user_s": 1.0, "sys_s": 0.5, "peak_rss_kib": 7, "page_faults": 3}
    series = Series("job", ["argument"], "one", "1", [run, run | {"time_s": 4.0}, run])
    document = json.loads(json.dumps(as_document([series])))
    assert set(document) == {"host", "when", "rows"}
    rows = {row["metric"]: row for row in document["rows"]}
    assert list(rows) == ["time_s", "user_s", "sys_s", "peak_rss_kib", "page_faults"]
    assert rows["time_s"]["samples"] == [2.0, 4.0, 2.0]
    assert rows["time_s"]["median"] == 2.0
    assert rows["time_s"]["better"] == "lower"


def test_inputs_are_the_same_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "RECORDS", 50)
    digests = set()
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        job = jobs.json_job(folder)
        document = (folder / "document.json").read_bytes()
        digests.add(hashlib.sha256(document).hexdigest())
        run_once(job, ALLOCATORS[0], folder)
        assert b"50 " in job.output.read_bytes()
    assert len(digests) == 1
    assert jobs.template_source(2) == jobs.template_source(2)
