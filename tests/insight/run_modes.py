#!/usr/bin/env python3
"""The settings with which tests run "with samples" and the like do what those are about.

run_modes.py --library PATH --program STRESS NAME SETTING... [-- NAME SETTING...]...

STRESS, stress_mix, is run with each list of settings, NAME=VALUE, as the tests have them; what its
profile says afterwards, and how many threads it had, must be what NAME stands for: sampled,
guarded, unwound or worker. Exits with 0 if so, 1 if not, 77 if packages are missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from programs import POLL_S, TIMEOUT_S, parser_for, status_of

if TYPE_CHECKING:
    from hakmem.insight.area import Area

THREADS = 2
WORKER = "worker"
WITH_WORKER = THREADS + 2  # the first thread waits
OPERATIONS = "60000"  # of each thread
LONG_S = "3600"  # ended once its threads were seen
THREADS_LOOKS = 50  # after that, whether there come more
SAMPLES_LEAST = 5_000  # without the settings it has some 500
DEEP = 3  # frames: a thread's function has two callers


@dataclass(frozen=True)
class Seen:
    """What came of a run, and how many threads another one had, if that is asked."""

    area: Area
    threads_most: int

    def process(self, name: str) -> int:
        from hakmem.insight.area import number

        return number(self.area.table("process").row(0), name)

    def deepest(self) -> int:
        return max(self.area.table("sites").column("depth"), default=0)


CHECKS: dict[str, Callable[[Seen], bool]] = {
    "sampled": lambda seen: seen.process("samples") >= SAMPLES_LEAST,
    "guarded": lambda seen: seen.process("guarded") >= SAMPLES_LEAST,
    "unwound": lambda seen: seen.process("samples") > 0 and seen.deepest() >= DEEP,
    WORKER: lambda seen: seen.threads_most == WITH_WORKER,
}


def modes(words: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    while words:
        end = words.index("--") if "--" in words else len(words)
        name, *settings = words[:end]
        yield name, dict(setting.split("=", 1) for setting in settings)
        words = words[end + 1 :]


@contextmanager
def started(
    program: Path, library: Path, settings: dict[str, str], folder: Path, *length: str
) -> Iterator[subprocess.Popen[bytes]]:
    own = {"LD_PRELOAD": str(library), "HAKMEM_PROFILE_OUTPUT": str(folder / "profile")}
    command = [str(program), "--threads", str(THREADS), "--slots", "256", *length]
    environment = os.environ | own | settings
    with subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.DEVNULL) as child:
        try:
            yield child
        finally:
            child.kill()


def profile_of(program: Path, library: Path, settings: dict[str, str], folder: Path) -> Area:
    from hakmem.insight.area import load

    with started(program, library, settings, folder, "--ops", OPERATIONS) as child:
        status = child.wait()
    if status != 0:
        sys.exit(f"FAILED: the program has ended with {status}")
    return load(folder / "profile")


def threads_of(program: Path, library: Path, settings: dict[str, str], folder: Path) -> int:
    """The most it had until the worker was there, and a while after."""
    most, left = 0, THREADS_LOOKS
    ends = time.monotonic() + TIMEOUT_S
    with started(program, library, settings, folder, "--seconds", LONG_S) as child:
        tasks = Path(f"/proc/{child.pid}/task")
        while left > 0 and time.monotonic() < ends:
            most = max(most, len(list(tasks.iterdir())))
            left -= most >= WITH_WORKER
            time.sleep(POLL_S / 4)
    return most


def complaints(program: Path, library: Path, words: list[str]) -> list[str]:
    found = []
    for name, settings in modes(words):
        with tempfile.TemporaryDirectory(prefix="modes-") as folder:
            run = program, library, settings, Path(folder)
            seen = Seen(profile_of(*run), threads_of(*run) if name == WORKER else 0)
        samples, guarded = seen.process("samples"), seen.process("guarded")
        print(f"{name}: {samples} samples, {guarded} guarded, {seen.deepest()} frames at most")
        if seen.threads_most:
            print(f"{name}: {seen.threads_most} threads")
        if not CHECKS[name](seen):
            found.append(f"{name}: {' '.join(f'{k}={v}' for k, v in settings.items())} is not that")
    return found


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--program", type=Path, required=True, help="stress_mix")
    args, words = parser.parse_known_args()
    program, library = args.program.resolve(), args.library.resolve()
    return status_of(lambda: complaints(program, library, words))


if __name__ == "__main__":
    sys.exit(main())
