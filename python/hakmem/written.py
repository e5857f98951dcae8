"""Files that a command writes: whole, or not at all."""

import errno
import fcntl
import os
import re
import sys
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.terminal import legible, say

STDOUT = Path("-")
HOLE = 4096
DESCRIPTORS = re.compile(r"/proc/\d+(?:/task/\d+)?/fd")
MOST_LINKS = 40  # that the kernel follows
# Of a file's name in that of its temporary one: characters, each of up to four bytes.
KEPT_OF_NAME = 32
SHARED, PRIVATE = 0o666, 0o600


def write_file(path: Path, content: str | bytes, mode: int = SHARED) -> None:
    """A file of that name has its old content or the new one, whatever happens.

    A device or a pipe is written as it is, what goes to /dev/stdout or another open file is added
    there, and - is standard output. `mode`: of a new file, less the umask; one that is there keeps
    its own.
    """
    # Names of files come along in texts, and may be of any bytes.
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    if path == STDOUT:
        _print(data)
        return
    try:
        opened = _opened(path)
        if opened is not None:
            _add(opened, data)
        elif path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(_place(path), data, mode)
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
        opened = _opened(path)
        if opened is not None:
            os.close(opened)
        elif path.exists() and not path.is_file():
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        else:
            part = _part(_place(path))
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


def _opened(path: Path) -> int | None:
    """Another descriptor of the open file that a name such as /dev/stdout leads to.

    The file behind it may be a log that others write too: whoever replaced it would take that away.
    """
    link = _descriptor_link(path)
    if link is None:
        return None
    if not link.is_relative_to(os.path.realpath("/proc/self")):
        return os.open(link, os.O_WRONLY | os.O_APPEND)
    link.lstat()  # an error, where no file of that number is open
    number = int(link.name)
    if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return os.dup(number)


def _descriptor_link(path: Path) -> Path | None:
    """In /proc/PID/fd, where the name leads through there."""
    for _ in range(MOST_LINKS):
        link = Path(os.path.realpath(path.parent), path.name)
        if DESCRIPTORS.fullmatch(str(link.parent)):
            return link
        if not link.is_symlink():
            return None
        path = link.parent / link.readlink()
    return None


def _add(opened: int, data: bytes) -> None:
    """After what has been printed, which may go to the same file."""
    with os.fdopen(opened, "wb") as file:
        sys.stdout.flush()
        file.write(data)


def _place(path: Path) -> Path:
    """Where its links lead; nothing need be there. In a circle they lead nowhere: an error."""
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        return Path(os.path.realpath(path))


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name[:KEPT_OF_NAME]}.{os.getpid()}.part")


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
