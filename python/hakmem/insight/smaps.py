"""A process' mappings as the kernel tells them: /proc/PID/smaps, and which pages are there."""

import contextlib
import os
import pwd
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.insight.attaching import REFUSED_TO_ROOT, mapped_name
from hakmem.pids import memory_folder, number_inside
from hakmem.terminal import in_one_line, legible

HEADER = re.compile(
    r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) (\d+) *(.*)"
)
FIGURES = {
    "Rss": "rss",
    "Swap": "swap",
    "AnonHugePages": "huge",
}
FLAGS = "VmFlags"
HUGE_PAGES = "hg"  # asked for; the kernel's daemon then also fills what has been given back

# A word of /proc/PID/pagemap: bits 63, 62 and 56 are in its last byte.
ENTRY = 8
PRESENT, SWAPPED, EXCLUSIVE = 0x80, 0x40, 0x01
CHUNK_PAGES = 1 << 20


@dataclass(frozen=True)
class Mapping:
    """One mapping; sizes in bytes."""

    start: int
    end: int
    permissions: str
    offset: int
    inode: int
    path: str
    rss: int = 0
    swap: int = 0
    huge: int = 0
    flags: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def filled(self) -> int:
        """What huge pages may have brought: once a part is given back they show as small ones."""
        return self.rss if HUGE_PAGES in self.flags else self.huge

    @property
    def anonymous(self) -> bool:
        """Private memory without a file; perhaps with a name that the program gave it."""
        return (
            self.inode == 0
            and (not self.path or self.path.startswith("[anon:"))
            and self.permissions.endswith("p")
        )

    @property
    def of_file(self) -> bool:
        return self.inode != 0

    def contains(self, address: int) -> bool:
        return self.start <= address < self.end


@dataclass(frozen=True)
class Mappings:
    """All mappings of a process by address."""

    rows: tuple[Mapping, ...]

    @property
    def rss(self) -> int:
        return sum(m.rss for m in self.rows)

    @property
    def swap(self) -> int:
        return sum(m.swap for m in self.rows)

    @cached_property
    def _starts(self) -> list[int]:
        return [m.start for m in self.rows]

    def at(self, address: int) -> Mapping | None:
        index = bisect_right(self._starts, address) - 1
        found = self.rows[index] if index >= 0 else None
        return found if found is not None and found.contains(address) else None

    def within(self, start: int, end: int) -> list[Mapping]:
        """Those that overlap a range."""
        return [m for m in self.rows if m.start < end and start < m.end]


FIGURE = re.compile(r"\w+: +([0-9]{1,18}) kB")


def parse(text: str) -> Mappings:
    """The content of smaps, or of maps: then all figures are 0."""
    rows: list[Mapping] = []
    head: re.Match[str] | None = None
    figures: dict[str, int] = {}
    flags: frozenset[str] = frozenset()
    for line in text.split("\n"):
        # Names of figures begin with a capital, addresses do not: most lines need no look at both.
        found = None if line[:1].isupper() else HEADER.fullmatch(line)
        if found is not None:
            if head is not None:
                rows.append(_mapping(head, figures, flags))
            head, figures, flags = found, {}, frozenset()
            continue
        name, _, rest = line.partition(":")
        figure = FIGURE.fullmatch(line) if name in FIGURES else None
        if figure is not None:
            figures[FIGURES[name]] = int(figure[1]) * 1024
        elif name == FLAGS:
            flags = frozenset(rest.split())
    if head is not None:
        rows.append(_mapping(head, figures, flags))
    return Mappings(tuple(rows))


def _mapping(head: re.Match[str], figures: dict[str, int], flags: frozenset[str]) -> Mapping:
    start, end, permissions, offset, _, inode, path = head.groups()
    return Mapping(
        start=int(start, 16),
        end=int(end, 16),
        permissions=permissions,
        offset=int(offset, 16),
        inode=int(inode),
        path=legible(mapped_name(path)),
        flags=flags,
        **figures,
    )


class Pages:
    """Which pages of a stretch of address space are there, and which swapped out: 0 or 1 each."""

    def __init__(self, start: int, page_size: int, there: bytes, away: bytes = b"") -> None:
        self.start = start
        self.page_size = page_size
        self.there = there
        self.away = away

    @property
    def end(self) -> int:
        return self.start + len(self.there) * self.page_size

    def bytes_in(self, start: int, end: int) -> int:
        """Resident bytes of a range of whole pages; what lies outside counts as none."""
        return self._count(self.there, start, end)

    def away_in(self, start: int, end: int) -> int:
        """The same of what is swapped out."""
        return self._count(self.away, start, end)

    def _count(self, pages: bytes, start: int, end: int) -> int:
        first = max(0, (start - self.start) // self.page_size)
        last = max(0, (end - self.start) // self.page_size)
        return pages.count(1, first, last) * self.page_size


def pages_of(tops: bytes, page_size: int, rss: int) -> bytes:
    """The last bytes of a mapping's words of pagemap as bytes of 0 and 1.

    A page that was read and never written to is the kernel's page of zeros: it is there, but not
    part of RSS. pagemap shows it as no page of this process' own, as it shows what a fork shares.
    So pages that are not this process' own count only if the mapping's RSS says so.
    """
    there = tops.translate(_table(PRESENT))
    excess = there.count(1) - rss // page_size
    if excess <= 0:
        return there
    own = tops.translate(_table(PRESENT | EXCLUSIVE))
    return own if abs(own.count(1) - rss // page_size) < excess else there


def _table(bits: int) -> bytes:
    return bytes(int(top & bits == bits) for top in range(256))


@dataclass(frozen=True)
class Thread:
    tid: int  # as the process itself counts, and as its heaps show
    name: str
    stack_pointer: int | None


@dataclass(frozen=True)
class Process:
    """What the kernel tells of a process that is not the allocator's business."""

    pid: int
    program: str
    mappings: Mappings
    threads: tuple[Thread, ...]


def proc(pid: int) -> Path:
    return Path("/proc") / str(pid)


def read_process(pid: int) -> Process:
    text = _read(pid, "smaps")
    mappings = parse(text)
    if not mappings.rows:
        raise HakmemError(f"process {pid} has no memory: it has ended, or is the kernel's")
    program = ""
    with contextlib.suppress(OSError):
        program = legible(str((memory_folder(pid) / "exe").readlink()))
    return Process(pid, program, mappings, read_threads(pid))


def _read(pid: int, name: str) -> str:
    path = memory_folder(pid) / name
    try:
        return path.read_bytes().decode(errors="surrogateescape")
    except (FileNotFoundError, ProcessLookupError):
        raise HakmemError(f"there is no process {pid}") from None
    except PermissionError:
        raise HakmemError(not_allowed(pid, path)) from None


def not_allowed(pid: int, path: Path) -> str:
    try:
        uid = proc(pid).stat().st_uid
    except OSError:
        return f"there is no process {pid}"
    if os.geteuid() == 0:
        return f"{path} cannot be read, {REFUSED_TO_ROOT}"
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        owner = f"the user with number {uid}"
    if uid == os.geteuid():
        return (
            f"{path} cannot be read although process {pid} is yours: it has given up or gained "
            "rights (set-user-id, prctl PR_SET_DUMPABLE), or a container forbids it; try as root"
        )
    who = "root" if uid == 0 else f"{owner} or root"
    return f"{path} cannot be read: process {pid} belongs to {owner}; ask as {who}"


def read_pages(pid: int, stretches: list[Mapping], page_size: int) -> list[Pages] | None:
    """Which pages of these mappings are there; None if the kernel does not tell."""
    found = []
    try:
        with (memory_folder(pid) / "pagemap").open("rb", buffering=0) as file:
            for m in stretches:
                tops = _tops(file.fileno(), m, page_size)
                there, away = pages_of(tops, page_size, m.rss), tops.translate(_table(SWAPPED))
                found.append(Pages(m.start, page_size, there, away))
    except OSError:
        return None
    return found


def _tops(fd: int, mapping: Mapping, page_size: int) -> bytes:
    """The last bytes of its pages' words."""
    first, last = mapping.start // page_size, mapping.end // page_size
    parts = []
    while first < last:
        got = os.pread(fd, min(last - first, CHUNK_PAGES) * ENTRY, first * ENTRY)
        if not got:
            break
        parts.append(got[ENTRY - 1 :: ENTRY])
        first += len(got) // ENTRY
    return b"".join(parts)


def read_threads(pid: int) -> tuple[Thread, ...]:
    """The threads; where their stacks are only if they wait and one may know."""
    threads = []
    try:
        is_other = number_inside(proc(pid)) != pid
        folders = sorted((proc(pid) / "task").iterdir(), key=lambda folder: int(folder.name))
    except OSError:
        return ()
    for folder in folders:
        try:
            name = in_one_line((folder / "comm").read_text(errors="replace"))
            tid = number_inside(folder) if is_other else int(folder.name)
        except OSError:
            continue
        threads.append(Thread(tid, name, _stack_pointer(folder)))
    return tuple(threads)


def _stack_pointer(task: Path) -> int | None:
    try:
        words = (task / "syscall").read_text().split()
    except OSError:
        return None
    # "running", or the call's number and arguments, then the stack pointer and the program counter.
    return int(words[-2], 16) if len(words) >= 3 else None
