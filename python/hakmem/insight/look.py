"""Looking at processes and profiles that a user named, once or again and again."""

from dataclasses import dataclass

from hakmem.errors import HakmemError
from hakmem.insight.area import GoneError, NoAreaError, NotOnHakmemError
from hakmem.insight.attaching import area_of, attach
from hakmem.insight.numbers import Numbers, numbers_of
from hakmem.insight.processes import command_line, own_processes, status
from hakmem.pids import pid_of

# Between finding a process and reading it that has ended, or become another program.
VANISHED = (GoneError, NotOnHakmemError)


def numbers_at(target: str) -> Numbers:
    """Of a process id or a profile's file."""
    pid = pid_of(target)
    return numbers_of(area_of(target), pid)


@dataclass(frozen=True)
class Targets:
    """Those named, or all of this user that there are at the time."""

    named: tuple[str, ...]
    every: bool = False

    def current(self) -> tuple[str, ...]:
        return tuple(map(str, sorted(own_processes()))) if self.every else self.named

    def strictly(self) -> list[Numbers]:
        """Fails if one cannot be read; of "all" those are left out that show nothing."""
        if self.every:
            return self.leniently()[0]
        return [numbers_at(target) for target in self.named]

    def leniently(self) -> tuple[list[Numbers], list[int]]:
        """Those that can be read, and the ids of those that cannot (any more).

        Of "all" those that ended meanwhile are no more.
        """
        seen, unread = [], []
        for target in self.current():
            try:
                seen.append(numbers_at(target))
            except HakmemError as error:
                if not (self.every and isinstance(error, VANISHED)):
                    unread += [pid for pid in [pid_of(target)] if pid is not None]
        return seen, unread


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
