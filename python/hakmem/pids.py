"""Process ids as they are typed, and where the kernel tells of a process' memory."""

from pathlib import Path

ENDED = "ZX"  # states of threads that have no memory any more

PID_DIGITS = 20  # what no kernel has as many of is none, and would be a number too long to print


def pid_of(text: str) -> int | None:
    """None: it is no process id."""
    is_number = text.isascii() and text.isdigit() and len(text) <= PID_DIGITS
    return int(text) if is_number else None


def memory_folder(pid: int) -> Path:
    """In /proc. Of a process whose first thread has ended alone, that of another thread."""
    own = Path("/proc") / str(pid)
    if _state(own) not in ENDED:
        return own
    try:
        threads = list((own / "task").iterdir())
    except OSError:
        return own  # it has ended meanwhile
    return next((thread for thread in threads if _state(thread) not in ENDED), own)


def _state(folder: Path) -> str:
    try:
        return (folder / "stat").read_bytes().rpartition(b") ")[2][:1].decode()
    except OSError:
        return ENDED
