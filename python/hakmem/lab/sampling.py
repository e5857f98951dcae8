"""Where a command's processor time goes, by software sampling: `perf record -e cpu-clock`."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import HakmemError

WANTED_FREQUENCY = 3999
PROC_KERNEL = Path("/proc/sys/kernel")
# A frame of `perf script -F ip,sym,dso`: address, symbol, (file); in a stack, the address of
# a program's own code is its place in the file.
FRAME = re.compile(r"^\s+(?P<address>[0-9a-f]+) (?P<symbol>.*) \((?P<file>.*)\)$")


@dataclass(frozen=True)
class Frame:
    """One place in a program's code: `offset` is where in `file`."""

    symbol: str
    file: str
    offset: int


@dataclass(frozen=True)
class Stack:
    """One sample: the kernel's frames, innermost first, and where in the program it was."""

    kernel: tuple[str, ...]
    user: Frame | None


@dataclass(frozen=True)
class Sampling:
    stacks: list[Stack]
    frequency: int
    sees_kernel: bool


def perf_obstacle() -> str | None:
    """Why this machine cannot sample, with the remedy, or None."""
    if shutil.which("perf") is None:
        return (
            "a layer profile needs 'perf', which is not installed "
            "(Debian: apt install linux-perf; Ubuntu: apt install linux-tools-generic)"
        )
    return None


def _kernel_number(name: str, otherwise: int) -> int:
    try:
        return int((PROC_KERNEL / name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return otherwise


def kernel_visible() -> bool:
    """Whether samples inside the kernel are ours to have."""
    return os.geteuid() == 0 or _kernel_number("perf_event_paranoid", 2) < 2


def sample(
    command: list[str], environment: Mapping[str, str], data: Path, folder: Path | None
) -> Sampling:
    """Runs the command under perf, in `folder`; the recording goes to `data` and is read back."""
    obstacle = perf_obstacle()
    if obstacle:
        raise HakmemError(obstacle)
    limit = _kernel_number("perf_event_max_sample_rate", WANTED_FREQUENCY)
    frequency = min(WANTED_FREQUENCY, limit)
    sees_kernel = kernel_visible()
    _record(command, environment, data, folder, frequency, sees_kernel)
    return Sampling(list(_stacks(_script(data))), frequency, sees_kernel)


def _record(
    command: list[str],
    environment: Mapping[str, str],
    data: Path,
    folder: Path | None,
    frequency: int,
    sees_kernel: bool,
) -> None:
    event = "cpu-clock" if sees_kernel else "cpu-clock:u"
    # env sets the program's environment, so that the allocator is not preloaded into perf itself.
    settings = [f"{name}={value}" for name, value in environment.items()]
    finished = subprocess.run(
        [
            *("perf", "record", "--quiet", "-e", event, "-F", str(frequency), "-g"),
            *("-o", str(data), "--", "env", "-i", *settings, *command),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
        cwd=folder,
    )
    if finished.returncode != 0 or not data.exists():
        raise HakmemError(f"perf could not sample '{command[0]}': {_last_line(finished)}")


def _script(data: Path) -> list[str]:
    finished = subprocess.run(
        ["perf", "script", "-i", str(data), "-F", "comm,ip,sym,dso"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if finished.returncode != 0:
        raise HakmemError(f"perf could not read its own recording: {_last_line(finished)}")
    return finished.stdout.splitlines()


def _last_line(finished: "subprocess.CompletedProcess[str]") -> str:
    lines = finished.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit status {finished.returncode}"


def _stacks(lines: Iterable[str]) -> Iterator[Stack]:
    """One stack per run of frame lines; the lines between name the process."""
    frames: list[re.Match[str]] = []
    for line in lines:
        match = FRAME.match(line)
        if match:
            frames.append(match)
        elif frames:
            yield _stack(frames)
            frames = []
    if frames:
        yield _stack(frames)


def _stack(frames: list[re.Match[str]]) -> Stack:
    kernel: list[str] = []
    for match in frames:
        address = int(match["address"], 16)
        # The kernel has the upper half of the addresses, its modules included.
        if address >> 63:
            kernel.append(match["symbol"])
        else:
            return Stack(tuple(kernel), Frame(match["symbol"], match["file"], address))
    return Stack(tuple(kernel), None)
