"""Counting what ctest and pytest report, against files that they write here and now."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hakmem.tally import Tally, read_junit

CTEST_FILE = """
add_test(good /bin/true)
add_test(also_good /bin/true)
add_test(bad /bin/false)
add_test(skips /bin/sh -c "exit 77")
set_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)
add_test(off /bin/true)
set_tests_properties(off PROPERTIES DISABLED TRUE)
add_test(absent /no/such/program)
add_test(slow /bin/sleep 20)
set_tests_properties(slow PROPERTIES TIMEOUT 1)
add_test(needed /bin/false)
set_tests_properties(needed PROPERTIES FIXTURES_SETUP fixture)
add_test(needing /bin/true)
set_tests_properties(needing PROPERTIES FIXTURES_REQUIRED fixture)
"""


def ctest(folder: Path, content: str, *arguments: str) -> Tally:
    if shutil.which("ctest") is None:
        pytest.skip("ctest is not installed")
    (folder / "CTestTestfile.cmake").write_text(content)
    junit = folder / "junit.xml"
    command = ["ctest", "--test-dir", str(folder), "--output-junit", str(junit), *arguments]
    status = subprocess.run(command, capture_output=True, check=False).returncode
    return read_junit(junit, status)


def test_every_outcome_of_ctest(tmp_path: Path) -> None:
    # Failed: bad, absent, slow, needed, and needing, which could not run without it.
    assert ctest(tmp_path, CTEST_FILE) == Tally(passed=2, failed=5, skipped=2)


def test_ctest_without_tests(tmp_path: Path) -> None:
    assert ctest(tmp_path, CTEST_FILE, "-R", "nothing", "--no-tests=ignore") == Tally()


def test_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert False\n"
        "def test_skipped(): pytest.skip('no')\n"
        "@pytest.fixture\ndef broken(): raise OSError\n"
        "def test_error(broken): pass\n"
    )
    junit = tmp_path / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={junit}", str(tmp_path)]
    status = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False).returncode
    assert read_junit(junit, status) == Tally(passed=1, failed=2, skipped=1)


def test_runner_that_died_is_a_failure(tmp_path: Path) -> None:
    assert read_junit(tmp_path / "none.xml", 1) == Tally(failed=1)
    assert read_junit(tmp_path / "none.xml", 0) == Tally()


def test_status_and_words() -> None:
    assert Tally(passed=1, skipped=1).status == 0
    assert Tally(passed=1, failed=1).status == 1
    assert Tally(skipped=3).status == 1
    assert Tally().status == 1
    assert str(Tally(1, 2, 3) + Tally(1, 1, 1)) == "2 passed, 3 failed, 4 skipped"
