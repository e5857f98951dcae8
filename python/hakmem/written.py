"""Files that a command writes: whole, or not at all."""

import os
from pathlib import Path

from hakmem.errors import HakmemError


def write_file(path: Path, content: str | bytes, folders: bool = False) -> None:
    """A file of that name has its old content or the new one, whatever happens.

    A device or a pipe is written as it is. `folders`: those missing above it are made.
    """
    # Names of files come along in texts, and may be of any bytes.
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(path.resolve(), data)
    except OSError as error:
        raise HakmemError(f"cannot write '{path}': {error.strerror}") from None


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        if path.exists():
            part.chmod(path.stat().st_mode)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
