"""The drivers below tests/ that judge: what says nothing must not pass for good news."""

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT


def driver(name: str) -> ModuleType:
    path = ROOT / "tests" / name
    spec = importlib.util.spec_from_file_location(f"driver_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def no_tests(tmp_path: Path) -> Path:
    """A build folder without any."""
    if shutil.which("ctest") is None:
        pytest.skip("ctest is not installed")
    folder = tmp_path / "build" / "release"
    folder.mkdir(parents=True)
    (folder / "CTestTestfile.cmake").touch()
    return folder


def test_a_machine_without_tests_fails(no_tests: Path) -> None:
    with pytest.raises(SystemExit, match="FAILED"):
        driver("machines/build_and_test.py").test(no_tests, "-L", "unit")


def test_mutants_are_not_tried_without_tests(no_tests: Path) -> None:
    mutation = driver("mutation/run_mutation.py")
    clone = object.__new__(mutation.Clone)
    clone.root = no_tests.parents[1]
    assert clone.killer().startswith("ctest -L ^fuzz$")


FILE = {"filename": "src/heap/heap.c", "line_total": 10, "branch_total": 10}
ALL_RUN = FILE | {"line_covered": 10, "branch_covered": 10}


@pytest.fixture
def coverage(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = driver("coverage/run_coverage.py")
    monkeypatch.setattr(found, "gcovr", lambda: [ALL_RUN])
    monkeypatch.setattr(found, "run_tests", lambda jobs: True)
    monkeypatch.setattr(sys, "argv", ["run_coverage.py", "--strict"])
    return found


def test_coverage_of_everything(coverage: ModuleType) -> None:
    assert coverage.main() == 0


def test_coverage_of_nothing_fails(coverage: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run_coverage.py", "--no-run"])
    monkeypatch.setattr(coverage, "gcovr", lambda: [])
    with pytest.raises(SystemExit, match="nothing was counted"):
        coverage.main()


@pytest.mark.parametrize("strict", [True, False])
def test_coverage_by_tests_that_fail(
    coverage: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    strict: bool,
) -> None:
    monkeypatch.setattr(coverage, "run_tests", lambda jobs: False)
    monkeypatch.setattr(sys, "argv", ["run_coverage.py", *(["--strict"] if strict else [])])
    assert coverage.main() == strict


def test_mutants_of_a_model_that_does_not_pass_are_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checker that finds fault with one of two scenarios, whatever the sources are."""
    model = driver("model/model.py")
    checker = tmp_path / "checker"
    checker.write_text('#!/bin/sh\n[ -n "$2" ] || { echo lock live; exit; }\n[ "$2" != live ]\n')
    checker.chmod(0o755)

    class Module:
        path = tmp_path / "scenarios.so"

        def __init__(self, sources: Path, build: Path) -> None:
            pass

        def changed(self, file: Path) -> None:
            pytest.fail("a mutant was tried")

    monkeypatch.setattr(model, "build_checker", lambda build: checker)
    monkeypatch.setattr(model, "Module", Module)
    with pytest.raises(SystemExit, match="as the sources are, live does not pass"):
        model.mutate(tmp_path / "build", ["heap/lease.c"])


def test_nothing_in_the_environment_cuts_a_check_short() -> None:
    """Loom's builder reads these from there, whatever they are for."""
    text = (ROOT / "tests" / "model" / "src" / "main.rs").read_text()
    for name in ("max_permutations", "max_duration", "checkpoint_file"):
        assert f"builder.{name} = None;" in text
