"""Kills readers and writers of the live area at random points: nothing may be left behind.

usage: run_kills.py --library libhakmem.so --program STRESS --hakmem PYTHON [--writers 12]
                    [--readers 3] [--seed 1]

Writers run the stress program on the library; `hakmem stats --json`, `why --json` and `top`, run by
PYTHON in this clone, look at them all the time. A writer is killed at a random point of its life,
some of the readers too. Readers that are not killed must end with figures that make sense, or with
one line of why not, and those of the last writer, which lives until its first one has ended, with
figures; when all have ended no shared memory segment and no file must be there that was
not before. Skipped where PYTHON lacks the packages of `hakmem stats`.
"""

import argparse
import json
import math
import os
import pty
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SKIPPED = 77
PACKAGE = Path(__file__).resolve().parents[2] / "python"
TIMEOUT_S = 120
LIFE_MOST_S = 2.0
WRITER_S = "3600"  # each is killed before
PATIENT_TRIES = 10
READERS_AT_ONCE = 2
LIVE_MOST = 1 << 33  # far more than the stress program ever has
# Of these more may have been found than there is, and a thread may cache blocks of others.
BELOW_ZERO = (".unexplained.bytes", ".threads.live_bytes")


def segments(makers: dict[int, float]) -> set[str]:
    """Ids of the System V segments that these processes have made, each until it ended (by the
    clock): its number may be another's by now."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    rows = [dict(zip(lines[0].split(), line.split(), strict=True)) for line in lines[1:]]
    return {row["shmid"] for row in rows if int(row["ctime"]) <= makers.get(int(row["cpid"]), -1)}


def names_in(*folders: Path) -> set[Path]:
    return {path for folder in folders if folder.is_dir() for path in folder.iterdir()}


class Reader:
    """A command that looks at a process, in a terminal of its own if it wants one."""

    def __init__(
        self, command: list[str], environment: dict[str, str], wants_terminal: bool
    ) -> None:
        self.command = command
        self.killed = False
        self.has_told = False  # figures
        self.terminal = pty.openpty() if wants_terminal else None
        target = self.terminal[1] if self.terminal else subprocess.PIPE
        self.process = subprocess.Popen(
            command,
            env=environment | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
            stdin=target if self.terminal else subprocess.DEVNULL,
            stdout=target,
            stderr=target,
        )

    def kill(self) -> None:
        self.killed = self.process.poll() is None
        self.process.kill()

    def end(self) -> tuple[int, str, str]:
        """Status, what it printed, what it said."""
        if self.terminal is None:
            out, said = self.process.communicate(timeout=TIMEOUT_S)
            return self.process.returncode, out.decode(), said.decode()
        os.close(self.terminal[1])
        shown = drained(self.terminal[0])
        os.close(self.terminal[0])
        return self.process.wait(TIMEOUT_S), "", shown


def drained(terminal: int) -> str:
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            piece = b""
        if not piece:
            return shown.decode(errors="replace")
        shown += piece


def figures_of(printed: str) -> list[tuple[str, float]]:
    """Every number in a JSON text that says how many bytes there are, with its names from the
    outermost on."""

    def walk(name: str, value: object) -> list[tuple[str, float]]:
        if isinstance(value, dict):
            return [n for key, one in value.items() for n in walk(f"{name}.{key}", one)]
        if isinstance(value, list):
            return [n for one in value for n in walk(name, one)]
        is_bytes = "bytes" in name.split(".")[-1] and isinstance(value, int | float)
        return [(name, float(value))] if is_bytes else []

    return walk("", json.loads(printed))


def problem_of(reader: Reader) -> str:
    status, printed, said = reader.end()
    if reader.killed:
        return ""
    what = " ".join(reader.command[3:])
    if "Traceback" in said:
        return f"{what}: a traceback: {said[-300:]}"
    if status not in (0, 1):
        return f"{what}: ended with {status}: {said[-300:]}"
    if reader.terminal is not None:
        return ""
    if status == 1:
        lines = said.strip().splitlines()
        is_clear = len(lines) == 1 and lines[0].startswith("hakmem: ")
        return "" if is_clear else f"{what}: not one clear line: {said[-300:]}"
    figures = figures_of(printed)
    wrong = [(name, n) for name, n in figures if not 0 <= allowed(name, n) <= LIVE_MOST]
    if wrong or not figures:
        return f"{what}: figures out of all bounds: {wrong[:3] or 'none'}"
    reader.has_told = True
    return ""


def allowed(name: str, figure: float) -> float:
    return abs(figure) if name.endswith(BELOW_ZERO) else figure


class Scene:
    def __init__(self, arguments: argparse.Namespace, scratch: Path) -> None:
        self.arguments = arguments
        self.random = random.Random(arguments.seed)
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.writers: dict[int, float] = {}  # and when each had ended
        self.environment = os.environ | {"PYTHONPATH": str(PACKAGE), "TMPDIR": str(scratch)}

    def writer(self) -> subprocess.Popen[bytes]:
        command = [self.arguments.program, "--seconds", WRITER_S, "--slots", "256"]
        preload = {"LD_PRELOAD": self.arguments.library}
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, env=self.environment | preload, stdout=quiet, stderr=quiet)

    def reader(self, pid: int) -> Reader:
        name = self.random.choice(("stats", "why", "top"))
        options = [] if name == "top" else ["--json"]
        command = [self.arguments.hakmem, "-m", "hakmem", name, *options, str(pid)]
        self.counts[f"readers: {name}"] += 1
        return Reader(command, self.environment, wants_terminal=name == "top")

    def finish(self, reader: Reader, must_be_killed: bool) -> None:
        if must_be_killed or reader.terminal is not None:
            time.sleep(self.random.uniform(0, LIFE_MOST_S / 2))
            reader.kill()
        problem = problem_of(reader)
        self.counts["readers killed"] += reader.killed
        self.counts["figures read"] += reader.has_told
        if problem:
            self.problems.append(problem)

    def patient_writer(self) -> None:
        """Lives until a reader has told its figures, however slow the machine is."""
        writer = self.writer()
        self.writers[writer.pid] = math.inf
        while not segments({writer.pid: math.inf}) and writer.poll() is None:
            time.sleep(0.01)
        command = [self.arguments.hakmem, "-m", "hakmem", "stats", "--json", str(writer.pid)]
        for _ in range(PATIENT_TRIES):
            reader = Reader(command, self.environment, wants_terminal=False)
            problem = problem_of(reader)
            if problem or reader.has_told:
                break
        self.end(writer)
        self.counts["figures read"] += reader.has_told
        if problem or not reader.has_told:
            self.problems.append(problem or "nothing was told of a process that lived")

    def end(self, writer: subprocess.Popen[bytes]) -> None:
        writer.kill()
        writer.wait()
        self.writers[writer.pid] = time.time()
        self.counts["writers killed"] += 1

    def one_writer(self, readers: int) -> None:
        writer = self.writer()
        self.writers[writer.pid] = math.inf
        ends = time.monotonic() + self.random.uniform(0, LIFE_MOST_S)
        has_segment = False
        running: list[Reader] = []
        for _ in range(readers):
            running.append(self.reader(writer.pid))
            has_segment = has_segment or bool(segments({writer.pid: math.inf}))
            if len(running) == READERS_AT_ONCE:
                if time.monotonic() > ends:
                    writer.kill()
                self.finish(running.pop(0), self.random.random() < 0.4)
        writer.kill()
        # Its id must not be another's while they look for it.
        for reader in running:
            self.finish(reader, False)
        self.end(writer)
        self.counts["segments seen"] += has_segment


def left_behind(writers: dict[int, float], before: set[Path], folders: list[Path]) -> list[str]:
    # A killed process' memory goes when the kernel has got to it.
    for _ in range(50):
        more = segments(writers)
        if not more:
            break
        time.sleep(0.1)
    files = {path for path in names_in(*folders) - before if "hakmem" in path.name.lower()}
    files |= names_in(folders[-1]) - before
    return [f"segment {one} is left" for one in more] + [f"'{one}' is left" for one in files]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", required=True)
    parser.add_argument("--program", required=True, help="the built stress_mix.c")
    parser.add_argument("--hakmem", required=True, metavar="PYTHON")
    parser.add_argument("--writers", type=int, default=12)
    parser.add_argument("--readers", type=int, default=3, help="per writer (3)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    probe = [arguments.hakmem, "-c", "import click, rich, symbolic, prometheus_client"]
    if subprocess.run(probe, stderr=subprocess.DEVNULL).returncode != 0:
        print(f"skipped: {arguments.hakmem} lacks the packages of `hakmem stats`")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="hakmem-kills-") as place:
        scratch = Path(place)
        scene = Scene(arguments, scratch)
        folders = [Path("/dev/shm"), scratch]
        before = names_in(*folders)
        for _ in range(arguments.writers):
            scene.one_writer(arguments.readers)
        scene.patient_writer()
        scene.problems += left_behind(scene.writers, before, folders)
    print(", ".join(f"{name}: {count}" for name, count in sorted(scene.counts.items())))
    for problem in scene.problems:
        print("FAILED:", problem)
    for wanted in ("readers killed", "segments seen"):
        if not scene.counts[wanted]:
            print(f"FAILED: {wanted}: none, so this tested nothing")
            return 1
    return 1 if scene.problems else 0


if __name__ == "__main__":
    sys.exit(main())
