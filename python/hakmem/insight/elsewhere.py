"""Whose the mappings outside of hakmem's window are."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hakmem.insight.area import Area, number
from hakmem.insight.smaps import Mapping, Mappings, Process
from hakmem.insight.window import GRANULE, UNIT, round_up

# hakmem's own
WINDOW = "window"
ARRAYS = "arrays"
AREA = "area"
LIBRARY = "library"
# not hakmem's
PROGRAM = "program"
LIBRARIES = "libraries"
FILES = "files"
MAIN_STACK = "main_stack"
STACKS = "stacks"
BREAK = "break"
SHARED = "shared"
KERNEL = "kernel"
ANONYMOUS = "anonymous"

SHARED_PATHS = ("/dev/shm/", "/SYSV", "/memfd:", "/dev/zero", "/anon_hugepage", "[anon_shmem:")
NO_HUGE_PAGES = "nh"  # also what the kernel makes of MAP_STACK
GUARD = "---p"
LINE, ENTRY = 64, 16  # what the side arrays have of a unit, downwards, and of a granule


@dataclass
class Part:
    """Resident bytes of one mapping, or of a piece of one."""

    kind: str
    mapping: Mapping
    bytes: int
    name: str = ""
    tid: int = 0


@dataclass
class Parts:
    rows: list[Part] = field(default_factory=list)

    def of(self, kind: str) -> list[Part]:
        return [part for part in self.rows if part.kind == kind]

    def bytes_of(self, kind: str) -> int:
        return sum(part.bytes for part in self.of(kind))


def window_mappings(area: Area, mappings: Mappings) -> list[Mapping]:
    """Where hakmem's blocks lie: up to the last unit that it ever took, and what is joined to that.

    Anything else in the window is others': what they map at random addresses (V8) also gets there.
    """
    page = area.row("process")
    start, size = number(page, "window_at"), number(page, "window_bytes")
    units = area.tables.get("units")
    taken = size
    if units is not None and 0 < units.used < units.capacity:
        taken = round_up(units.used * UNIT, GRANULE)
    found: list[Mapping] = []
    for m in mappings.within(start, start + size):
        joined = bool(found) and found[-1].end == m.start
        if m.anonymous and start <= m.start and (m.start < start + taken or joined):
            found.append(m)
    return found


def attribute(area: Area, process: Process) -> Parts:
    """Every mapping is somebody's; the parts add up to RSS."""
    found = Parts()
    window = {m.start for m in window_mappings(area, process.mappings)}
    arrays = _arrays_range(area, process)
    stacks = _stacks_of(process)
    owner, previous = "", None
    guarded = False
    for m in process.mappings.rows:
        joined = previous is not None and previous.end == m.start
        guarded = joined and previous is not None and _is_guard(previous)
        # Zeroed data follows the file that it belongs to.
        owner = m.path if m.of_file else owner if joined and m.anonymous else ""
        own = WINDOW if m.start in window else _own(area, m, arrays)
        kind = own or _kind(process, m, owner, stacks, guarded)
        name = owner if kind in (LIBRARY, PROGRAM, LIBRARIES, FILES) else m.path
        tid = stacks.get(m.start, 0) if kind in (STACKS, MAIN_STACK) else 0
        found.rows.append(Part(kind, m, m.rss, name, tid))
        if not m.permissions.endswith("p"):  # shared memory has none
            owner = ""
        previous = m
    return found


def _is_guard(m: Mapping) -> bool:
    return m.anonymous and m.permissions == GUARD


def _arrays_range(area: Area, process: Process) -> tuple[int, int]:
    """They lie side by side: from the last unit's line, as those run downwards, to the last entry.

    What is in use of them may be several mappings.
    """
    page = area.row("process")
    size = number(page, "window_bytes")
    start = number(page, "slabs_at") + LINE - size // UNIT * LINE
    end = number(page, "supers_at") + size // GRANULE * ENTRY
    return start // UNIT * UNIT, round_up(end, UNIT)


def _own(area: Area, m: Mapping, arrays: tuple[int, int]) -> str:
    if arrays[0] <= m.start and m.end <= arrays[1] and m.anonymous:
        return ARRAYS
    return AREA if area.mapped_at and m.contains(area.mapped_at) else ""


def _kind(process: Process, m: Mapping, owner: str, stacks: dict[int, int], guarded: bool) -> str:
    if m.path == "[stack]":
        return MAIN_STACK
    if m.path == "[heap]":
        return BREAK
    if m.path.startswith(SHARED_PATHS) or (not m.permissions.endswith("p") and m.inode == 0):
        return SHARED
    if owner:
        return _kind_of_file(process, owner)
    if m.path.startswith("[") and not m.anonymous:
        return KERNEL
    is_stack = m.start in stacks or _looks_like_a_stack(process, m, guarded)
    return STACKS if is_stack else ANONYMOUS


def _kind_of_file(process: Process, path: str) -> str:
    name = path.removesuffix(" (deleted)").rpartition("/")[2]
    if path == process.program:
        return PROGRAM
    if "libhakmem" in name:
        return LIBRARY
    return LIBRARIES if name.endswith(".so") or ".so." in name else FILES


def _looks_like_a_stack(process: Process, m: Mapping, guarded: bool) -> bool:
    """It is as the C library makes them: behind a guard, or marked."""
    return (
        len(process.threads) > 1 and "w" in m.permissions and (guarded or NO_HUGE_PAGES in m.flags)
    )


def _stacks_of(process: Process) -> dict[int, int]:
    """Where each mapping starts that a thread's stack pointer is in, and the thread."""
    found: dict[int, int] = {}
    for thread in process.threads:
        m = process.mappings.at(thread.stack_pointer) if thread.stack_pointer else None
        if m is not None:
            found.setdefault(m.start, thread.tid)
    return found


def largest(parts: Iterable[Part]) -> tuple[Part, int] | None:
    """With its bytes: those of a file, whose mappings are one, are added up."""
    sums: dict[str | int, tuple[Part, int]] = {}
    for part in parts:
        key = part.name or part.mapping.start
        first, total = sums.get(key, (part, 0))
        sums[key] = (first, total + part.bytes)
    return max(sums.values(), key=lambda one: one[1], default=None)
