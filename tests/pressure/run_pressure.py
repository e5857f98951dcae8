"""In a control group with little more memory than what lives, a program survives on hakmem alone.

usage: run_pressure.py --program RELAY --library libhakmem.so [--peers FOLDER] [--also NAME=PATH]

RELAY says how many bytes of it live at most. Then it runs in a group of its own that may have 1.3
times as much, and no swap: under hakmem it must end well; under glibc's malloc and jemalloc (if
FOLDER has it) it must be killed, or the workload shows nothing. Some kernels look for memory to
take back for minutes before they kill: then no end will do in many times what hakmem took here.
Skipped where no such group can be made.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

SKIPPED = 77
TIMEOUT_S = 600
PEER_TIMES, PEER_LEAST_S = 20, 120
SHARE = 1.3
MIB = 1 << 20
ENTER_AND_RUN = 'echo $$ >"$1" && shift && exec env "$@"'


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def own_group(controller: str) -> Path | None:
    """This process' group in the hierarchy of a controller, "" for version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            base = Path("/sys/fs/cgroup", controller)
            inside = base / path.lstrip("/")
            return inside if inside.is_dir() else base
    return None


@dataclass(frozen=True)
class Version:
    """The files of a version of control groups, and where a group may be made."""

    parent: Path
    limit: str
    without_swap: tuple[str, bool]  # a file, and whether it counts memory as well
    most: str


def version() -> Version:
    first = own_group("memory")
    if first is not None and (first / "memory.limit_in_bytes").exists():
        swap = ("memory.memsw.limit_in_bytes", True)
        return Version(first, "memory.limit_in_bytes", swap, "memory.max_usage_in_bytes")
    second = own_group("")
    while second is not None and second != second.parent:
        passes_on = second / "cgroup.subtree_control"
        # A group with processes passes nothing on, but for the root: then beside it.
        if passes_on.exists() and "memory" in passes_on.read_text().split():
            return Version(second, "memory.max", ("memory.swap.max", False), "memory.peak")
        second = second.parent
    skip("no control group here limits memory")


@contextmanager
def group(of: Version, limit: int) -> Iterator[Path]:
    folder = of.parent / f"hakmem-pressure-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        skip(f"no control group can be made in {of.parent}: {error.strerror}")
    try:
        (folder / of.limit).write_text(str(limit))
        swap, counts_memory = of.without_swap
        if (folder / swap).exists():
            (folder / swap).write_text(str(limit if counts_memory else 0))
        yield folder
    finally:
        for _ in range(600):
            if not (folder / "cgroup.procs").read_text():
                break
            time.sleep(0.1)
        folder.rmdir()


@dataclass(frozen=True)
class Outcome:
    status: int | None  # None: it had not ended when its time was over
    said: str
    most: int

    def __str__(self) -> str:
        if self.status is None:
            return "no end in its time"
        return "killed" if self.status == -signal.SIGKILL else f"ended with {self.status}"


def run_within(
    of: Version, limit: int, program: list[str], setting: list[str], timeout: float
) -> Outcome:
    with group(of, limit) as folder:
        command = ["sh", "-c", ENTER_AND_RUN, "sh", str(folder / "cgroup.procs")]
        status, said = None, ""
        try:
            done = subprocess.run(
                [*command, *setting, *program], capture_output=True, text=True, timeout=timeout
            )
            status, said = done.returncode, (done.stdout + done.stderr).strip()
        except subprocess.TimeoutExpired:
            pass
        peak = folder / of.most
        return Outcome(status, said, int(peak.read_text()) if peak.exists() else 0)


def bytes_live(program: list[str]) -> int:
    done = subprocess.run(program, capture_output=True, text=True, timeout=TIMEOUT_S)
    said = re.search(r"most bytes live: (\d+)", done.stdout + done.stderr)
    if done.returncode != 0 or said is None:
        sys.exit(f"FAILED: without a limit it ends with {done.returncode}: {done.stderr}")
    return int(said[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--peers", type=Path, help="folder in which jemalloc may be")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--share", type=float, default=SHARE)
    arguments, rest = parser.parse_known_args()
    # A stop from outside must not leave the group behind: raise, so that `finally` runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ.pop("LD_PRELOAD", None)
    program = [arguments.program, *rest]
    of = version()
    live = bytes_live(program)
    limit = int(live * arguments.share) // 4096 * 4096
    print(f"{live / MIB:.1f} MiB live at most; the group may have {limit / MIB:.1f} MiB")

    settings = {
        "hakmem": [f"LD_PRELOAD={arguments.library}", *arguments.also],  # it says how long it takes
        "glibc": [],
    }
    jemalloc = arguments.peers / "jemalloc/libjemalloc.so" if arguments.peers else None
    if jemalloc is not None and jemalloc.exists():
        settings["jemalloc"] = [f"LD_PRELOAD={jemalloc}"]
    else:
        print("jemalloc: not tried, it is not built (./hakmem bench --setup-peers)")
    failures = []
    timeout: float = TIMEOUT_S
    for name, setting in settings.items():
        began = time.monotonic()
        outcome = run_within(of, limit, program, setting, timeout)
        if name == "hakmem":
            timeout = max(PEER_LEAST_S, PEER_TIMES * (time.monotonic() - began))
        print(f"{name}: {outcome}, {outcome.most / MIB:.1f} MiB at most. {outcome.said}")
        if name == "hakmem" and outcome.status != 0:
            failures.append("hakmem did not survive")
        if name != "hakmem" and outcome.status not in (None, -signal.SIGKILL):
            failures.append(f"{name} was not killed: the workload shows nothing")
    if failures:
        sys.exit("FAILED: " + "; ".join(failures))


if __name__ == "__main__":
    main()
