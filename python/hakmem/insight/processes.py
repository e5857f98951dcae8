"""What the system tells about processes: which there are, their names and resident memory."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hakmem.insight.area import NoAreaError
from hakmem.insight.attaching import attach, has_segments, read_maps, runs_hakmem
from hakmem.pids import memory_folder
from hakmem.terminal import in_one_line

STATUS_WORD = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Status:
    """Resident memory in bytes."""

    resident: int
    resident_peak: int


def status(pid: int) -> Status | None:
    """None: it has ended."""
    text = _text(memory_folder(pid) / "status")
    words = {name: int(value) << 10 for name, value in STATUS_WORD.findall(text)}
    return Status(words["VmRSS"], words["VmHWM"]) if "VmRSS" in words else None


def command_name(pid: int) -> str:
    return in_one_line(_proc(pid, "comm"))


def command_line(pid: int) -> str:
    return in_one_line(_proc(pid, "cmdline"))


def thread_name(pid: int, tid: int) -> str:
    """Of a thread that runs; of others ''."""
    return in_one_line(_proc(pid, f"task/{tid}/comm"))


def own_processes() -> Iterator[int]:
    """Ids of all processes on hakmem that this user may look at.

    One into which it is linked has no file of its name, but a live area.
    """
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            maps = read_maps(pid)
            if runs_hakmem(maps) or (has_segments(maps) and attach(pid)):
                yield pid
        except NoAreaError:
            continue


def _proc(pid: int, name: str) -> str:
    return _text(Path(f"/proc/{pid}/{name}"))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (OSError, ValueError):
        return ""
