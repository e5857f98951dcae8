"""What the mind decided, as `stats --decisions` tells it."""

import json
import os
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import ROOT, Run
from synthetic_area import CLASSES, Row, Rows, build

from hakmem.cli import main
from hakmem.insight.area import load
from hakmem.insight.mind import Decision, mind_of

MIB_IN_KIB = 1024
PROCESS: Rows = [{"page_size": 4096, "shown_ms": 1000}]
RULES: Rows = [
    {"keep_ms": 3000, "saved_kib": 10 * MIB_IN_KIB, "held_kib_s": 20 * MIB_IN_KIB},
    {},
    {"least_bytes": 128 << 10, "keep_ms": 0, "vain_kib": 5 * MIB_IN_KIB, "site": 0x7F0000001234},
    {"least_bytes": 1, "keep_ms": 250},
]
KEPT: Row = {
    "number": 1,
    "ms": 5000,
    "key": 0,
    "from": 0,
    "to": 3000,
    "episodes": 4,
    "gap_ms": 2100,
    "reused_kib": 40 * MIB_IN_KIB,
    "seen_kib": 50 * MIB_IN_KIB,
}
DROPPED: Row = KEPT | {"number": 2, "key": 2, "from": 4000, "to": 0, "is_shadow": 1}


def write(folder: Path, tables: dict[str, Rows]) -> Path:
    path = folder / "profile"
    path.write_bytes(build(tables).data)
    return path


@pytest.fixture
def profile(tmp_path: Path) -> str:
    # The ring has turned: the newest row comes first.
    decisions: Rows = [DROPPED, {}, KEPT]
    return str(write(tmp_path, {"process": PROCESS, "rules": RULES, "decisions": decisions}))


def test_decisions_come_oldest_first(profile: str) -> None:
    mind = mind_of(load(Path(profile)), is_running=False)
    kept = [one for one in mind.decisions if isinstance(one, Decision)]
    assert [one.to_ms for one in kept] == [3000, 0]
    assert [one.is_shadow for one in kept] == [False, True]
    assert len(mind.rules) == 3


def test_a_decision_says_why(hakmem: Run, profile: str) -> None:
    lines = hakmem("stats", profile, "--decisions").stdout
    said = " ".join(lines.split())
    assert (
        "after 4 s keep blocks of size classes 0 ms -> 3 s: 80 % of 50.0 MiB were used again"
        in said
    )
    assert "within 3 s, after 2.1 s in the mean; saves 2.25 ms each time" in said
    assert "keep blocks of 128 KiB to 256 KiB of 0x7f0000001234 4 s -> 0 ms (shadow)" in said
    assert "blocks of which nothing is known" in said


def test_decisions_as_json(hakmem: Run, profile: str) -> None:
    told = json.loads(hakmem("stats", profile, "--decisions", "--json").stdout)
    first = told["decisions"][0]
    assert (first["from_ms"], first["to_ms"], first["gap_ms"]) == (0, 3000, 2100)
    assert (told["began"], first["after_ms"]) == (None, 4000)
    # 10 MiB each time, at 0.22 us a KiB.
    assert first["saved_us"] == pytest.approx(10 * 1024 * 0.22)
    assert [rule["keep_ms"] for rule in told["rules"]] == [3000, 0, 250]


def test_a_running_process_says_when(tmp_path: Path) -> None:
    area = load(write(tmp_path, {"process": PROCESS, "rules": RULES, "decisions": [KEPT]}))
    mind = mind_of(area, is_running=True)
    assert mind.began is not None
    # It began to show a second after the machine did.
    assert abs(mind.began.timestamp() - (time.time() - time.monotonic() + 1)) < 1
    assert mind.when(mind.decisions[0]) == f"{mind.began + timedelta(seconds=4):%H:%M:%S}"


def test_a_magazine_that_grew(tmp_path: Path, hakmem: Run) -> None:
    grown: Row = {"number": 1, "ms": 1500, "policy": 1, "key": 3, "from": 64, "to": 128}
    classes: Rows = [{"size": size} for size, _ in CLASSES]
    decisions: Rows = [grown | {"episodes": 4}]
    path = write(tmp_path, {"process": PROCESS, "classes": classes, "decisions": decisions})
    said = " ".join(hakmem("stats", path, "--decisions").stdout.split())
    assert "after 500 ms a magazine of 48 B blocks 64 -> 128 slots: 4 times it ran over," in said
    told = json.loads(hakmem("stats", path, "--decisions", "--json").stdout)
    assert (told["decisions"][0]["policy"], told["decisions"][0]["to_slots"]) == ("magazine", 128)
    shadow: Rows = [decisions[0] | {"is_shadow": 1}]
    path = write(tmp_path, {"process": PROCESS, "classes": classes, "decisions": shadow})
    assert "64 -> 128 slots (shadow): " in hakmem("stats", path, "--decisions").stdout


def test_huge_pages_for_blocks(tmp_path: Path, hakmem: Run) -> None:
    row: Row = {"number": 1, "ms": 1500, "policy": 2, "key": 5, "to": 1}
    whole: Row = row | {"reused_kib": 250, "seen_kib": 256}
    price: Row = row | {"number": 2, "key": 0, "reused_kib": 123_400, "seen_kib": 1_500_000}
    path = write(tmp_path, {"process": PROCESS, "decisions": [price, whole]})
    lines = hakmem("stats", path, "--decisions").stdout.splitlines()
    may = "blocks of 4.00 MiB to 8.00 MiB may have huge pages: 98 % of their pages are touched"
    assert may in lines[0]
    assert "huge pages: 2 MiB cost 123 us with huge and 1.5 ms with small ones" in lines[1]
    damaged = write(tmp_path, {"process": PROCESS, "decisions": [whole | {"seen_kib": 0}]})
    assert "blocks of 4.00 MiB" in hakmem("stats", damaged, "--decisions").stdout


def test_nothing_decided(hakmem: Run, tmp_path: Path) -> None:
    path = write(tmp_path, {"process": PROCESS})
    assert "nothing decided yet: that takes" in hakmem("stats", path, "--decisions").stdout
    path = write(tmp_path, {"process": PROCESS, "settings": [{"learn": 0}]})
    assert "nothing decided yet: learn:0 is set" in hakmem("stats", path, "--decisions").stdout


@pytest.mark.parametrize(
    "arguments",
    [["--decisions"], ["--decisions", "--all"], ["--decisions", "--openmetrics", "1"]],
)
def test_what_decisions_cannot_go_with(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", *arguments]) != 0
    assert "--decisions takes one PID or FILE" in capsys.readouterr().err


@pytest.mark.parametrize("keep", ["size", "site"])
def test_a_rhythm_is_learnt_by_a_program(hakmem: Run, tmp_path: Path, keep: str) -> None:
    """Of 160 MiB every two seconds. How many of them are kept in time is the machine's to say."""
    library, rhythm = ROOT / "build/release/libhakmem.so", ROOT / "build/release/bench/rhythm"
    if not library.exists() or not rhythm.exists():
        pytest.skip("the library and the benchmark programs are not built")
    path = tmp_path / "profile"
    settings = {"LD_PRELOAD": str(library), "HAKMEM_KEEP": keep}
    settings |= {"HAKMEM_PROFILE_OUTPUT": str(path), "HAKMEM_KEEP_WORTH": "60s"}
    command = [str(rhythm), "phases", "7000"]
    subprocess.run(command, env=os.environ | settings, check=True, timeout=300)
    mind = mind_of(load(path), is_running=False)
    kept = [one for one in mind.decisions if isinstance(one, Decision)]
    assert any(one.to_ms >= 2000 for one in kept)
    assert sum(rule.saved_bytes + rule.vain_bytes for rule in mind.rules) >= 100 << 20
    sites = {rule.site for rule in mind.rules if rule.least_bytes > 1}
    assert (sites == {""}) == (keep == "size")
    assert any(name.startswith("build") for name in sites) == (keep == "site")
    told = json.loads(hakmem("stats", path, "--decisions", "--json").stdout)
    assert len(told["decisions"]) == len(mind.decisions)
