"""Runs a program and makes the report of its heap when it ends."""

import contextlib
import os
import shlex
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hakmem.errors import HakmemError, NoSamplesError
from hakmem.insight.area import Area, clock_ms, load, number
from hakmem.insight.outlive import Outliving
from hakmem.launch import start
from hakmem.settings import CONF, as_read, keys_named_in, without
from hakmem.terminal import say
from hakmem.written import try_file

if TYPE_CHECKING:
    from hakmem.insight.profile import Profile

OUTPUT = "HAKMEM_PROFILE_OUTPUT"
PROCESS_ID = "%p"  # in a name that the library is told
UNWIND = "HAKMEM_PROFILE_UNWIND"
PAUSE_S = 0.1
CHILDREN_MOST = 64  # are looked at for the one that the report is of: those with most to tell
# Of resident memory over time: when there are so many, every second one goes and they come half as
# often, so that a program may run for weeks.
MOST_POINTS = 4096
# After memory became tight the profile is written within this time.
WRITTEN_MS = 1000
FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


@dataclass
class ResidentMemory:
    """(milliseconds, bytes) now and then, at evenly spaced moments."""

    pid: int
    points: list[tuple[int, int]] = field(default_factory=list)
    pause_s: float = PAUSE_S
    due: float = 0.0  # the next look, of time.monotonic()

    def look(self) -> None:
        self.due = time.monotonic() + self.pause_s
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return
        if pages:
            self.points.append((clock_ms(), pages * os.sysconf("SC_PAGESIZE")))
        if len(self.points) >= MOST_POINTS:
            del self.points[1::2]
            self.pause_s *= 2


class Witness:
    """A process that notes which signals it gets: those of all its group, the program among them.

    The kernel gives such a signal to a group as a whole, so the witness has it when we have it.
    """

    def __init__(self) -> None:
        """The signals are blocked already, and stay so in the witness."""
        self._seen: set[int] = set()
        self._asking, asked = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._asking.close()
                _bear_witness(asked)
            finally:
                os._exit(0)
        asked.close()

    def saw(self, signo: int) -> bool:
        """Whether the signal that came here went to the whole group."""
        # Nobody is left to ask where somebody has ended the witness.
        with contextlib.suppress(OSError):
            self._asking.send(b"?")
            self._seen.update(self._asking.recv(signal.NSIG))
        found = signo in self._seen
        self._seen.discard(signo)
        return found

    def end(self) -> None:
        self._asking.close()
        os.waitpid(self._pid, 0)


def _bear_witness(asked: socket.socket) -> None:
    """Until the other end is closed, or its process has ended."""
    while asked.recv(1):
        seen = {0}
        while info := signal.sigtimedwait(FORWARDED, 0):
            seen.add(info.si_signo)
        asked.send(bytes(seen))


def record(command: Sequence[str], environment: Mapping[str, str], page: Path) -> int:
    """The program's exit status, 128+N for signal N; the report never changes it."""
    try_file(page)
    _refuse_own_output(environment)
    with tempfile.TemporaryDirectory(prefix="hakmem-report-") as place:
        folder = Path(place)
        output = f"{place}/heap.{PROCESS_ID}"
        settings = {UNWIND: "1", **without({OUTPUT}, environment), OUTPUT: output}
        ended = _run(command, settings)
        try:
            _report(command, folder, ended, page, environment)
        except NoSamplesError as error:
            say(f"no report: {error}")
        except HakmemError as error:
            say(f"no report: {error}{_kept(folder, ended)}")
        except OSError as error:
            say(f"no report: {error.strerror}: {error.filename}{_kept(folder, ended)}")
    if ended.signal:
        return 128 + ended.signal
    return os.waitstatus_to_exitcode(ended.status)


def _refuse_own_output(environment: Mapping[str, str]) -> None:
    """The library writes one file: that of the report, at a place that is known."""
    if "profile_output" in keys_named_in(environment.get(CONF, "")):
        raise HakmemError("--report keeps the profile itself: leave profile_output out of --conf")
    for name, value in environment.items():
        if value and as_read(name) == OUTPUT:
            raise HakmemError(
                f"--report keeps the profile itself: leave {name} out of the environment and of "
                "--profile"
            )
    if PROCESS_ID in tempfile.gettempdir():
        raise HakmemError(
            f"--report keeps the profile in {tempfile.gettempdir()}, and hakmem takes "
            f"{PROCESS_ID} in a name for the process id: set TMPDIR to another folder"
        )


def _kept(folder: Path, ended: "_Ended") -> str:
    """Where the profile is now of which no report could be made, if the program has left one."""
    own = folder / f"heap.{ended.pid}"
    if _written(own) is None:
        return ""
    handle, kept = tempfile.mkstemp(prefix="hakmem-heap-")
    os.close(handle)
    shutil.copyfile(own, kept)
    return f"; the profile is kept: hakmem report {kept}"


@dataclass(frozen=True)
class _Ended:
    """The program, and what was seen of it while it ran."""

    pid: int
    status: int  # of wait(2)
    at_ms: int
    memory: ResidentMemory
    left: Area | None

    @property
    def signal(self) -> int:
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0


def _run(command: Sequence[str], environment: Mapping[str, str]) -> _Ended:
    waited = {*FORWARDED, signal.SIGCHLD}
    # Blocked before the program is there, so that none is lost between.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    witness = Witness()
    try:
        pid = start(command, environment, before)
        memory, outliving = ResidentMemory(pid), Outliving(pid)
        while True:
            for watching in (memory, outliving):
                if watching.due <= time.monotonic():
                    watching.look()
            pause = min(memory.due, outliving.due) - time.monotonic()
            info = signal.sigtimedwait(waited, max(0.0, pause))
            if info and info.si_signo != signal.SIGCHLD:
                is_everyones = witness.saw(info.si_signo) and os.getpgid(pid) == os.getpgrp()
                # What the terminal sends goes to the program anyway.
                if info.si_code <= 0 and not is_everyones:
                    outliving.look()
                    os.kill(pid, info.si_signo)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                at_ms = clock_ms()
                return _Ended(pid, status, at_ms, memory, outliving.area())
    finally:
        witness.end()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _report(
    command: Sequence[str],
    folder: Path,
    ended: _Ended,
    page: Path,
    environment: Mapping[str, str],
) -> None:
    # Not before the program has ended: numpy keeps threads, and one of them would take a signal
    # meant for the program when this one does not wait for it, and end this process.
    from hakmem.insight.outputs import Files, present
    from hakmem.insight.profile import from_area

    own = folder / f"heap.{ended.pid}"
    children = [path for path in folder.glob("heap.*") if path != own]
    area = by_itself = _newest(_written(own), ended)
    if area is None or not _samples(area):
        # A script, say, that had the program run.
        largest = sorted(children, key=lambda path: -path.stat().st_blocks)[:CHILDREN_MOST]
        left = filter(None, [area, *map(_written, largest)])
        area = max(left, key=_samples, default=None)
    if area is None:
        raise HakmemError(_why_none(ended))
    if area is by_itself:
        profile = from_area(area, shlex.join(command), now_ms=ended.at_ms)
        profile = replace(profile, pid=ended.pid, rss=tuple(ended.memory.points))
    else:
        profile = from_area(area, now_ms=ended.at_ms)
    profile = replace(profile, source=f"process {profile.pid} at its end", has_ended=True)
    if not profile.interval and "profile" in keys_named_in(environment.get(CONF, "")):
        raise NoSamplesError(f"{profile.source} has no profile: leave profile:0 out of --conf")
    if children:
        say(_of_children(profile, ended, len(children)))
    present(profile, Files(html=page))


def _of_children(profile: "Profile", ended: _Ended, children: int) -> str:
    keep = f"to keep them all, run it without --report and with {OUTPUT}=heap.%p"
    if profile.pid == ended.pid:
        return (
            f"{children} of its child processes left profiles too, which the report does not "
            f"show; {keep}"
        )
    return (
        f"the program itself has no samples: the report shows process {profile.pid}, "
        f"{profile.command}, the one with most of those that it started and that left a profile "
        f"({children}); {keep}"
    )


def _samples(area: Area) -> int:
    return sum(number(site, "samples") for site in area.table("sites").rows())


def _written(own: Path) -> Area | None:
    """None: by a program that ends without more ado there is no file, or not a whole one."""
    try:
        return load(own)
    except HakmemError:
        return None


def _newest(written: Area | None, ended: _Ended) -> Area | None:
    """The file has more to it, but may be from when memory became tight, long before the end."""
    left = ended.left
    if written is None or left is None:
        return written or left
    then, now = written.row("process"), left.row("process")
    tight_ms, then_ms = number(then, "sampled_tight_ms"), number(then, "changed_ms")
    is_early = tight_ms > 0 and then_ms < tight_ms + WRITTEN_MS
    return left if is_early and number(now, "changed_ms") > then_ms else written


def _name(signo: int) -> str:
    try:
        return signal.Signals(signo).name
    except ValueError:
        return f"signal {signo}"  # one for real time


def _why_none(ended: _Ended) -> str:
    if ended.signal:
        return f"{_name(ended.signal)} ended the program before it showed its figures"
    return (
        "the program left no profile: it ended at once, ran with live:0 or profile:0, or hakmem "
        "did not act on it"
    )
