"""What an ELF file says of itself: where its code is mapped, its build id, its debug file."""

import mmap
import struct
import zlib
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
CHECKSUM = struct.Struct("<I")
PIECE = 1 << 20
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
    debug_checksum: int | None  # of the file that the link names

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


def checksum(path: Path) -> int | None:
    """As .gnu_debuglink has it; None if the file cannot be read."""
    found = 0
    try:
        with open_regular(path) as file:
            while piece := file.read(PIECE):
                found = zlib.crc32(piece, found)
    except OSError:
        return None
    return found


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
    return Image(tuple(segments), build_id, *_debug_link(data, headers, names))


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


def _debug_link(
    data: mmap.mmap, headers: list[tuple[int, ...]], names: int
) -> tuple[str, int | None]:
    """The name of the file that holds what was stripped from this one, and its checksum."""
    if names >= len(headers):
        return "", None
    names_at = headers[names][4]
    for name, _, _, _, offset, size, *_ in headers:
        if data[names_at + name :][: len(DEBUG_LINK) + 1] == DEBUG_LINK + b"\0":
            content = data[offset : offset + size]
            link, _, rest = content.partition(b"\0")
            # In the last word, behind what fills up to it.
            known = len(rest) >= CHECKSUM.size
            found = CHECKSUM.unpack(content[-CHECKSUM.size :])[0] if known else None
            return link.decode(errors="replace"), found
    return "", None
