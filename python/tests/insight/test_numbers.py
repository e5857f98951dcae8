"""The figures that tables amount to."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from sample import EXPECTED, MAPS, MIB, SMALL_BYTES, WRAP, sample
from synthetic_area import COUNTERS, shown, source

from hakmem.insight.area import load
from hakmem.insight.attaching import attach
from hakmem.insight.metric_table import METRICS, counter_texts, metric_table
from hakmem.insight.numbers import Numbers, numbers_of
from hakmem.insight.text import class_row


@pytest.fixture
def of_file(tmp_path: Path) -> Numbers:
    path = tmp_path / "profile"
    path.write_bytes(sample().data + MAPS.encode())
    return numbers_of(load(path), None)


def test_figures_are_as_added_by_hand(of_file: Numbers) -> None:
    assert {name: of_file[name] for name in EXPECTED} == EXPECTED
    assert (of_file.pid, of_file.command, of_file.version) == (77, "a-server", "9.9.9")
    assert of_file.uptime_ms == 60000


def test_peak_of_what_only_grows_is_now(of_file: Numbers) -> None:
    assert of_file["sampled_peak_bytes"] > of_file["sampled_live_bytes"]
    growing = replace(of_file, process=of_file.process | {"sampled_peak": 0})
    assert growing["sampled_peak_bytes"] == growing["sampled_live_bytes"]


def test_peak_is_not_now_where_one_sample_stands_for_more_than_lives(of_file: Numbers) -> None:
    live = 100 * of_file["live_bytes"] + of_file["sampled_peak_bytes"]
    by_chance = replace(of_file, process=of_file.process | {"sampled_live": live})
    assert by_chance["sampled_peak_bytes"] == of_file["sampled_peak_bytes"]


def test_nothing_lives_less_than_not_at_all(of_file: Numbers) -> None:
    """Of magazines that fill while they are read."""
    late = [replace(one, magazine=one.used + 1000) for one in of_file.classes]
    numbers = replace(of_file, classes=late)
    assert (numbers["small_bytes"], numbers["small_blocks"]) == (0, 0)
    assert numbers["live_bytes"] >= 0
    assert {class_row(one)[1:3] for one in numbers.classes} == {("0", "0 B")}


def test_heaps_that_are_not_of_one_moment_have_no_less_than_nothing(tmp_path: Path) -> None:
    """Of runs that one thread allocates and another frees, the frees may be seen alone."""
    (tmp_path / "profile").write_bytes(sample(run_bytes=WRAP - (1 << 30)).data + MAPS.encode())
    numbers = numbers_of(load(tmp_path / "profile"), None)
    assert numbers["run_bytes"] == 0
    assert numbers["live_bytes"] == SMALL_BYTES + 8 * MIB


def test_a_file_has_no_resident_memory_but_all_else(of_file: Numbers) -> None:
    shown_names = {metric.name for metric, _ in of_file.shown()}
    everything = set(metric_table(tuple(COUNTERS)))
    assert everything - shown_names == {"resident_bytes", "resident_peak_bytes"}


def test_classes_and_threads(of_file: Numbers) -> None:
    small = next(c for c in of_file.classes if c.size == 64)
    assert (small.size, small.blocks, small.slab_bytes) == (64, 860, 2 * 65536)
    assert small.waste == small.free_bytes + 150 * 64
    first, ended, lost = of_file.threads
    assert (first.tid, first.state, first.magazine_bytes) == (11, "running", 6400)
    assert first.live_bytes == 900 * 64 + 2 * 73728 + 1000 * 1024
    assert (ended.state, ended.live_bytes) == ("ended", -40 * 64 - 4096)
    assert (lost.state, lost.magazine_bytes) == ("lost", 0)


def test_settings_and_where_they_are_from(of_file: Numbers) -> None:
    assert of_file.settings["retain"] == (1 << 21, "environment")
    assert of_file.settings["retain_max"] == (1 << 25, "default")


def test_a_library_that_lacks_a_word_shows_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "profile"
    path.write_bytes(sample().data.replace(b"kept_bytes:u64", b"gone_bytes:u64"))
    names = {metric.name for metric, _ in numbers_of(load(path), None).shown()}
    assert "kept_bytes" not in names
    assert {"live_bytes", "warm_bytes"} < names


def test_of_a_process(tmp_path: Path) -> None:
    with shown(sample(), tmp_path) as pid:
        before = time.monotonic_ns() // 1_000_000
        numbers = numbers_of(attach(pid), pid)
        assert numbers.pid == pid
        assert numbers.command.startswith("python")
        # By the clock of now, not by what last changed in it.
        assert before <= numbers.now_ms <= time.monotonic_ns() // 1_000_000
        assert 0 < numbers["resident_bytes"] <= numbers["resident_peak_bytes"]


def test_every_name_is_there_once_and_explained() -> None:
    table = metric_table(tuple(COUNTERS))
    assert len(table) == len(METRICS) + len(COUNTERS)
    texts = [metric.text for metric in table.values()]
    assert all(texts)
    assert len(set(texts)) == len(texts)


def test_the_counters_are_explained_in_the_librarys_words() -> None:
    assert set(counter_texts()) == set(COUNTERS)
    for name, text in counter_texts().items():
        assert f'COUNTER({name}, "{text}")' in source("control/counters.def")
