"""The live area of a running process: where it has one, and how it is reached."""

import contextlib
import ctypes
import errno
import os
import pwd
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.insight.area import (
    LAYOUT,
    MAGIC,
    Area,
    GoneError,
    NoAreaError,
    NotOnHakmemError,
    Read,
    UnfinishedError,
    load,
    parse,
)
from hakmem.pids import memory_folder, number_inside, pid_of

MAPS_LINE = re.compile(
    r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) .{4} [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ "
    r"(?P<inode>\d+) +(?P<path>.+)"
)
# With a number behind it, which is 0 of one without a key.
SEGMENT_NAME = "/SYSV00000000"
# Mappings that are named like files.
NO_FILES = (SEGMENT_NAME, "/memfd:", "/dev/")

# A process that has just started may be writing its area: looked at this often before giving up.
ATTEMPTS = 20
PAUSE_S = 0.01
REFUSED_TO_ROOT = (
    "not even as root: in a container start that with --cap-add SYS_PTRACE, or look from outside"
)


def area_of(target: str) -> Area:
    """Of a process id or a profile's file."""
    pid = pid_of(target)
    if not target:
        # As a path it would be the folder.
        raise HakmemError("'' is neither a process id nor a file")
    return load(Path(target)) if pid is None else attach(pid)


def attach(pid: int) -> Area:
    """Without stopping the process: it notices nothing."""
    for _ in range(ATTEMPTS):
        try:
            return _attach(pid, read_maps(pid))
        except UnfinishedError:
            time.sleep(PAUSE_S)
    raise NoAreaError(f"process {pid} is still making its live area; try again")


def read_maps(pid: int) -> str:
    """/proc/PID/maps, or an error that says why not."""
    try:
        return mappings_text(pid, "maps")
    except (FileNotFoundError, ProcessLookupError):
        raise GoneError(f"there is no process {pid}") from None
    except PermissionError:
        raise NoAreaError(_not_permitted(pid)) from None


def _attach(pid: int, maps: str) -> Area:
    source = f"process {pid}"
    inner = pid_inside(pid)
    parents: list[int] = []
    refusals: list[NoAreaError] = []
    unfinished = False
    for segment in segments(maps):
        try:
            with _opened(pid, segment) as (read, size):
                magic = read(0, len(MAGIC + LAYOUT))
                unfinished = unfinished or not any(magic)
                if not magic.startswith(MAGIC):
                    continue
                area = parse(read, size, source)
        except NoAreaError as error:
            refusals.append(error)
            continue
        area = replace(area, maps_text=maps, mapped_at=segment.start, seen_as=pid)
        if area.pid == inner:
            return area
        parents.append(area.pid)
    refuse_thread(pid)
    if not runs_hakmem(maps) and not parents:
        raise _not_on_hakmem(pid, maps)
    if refusals:
        raise refusals[0]
    if unfinished:
        raise UnfinishedError
    raise _without_area(pid, parents)


def refuse_thread(pid: int) -> None:
    process = process_of(pid)
    if process != pid:
        raise NoAreaError(f"{pid} is a thread of process {process}: name that")


def process_of(pid: int) -> int:
    """The process that a thread belongs to; of a process, or where it cannot be told, itself."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return pid
    found = re.search(r"^Tgid:\s*(\d+)$", status, re.MULTILINE)
    return int(found[1]) if found else pid


def without_memory(pid: int) -> GoneError:
    """Which no mappings means."""
    return GoneError(f"process {pid} has no memory: it has ended, or is the kernel's")


def _not_on_hakmem(pid: int, maps: str) -> NoAreaError:
    if not maps:
        return without_memory(pid)
    return NotOnHakmemError(
        f"process {pid} does not run on hakmem; start it with: hakmem run -- COMMAND (what is in "
        f"the way of that: hakmem doctor {pid})"
    )


def _without_area(pid: int, parents: list[int]) -> NoAreaError:
    if parents:
        return NoAreaError(
            f"process {pid} was forked from process {parents[0]} and has not used hakmem enough "
            "since to show an area of its own; try again later"
        )
    return NoAreaError(
        f"process {pid} has loaded hakmem but shows no live area: it was started with live:0, the "
        "system refused it a shared memory segment (see kernel.shmmni and kernel.shmall), or its "
        f"malloc is another: hakmem doctor {pid}"
    )


def mappings_text(pid: int, name: str) -> str:
    """Names in it may be of any bytes: what else ends a line elsewhere does not here."""
    text = Path(f"/proc/{pid}/{name}").read_bytes() or (memory_folder(pid) / name).read_bytes()
    return text.decode(errors="surrogateescape")


def mapped_name(text: str) -> str:
    """The kernel writes the end of a line in a file's name as an escape, and nothing else."""
    return text.replace(r"\012", "\n")


def program_of(area: Area) -> str:
    """The program's file, as its mappings name it; '' if they have none.

    Of a running process the kernel tells, to whom the loader is one that was started by its name.
    """
    if area.seen_as:
        with contextlib.suppress(OSError):
            return str((memory_folder(area.seen_as) / "exe").readlink())
    named = [line for line in MAPS_LINE.finditer(area.maps_text) if line["path"].startswith("/")]
    own = [line for line in named if int(line["start"], 16) == area.program_at]
    # Before files said it: what is mapped first, as an ordinary program is.
    files = [line for line in named if not line["path"].startswith(NO_FILES)]
    return next((mapped_name(line["path"]) for line in own or files), "")


def program_start(area: Area) -> int:
    """Where it begins; 0 if that cannot be told."""
    program = program_of(area)
    lines = MAPS_LINE.finditer(area.maps_text)
    found = (line for line in lines if mapped_name(line["path"]) == program)
    return area.program_at or next((int(line["start"], 16) for line in found), 0)


def is_hakmem(file: str) -> bool:
    """Does it have the library's own name?"""
    return "libhakmem" in file.rpartition("/")[2]


def runs_hakmem(maps: str) -> bool:
    return any(is_hakmem(line["path"]) for line in _lines_with("libhakmem", maps))


def _lines_with(text: str, maps: str) -> Iterator[re.Match[str]]:
    """Most lines of most processes are told from these without being taken apart."""
    if text in maps:
        found = (MAPS_LINE.fullmatch(line) for line in maps.split("\n") if text in line)
        yield from filter(None, found)


@dataclass(frozen=True)
class Segment:
    """A mapping of System V shared memory."""

    start: int
    end: int
    shmid: int


def segments(maps: str) -> list[Segment]:
    return [
        Segment(int(line["start"], 16), int(line["end"], 16), int(line["inode"]))
        for line in _lines_with(SEGMENT_NAME, maps)
        if line["path"].startswith(SEGMENT_NAME)
    ]


def has_segments(maps: str) -> bool:
    return bool(segments(maps))


@contextlib.contextmanager
def _opened(pid: int, segment: Segment) -> Iterator[tuple[Read, int]]:
    with contextlib.ExitStack() as stack:
        try:
            # An id of another namespace may be that of a stranger's segment here.
            if not same_ipc_namespace(pid):
                raise FileNotFoundError
            opened = stack.enter_context(attached(pid, segment))
        except FileNotFoundError:
            opened = stack.enter_context(_peeked(pid, segment))
        yield opened


def same_ipc_namespace(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/ns/ipc").readlink() == Path("/proc/self/ns/ipc").readlink()
    except OSError:
        return True


_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p
_libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
_libc.shmdt.argtypes = [ctypes.c_void_p]
_libc.shmctl.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
SHM_RDONLY = 0o10000
IPC_STAT = 2
FAILED = ctypes.c_void_p(-1).value
# struct shmid_ds of 64-bit Linux: the size comes after a struct ipc_perm of 48 bytes.
SEGMENT_SIZE_AT = 48
SHMID_DS_MAX = 256


@contextlib.contextmanager
def attached(pid: int, segment: Segment) -> Iterator[tuple[Read, int]]:
    address = _libc.shmat(segment.shmid, None, SHM_RDONLY)
    if address == FAILED:
        raise _refusal(pid, ctypes.get_errno())
    try:
        # The system's word, not the process' maps: to read behind the end would end the reader.
        about = ctypes.create_string_buffer(SHMID_DS_MAX)
        if _libc.shmctl(segment.shmid, IPC_STAT, about) != 0:
            raise _refusal(pid, ctypes.get_errno())
        size = int(struct.unpack_from("<Q", about, SEGMENT_SIZE_AT)[0])

        def read(offset: int, length: int) -> bytes:
            return ctypes.string_at(address + offset, max(0, min(length, size - offset)))

        yield read, size
    finally:
        _libc.shmdt(address)


def _refusal(pid: int, code: int) -> Exception:
    if code in (errno.EINVAL, errno.EIDRM, errno.ENOENT):
        return FileNotFoundError(code, os.strerror(code))
    if code in (errno.EACCES, errno.EPERM):
        return NoAreaError(_not_permitted(pid))
    return NoAreaError(f"cannot attach the live area of process {pid}: {os.strerror(code)}")


@contextlib.contextmanager
def _peeked(pid: int, segment: Segment) -> Iterator[tuple[Read, int]]:
    """Through /proc/PID/mem: into containers, for who may."""
    try:
        memory = os.open(memory_folder(pid) / "mem", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        raise GoneError(f"process {pid} has just ended") from None
    except PermissionError:
        raise NoAreaError(
            f"process {pid} is in a container (another IPC namespace): "
            "run hakmem inside it, or as root"
        ) from None
    size = segment.end - segment.start

    def read(offset: int, length: int) -> bytes:
        length = max(0, min(length, size - offset))
        try:
            data = os.pread(memory, length, segment.start + offset)
        except OSError:
            data = b""
        if len(data) != length:
            raise GoneError(f"process {pid} has just ended")
        return data

    try:
        yield read, size
    finally:
        os.close(memory)


class Places:
    """Where processes have their areas: the next look at one need not read its mappings."""

    def __init__(self, tables: frozenset[str]) -> None:
        """Of each area these tables."""
        self._tables = tables
        self._known: dict[int, tuple[Segment, int]] = {}

    def attach(self, pid: int) -> Area:
        if pid in self._known:
            # Gone with the process, or with its program when it became another one.
            with contextlib.suppress(HakmemError, OSError, UnfinishedError):
                return self._again(pid, *self._known[pid])
            del self._known[pid]
        area = attach(pid)
        # An id of another namespace may be that of a stranger's segment here.
        if same_ipc_namespace(pid):
            place = next(s for s in segments(area.maps_text) if s.start == area.mapped_at)
            self._known[pid] = place, area.pid
        return area

    def forget(self) -> None:
        """The child of a fork may keep the area of a parent that has none any more."""
        self._known.clear()

    def _again(self, pid: int, segment: Segment, inner: int) -> Area:
        with attached(pid, segment) as (read, size):
            area = parse(read, size, f"process {pid}", self._tables)
        if area.pid != inner:
            raise UnfinishedError
        return replace(area, mapped_at=segment.start, seen_as=pid)


def pid_inside(pid: int) -> int:
    """The id in the innermost namespace, which is what the process itself writes."""
    try:
        return number_inside(Path(f"/proc/{pid}"))
    except (FileNotFoundError, ProcessLookupError):
        raise GoneError(f"there is no process {pid}") from None


def _not_permitted(pid: int) -> str:
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return f"not permitted to look at process {pid}"
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        owner = f"user {uid}"
    if os.geteuid() == 0:
        return f"not permitted to look at process {pid}, {REFUSED_TO_ROOT}"
    remedy = "run as root" if uid in (0, os.geteuid()) else f"run as {owner} or root"
    return f"not permitted to look at process {pid}: {remedy}"


# The format.
