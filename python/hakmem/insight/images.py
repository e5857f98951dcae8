"""What an ELF file says of itself: where its code is mapped, its build id, its debug file."""

import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hakmem.elf import open_regular

PT_LOAD = 1
PT_NOTE = 4
NT_GNU_BUILD_ID = 3
# Of 64-bit little-endian files, the only ones hakmem runs in.
IDENT = b"\x7fELF\x02\x01"
HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
NOTE = struct.Struct("<III")
DEBUG_LINK = b".gnu_debuglink"


@dataclass(frozen=True)
class Segment:
    offset: int
    address: int
    size: int


@dataclass(frozen=True)
class Image:
    segments: tuple[Segment, ...]
    build_id: str
    debug_link: str

    def relative(self, offset: int) -> int | None:
        """Where a place in the file is in memory, counted from the first segment's address."""
        for segment in self.segments:
            if segment.offset <= offset < segment.offset + segment.size:
                return offset - segment.offset + segment.address - self.segments[0].address
        return None


def read_image(path: Path) -> Image | None:
    """None if the file is not there, not readable or not one this machine runs."""
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            return _image(data) if data[: len(IDENT)] == IDENT else None
    except (OSError, ValueError, struct.error):
        return None


def first_image(paths: Iterable[str]) -> Path | None:
    """The first of these files that is one."""
    return next((path for path in map(Path, paths) if read_image(path)), None)


def _image(data: mmap.mmap) -> Image:
    _, _, _, _, programs_at, sections_at, _, _, size, count, section_size, sections, names = (
        HEADER.unpack_from(data)
    )
    segments = []
    build_id = ""
    for index in range(count):
        kind, _, offset, address, _, length, _, align = PROGRAM_HEADER.unpack_from(
            data, programs_at + index * size
        )
        if kind == PT_LOAD:
            segments.append(Segment(offset, address, length))
        elif kind == PT_NOTE:
            build_id = build_id or _build_id(data[offset : offset + length], max(align, 4))
    headers = [
        SECTION_HEADER.unpack_from(data, sections_at + index * section_size)
        for index in range(sections)
    ]
    return Image(tuple(segments), build_id, _debug_link(data, headers, names))


def _build_id(notes: bytes, align: int) -> str:
    at = 0
    while at + NOTE.size <= len(notes):
        name_size, size, kind = NOTE.unpack_from(notes, at)
        content = at + NOTE.size + _rounded(name_size, 4)
        if kind == NT_GNU_BUILD_ID and notes[at + NOTE.size :][:4] == b"GNU\0":
            return notes[content : content + size].hex()
        at = _rounded(content + size, align)
    return ""


def _rounded(value: int, to: int) -> int:
    return -(-value // to) * to


def _debug_link(data: mmap.mmap, headers: list[tuple[int, ...]], names: int) -> str:
    """The name of the file that holds what was stripped from this one."""
    if names >= len(headers):
        return ""
    names_at = headers[names][4]
    for name, _, _, _, offset, size, *_ in headers:
        if data[names_at + name :][: len(DEBUG_LINK) + 1] == DEBUG_LINK + b"\0":
            return data[offset : offset + size].split(b"\0", 1)[0].decode(errors="replace")
    return ""
