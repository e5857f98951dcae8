"""The script in front of everything: what it installs, and what it makes of that."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

NOBODY = 65534
SCRIPT = Path(__file__).parents[2] / "hakmem"
# Each does what the script needs of it; what apt-get installs, pkg-config then knows.
TOOLS = {
    "sudo": 'shift; exec "$@"',
    "apt-get": 'echo "$@" >>"$HERE/installed"',
    "pkg-config": '[ -e "$HERE/installed" ]',
} | dict.fromkeys(["gcc", "g++", "cmake", "ninja", "valgrind", "cargo"], "")


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in which all is there but cmocka, and which has been configured."""
    root = tmp_path / "clone"
    root.mkdir()
    shutil.copy(SCRIPT, root)
    (root / "pyproject.toml").touch()
    python = root / ".venv" / "bin" / "python"
    script(python, "")
    (root / ".venv" / "interpreter").write_text(os.fspath(python.resolve()))
    (root / ".venv" / "installed-test.toml").touch()
    (root / "build" / "release").mkdir(parents=True)
    for name, body in TOOLS.items():
        script(tmp_path / "tools" / name, body)
    return root


def run(clone: Path, *arguments: str) -> str:
    here = clone.parent
    environment = {"PATH": f"{here / 'tools'}:/usr/bin:/bin", "HERE": os.fspath(here)}
    result = subprocess.run(
        [clone / "hakmem", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


def test_what_was_configured_before_is_configured_again_with_what_is_installed(clone: Path) -> None:
    configured = clone / "build" / "release" / "hakmem-configured"
    configured.touch()
    assert "libcmocka-dev" in run(clone, "test")
    assert "libcmocka-dev" in (clone.parent / "installed").read_text()
    assert not configured.exists()


@pytest.mark.parametrize("is_moved", [False, True])
def test_cmake_of_a_clone_that_was_moved(clone: Path, is_moved: bool) -> None:
    """Pip's is a script that names the interpreter by its place."""
    (clone.parent / "installed").touch()
    python = clone / ".venv" / "bin" / "python"
    named = clone.parent / "elsewhere/bin/python" if is_moved else python
    (python.parent / "cmake").write_text(f"#!{named}\nimport cmake\n")
    environment = {"PATH": f"{clone.parent / 'tools'}:/usr/bin:/bin", "HERE": f"{clone.parent}"}
    # Into a new environment nothing is installed here: the project names no packages.
    subprocess.run([clone / "hakmem", "test"], env=environment, capture_output=True, check=False)
    assert (python.parent / "cmake").exists() != is_moved


def test_nothing_is_configured_again_where_nothing_is_installed(clone: Path) -> None:
    (clone.parent / "installed").touch()
    configured = clone / "build" / "release" / "hakmem-configured"
    configured.touch()
    assert run(clone, "test") == ""
    assert configured.exists()


def test_asking_for_help_installs_nothing(clone: Path) -> None:
    (clone / ".venv" / "installed-base.toml").touch()
    for command in ("test", "setup", "bench", "stats"):
        assert run(clone, command, "--help") == ""
        assert run(clone, command, "-h") == ""
    assert not (clone.parent / "installed").exists()
    assert "libcmocka-dev" in run(clone, "test", "--", "--help")
    assert run(clone, "run", "--help") == ""
    assert "installing into .venv" in run(clone, "run", "--report=page", "ls", "--help")


def test_what_other_commands_need_leaves_the_tests_as_they_are(clone: Path) -> None:
    (clone.parent / "installed").touch()
    configured = clone / "build" / "release" / "hakmem-configured"
    configured.touch()
    (clone / ".venv" / "installed-base.toml").touch()
    assert "installing into .venv" in run(clone, "stats")
    assert configured.exists()


def told_to_another(clone: Path) -> tuple[str, str]:
    """Where a copy of it lay, and the line that a user who cannot write there is told.

    Nobody's rights where root runs the tests, who may write everywhere.
    """
    with tempfile.TemporaryDirectory() as place:
        theirs = Path(place) / "clone"
        shutil.copytree(clone, theirs, symlinks=True)
        for folder in (Path(place), theirs, theirs / ".venv"):
            folder.chmod(0o555)
        result = subprocess.run(
            [theirs / "hakmem", "stats"],
            user=NOBODY if os.geteuid() == 0 else None,
            capture_output=True,
            text=True,
            check=False,
        )
        for folder in (Path(place), theirs, theirs / ".venv"):
            folder.chmod(0o755)
    assert result.returncode == 125
    assert len(result.stderr.splitlines()) == 1
    return os.fspath(theirs), result.stderr


def test_clone_of_another_user_is_left_as_it_is(clone: Path) -> None:
    (clone / ".venv" / "interpreter").write_text("another")
    theirs, told = told_to_another(clone)
    assert f"{theirs} belongs to " in told


def test_python_of_another_user_that_nobody_else_may_run(clone: Path) -> None:
    python = clone / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/no/such/python")
    assert "cannot be run by you" in told_to_another(clone)[1]
