"""Files for other tools: pprof, collapsed stacks, speedscope."""

import gzip
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic_profile import Simulation, busy_program

from hakmem.insight.folded import collapsed, speedscope
from hakmem.insight.pprof import message_class, pprof
from hakmem.insight.profile import chosen_settings
from hakmem.insight.views import LIVE, PEAK, TOTAL, stacks_of


@pytest.fixture(scope="module")
def busy() -> Simulation:
    return busy_program()


def parsed(content: bytes) -> Any:  # noqa: ANN401
    message = message_class("Profile")()
    message.ParseFromString(gzip.decompress(content))
    return message


def test_pprof_holds_every_site(busy: Simulation) -> None:
    profile = busy.profile()
    message = parsed(pprof(profile, busy.symbols))
    text = list(message.string_table)
    assert text[0] == ""
    assert [text[one.type] for one in message.sample_type] == [
        "alloc_objects",
        "alloc_space",
        "inuse_objects",
        "inuse_space",
    ]
    assert text[message.default_sample_type] == "inuse_space"
    assert (text[message.period_type.type], message.period) == ("space", profile.interval)
    functions = {one.id: text[one.name] for one in message.function}
    locations = {one.id: one for one in message.location}
    assert len(message.sample) == len(profile.sites)
    for sample, site in zip(message.sample, profile.sites, strict=True):
        assert list(sample.value)[1::2] == [site.total_bytes, site.live_bytes]
        found = [locations[number] for number in sample.location_id]
        assert [one.address for one in found] == list(site.stack)
        assert functions[found[-1].line[0].function_id] == "main"
    (mapping,) = message.mapping
    assert text[mapping.build_id] == "ab" * 20
    assert mapping.has_functions
    assert message.time_nanos == 1_700_000_000 * 10**9


def test_pprof_says_where_it_is_from(busy: Simulation) -> None:
    message = parsed(pprof(busy.profile(), busy.symbols))
    comments = "\n".join(message.string_table[index] for index in message.comment)
    for word in ("hakmem 0.0-test", "pid: 4711", "app --serve", "524288 bytes", "size: 4096"):
        assert word in comments
    # Settings somebody chose, without those as they come.
    assert "settings: profile:1" in comments
    chosen = {"keep": 4, "rules": 1, "retain": 64 << 20, "keep_time": 1500, "newer": 7}
    set_by = dict.fromkeys((f"from_{name}" for name in chosen), 1)
    words = "keep:site,rules:(set),retain:64M,keep_time:1500ms,newer:7"
    assert chosen_settings(replace(busy.profile(), settings=chosen | set_by)) == words


def test_pprof_with_the_peak(busy: Simulation) -> None:
    message = parsed(pprof(busy.profile(), busy.symbols, PEAK))
    assert message.string_table[message.default_sample_type] == "peak_space"
    assert {len(sample.value) for sample in message.sample} == {6}


def test_go_reads_pprof(busy: Simulation, tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed")
    path = tmp_path / "heap.pb.gz"
    path.write_bytes(pprof(busy.profile(), busy.symbols))
    command = [go, "tool", "pprof", "-top", "-unit=B", "-nodefraction=0", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stderr
    assert "Type: inuse_space" in result.stdout
    rows = {line.split()[-1]: line.split()[0] for line in result.stdout.splitlines() if "%" in line}
    for stack in stacks_of(busy.profile(), busy.symbols):
        if stack.site.live_bytes:
            assert rows[stack.names[-1]] == f"{stack.site.live_bytes}B"
    assert "main" in rows


@pytest.mark.parametrize("view", [LIVE, TOTAL, PEAK])
def test_collapsed_adds_up(busy: Simulation, view: Any) -> None:  # noqa: ANN401
    stacks = stacks_of(busy.profile(), busy.symbols)
    lines = collapsed(stacks, view).splitlines()
    counts = [int(line.rpartition(" ")[2]) for line in lines]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == sum(stack.bytes(view) for stack in stacks)
    assert all(line.startswith("main;") for line in lines)


def test_collapsed_frames_are_divided_by_semicolons_alone() -> None:
    made = Simulation()
    made.allocate(made.site("main", "odd;name"), 1 << 20, 100)
    (line,) = collapsed(stacks_of(made.profile(), made.symbols), LIVE).splitlines()
    assert line.partition(" ")[0] == "main;odd:name"


def test_speedscope_is_as_documented(busy: Simulation) -> None:
    profile = busy.profile()
    stacks = stacks_of(profile, busy.symbols)
    document = json.loads(speedscope(profile, stacks, LIVE))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    (one,) = document["profiles"]
    assert set(one) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
    assert (one["type"], one["unit"], one["startValue"]) == ("sampled", "bytes", 0)
    assert len(one["samples"]) == len(one["weights"])
    assert one["endValue"] == sum(one["weights"]) == sum(s.site.live_bytes for s in stacks)
    frames = document["shared"]["frames"]
    assert all(set(frame) <= {"name", "file", "line", "col"} for frame in frames)
    names = {tuple(frames[index]["name"] for index in sample) for sample in one["samples"]}
    assert names == {stack.names for stack in stacks if stack.site.live_bytes}


def test_sites_with_the_same_names_are_one() -> None:
    made = Simulation()
    for _ in range(2):
        made.allocate(made.site("main", "work"), 1 << 20, 100)
    profile = made.profile()
    (stack,) = stacks_of(profile, made.symbols)
    assert len(profile.sites) == 2
    assert stack.site.live_bytes == sum(site.live_bytes for site in profile.sites)
    assert stack.interval(profile, LIVE) == profile.live


def test_pprof_holds_no_more_than_its_words() -> None:
    made = Simulation(1)
    made.allocate(made.site("main"), 4096, 10_000)
    profile = made.profile()
    site = replace(profile.sites[0], total_bytes=1 << 63)
    message = parsed(pprof(replace(profile, sites=(site,)), made.symbols))
    assert max(message.sample[0].value) == (1 << 63) - 1
