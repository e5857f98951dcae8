"""The live area of a process that may end at any moment: what is attached outlives it."""

import contextlib
import time
from dataclasses import dataclass, replace

from hakmem.errors import HakmemError
from hakmem.insight.area import (
    Area,
    Read,
    UnfinishedError,
    parse,
)
from hakmem.insight.attaching import (
    Segment,
    attached,
    pid_inside,
    read_maps,
    same_ipc_namespace,
    segments,
)

# Until the area is found a program may end before the next look; then what its addresses mean is
# looked at a tenth of its age after the last time, for mappings are seldom new.
SEARCH_PAUSE_S = 0.01
SEARCH_S = 2.0
PAUSE_S = 0.1
MOST_S = 10.0
PART_OF_AGE = 0.1


@dataclass(frozen=True)
class _Found:
    segment: Segment
    read: Read
    size: int
    maps: str


class Outliving:
    """Of one process, looked at again and again while it runs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._began = time.monotonic()
        self.due = self._began
        self._found: _Found | None = None
        self._attached = contextlib.ExitStack()

    def look(self) -> None:
        """Worth it when it is due."""
        # The process may be gone: then what there is stays.
        with contextlib.suppress(HakmemError, OSError):
            self._look()
        now = time.monotonic()
        age = now - self._began
        searching = self._found is None and age < SEARCH_S
        pause = SEARCH_PAUSE_S if searching else max(PAUSE_S, PART_OF_AGE * age)
        self.due = now + min(MOST_S, pause)

    def area(self) -> Area | None:
        """As the process has left it."""
        if self._found is None:
            return None
        try:
            area = parse(self._found.read, self._found.size, f"process {self.pid}")
        except (HakmemError, UnfinishedError):
            return None  # the program wrote where it should not
        return replace(area, maps_text=self._found.maps)

    def _look(self) -> None:
        maps = read_maps(self.pid)
        there = segments(maps)
        if self._found and self._found.segment in there:
            self._found = replace(self._found, maps=maps)
        elif same_ipc_namespace(self.pid):
            for segment in there:
                with contextlib.suppress(HakmemError, OSError, UnfinishedError):
                    self._try(segment, maps)

    def _try(self, segment: Segment, maps: str) -> None:
        """Attaches it if it is this process' area, and not its parent's or another's memory."""
        with contextlib.ExitStack() as stack:
            read, size = stack.enter_context(attached(self.pid, segment))
            if parse(read, size, "").pid != pid_inside(self.pid):
                return
            self._attached.close()
            self._found = _Found(segment, read, size, maps)
            self._attached = stack.pop_all()
