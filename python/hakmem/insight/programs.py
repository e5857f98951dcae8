"""What a program's or library's file says about which malloc it will use."""

import mmap
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hakmem.elf import ElfHeader, open_regular, read_elf

PT_DYNAMIC, PT_INTERP = 2, 3
SHT_DYNAMIC, SHT_DYNSYM = 6, 11
DT_NEEDED, DT_SYMBOLIC, DT_FLAGS = 1, 16, 30
DF_SYMBOLIC = 2
GO_SECTION = b".go.buildinfo"
# The code of libhakmem.a, wherever it is linked in: cmake/static.ld.
HAKMEM_SECTION = b"hak_text"
# Any of them defined in a program itself wins over what is preloaded.
ALLOCATORS = frozenset({b"malloc", b"free", b"calloc", b"realloc"})
# A program built with one of them refers to it, or brings it along.
SANITIZERS = {
    b"__asan_init": "AddressSanitizer",
    b"__hwasan_init": "HWAddressSanitizer",
    b"__lsan_init": "LeakSanitizer",
    b"__msan_init": "MemorySanitizer",
    b"__tsan_init": "ThreadSanitizer",
}


@dataclass(frozen=True)
class Program:
    path: Path
    header: ElfHeader
    interpreter: str
    symbolic: bool
    defined: frozenset[str]  # of ALLOCATORS
    is_go: bool
    sanitizer: str | None = None
    has_hakmem: bool = False  # linked in
    needed: tuple[str, ...] = ()  # libraries, in the order in which they are searched

    @property
    def is_of_musl(self) -> bool:
        return "ld-musl" in self.interpreter

    @property
    def own_malloc(self) -> str:
        """Names that a preloaded library's give way to."""
        return ", ".join(sorted(self.defined))


def harm(program: Program) -> str | None:
    """Why the program would end at once if hakmem were preloaded; None: it would not."""
    if program.sanitizer:
        return f"is built with {program.sanitizer}"
    own = read_program(Path(sys.executable))
    # This command runs on the C library that hakmem is made for.
    if program.is_of_musl and not (own and own.is_of_musl):
        return f"is made for musl ({program.interpreter}) and hakmem for the GNU C library"
    return None


def read_program(path: Path) -> Program | None:
    """None: not an ELF file, or not one of 64 bits in this machine's order, or not to be read."""
    try:
        header = read_elf(path)
        if header is None or header.bits != 64:
            return None
        with (
            open_regular(path) as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _Reader(data).program(path, header)
    except (OSError, struct.error, ValueError):
        return None


class _Reader:
    """The few tables of a 64-bit little-endian file that matter here."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        if data[5] != 1:
            raise ValueError("not little-endian")

    def program(self, path: Path, header: ElfHeader) -> Program:
        interpreter, symbolic = "", False
        for kind, offset, size in self._segments():
            if kind == PT_INTERP:
                interpreter = self.data[offset : offset + size].rstrip(b"\0").decode()
            elif kind == PT_DYNAMIC:
                symbolic = self._is_symbolic(offset, size)
        sections = list(self._sections())
        names = {name for name, *_ in sections}
        defined: set[str] = set()
        sanitizer = None
        for name, is_defined in self._dynamic_symbols(sections):
            if is_defined and name in ALLOCATORS:
                defined.add(name.decode())
            sanitizer = SANITIZERS.get(name, sanitizer)
        is_go = GO_SECTION in names
        return Program(
            path,
            header,
            interpreter,
            symbolic,
            frozenset(defined),
            is_go,
            sanitizer,
            HAKMEM_SECTION in names,
            tuple(self._needed(sections)),
        )

    def _segments(self) -> Iterator[tuple[int, int, int]]:
        (table,) = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        for at in range(table, table + size * count, size):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", self.data, at)
            yield kind, offset, length

    def _is_symbolic(self, offset: int, size: int) -> bool:
        for at in range(offset, offset + size, 16):
            tag, value = struct.unpack_from("<QQ", self.data, at)
            if tag == DT_SYMBOLIC or (tag == DT_FLAGS and value & DF_SYMBOLIC):
                return True
        return False

    def _sections(self) -> Iterator[tuple[bytes, int, int, int, int]]:
        """Name, type, offset, size and link of each."""
        (table,) = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        rows = [
            struct.unpack_from("<IIQQQQI", self.data, table + i * size)
            for i in range(count if table else 0)
        ]
        for name, kind, _, _, offset, length, link in rows:
            yield self._text(rows[names][4] + name), kind, offset, length, link

    def _needed(self, sections: list[tuple[bytes, int, int, int, int]]) -> Iterator[str]:
        for _, kind, offset, size, link in sections:
            if kind != SHT_DYNAMIC:
                continue
            for at in range(offset, offset + size, 16):
                tag, value = struct.unpack_from("<QQ", self.data, at)
                if tag == DT_NEEDED:
                    yield self._text(sections[link][2] + value).decode(errors="replace")

    def _dynamic_symbols(
        self, sections: list[tuple[bytes, int, int, int, int]]
    ) -> Iterator[tuple[bytes, bool]]:
        """The names, and whether they are defined here."""
        for _, kind, offset, size, link in sections:
            if kind != SHT_DYNSYM:
                continue
            texts = sections[link][2]
            for at in range(offset, offset + size, 24):
                name, _, _, section = struct.unpack_from("<IBBH", self.data, at)
                yield self._text(texts + name), section != 0

    def _text(self, at: int) -> bytes:
        return self.data[at : self.data.find(b"\0", at)]
