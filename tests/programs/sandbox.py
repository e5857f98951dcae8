"""Runs a workload in a fresh directory and keeps what it left behind."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalogue import INTERPRETERS, WORK, Program

PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Outcome:
    """What one run of a workload showed."""

    status: int | None  # None: it ran into the time-out
    stdout: bytes
    stderr: bytes
    directory: Path
    seconds: float


def adopt_orphans() -> None:
    """Makes every descendant that loses its parent our child, so that none can outlive a run."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children() -> list[int]:
    own = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


def end_children() -> None:
    """Kills what is left of a workload, and in turn what that leaves to us."""
    while remaining := children():
        for pid in remaining:
            os.kill(pid, signal.SIGKILL)
        for pid in remaining:
            os.waitpid(pid, 0)


class Sandbox:
    """A directory in which one program runs, first without and then with a preloaded library.

    Both runs happen under the same path (`run`), because programs write paths into their output;
    afterwards the directory is renamed to the run's label.
    """

    def __init__(self, program: Program, library: Path) -> None:
        self.program = program
        self.base = Path(tempfile.mkdtemp(prefix="programs-"))
        self.account = self._account()
        # A copy: its path is in no process by itself, even if the program is linked to the library.
        self.library = Path(shutil.copy(library, self.base))
        if self.account is not None:
            self._open_to_account()

    def _account(self) -> pwd.struct_passwd | None:
        """The unprivileged user for servers that refuse to be root."""
        if self.program.user is None or os.geteuid() != 0:
            return None
        return pwd.getpwnam(self.program.user)

    def _open_to_account(self) -> None:
        # That user may not be able to read the workload where it lies.
        shutil.copytree(WORK, self.base / "work")
        for path in [self.base, *self.base.rglob("*")]:
            path.chmod(0o755)

    def _work(self) -> Path:
        return WORK if self.account is None else self.base / "work"

    def environment(self, directory: Path, preload: bool) -> dict[str, str]:
        env = {
            "PATH": self.program.search_path(),
            "HOME": str(directory / "home"),
            "TMPDIR": str(directory / "tmp"),
            "WORK": str(self._work()),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "SOURCE_DATE_EPOCH": "1700000000",
            "PYTHONHASHSEED": "0",
        }
        env.update(self.program.env)
        if preload:
            env["LD_PRELOAD"] = str(self.library)
            # So that a whole set of programs can be tried with other settings.
            env.update({k: v for k, v in os.environ.items() if k.startswith("HAKMEM_")})
        return env

    def _prepare(self) -> Path:
        directory = self.base / "run"
        for path in [directory] + [directory / name for name in ("home", "tmp", "out", "mapped")]:
            path.mkdir()
            if self.account is not None:
                os.chown(path, self.account.pw_uid, self.account.pw_gid)
        return directory

    def popen(
        self, command: list[str], directory: Path, preload: bool, **more: Any
    ) -> subprocess.Popen[bytes]:
        if self.account is not None:
            more |= {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}
        return subprocess.Popen(
            command,
            cwd=directory,
            env=self.environment(directory, preload),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=0o022,
            **more,
        )

    def run(self, label: str, preload: bool) -> Outcome:
        """Runs the workload once; afterwards none of its processes is left."""
        directory = self._prepare()
        script = self.program.script()
        if self.account is not None:
            script = self._work() / script.name
        command = [*INTERPRETERS[script.suffix], str(script)]
        start = time.monotonic()
        with (
            (self.base / f"{label}.stdout").open("w+b") as out,
            (self.base / f"{label}.stderr").open("w+b") as err,
        ):
            process = self.popen(command, directory, preload, stdout=out, stderr=err)
            try:
                status: int | None = process.wait(self.program.timeout)
            except subprocess.TimeoutExpired:
                status = None
                process.kill()
                process.wait()
            finally:
                end_children()
            seconds = time.monotonic() - start
            out.seek(0)
            err.seek(0)
            kept = directory.rename(self.base / label)
            return Outcome(status, out.read(), err.read(), kept, seconds)

    def maps_of_probe(self) -> str:
        """What a child started like the workload has mapped."""
        with self.popen(
            ["cat", "/proc/self/maps"], self.base, True, stdout=subprocess.PIPE
        ) as process:
            return str(process.communicate()[0], errors="replace")

    def remove(self) -> None:
        shutil.rmtree(self.base, ignore_errors=True)
