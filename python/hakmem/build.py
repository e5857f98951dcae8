"""Configures and builds a preset, quietly, and says what went wrong if it did."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hakmem.clone import INSTALLED_LIBRARY, RELEASE, Clone, require_clone
from hakmem.errors import HakmemError
from hakmem.terminal import on_terminal, say

# A step; ninja counts looking for new files as one, also where there is nothing to do.
NINJA_STEP = re.compile(r"\[(\d+)/(\d+)\] (?!Re-checking globbed)")
CONFIGURED_STAMP = "hakmem-configured"
LIBRARY_TARGET = "hakmem_shared"

Progress = Callable[[int, int], None]


def presets(clone: Clone) -> list[str]:
    """The presets a user can name, in the order of CMakePresets.json."""
    path = clone.root / "CMakePresets.json"
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["configurePresets"]
    except (OSError, ValueError, KeyError) as error:
        raise HakmemError(f"cannot read {path}: {error}") from error
    return [preset["name"] for preset in listed if not preset.get("hidden")]


def cmake_tool(name: str) -> str:
    """cmake or ctest: the private environment has its own where the system's is too old."""
    own = Path(sys.prefix) / "bin" / name
    return str(own) if own.exists() else name


def configuration_of(clone: Clone) -> str:
    """What a configured folder depends on and CMake itself does not watch: presets and place."""
    content = (clone.root / "CMakePresets.json").read_bytes() + os.fsencode(clone.root)
    return hashlib.sha256(content).hexdigest()


def configured(clone: Clone, preset: str) -> bool:
    folder = clone.build_folder(preset)
    stamp = folder / CONFIGURED_STAMP
    return (
        (folder / "build.ninja").exists()
        and stamp.exists()
        and stamp.read_text(encoding="utf-8") == configuration_of(clone)
    )


def library_current(clone: Clone) -> bool:
    """Whether the release library is there and no source is newer than it."""
    folder = clone.build_folder(RELEASE)
    if not clone.library().exists() or not configured(clone, RELEASE):
        return False
    if not os.access(folder, os.W_OK):
        # Another user's clone: what is built there is what there is to run.
        return True
    dry_run = ["ninja", "-C", str(folder), "-n", LIBRARY_TARGET]
    result = subprocess.run(dry_run, capture_output=True, text=True, check=False)
    return result.returncode == 0 and "no work to do" in result.stdout


def ensure_library(clone: Clone | None) -> Path:
    """The clone's, brought up to date, or the one that came with an installed package."""
    if clone is None and INSTALLED_LIBRARY.exists():
        return INSTALLED_LIBRARY
    clone = require_clone(clone)
    if not library_current(clone):
        build(clone, RELEASE, LIBRARY_TARGET)
    library = clone.library()
    if not library.exists():
        raise HakmemError(f"the build made no {library}")
    return library


def build(clone: Clone, preset: str, target: str | None = None) -> None:
    """Brings a preset, or one target of it, up to date."""
    with _prepared(clone, preset):
        _compile(clone, preset, target)


def configure(clone: Clone, preset: str) -> None:
    """So that its tests can be listed: nothing is compiled."""
    with _prepared(clone, preset):
        # Does nothing unless what it was configured from has changed.
        folder = str(clone.build_folder(preset))
        command = [cmake_tool("cmake"), "--build", folder, "--target", "build.ninja"]
        _configured_by(command, clone, preset)


@contextmanager
def _prepared(clone: Clone, preset: str) -> Iterator[None]:
    if preset not in presets(clone):
        raise HakmemError(f"no preset named '{preset}'; there are: {', '.join(presets(clone))}")
    with _one_build_at_a_time(clone.build_folder(preset)):
        if not configured(clone, preset):
            _configure(clone, preset)
        yield


@contextmanager
def _one_build_at_a_time(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = (folder / "hakmem-lock").open("w")
    except OSError as error:
        raise HakmemError(
            f"cannot build in {folder}: {error.strerror}; clone hakmem to a folder of your own"
        ) from None
    with opened as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _configure(clone: Clone, preset: str) -> None:
    say(f"configuring {preset}")
    folder = clone.build_folder(preset)
    command = [cmake_tool("cmake"), "--preset", preset]
    cache = folder / "CMakeCache.txt"
    if cache.exists():
        # A cache of another place or of other presets is an error to CMake.
        cache.unlink()
        shutil.rmtree(folder / "CMakeFiles", ignore_errors=True)
    _configured_by(command, clone, preset)
    stamp = folder / CONFIGURED_STAMP
    stamp.write_text(configuration_of(clone), encoding="utf-8")


def _configured_by(command: list[str], clone: Clone, preset: str) -> None:
    result = output_of(command, clone.root)
    if result.returncode != 0:
        raise HakmemError(f"configuring {preset} failed:\n{result.stdout.rstrip()}")


def output_of(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as error:
        raise HakmemError(f"cannot start {command[0]}: {error.strerror}") from error


def _compile(clone: Clone, preset: str, target: str | None) -> None:
    command = [cmake_tool("cmake"), "--build", str(clone.build_folder(preset))]
    if target:
        command += ["--target", target]
    started = time.monotonic()
    with _progress(f"building {preset}") as advance:
        status, log = _run_steps(command, clone.root, advance)
    if status != 0:
        raise HakmemError(f"building {preset} failed:\n{log.rstrip()}")
    if "no work to do" not in log:
        say(f"built {preset} in {time.monotonic() - started:.0f} s")


def _run_steps(command: list[str], folder: Path, advance: Progress) -> tuple[int, str]:
    """Runs a build, reports its steps, and returns its status and what it printed beside them."""
    environment = os.environ | {"NINJA_STATUS": "[%f/%t] "}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines: list[str] = []
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            step = NINJA_STEP.match(line)
            if step:
                advance(int(step[1]), int(step[2]))
            else:
                lines.append(line)
    return process.returncode, "".join(lines)


@contextmanager
def _progress(title: str) -> Iterator[Progress]:
    """A bar with the time left on a terminal, one line at the first step elsewhere."""
    if not on_terminal():
        announced = False

        def announce(_done: int, total: int) -> None:
            nonlocal announced
            if not announced:
                say(f"{title}, {total} steps")
                announced = True

        yield announce
        return

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("hakmem: {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
