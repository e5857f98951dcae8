"""Looking at processes and profiles that a user named, once or again and again."""

from dataclasses import dataclass

from hakmem.errors import HakmemError
from hakmem.insight.area import GoneError, NoAreaError, NotOnHakmemError
from hakmem.insight.attaching import area_of, attach
from hakmem.insight.numbers import Numbers, numbers_of
from hakmem.insight.processes import command_line, own_processes, status
from hakmem.pids import pid_of
from hakmem.terminal import say

# Between finding a process and reading it that has ended, or become another program.
VANISHED = (GoneError, NotOnHakmemError)


def numbers_at(target: str) -> Numbers:
    """Of a process id or a profile's file."""
    pid = pid_of(target)
    return numbers_of(area_of(target), pid)


@dataclass(frozen=True)
class Seen:
    """What was read, and why the others were not (any more)."""

    numbers: list[Numbers]
    failed: dict[str, HakmemError]

    @property
    def unread(self) -> list[int]:
        return [pid for pid in map(pid_of, self.failed) if pid is not None]


@dataclass(frozen=True)
class Targets:
    """Those named, or all of this user that there are at the time."""

    named: tuple[str, ...]
    every: bool = False

    def current(self) -> tuple[str, ...]:
        return tuple(map(str, sorted(own_processes()))) if self.every else self.named

    def look(self) -> Seen:
        """Of "all" those that ended meanwhile are no more."""
        numbers, failed = [], {}
        for target in self.current():
            try:
                numbers.append(numbers_at(target))
            except HakmemError as error:
                if not (self.every and isinstance(error, VANISHED)):
                    failed[target] = error
        return Seen(numbers, failed)

    def first_look(self) -> Seen:
        """Says which of those named cannot be read; fails if none can. Of "all" some may not."""
        seen = self.look()
        if self.every:
            return seen
        if not seen.numbers:
            raise next(iter(seen.failed.values()))
        for error in seen.failed.values():
            say(str(error))
        return seen


@dataclass(frozen=True)
class Listed:
    """A process on hakmem, as the list shows it."""

    pid: int
    command: str
    live_bytes: int | None
    resident_bytes: int
    problem: str | None


def listed() -> list[Listed]:
    found = (_listed(pid) for pid in sorted(own_processes()))
    return [one for one in found if one is not None]


def _listed(pid: int) -> Listed | None:
    """None: it has vanished."""
    now = status(pid)
    if now is None:
        return None
    try:
        numbers = numbers_of(attach(pid), pid)
    except VANISHED:
        return None
    except NoAreaError as error:
        return Listed(pid, command_line(pid), None, now.resident, str(error))
    return Listed(pid, command_line(pid), numbers["live_bytes"], now.resident, None)
