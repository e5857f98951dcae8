"""Live areas made by hand after src/live/tables.def, in bytes and in a process that shows one."""

import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conftest import ROOT

from hakmem.insight.area import DESCRIPTOR, HEADER, TABLES_MAX, WORDS

Row = dict[str, int | list[int]]
Rows = list[Row]
CLASS_ROW = re.compile(r"^CLASS\(\d+, \d+, (\d+), (\d+)", re.MULTILINE)
TABLE = re.compile(r"^LIVE_TABLE\((\w+), ([^)]+)\)(.*?)^LIVE_END", re.MULTILINE | re.DOTALL)
# A field, or a loop over the settings or counters that makes one of each.
FIELD = re.compile(
    r"^(?:#define (?P<each>\w+)\(.*\) )?"
    r"LIVE_(?:FIELD|ARRAY)\(\w+, (?P<kind>\w+), (?P<name>\w+)(?:##name)?(?:, (?P<length>\w+))?\)",
    re.MULTILINE,
)


def source(name: str) -> str:
    return (ROOT / "src" / name).read_text()


CLASSES = [
    (int(size), int(units)) for size, units in CLASS_ROW.findall(source("slab/size_classes.def"))
]
COUNTERS = re.findall(r"^COUNTER\((\w+)", source("control/counters.def"), re.MULTILINE)
SETTINGS = re.findall(r"^OPTION\((\w+)", source("control/options.def"), re.MULTILINE)
LENGTHS = {"LIVE_CLASSES": len(CLASSES), "LIVE_BY_CLASS": len(CLASSES) * 4}


@dataclass
class Shape:
    """A table: room for so many rows of these (name, type, length) fields."""

    rows: int
    fields: list[tuple[str, str, int | None]]

    def __post_init__(self) -> None:
        self.width: dict[str, tuple[int, str]] = {}
        at = 0
        for name, kind, length in self.fields:
            letter, size = WORDS[kind]
            at += -at % size
            self.width[name] = (at, f"<{length or 1}{letter}")
            at += size * (length or 1)
        self.stride = at + -at % 8

    @property
    def text(self) -> str:
        return " ".join(f"{n}:{k}" + (f"[{x}]" if x else "") for n, k, x in self.fields)

    def pack(self, row: dict[str, int | list[int]]) -> bytes:
        data = bytearray(self.stride)
        for name, value in row.items():
            at, code = self.width[name]
            values = value if isinstance(value, list) else [value]
            struct.pack_into(code, data, at, *values)
        return bytes(data)


def _length(text: str) -> int:
    factor, _, shift = text.partition(" << ")
    return LENGTHS.get(text) or int(factor) << int(shift or 0)


def _fields(field: re.Match[str]) -> list[tuple[str, str, int | None]]:
    length = _length(field["length"]) if field["length"] else None
    if field["each"] is None:
        return [(field["name"], field["kind"], length)]
    names = {"OPTION": SETTINGS, "COUNTER": COUNTERS}[field["each"]]
    prefix = field["name"].removesuffix("name")
    return [(prefix + name, field["kind"], length) for name in names]


def shapes() -> dict[str, Shape]:
    return {
        name: Shape(
            _length(rows), [field for match in FIELD.finditer(body) for field in _fields(match)]
        )
        for name, rows, body in TABLE.findall(source("live/tables.def"))
    }


@dataclass(frozen=True)
class Built:
    data: bytes
    # Where the process table is: its first word is the process id.
    process_at: int


def build(tables: dict[str, Rows], version: str = "9.9.9", magic: bytes = b"hakmem1\0") -> Built:
    """An area with these rows; tables not named are empty."""
    layout = shapes()
    assert not set(tables) - set(layout)
    texts = bytearray()
    texts_at = HEADER.size + TABLES_MAX * DESCRIPTOR.size
    offsets = {}
    for text in (version, *(shape.text for shape in layout.values())):
        offsets[text] = texts_at + len(texts)
        texts += text.encode() + b"\0"
    header_size = texts_at + len(texts)
    at = header_size + -header_size % 64
    body = bytearray()
    descriptors = b""
    places = {}
    start = at
    for name, shape in layout.items():
        rows = tables.get(name, [])
        places[name] = at
        descriptors += DESCRIPTOR.pack(
            name.encode(), at, shape.stride, shape.rows, len(rows), offsets[shape.text], 0
        )
        packed = b"".join(shape.pack(row) for row in rows)
        body += packed + bytes(shape.stride * shape.rows - len(packed))
        at = start + len(body)
        body += bytes(-at % 64)
        at += -at % 64
    head = HEADER.pack(magic, header_size, at, len(layout), offsets[version])
    front = (head + descriptors).ljust(texts_at, b"\0") + texts
    return Built(front.ljust(start, b"\0") + bytes(body), places["process"])


def heap(
    address: int,
    tid: int,
    state: int = 1,
    by_class: dict[int, tuple[int, int, int, int]] | None = None,
    **words: int,
) -> dict[str, int | list[int]]:
    """A row of `heaps`; by_class: class -> used, slabs, touched pages, magazine."""
    flat = [0] * (len(CLASSES) * 4)
    for index, values in (by_class or {}).items():
        flat[index * 4 : index * 4 + 4] = values
    return {"address": address, "tid": tid, "state": state, "by_class": flat, **words}


def class_rows() -> Rows:
    return [{"size": s, "units": u, "capacity": u * 65536 // s or 1} for s, u in CLASSES]


# Shows the area on standard input as a process does: attached, and removed at once. Its library is
# an empty file that is mapped. Says "ready", and ends when its input does.
HOLDER = """
import ctypes, mmap, os, struct, sys
size, process_at, show_pid, library = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
data = bytearray(sys.stdin.buffer.read(size))
struct.pack_into("<I", data, process_at, os.getpid() if show_pid == "own" else int(show_pid))
if library:
    descriptor = os.open(library, os.O_RDONLY)
    kept = mmap.mmap(descriptor, 4096, prot=mmap.PROT_READ)
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
shmid = libc.shmget(0, ctypes.c_size_t(size), 0o600)
address = libc.shmat(shmid, None, 0)
assert shmid >= 0 and address != ctypes.c_void_p(-1).value
libc.shmctl(shmid, 0, None)
ctypes.memmove(address, bytes(data), size)
print("ready", flush=True)
for line in sys.stdin:
    pass
"""


@contextmanager
def shown(
    built: Built, folder: Path, pid: str = "own", library: str = "libhakmem.so"
) -> Iterator[int]:
    """The id of a process that shows this area."""
    path = ""
    if library:
        path = str(folder / library)
        Path(path).write_bytes(bytes(4096))
    arguments = [str(len(built.data)), str(built.process_at), pid, path]
    command = [sys.executable, "-I", "-c", HOLDER, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(built.data)
        child.stdin.flush()
        assert child.stdout.readline() == b"ready\n"
        try:
            yield child.pid
        finally:
            child.stdin.close()
            child.wait()
