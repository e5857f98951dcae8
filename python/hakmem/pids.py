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
    try:
        if _state(own) in ENDED:
            return next((one for one in (own / "task").iterdir() if _state(one) not in ENDED), own)
    except OSError:
        pass  # it has ended meanwhile
    return own


def _state(folder: Path) -> str:
    return (folder / "stat").read_bytes().rpartition(b") ")[2][:1].decode()
