"""The live area of a process, or a profile in a file: the tables of src/live/tables.def.

The area describes its tables itself; nothing here knows which fields there are.
"""

import contextlib
import ctypes
import errno
import itertools
import json
import os
import pwd
import re
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from hakmem.errors import HakmemError
from hakmem.terminal import shortened

MAGIC = b"hakmem"
LAYOUT = b"1\0"
# src/live/format.h: struct live_header without its tables, struct live_table.
HEADER = struct.Struct("<8sIIII")
DESCRIPTOR = struct.Struct("<16sIIIIII")
TABLES_MAX = 16
# Of a file that is not damaged, until 2106.
SECONDS_MOST = 1 << 32
# Processes of one version have tables alike.
SHAPES_KEPT = 256
# No profile, and no text of rules, is longer: of a device or a disk's image nobody wants all.
PROFILE_MOST, TEXT_MOST = 1 << 30, 16 << 20
PAGE_SIZES = (4 << 10, 16 << 10, 64 << 10)
WORDS: dict[str, tuple[Literal["I", "Q"], int]] = {"u32": ("I", 4), "u64": ("Q", 8)}
# A row of words by the million is nobody's.
FIELD = re.compile(r"([a-z][a-z0-9_]*):(u32|u64)(?:\[([1-9]\d{0,4})\])?")
# What refers to rows is copied before what it refers to: the latter only grows.
COPIED_FIRST = ("blocks", "sites")
# A row of these may be written anew while it is copied.
REWRITTEN = ("decisions",)

MAPS_LINE = re.compile(
    r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) .{4} [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ "
    r"(?P<inode>\d+) +(?P<path>.+)"
)
# With a number behind it, which is 0 of one without a key.
SEGMENT_NAME = "/SYSV00000000"
BUILD_ID = re.compile(r"^build-id ([0-9a-f]+) ([0-9a-f]+)\n?", re.MULTILINE)
SAVED = re.compile(r'^saved (\d{1,12}) (\d{1,10}) (".*")\n?', re.MULTILINE)

# A process that has just started may be writing its area: looked at this often before giving up.
ATTEMPTS = 20
PAUSE_S = 0.01
REFUSED_TO_ROOT = (
    "not even as root: in a container start that with --cap-add SYS_PTRACE, or look from outside"
)

Value = int | tuple[int, ...]
Row = dict[str, Value]
# read(offset, length): bytes of the area, fewer behind its end.
Read = Callable[[int, int], bytes]


class NoAreaError(HakmemError):
    """There is no live area to read, for the reason the message gives."""


class NotOnHakmemError(NoAreaError):
    """The process runs without the library."""


class GoneError(NoAreaError):
    """There is no such process, or no longer."""


class NoFieldError(HakmemError, KeyError):
    """A row has no such field, or none of that kind: it is of another version, or damaged."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the live area shows no field '{name}' as this command knows it: it is damaged, or of "
            "another version; use the hakmem command of the library's version"
        )

    __str__ = Exception.__str__  # KeyError's is for a key


class UnfinishedError(Exception):
    """The area is just being made, or this is none."""


@dataclass(frozen=True)
class Field:
    name: str
    kind: str
    length: int | None


@dataclass(frozen=True)
class Table:
    """Rows as they were when copied; they are taken apart when asked for."""

    name: str
    fields: tuple[Field, ...]
    capacity: int
    stride: int
    data: bytes = field(repr=False)

    @property
    def used(self) -> int:
        """Rows, from the first, that may hold something."""
        return len(self.data) // self.stride

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @cached_property
    def _struct(self) -> struct.Struct:
        code = _code(self.fields)
        return struct.Struct(f"{code}{self.stride - struct.calcsize(code)}x")

    def rows(self) -> list[Row]:
        return [self._row(values) for values in self._struct.iter_unpack(self.data)]

    def row(self, index: int) -> Row:
        return self._row(self._struct.unpack_from(self.data, index * self.stride))

    def column(self, name: str) -> list[int]:
        """One word of every row, without taking the rows apart."""
        if name not in self.names:
            raise NoFieldError(name)
        index = self.names.index(name)
        letter, width = WORDS[self.fields[index].kind]
        at = struct.calcsize(_code(self.fields[: index + 1])) - width
        return memoryview(self.data).cast(letter)[at // width :: self.stride // width].tolist()

    def _row(self, values: tuple[int, ...]) -> Row:
        row: Row = {}
        at = 0
        for f in self.fields:
            if f.length is None:
                row[f.name] = values[at]
                at += 1
            else:
                row[f.name] = values[at : at + f.length]
                at += f.length
        return row


def number(row: Row, name: str) -> int:
    """A field that is one word."""
    value = row.get(name)
    if not isinstance(value, int):
        raise NoFieldError(name)
    return value


def numbers(row: Row, name: str) -> tuple[int, ...]:
    """A field that is several."""
    value = row.get(name)
    if not isinstance(value, tuple):
        raise NoFieldError(name)
    return value


@dataclass(frozen=True)
class Saved:
    """What `report --save` knows of the process and its tables do not tell."""

    ms: int  # of CLOCK_MONOTONIC, as all in the tables
    at: int  # seconds since 1970
    command: str

    def line(self) -> str:
        return f"saved {self.ms} {self.at} {json.dumps(self.command)}\n"


@dataclass(frozen=True)
class Area:
    """A copy of the tables of one process."""

    version: str
    tables: dict[str, Table]
    maps_text: str
    # Start address of a loaded object -> its build id; of files only.
    build_ids: dict[int, str] = field(default_factory=dict)
    source: str = ""
    # Where the process has the area, and its id as it is seen from here; 0 if this is from a file.
    mapped_at: int = 0
    seen_as: int = 0
    # What describes the tables, and how far they reach.
    header: bytes = field(default=b"", repr=False)
    size: int = 0
    # None of a running process, and of a file that the process itself has written.
    saved: Saved | None = None

    def table(self, name: str) -> Table:
        if name not in self.tables:
            raise HakmemError(
                f"{self.source}: hakmem {self.version} shows no table '{name}'; "
                "use the hakmem command of that version"
            )
        return self.tables[name]

    def row(self, name: str) -> Row:
        """The only row of a table that has one."""
        rows = self.table(name).rows()
        if len(rows) != 1:
            raise HakmemError(f"{self.source}: table '{name}' has {len(rows)} rows instead of one")
        return rows[0]

    @property
    def pid(self) -> int:
        """As the process itself sees it."""
        return number(self.row("process"), "pid")


def area_of(target: str) -> Area:
    """Of a process id or a profile's file."""
    pid = pid_of(target)
    if not target:
        # As a path it would be the folder.
        raise HakmemError("'' is neither a process id nor a file")
    return load(Path(target)) if pid is None else attach(pid)


def pid_of(target: str) -> int | None:
    """The process id that a target is, if it is not a file's name."""
    return int(target) if target.isascii() and target.isdigit() else None


# A profile in a file.


def load(path: Path) -> Area:
    return of_content(content_of(path), f"'{path}'")


def content_of(path: Path) -> bytes:
    """Of a file, or of a pipe, which can be read only once."""
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
            return head + file.read(PROFILE_MOST if head == MAGIC else TEXT_MOST)
    except FileNotFoundError:
        raise HakmemError(f"'{path}' is neither a process id nor a file") from None
    except IsADirectoryError:
        raise HakmemError(f"'{path}' is a folder, not a profile") from None
    except OSError as error:
        raise HakmemError(f"'{shortened(str(path))}' cannot be read: {error.strerror}") from None


def of_content(content: bytes, source: str) -> Area:
    """The profile in it; `source` is where it is from."""

    def read(offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    try:
        area = parse(read, len(content), source)
    except UnfinishedError:
        raise HakmemError(f"{source} is not a profile of hakmem, or not a whole one") from None
    text = content[area.size :].decode(errors="surrogateescape")
    ids = {int(start, 16): value for start, value in BUILD_ID.findall(text)}
    maps = SAVED.sub("", BUILD_ID.sub("", text))
    area = replace(area, maps_text=maps, build_ids=ids, saved=_saved(text))
    _check_figures(area)
    return area


def _saved(text: str) -> Saved | None:
    match = SAVED.search(text)
    if match is None or int(match[2]) > SECONDS_MOST:
        return None
    try:
        command = str(json.loads(match[3])).encode(errors="replace").decode()
    except ValueError:
        command = ""
    return Saved(int(match[1]), int(match[2]), command)


def _check_figures(area: Area) -> None:
    """What is divided by or counted with must make sense: a file may have been damaged."""
    for name, holds in (
        ("process", _page_size_is_one),
        ("classes", _sizes_rise),
        ("heaps", _heaps_have_every_class),
        ("decisions", _decisions_have_keys),
    ):
        if name in area.tables and not holds(area):
            raise NoAreaError(f"{area.source}: table '{name}' of its live area is damaged")


def _page_size_is_one(area: Area) -> bool:
    size = number(area.row("process"), "page_size")
    return size in PAGE_SIZES


def _sizes_rise(area: Area) -> bool:
    sizes = area.tables["classes"].column("size")
    return all(a < b for a, b in itertools.pairwise([0, *sizes]))


def _heaps_have_every_class(area: Area) -> bool:
    words = 4 * area.table("classes").used
    rows = area.tables["heaps"].rows()
    return all(len(numbers(row, "by_class")) == words for row in rows)


def _decisions_have_keys(area: Area) -> bool:
    decisions = area.tables["decisions"]
    # By policy: rules, classes, powers of two. src/mind/log.h.
    keys = (area.table("rules").used, area.table("classes").used, 64)
    made = zip(*(decisions.column(name) for name in ("number", "policy", "key")), strict=True)
    return all(policy < len(keys) and key < keys[policy] for row, policy, key in made if row)


# A running process.


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
    if not runs_hakmem(maps) and not parents:
        raise _not_on_hakmem(pid, maps)
    if refusals:
        raise refusals[0]
    if unfinished:
        raise UnfinishedError
    raise _without_area(pid, parents)


def _not_on_hakmem(pid: int, maps: str) -> NoAreaError:
    if not maps:
        return GoneError(f"process {pid} has no memory: it has ended, or is the kernel's")
    return NotOnHakmemError(
        f"process {pid} does not run on hakmem; start it with: hakmem run -- COMMAND"
    )


def _without_area(pid: int, parents: list[int]) -> NoAreaError:
    if parents:
        return NoAreaError(
            f"process {pid} was forked from process {parents[0]} and has not used hakmem enough "
            "since to show an area of its own; try again later"
        )
    return NoAreaError(
        f"process {pid} runs on hakmem but shows no live area: it was started with live:0, or "
        "the system refused it a shared memory segment (see kernel.shmmni and kernel.shmall)"
    )


def mappings_text(pid: int, name: str) -> str:
    """Names in it may be of any bytes: what else ends a line elsewhere does not here."""
    return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="surrogateescape")


def mapped_name(text: str) -> str:
    """The kernel writes the end of a line in a file's name as an escape, and nothing else."""
    return text.replace(r"\012", "\n")


def runs_hakmem(maps: str) -> bool:
    """Is the library mapped, under its own name?"""
    lines = _lines_with("libhakmem", maps)
    return any("libhakmem" in line["path"].rpartition("/")[2] for line in lines)


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
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
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
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise GoneError(f"there is no process {pid}") from None
    match = re.search(r"^NSpid:.*?(\d+)$", status, re.MULTILINE)
    return int(match[1]) if match else pid


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


def parse(read: Read, size: int, source: str, wanted: frozenset[str] | None = None) -> Area:
    """What `read` reads, or of it only some tables; what its addresses mean is still missing."""
    head = read(0, HEADER.size)
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        raise UnfinishedError
    magic, header_size, area_size, count, text = HEADER.unpack(head)
    layout = magic[len(MAGIC) :]
    if layout != LAYOUT:
        raise NoAreaError(
            f"{source}: its live area has layout '{_shown(layout)}', this command reads "
            f"'{_shown(LAYOUT)}'; use the hakmem command of the library's version"
        )
    if not HEADER.size < header_size <= area_size <= size or count > TABLES_MAX:
        raise NoAreaError(f"{source}: its live area is damaged or cut off")
    texts = read(0, header_size)
    places = [HEADER.size + i * DESCRIPTOR.size for i in range(count)]
    names = {at: _text(texts, at, source) for at in places}
    places.sort(key=lambda at: _rank(names[at]))
    tables = [
        _copy(read, texts, at, area_size, source)
        for at in places
        if wanted is None or names[at] in wanted
    ]
    return Area(
        _text(texts, text, source),
        {table.name: table for table in tables},
        maps_text="",
        source=source,
        header=texts,
        size=area_size,
    )


def _rank(name: str) -> int:
    return COPIED_FIRST.index(name) if name in COPIED_FIRST else len(COPIED_FIRST)


def _copy(read: Read, texts: bytes, at: int, area_size: int, source: str) -> Table:
    # Read anew: `used` is to be as late as the rows.
    name, offset, stride, capacity, used, fields, _ = DESCRIPTOR.unpack(read(at, DESCRIPTOR.size))
    title = _shown(name.partition(b"\0")[0])
    columns = _columns(_text(texts, fields, source), source)
    if not columns.fit(stride) or offset + capacity * stride > area_size:
        raise NoAreaError(f"{source}: table '{title}' of its live area is damaged")
    # Threads that find a table full may have counted on.
    length = min(used, capacity) * stride
    data = read(offset, length)
    if title in REWRITTEN:
        data = _settled(data, read(offset, length), stride)
    return Table(title, columns.fields, capacity, stride, data)


def _settled(first: bytes, second: bytes, stride: int) -> bytes:
    """The rows that were the same both times: of one that is being written anew the number, which
    comes first, is taken away before and put there after (src/mind/log.c). The others as zeros."""
    rows = [first[at : at + stride] for at in range(0, len(first), stride)]
    return b"".join(
        row if row == second[at * stride : (at + 1) * stride] else bytes(stride)
        for at, row in enumerate(rows)
    )


@dataclass(frozen=True)
class _Columns:
    fields: tuple[Field, ...]
    width: int
    widest: int

    def fit(self, stride: int) -> bool:
        """Whether rows may lie so far from each other, with every word in its place."""
        return 0 < self.width <= stride and stride % self.widest == 0


def _columns(text: str, source: str) -> _Columns:
    try:
        return _columns_of(text)
    except ValueError as error:
        raise NoAreaError(
            f"{source}: its live area has a field '{error}', of no known type"
        ) from None


@lru_cache(SHAPES_KEPT)
def _columns_of(text: str) -> _Columns:
    found = []
    for word in text.split():
        match = FIELD.fullmatch(word)
        if match is None:
            raise ValueError(word)
        found.append(Field(match[1], match[2], int(match[3]) if match[3] else None))
    fields = tuple(found)
    widest = max((WORDS[f.kind][1] for f in fields), default=1)
    return _Columns(fields, struct.calcsize(_code(fields)), widest)


@lru_cache(SHAPES_KEPT)
def _code(fields: tuple[Field, ...]) -> str:
    """A row's words at their natural alignment, as `struct` wants it."""
    code = "<"
    at = 0
    for f in fields:
        letter, width = WORDS[f.kind]
        code += f"{-at % width}x{f.length or 1}{letter}"
        at += -at % width + width * (f.length or 1)
    return code


def _text(texts: bytes, at: int, source: str) -> str:
    end = texts.find(b"\0", at)
    if not 0 < at < len(texts) or end < 0:
        raise NoAreaError(f"{source}: its live area is damaged")
    return _shown(texts[at:end])


def _shown(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace")
