"""Building and testing, in a clone so small that all of it takes seconds."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from hakmem import build, suite
from hakmem.clone import Clone
from hakmem.errors import HakmemError
from hakmem.suite import Selection, Suite
from hakmem.tally import Tally

CMAKE_LISTS = """
cmake_minimum_required(VERSION 3.25)
project(small C)
enable_testing()
add_library(hakmem_shared SHARED small.c)
set_target_properties(hakmem_shared PROPERTIES OUTPUT_NAME hakmem)
add_test(NAME good COMMAND true)
add_test(NAME bad COMMAND false)
add_test(NAME lengthy COMMAND true)
set_tests_properties(lengthy PROPERTIES LABELS "unit;long")
"""


def presets_named(*names: str) -> str:
    """CMakePresets.json"""
    place = "${sourceDir}/build/"
    base = {"name": "base", "hidden": True, "generator": "Ninja"}
    named = [{"name": name, "inherits": "base", "binaryDir": place + name} for name in names]
    return json.dumps({"version": 6, "configurePresets": [base, *named]})


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    for tool in ("cmake", "ninja"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    root = tmp_path / "small clone"
    root.mkdir()
    (root / "CMakeLists.txt").write_text(CMAKE_LISTS)
    (root / "CMakePresets.json").write_text(presets_named("release", "asan"))
    (root / "small.c").write_text("int small;\n")
    return Clone(root)


def run_selection(clone: Clone, selection: Selection) -> suite.Report:
    with Path(os.devnull).open("w") as nowhere:
        return Suite(clone, selection, nowhere.fileno()).run()


def test_library_follows_its_sources(clone: Clone) -> None:
    assert not build.library_current(clone)
    assert build.ensure_library(clone).exists()
    assert build.library_current(clone)
    source = clone.root / "small.c"
    source.write_text("int small, other;\n")
    future = source.stat().st_mtime + 5
    os.utime(source, (future, future))
    assert not build.library_current(clone)


def test_moved_clone_is_configured_anew(clone: Clone) -> None:
    build.build(clone, "release")
    moved = Clone(clone.root.rename(clone.root.with_name("moved clone")))
    assert not build.configured(moved, "release")
    build.build(moved, "release")
    assert build.library_current(moved)


def test_build_failure_shows_the_log(clone: Clone) -> None:
    (clone.root / "small.c").write_text("#error broken on purpose\n")
    with pytest.raises(HakmemError, match="broken on purpose"):
        build.build(clone, "release")


def test_unknown_preset_is_named(clone: Clone) -> None:
    with pytest.raises(HakmemError, match="'nope'; there are: release, asan"):
        build.build(clone, "nope")
    with pytest.raises(HakmemError, match="'nope'"):
        run_selection(clone, Selection(preset="nope"))


def test_expressions_are_looked_at_first(clone: Clone) -> None:
    with pytest.raises(HakmemError, match="-L '\\['"):
        run_selection(clone, Selection(label="["))
    with pytest.raises(HakmemError, match=r"-R '\(a'"):
        run_selection(clone, Selection(regex="(a"))


@pytest.mark.parametrize("name", ["a b", "a:b", "a;b", "a$b"])
def test_place_from_which_nothing_can_be_preloaded(tmp_path: Path, name: str) -> None:
    with pytest.raises(HakmemError, match=f"with '{re.escape(name[1])}': move"):
        suite.run_suite(Clone(tmp_path / name), Selection(), as_json=False)


def test_settings_of_the_user_are_not_the_tests(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (clone.root / "CMakeLists.txt").open("a") as lists:
        lists.write('add_test(NAME unset COMMAND sh -c [[test -z "$HAKMEM_RETAIN"]])\n')
    monkeypatch.setenv("HAKMEM_RETAIN", "32M")
    assert run_selection(clone, Selection(preset="release", regex="unset")).total == Tally(1, 0, 0)


def test_one_preset(clone: Clone) -> None:
    report = run_selection(clone, Selection(preset="asan"))
    assert [(part.name, part.tally) for part in report.sections] == [("asan", Tally(1, 1, 0))]
    assert report.total.status == 1


def test_long_tests_are_for_those_who_ask(clone: Clone) -> None:
    assert run_selection(clone, Selection(True, "release")).total == Tally(2, 1, 0)
    assert run_selection(clone, Selection(preset="release", label="long")).total == Tally(1, 0, 0)


def test_what_runs_for_hours_comes_last_or_by_name(clone: Clone) -> None:
    with (clone.root / "CMakeLists.txt").open("a") as lists:
        lists.write("add_test(NAME hours COMMAND true)\n")
        lists.write('set_tests_properties(hours PROPERTIES LABELS "long;seldom")\n')
    chosen = Selection(everything=True, preset="release", regex="^hours$")
    assert run_selection(clone, chosen).total == Tally(1, 0, 0)
    assert run_selection(clone, Selection(preset="release", regex="^hours$")).total == Tally()
    report = run_selection(clone, Selection(everything=True))
    parts = {part.name: part.tally for part in report.sections}
    assert parts["release-long"] == Tally(1, 0, 0)
    assert parts["release-seldom"] == Tally(1, 0, 0)


def test_programs_that_cannot_be_installed_are_a_failure(clone: Clone) -> None:
    script = clone.root / "tests" / "programs" / "install.sh"
    script.parent.mkdir(parents=True)
    script.write_text("exit 1\n")
    report = run_selection(clone, Selection(everything=True, budget_minutes=0))
    assert [(part.name, part.tally) for part in report.sections] == [("programs", Tally(0, 1, 0))]
    assert report.left_out[:3] == ["release", "python", "asan"]


def test_long_tests_come_last(clone: Clone) -> None:
    report = run_selection(clone, Selection(everything=True))
    parts = [(part.name, part.tally) for part in report.sections if part.name != "python"]
    assert parts == [
        ("release", Tally(1, 1, 0)),
        ("asan", Tally(1, 1, 0)),
        ("release-long", Tally(1, 0, 0)),
        ("asan-long", Tally(1, 0, 0)),
        ("release-seldom", Tally(0, 0, 0)),
    ]
    assert [part.name for part in report.sections][:2] == ["release", "python"]


def test_long_tests_wait_for_the_sanitizers_and_not_for_what_finds_less(clone: Clone) -> None:
    names = presets_named("secure", "debug", "tsan", "asan", "release")
    (clone.root / "CMakePresets.json").write_text(names)
    report = run_selection(clone, Selection(everything=True, budget_minutes=0))
    assert [part.name for part in report.sections] == ["release"]
    first, second = report.left_out[:6], report.left_out[6:]
    assert first == ["python", "asan", "tsan", "release-long", "debug", "secure"]
    assert second == ["asan-long", "tsan-long", "debug-long", "secure-long", "release-seldom"]


def test_the_release_build_comes_first_where_time_may_run_out(clone: Clone) -> None:
    report = run_selection(clone, Selection(budget_minutes=0))
    assert [part.name for part in report.sections] == ["release"]
    assert report.left_out == ["python", "asan"]


def test_filter_goes_over_all_presets(clone: Clone) -> None:
    report = run_selection(clone, Selection(regex="^good$"))
    assert [part.name for part in report.sections] == ["release", "asan"]
    assert report.total == Tally(2, 0, 0)


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        (Selection(regex="^nothing$"), "a name like -R '^nothing$': list the names with "),
        (Selection(label="nothing"), "a label like -L 'nothing': list the names with "),
        (Selection(label="unit", regex="good"), "a label like -L 'unit' and a name like -R 'good'"),
    ],
)
def test_nothing_chosen_is_a_failure_and_is_not_built(
    clone: Clone, capfd: pytest.CaptureFixture[str], selection: Selection, said: str
) -> None:
    place = Clone(clone.root.rename(clone.root.with_name("clone")))
    assert suite.run_suite(place, selection, as_json=False) == 1
    out, err = capfd.readouterr()
    assert f"no CTest test has {said}" in err
    assert "ctest --test-dir build/release -N --print-labels" in err
    assert out.endswith("\n0 passed, 0 failed, 0 skipped\n")
    assert not any(place.root.glob("build/*/libhakmem.so"))


def test_tests_that_are_new_are_known(clone: Clone) -> None:
    """In what was configured before them."""
    build.build(clone, "release")
    with (clone.root / "CMakeLists.txt").open("a") as lists:
        lists.write("add_test(NAME new COMMAND true)\n")
    report = run_selection(clone, Selection(preset="release", regex="^new$"))
    assert report.total == Tally(1, 0, 0)


def test_broken_build_is_a_failure_and_the_rest_goes_on(clone: Clone) -> None:
    (clone.root / "small.c").write_text("#error broken on purpose\n")
    report = run_selection(clone, Selection(regex="^good$"))
    assert [part.tally for part in report.sections] == [Tally(0, 1, 0)] * 2
    assert "failed" in report.sections[0].note


def test_budget_names_what_was_left_out(clone: Clone) -> None:
    report = run_selection(clone, Selection(regex="^good$", budget_minutes=0))
    assert [part.name for part in report.sections] == ["release"]
    assert report.left_out == ["asan"]


def test_folder_that_cannot_be_built_in(clone: Clone) -> None:
    lock = clone.build_folder("release") / "hakmem-lock"
    lock.mkdir(parents=True)
    with pytest.raises(HakmemError, match=r"cannot build in .*: Is a directory; clone hakmem to"):
        build.build(clone, "release")


def test_last_line_is_the_count(clone: Clone) -> None:
    command = [sys.executable, "-I", "-m", "hakmem", "test", "--preset", "release"]
    place = clone.root.rename(clone.root.with_name("small-clone"))
    environment = os.environ | {"CLONE_OF_HAKMEM": str(place)}
    plain = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert plain.returncode == 1
    assert plain.stdout.endswith("\n1 passed, 1 failed, 0 skipped\n")
    command.append("--json")
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert json.loads(told.stdout)["total"] == {"passed": 1, "failed": 1, "skipped": 0}


def test_front_door_lists_the_commands(tmp_path: Path) -> None:
    """Before anything is set up the script itself explains; it must name the same commands."""
    shutil.copy(ROOT / "hakmem", tmp_path / "hakmem")
    before = subprocess.run([tmp_path / "hakmem", "--help"], capture_output=True, text=True)
    assert before.returncode == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "hakmem"]
    command = [sys.executable, "-I", "-m", "hakmem", "--help"]
    clone = os.environ | {"CLONE_OF_HAKMEM": str(tmp_path)}
    after = subprocess.run(command, capture_output=True, text=True, check=True, env=clone)
    assert commands_in(before.stdout) == commands_in(after.stdout)


def commands_in(usage: str) -> set[str]:
    listed = usage.split("Commands:\n")[1].split("\n\n")[0]
    return {line.split()[0] for line in listed.splitlines()}
