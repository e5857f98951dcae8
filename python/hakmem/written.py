"""Files that a command writes: whole, or not at all."""

import errno
import os
import sys
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.terminal import legible, say

STDOUT = Path("-")
HOLE = 4096
SHARED, PRIVATE = 0o666, 0o600


def write_file(path: Path, content: str | bytes, mode: int = SHARED) -> None:
    """A file of that name has its old content or the new one, whatever happens.

    A device or a pipe is written as it is, and - is standard output. `mode`: of a new file, less
    the umask; one that is there keeps its own.
    """
    # Names of files come along in texts, and may be of any bytes.
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    if path == STDOUT:
        _print(data)
        return
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(path.resolve(), data, mode)
    except OSError as error:
        raise HakmemError(f"cannot write '{legible(str(path))}': {error.strerror}") from None


def say_written(path: Path) -> None:
    """Who reads standard output sees it there."""
    if path != STDOUT:
        say(f"written: {legible(str(path))}")


def try_file(path: Path, folders: bool = False) -> None:
    """Before what it is for has taken its time: could the file be written? It stays as it is.

    `folders`: those missing above it are made, of which hakmem itself has chosen the names.
    """
    if path == STDOUT:
        return
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        else:
            part = _part(path.resolve())
            part.touch()
            part.unlink()
    except OSError as error:
        raise HakmemError(
            f"cannot write '{legible(str(path))}': {error.strerror}; name a file in a "
            "folder that is there and that you may write to"
        ) from None


def _print(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def _write_with_holes(path: Path, data: bytes) -> None:
    """Stretches of zeros take no room."""
    with path.open("wb") as file:
        for at in range(0, len(data), HOLE):
            stretch = data[at : at + HOLE]
            if any(stretch):
                file.seek(at)
                file.write(stretch)
        file.truncate(len(data))


def _replace(path: Path, data: bytes, mode: int) -> None:
    part = _part(path)
    try:
        part.touch(mode)
        _write_with_holes(part, data)
        if path.exists():
            part.chmod(path.stat().st_mode)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
