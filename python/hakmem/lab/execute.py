"""Runs one case under one arm, once, and says what it cost."""

import fcntl
import hashlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import FrameType
from typing import IO

from hakmem.clone import Clone
from hakmem.errors import HakmemError
from hakmem.lab.model import Arm, Case, Sample
from hakmem.launch import not_preloaded, with_preload

LAUNCHER_SOURCE = Path(__file__).with_name("launcher.c")
# The launcher's own failure, and what it ends with if the command cannot be run or is not there.
OWN_FAILURE = 125
START_FAILURES = (OWN_FAILURE, 126, 127)
# Long enough for the launcher to kill what it started.
GRACE_S = 20.0

FIGURE = re.compile(r"([a-z][a-z0-9_]*) (-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
# What changes how an allocator works; a measurement says itself which settings it is for.
ALLOCATOR_VARIABLE = re.compile(
    r"LD_PRELOAD|GLIBC_TUNABLES|SCUDO_OPTIONS|\w*MALLOC_CONF\w*"
    r"|(?:MALLOC|HAKMEM|HKM|MIMALLOC|TCMALLOC|RPMALLOC|SNMALLOC|JEMALLOC|TBB_MALLOC)_\w*"
)
ACCOUNT = frozenset(item.name for item in fields(Sample)) - {"extra", "failed"}


def cache_folder(clone: Clone | None) -> Path:
    """Where small built helpers are kept: in the clone, or in the user's cache."""
    if clone is not None:
        return clone.build_folder("lab")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hakmem"


def failures_folder(cache: Path) -> Path:
    """For what failed runs said. It is this process' until its end: one beside it gets another."""
    for number in itertools.count(1):
        folder = cache / ("failures" if number == 1 else f"failures-{number}")
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        break
    return folder


def ensure_launcher(folder: Path) -> Path:
    """The program that starts what is measured, compiled when it is first needed."""
    digest = hashlib.sha256(LAUNCHER_SOURCE.read_bytes()).hexdigest()[:12]
    program = folder / f"launcher-{digest}"
    if program.exists():
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise HakmemError("measuring needs a C compiler, and there is no cc; install gcc")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        made = Path(place) / "launcher"
        basis = [compiler, "-O2", "-o", str(made), str(LAUNCHER_SOURCE)]
        # Without a static C library it has to do with a dynamic one.
        for extra in (["-static"], []):
            result = subprocess.run([*basis, *extra], capture_output=True, text=True, check=False)
            if result.returncode == 0:
                made.rename(program)
                return program
    raise HakmemError(f"{compiler} cannot compile {LAUNCHER_SOURCE}:\n{result.stderr.strip()}")


@contextmanager
def interruptions_held() -> Iterator[None]:
    """Ctrl-C, and being told to end, wait until what begins or is removed in here is."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    came: list[int] = []
    usual: dict[int, Callable[[int, FrameType | None], object]] = {}
    if threading.current_thread() is threading.main_thread():
        usual = {n: handler for n in signals if callable(handler := signal.getsignal(n))}
    for number in usual:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for n, handler in usual.items():
            signal.signal(n, handler)
    if came:
        usual[came[0]](came[0], None)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder for a run, of which nothing stays, whenever Ctrl-C comes."""
    place = None
    try:
        with interruptions_held():
            place = tempfile.mkdtemp(prefix="hakmem-lab-")
        yield Path(place)
    finally:
        if place is not None:
            with interruptions_held():
                shutil.rmtree(place)


def environment_for(case: Case, arm: Arm, base: Mapping[str, str]) -> dict[str, str]:
    """The surroundings of a run: the user's, less every setting of an allocator, plus the arm's."""
    plain = {k: v for k, v in base.items() if not ALLOCATOR_VARIABLE.fullmatch(k)}
    environment = plain | case.environment | arm.environment
    if arm.preload is None:
        return environment
    environment = with_preload(environment, arm.preload)
    if case.self_preloading:
        # The case starts the measured program itself, and only that shall have the library.
        environment["HAKMEM_ARM_PRELOAD"] = environment.pop("LD_PRELOAD")
    return environment


def laid_anew(arm: Arm, place: Path) -> Arm:
    """The arm with a copy of its library, in pages of memory of its own.

    The same file may take 1.8 times another copy's time for as long as it stays in memory, by the
    pages it came to lie in (docs/decisions/0133). A library that looks for others beside itself
    stays where it is, as does the C library.
    """
    if arm.preload is None or arm.kind == "glibc" or b"$ORIGIN" in arm.preload.read_bytes():
        return arm
    copy = place / arm.preload.name
    shutil.copyfile(arm.preload, copy)
    return replace(arm, preload=copy)


@dataclass(frozen=True)
class Outcome:
    """What the launcher reported of a run, and what the run wrote."""

    figures: dict[str, float]
    output: bytes
    errors: str


@dataclass(frozen=True)
class Executor:
    """Starts runs, each in an empty folder of its own, through the launcher.

    A failed run leaves what it wrote in the folder `failures`, if there is one.
    """

    launcher: Path
    failures: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(
        self,
        case: Case,
        arm: Arm,
        cpu: int | None = None,
        on_start: Callable[[int], None] | None = None,
    ) -> Sample:
        """One run as a sample; `on_start` gets the process number while the run goes on."""
        with scratch_folder() as place:
            folder = place / "run"
            folder.mkdir()
            try:
                if case.prepare is not None:
                    case.prepare(folder)
            except HakmemError as error:
                return Sample(failed=str(error))
            outcome = self.launch(case, laid_anew(arm, place), folder, cpu=cpu, on_start=on_start)
            failed = self._failure(case, outcome, folder)
        if failed is not None:
            self._keep(case, arm, failed, outcome)
            return Sample(failed=failed)
        return _sample(case, outcome)

    def launch(
        self,
        case: Case,
        arm: Arm,
        folder: Path,
        wrapper: Sequence[str] = (),
        fixed_layout: bool = False,
        cpu: int | None = None,
        on_start: Callable[[int], None] | None = None,
    ) -> Outcome:
        """Runs the case's command, behind `wrapper`, and waits for it."""
        output, errors = folder.with_name("stdout"), folder.with_name("stderr")
        order = [str(self.launcher), "-t", str(case.timeout_s), "-o", str(output)]
        order += ["-e", str(errors), *(["-r"] if fixed_layout else [])]
        order += ["-c", str(cpu)] if cpu is not None else []
        process = None
        try:
            with interruptions_held():
                process = subprocess.Popen(
                    [*order, "--", *wrapper, *case.command],
                    # The user's own command runs where the user is.
                    cwd=None if case.group == "command" else folder,
                    env=environment_for(case, arm, self.environment),
                    stdin=_own_input() if case.group == "command" else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            report = _follow(process, on_start)
        finally:
            if process is not None:
                _end(process)
        figures = _figures(report)
        if figures.get("too_much"):
            return Outcome(figures, b"", "")
        if "status" not in figures:
            return Outcome(figures, b"", report)
        return Outcome(figures, _content(output), _content(errors).decode(errors="replace"))

    def _failure(self, case: Case, outcome: Outcome, folder: Path) -> str | None:
        status = int(outcome.figures.get("status", OWN_FAILURE))
        if outcome.figures.get("timed_out"):
            return f"no end within {case.timeout_s:g} s"
        if outcome.figures.get("too_much"):
            return "it wrote more than 1 GiB; send that to /dev/null if it is meant to"
        if status != 0:
            return _reason(status, outcome.errors)
        return case.check(folder, outcome.output) if case.check else None

    def _keep(self, case: Case, arm: Arm, failed: str, outcome: Outcome) -> None:
        if self.failures is None:
            return
        self.failures.mkdir(parents=True, exist_ok=True)
        said = outcome.output + b"\n--- standard error ---\n" + outcome.errors.encode()
        (self.failures / failure_file(case.name, arm.name)).write_bytes(
            failed.encode() + b"\n\n" + said
        )


def failure_file(case: str, arm: str) -> str:
    return re.sub(r"[^\w.=+-]+", "_", f"{case}-{arm}") + ".txt"


def _own_input() -> int | IO[bytes]:
    """Standard input anew for each run if it is a file, so that every run reads all of it."""
    source = Path("/proc/self/fd/0")
    return source.open("rb") if source.is_file() else subprocess.DEVNULL


def _follow(process: subprocess.Popen[str], on_start: Callable[[int], None] | None) -> str:
    """Reads the launcher's report."""
    assert process.stdout is not None
    first = process.stdout.readline()
    started = FIGURE.fullmatch(first.strip())
    if on_start is not None and started:
        on_start(int(started[2]))
    # Ends when the launcher does, and that keeps the time limit. communicate() would lose what
    # is in the buffer behind the first line.
    return first + process.stdout.read()


def _end(process: subprocess.Popen[str]) -> None:
    """On an interruption nothing of the run is left behind."""
    with process:
        if process.poll() is None:
            # The launcher takes the whole session of the command with it.
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            process.kill()


def _figures(text: str) -> dict[str, float]:
    """The lines of a report or of a benchmark that are a key and a number; others are passed by."""
    matches = (FIGURE.fullmatch(line.strip()) for line in text.splitlines())
    return {match[1]: float(match[2]) for match in matches if match}


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _reason(status: int, errors: str) -> str:
    lines = errors.strip().splitlines()
    detail = f": {lines[-1].strip()[:160]}" if lines else ""
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"crashed, {name}{detail}"
    if status in START_FAILURES and lines:
        return lines[-1].strip()[:160]
    return f"exit status {status}{detail}"


def _sample(case: Case, outcome: Outcome) -> Sample:
    """The kernel's account of a run; a benchmark's own lines win over it."""
    figures = dict(outcome.figures)
    figures["time_s"] = figures.pop("wall_s")
    for name in ("pid", "status", "timed_out", "too_much"):
        figures.pop(name, None)
    if case.group == "benchmark" or case.self_preloading:
        figures |= _figures(outcome.output.decode(errors="replace"))
    own = {name: figures.pop(name) for name in list(figures) if name in ACCOUNT}
    return Sample(
        time_s=own["time_s"],
        user_s=own["user_s"],
        sys_s=own["sys_s"],
        peak_rss_kib=own["peak_rss_kib"],
        page_faults=int(own["page_faults"]),
        major_faults=int(own["major_faults"]),
        voluntary_switches=int(own["voluntary_switches"]),
        involuntary_switches=int(own["involuntary_switches"]),
        ops=int(own["ops"]) if own.get("ops") else None,
        extra=figures,
    )


def preload_problem(arm: Arm, base: Mapping[str, str]) -> str | None:
    """Why an arm's library would not be in use: the loader only warns of one it cannot load."""
    if arm.preload is None:
        return None
    probe = Case("", (), 1, "", "", "", (), 60)
    return not_preloaded(arm.preload, environment_for(probe, replace(arm, preload=None), base))
