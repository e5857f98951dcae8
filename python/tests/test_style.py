"""The Python part is clean to its linter, its formatter and its type checker."""

import importlib.util
import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.parametrize(
    "arguments",
    [
        ["ruff", "check", "--no-cache"],
        ["ruff", "format", "--check", "--no-cache"],
        ["mypy", "--strict", "--cache-dir=/dev/null"],
    ],
    ids=["lint", "format", "types"],
)
def test_style(arguments: list[str]) -> None:
    if importlib.util.find_spec(arguments[0]) is None:
        pytest.skip(f"{arguments[0]} is not installed")
    folders = ["python/hakmem"] if arguments[0] == "mypy" else ["python", "tests", "packaging"]
    result = subprocess.run(
        [sys.executable, "-m", *arguments, *folders], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
