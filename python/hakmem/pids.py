"""Process ids as they are typed, and where the kernel tells of a process."""

import contextlib
import re
from pathlib import Path

ENDED = ("Z", "X")  # states of threads that have no memory any more

NUMBERS = re.compile(r"^NSpid:.*?(\d+)$", re.MULTILINE)  # in each namespace, the innermost last

PID_DIGITS = 20  # what no kernel has as many of is none, and would be a number too long to print


def pid_of(text: str) -> int | None:
    """None: it is no process id."""
    is_number = text.isascii() and text.isdigit() and len(text) <= PID_DIGITS
    return int(text) if is_number else None


def number_inside(folder: Path) -> int:
    """Of a process or thread, whose folder in /proc it is: the number that it has for itself."""
    numbers = NUMBERS.search((folder / "status").read_text(errors="replace"))
    return int(numbers[1] if numbers else folder.name)


def threads_inside(pid: int) -> dict[int, int]:
    """The number here of each thread, by the one that it has for itself."""
    found = {}
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for folder in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found[number_inside(folder)] = int(folder.name)
    return found


def memory_folder(pid: int) -> Path:
    """In /proc. Of a process whose first thread has ended alone, that of another thread."""
    own = Path("/proc") / str(pid)
    if _has_memory(own):
        return own
    try:
        threads = list((own / "task").iterdir())
    except OSError:
        return own  # it has ended meanwhile
    return next(filter(_has_memory, threads), own)


def _has_memory(folder: Path) -> bool:
    try:
        state = (folder / "stat").read_bytes().rpartition(b") ")[2][:1].decode()
    except OSError:
        return False
    return state not in ENDED
