"""Programs that a sanitizer watches: they are started without hakmem, and doctor says so."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hakmem.insight.doctor import examine_command
from hakmem.insight.programs import read_program

SOURCE = """
#include <stdlib.h>
int main(int count, char **words)
{
    volatile char *freed = malloc(100);
    free((void *)freed);
    (void)words;
    return count > 1 ? freed[3] : 0;
}
"""
COMPILERS = ("gcc", "clang")


@pytest.fixture(params=COMPILERS)
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """gcc's runtime is a library, clang's is part of the program."""
    compiler = request.param
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    source, program = tmp_path / "watched.c", tmp_path / "watched"
    source.write_text(SOURCE)
    command = [compiler, "-fsanitize=address", "-o", str(program), str(source)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{compiler} has no AddressSanitizer")
    return program


def test_is_told_from_others(watched: Path) -> None:
    program = read_program(watched)
    assert program is not None and program.sanitizer == "AddressSanitizer"
    own = read_program(Path(sys.executable))
    assert own is not None and own.sanitizer is None


def test_doctor(watched: Path) -> None:
    report = examine_command(watched, None, {})
    assert not report.active
    assert any("AddressSanitizer" in finding.text for finding in report.findings)


def test_runs_and_reports(watched: Path, marker_library: Path, free_promises: None) -> None:
    command = [sys.executable, "-m", "hakmem", "run", "--library", str(marker_library)]
    command += ["--", str(watched)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    for words, expected in (([], 0), (["x"], 1)):
        done = subprocess.run(
            [*command, *words], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == expected
        assert "started without hakmem" in done.stderr
        assert ("heap-use-after-free" in done.stderr) == bool(words)
