"""What the mind has learnt, as files: written, read, merged; and what is said of a wrong one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Run
from synthetic_area import Rows, build

from hakmem.insight.rules import Known, merged, read, rules_of, rules_text

MIB = 1 << 20
PROCESS: Rows = [{"page_size": 4096, "shown_ms": 1000}]
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
RULES: Rows = [
    {"keep_ms": 250, "kib": list(COUNTS)},
    {},
    {"least_bytes": 2 * MIB, "stack": 0xABC, "site": 0x123456, "keep_ms": 3000, "kib": [8] * 12},
    {"least_bytes": 1},
]
CLASSES = Known(0, 0, 250, COUNTS)
ZEROS = " 0" * 12


def known(keep_ms: int, seen_kib: int, least_bytes: int = 2 * MIB) -> Known:
    return Known(least_bytes, 0, keep_ms, (seen_kib, *[0] * 11))


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "profile"
    path.write_bytes(build({"process": PROCESS, "rules": RULES}).data)
    return path


def test_rules_of_a_profile(profile: Path) -> None:
    found = rules_of(str(profile))
    assert found[0] == CLASSES
    assert found[1] == Known(2 * MIB, 0xABC, 3000, (8,) * 12, "0x123456")
    assert len(found) == 2


def test_what_is_written_is_read(profile: Path, tmp_path: Path) -> None:
    rules = [
        *rules_of(str(profile)),
        known(1500, 7, 256 << 10),
        known(0, 0, 1),
        known(0, 0, 3 << 30),
    ]
    path = tmp_path / "a.rules"
    path.write_text(rules_text(rules))
    # A size is the power of two below it.
    assert rules_of(str(path)) == [*rules[:-1], known(0, 0, 2 << 30)]


def test_a_file_is_no_longer_than_the_library_reads(hakmem: Run, tmp_path: Path) -> None:
    """Of many builds of a program each has its own call stacks."""
    many = [Known(2 * MIB, stack, 3000, (stack, *[0] * 11)) for stack in range(1, 1000)]
    whole, short = tmp_path / "whole.rules", tmp_path / "short.rules"
    whole.write_text(rules_text(many))
    done = hakmem("rules", whole, "--output", short)
    assert "the least evidence" in done.stderr
    assert short.stat().st_size < (32 << 10) - 1
    kept = read(short)
    assert kept == many[-len(kept) :]
    assert len(kept) > 500


def test_the_strongest_evidence_says_how_long() -> None:
    weak, strong, other = known(1000, 5), known(3000, 50), known(250, 9, 4 * MIB)
    assert merged([[weak, other], [strong]]) == [known(3000, 55), other]


def test_the_command_writes_and_merges(hakmem: Run, profile: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    hakmem("rules", profile, "--output", path)
    table = hakmem("rules", path, profile).stdout
    assert "blocks of 2.00 MiB to 4.00 MiB of 0x123456" in table
    twice = json.loads(hakmem("rules", path, profile, "--json").stdout)
    assert [one["kib"] for one in twice] == [[2 * n for n in COUNTS], [16] * 12]


def test_an_empty_file_is_said_to_be(hakmem: Run, tmp_path: Path) -> None:
    path = tmp_path / "empty.rules"
    path.touch()
    failed = hakmem("rules", path)
    assert failed.returncode != 0
    assert f"'{path}' is empty" in failed.stderr


def test_nothing_learnt_is_said(hakmem: Run, tmp_path: Path) -> None:
    path = tmp_path / "profile"
    path.write_bytes(build({"process": PROCESS}).data)
    failed = hakmem("rules", path)
    assert failed.returncode != 0
    assert "nothing learnt yet" in failed.stderr


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (f"128K - 3s{ZEROS}", "'128K' is neither"),
        (f"2MM - 3s{ZEROS}", "'2MM' is neither"),
        (f"2M 12 3s{ZEROS}", "'12' is neither"),
        (f"2M - 3h{ZEROS}", "'3h' is not a time"),
        (f"2M - 3s -1{ZEROS[2:]}", "'-1' is not a number"),
        ("2M - 3s 0", "a rule has 15 words, not 4"),
    ],
)
def test_a_wrong_line_is_named_and_ignored(
    hakmem: Run, tmp_path: Path, line: str, wrong: str
) -> None:
    path, output = tmp_path / "a.rules", tmp_path / "b.rules"
    path.write_text(f"# hakmem rules\n\n{line}\n{known(3000, 9).line()}")
    done = hakmem("rules", path, "--output", output)
    assert f"{path}:3: {wrong}" in done.stderr
    assert done.returncode == 0
    assert read(output) == [known(3000, 9)]


def test_a_file_of_rules_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    """The title is a comment like any other, and units are as the library takes them."""
    path = tmp_path / "a.rules"
    path.write_text(f"# of Monday\n2048k - 3S 1k{ZEROS[2:]}\n")
    assert rules_of(str(path)) == [known(3000, 1024)]


def test_rules_and_profiles_come_by_a_pipe(hakmem: Run, profile: Path) -> None:
    command = [sys.executable, "-m", "hakmem", "rules", "/dev/stdin", "--json"]
    found = json.loads(hakmem("rules", profile, "--json").stdout)
    for content in (profile.read_bytes(), rules_text(rules_of(str(profile))).encode()):
        environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
        done = subprocess.run(command, input=content, capture_output=True, env=environment)
        assert json.loads(done.stdout) == found, done.stderr


def test_rules_on_standard_output(hakmem: Run, profile: Path) -> None:
    done = hakmem("rules", profile, "--output", "-")
    assert (done.stdout, done.stderr) == (rules_text(rules_of(str(profile))), "")


def test_another_text_has_no_rules(hakmem: Run, tmp_path: Path) -> None:
    path = tmp_path / "README"
    path.write_text("all about it\n" * 50)
    failed = hakmem("rules", path)
    assert failed.returncode == 1
    assert "neither a profile nor a file of rules" in failed.stderr
    assert len(failed.stderr.splitlines()) < 20


def test_a_run_begins_with_what_another_has_learnt(tmp_path: Path) -> None:
    """With the library itself: it reads what is written here and shows it."""
    library = ROOT / "build/release/libhakmem.so"
    if not library.exists():
        pytest.skip("the library is not built")
    rules, profile = tmp_path / "a.rules", tmp_path / "profile"
    rules.write_text(rules_text([known(3000, 1024), known(250, 1, 1)]))
    # Enough for the mind to follow, for longer than it pauses between decisions.
    program = "import time\nfor i in range(4): b = bytearray(64 << 20); del b; time.sleep(0.3)"
    settings = {"HAKMEM_RULES": str(rules), "HAKMEM_PROFILE_OUTPUT": str(profile)}
    environment = os.environ | settings | {"LD_PRELOAD": str(library)}
    ran = subprocess.run(
        ["python3", "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    assert ran.stderr == ""
    shown = {one.least_bytes: one for one in rules_of(str(profile))}
    assert shown[2 * MIB].kib == read(rules)[0].kib
    rules.write_text(f"2M - soon{ZEROS}\n")
    ran = subprocess.run(
        ["python3", "-c", ""], env=environment, check=True, capture_output=True, text=True
    )
    assert "line 1 of" in ran.stderr
    assert "'soon' is not a time" in ran.stderr
