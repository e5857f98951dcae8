"""The live area of a process, or a profile in a file: the tables of src/live/tables.def.

The area describes its tables itself; nothing here knows which fields there are.
"""

import itertools
import json
import re
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from hakmem.errors import HakmemError
from hakmem.terminal import in_one_line, legible, shortened

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
NS_PER_MS = 1_000_000
OBJECT = 1024  # what one is counted as
WORD = 1 << 64
SIZE_MOST = 1 << 57  # an address of any machine has no more bits
PAGE_SIZES = (4 << 10, 16 << 10, 64 << 10)
WORDS: dict[str, tuple[Literal["I", "Q"], int]] = {"u32": ("I", 4), "u64": ("Q", 8)}
# A row of words by the million is nobody's.
FIELD = re.compile(r"([a-z][a-z0-9_]*):(u32|u64)(?:\[([1-9]\d{0,4})\])?")
# What refers to rows is copied before what it refers to: the latter only grows.
COPIED_FIRST = ("blocks", "sites", "decisions")
# A row of these may be written anew while it is copied.
REWRITTEN = ("decisions",)

# Around what stands behind the tables of a file.
TEXT_BEGIN, TEXT_END = "begin\n", "end\n"
BUILD_ID = re.compile(r"^build-id ([0-9a-f]+) ([0-9a-f]+)\n?", re.MULTILINE)
PROGRAM = re.compile(r"^program ([0-9a-f]{1,16})\n?", re.MULTILINE)
SAVED = re.compile(r'^saved (\d{1,12}) (\d{1,10}) (".*")\n?', re.MULTILINE)

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


def clock_ms() -> int:
    """By the clock of all times in an area, CLOCK_MONOTONIC."""
    return time.monotonic_ns() // NS_PER_MS


def number(row: Row, name: str) -> int:
    """A field that is one word."""
    value = row.get(name)
    if not isinstance(value, int):
        raise NoFieldError(name)
    return value


def optional(row: Row, name: str) -> int:
    """The same; 0: the library does not show it."""
    return number(row, name) if name in row else 0


def signed(word: int) -> int:
    """Of a sum of words that may each have wrapped, in either direction."""
    word %= WORD
    return word - WORD if word >= WORD // 2 else word


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
    # Start address of the program itself; of files only, and 0 of those that do not say it.
    program_at: int = 0

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


# A profile in a file.


def load(path: Path) -> Area:
    return of_content(content_of(path), named(path))


def named(path: Path | str) -> str:
    return f"'{legible(str(path))}'"


def content_of(path: Path) -> bytes:
    """Of a file, or of a pipe, which can be read only once."""
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
            return head + file.read(PROFILE_MOST if head == MAGIC else TEXT_MOST)
    except FileNotFoundError:
        raise HakmemError(f"{named(path)} is neither a process id nor a file") from None
    except IsADirectoryError:
        raise HakmemError(f"{named(path)} is a folder, not a profile") from None
    except OSError as error:
        raise HakmemError(
            f"'{shortened(legible(str(path)))}' cannot be read: {error.strerror}"
        ) from None


def of_content(content: bytes, source: str) -> Area:
    """The profile in it; `source` is where it is from."""

    def read(offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    try:
        area = parse(read, len(content), source)
    except UnfinishedError:
        raise HakmemError(f"{source} is not a profile of hakmem, or not a whole one") from None
    text = _whole(content[area.size :].decode(errors="surrogateescape"), source)
    ids = {int(start, 16): value for start, value in BUILD_ID.findall(text)}
    program = PROGRAM.search(text)
    maps = SAVED.sub("", PROGRAM.sub("", BUILD_ID.sub("", text)))
    area = replace(
        area,
        maps_text=maps,
        build_ids=ids,
        program_at=int(program[1], 16) if program else 0,
        saved=_saved(text),
    )
    _check_figures(area)
    return area


def _whole(text: str, source: str) -> str:
    """What stands between its first line and its last. Files of older builds have neither."""
    inside = text.removeprefix(TEXT_BEGIN)
    if (text and not text.endswith("\n")) or (inside != text and not inside.endswith(TEXT_END)):
        raise NoAreaError(f"{source} is cut off: it has no end; copy it, or save it, once more")
    return inside.removesuffix(TEXT_END)


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
        ("blocks", _fits_into_memory("blocks", "size", "usable", "weight_bytes")),
        ("sites", _fits_into_memory("sites", "live_bytes", "peak_bytes", "tight_bytes")),
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


def _fits_into_memory(table: str, *names: str) -> Callable[[Area], bool]:
    def fits(area: Area) -> bool:
        columns = (area.tables[table].column(name) for name in names)
        return all(max(column, default=0) <= SIZE_MOST for column in columns)

    return fits


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
    return in_one_line(raw.rstrip(b"\0").decode(errors="replace"))
