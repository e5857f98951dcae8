"""Whether LD_PRELOAD acts on a program, read from the file's own headers."""

import os
import shutil
import stat
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

ELF_MAGIC = b"\x7fELF"
PT_INTERP = 3
MACHINE_OFFSET = 18
SCRIPTS_MOST = 5  # that run each other, as many as the kernel follows
SHELL = "/bin/sh"


@dataclass(frozen=True)
class ElfHeader:
    bits: int
    machine: int
    has_loader: bool


def open_regular(path: Path) -> BinaryIO:
    """For reading. Names may be anything's: a pipe or a device would keep its reader waiting."""
    if stat.S_ISREG(path.stat().st_mode):
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        if stat.S_ISREG(os.fstat(number).st_mode):
            return os.fdopen(number, "rb")
        os.close(number)
    raise OSError(f"{path} is not a regular file")


def read_elf(path: Path) -> ElfHeader | None:
    """What the headers say, or None if this is not an ELF file."""
    with open_regular(path) as file:
        ident = file.read(16)
        if len(ident) < 16 or ident[:4] != ELF_MAGIC or ident[4] not in (1, 2):
            return None
        bits = 32 * ident[4]
        order = "<" if ident[5] == 1 else ">"
        try:
            file.seek(MACHINE_OFFSET)
            (machine,) = struct.unpack(order + "H", file.read(2))
            return ElfHeader(bits, machine, _has_loader(file, bits, order))
        except (struct.error, ValueError):  # too short, or a place that no file has
            return None


def _has_loader(file: BinaryIO, bits: int, order: str) -> bool:
    """Whether a program header names the dynamic loader, which is what reads LD_PRELOAD."""
    # Offsets of e_phoff and e_phentsize in the file header of each width.
    table_at, table_format, sizes_at = (28, "I", 42) if bits == 32 else (32, "Q", 54)
    file.seek(table_at)
    (table,) = struct.unpack(order + table_format, file.read(struct.calcsize(table_format)))
    file.seek(sizes_at)
    size, count = struct.unpack(order + "HH", file.read(4))
    for index in range(count):
        file.seek(table + index * size)
        (kind,) = struct.unpack(order + "I", file.read(4))
        if kind == PT_INTERP:
            return True
    return False


def program_behind(path: Path) -> Path:
    """The file that is loaded in the end: of a script its interpreter, looked up behind env."""
    for _ in range(SCRIPTS_MOST):
        name = _interpreter(path)
        found = shutil.which(name) if name and "/" not in name else name
        if not found or not Path(found).is_file():
            break
        path = Path(found)
    return path


def missing_interpreter(path: Path) -> str | None:
    """What a script wants to be run by, if that is not there."""
    name = _interpreter(path)
    there = name is None or (Path(name).is_file() if "/" in name else shutil.which(name))
    return None if there else name


def _interpreter(path: Path) -> str | None:
    """As the script names it; behind env it may be a bare name. A text that names none is sh's."""
    with open_regular(path) as file:
        line = file.readline(256)
    if line and not line.startswith((b"#!", ELF_MAGIC)) and b"\0" not in line:
        return SHELL if os.access(path, os.X_OK) else None
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if words and Path(words[0]).name == "env" and Path(words[0]).is_file():
        named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        words = named or words
    return words[0] if words else None


def gains_privilege(path: Path) -> bool:
    """Whether starting the file changes who the process is; the loader then drops LD_PRELOAD."""
    status = path.stat()
    user = bool(status.st_mode & stat.S_ISUID) and status.st_uid != os.getuid()
    group = bool(status.st_mode & stat.S_ISGID) and status.st_gid != os.getgid()
    return user or group or (os.getuid() != 0 and _has_capabilities(path))


def _has_capabilities(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def preload_obstacle(path: Path) -> str | None:
    """Why hakmem will not act on this program, or None if nothing stands in its way."""
    try:
        # The set-user-ID bit of a script is ignored by the kernel, that of its interpreter is not.
        program = program_behind(path)
        header = read_elf(program)
        if header is None:
            return None
        own = read_elf(Path(sys.executable))
        if gains_privilege(program):
            return f"{program} runs with another user's rights (set-user-ID or capabilities)"
        if not header.has_loader:
            return f"{program} is statically linked"
        if own and (own.bits, own.machine) != (header.bits, header.machine):
            return f"{program} is built for another kind of processor than hakmem"
    except OSError:
        # Executable but not readable: cannot tell, so nothing is claimed.
        return None
    return None
