#!/usr/bin/env python3
"""Plants a leak in a real program and asks `hakmem report` for it, while it runs and of its file.

run_leaks.py --library PATH python|redis

Each is run with the leak, whose function must be the first suspect, and without, where it must be
none.
Exits with 0 if so, 1 if not, 77 if something that it needs is missing.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

from programs import (
    MissingError,
    NotReadyError,
    connected,
    find,
    parser_for,
    started,
    status_of,
    wait_until,
)

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "python"
# A leak that is as even as the program's rounds is named with certainty: the profile then has some
# 100 samples of each quarter of its time.
LEAST_ROUNDS = 400
LEAST_S = 2.0
QUARTERS = 4
EVEN = 0.8  # the quarter with the fewest rounds, by the median
INTERVAL = "64K"
# The call stacks with what they have freed again.
AS_JSON = ("--json", "--view", "total")
TIMEOUT_S = 240
REDIS_KEYS = 20000
VISITS = 40


@dataclass
class Rounds:
    """When a program has done a piece of its work."""

    times: list[float] = field(default_factory=list)

    def tick(self) -> None:
        self.times.append(time.monotonic())

    def are_even(self) -> bool:
        """Whether enough has happened, and about as much in each quarter of the time up to now."""
        times = list(self.times)
        if len(times) < LEAST_ROUNDS:
            return False
        begin, length = times[0], time.monotonic() - times[0]
        if length < LEAST_S:
            return False
        counts = [0] * QUARTERS
        for moment in times:
            counts[min(int((moment - begin) * QUARTERS / length), QUARTERS - 1)] += 1
        return min(counts) >= EVEN * statistics.median(counts)


@dataclass(frozen=True)
class Work:
    """A program at work; `end` lets it end by itself."""

    child: subprocess.Popen[str]
    rounds: Rounds
    end: Callable[[], None]


@dataclass(frozen=True)
class Case:
    planted: str  # the function that leaks
    working: Callable[[Path, Path, bool], Iterator[Work]]


def compiler() -> str:
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return found
    raise MissingError("there is no C compiler")


def build(source: str, to: Path, leaks: bool, *options: str) -> None:
    kind = ["-DLEAK"] if leaks else []
    command = [compiler(), "-O2", "-g", "-fPIC", "-shared", *kind, *options]
    subprocess.run([*command, str(HERE / source), "-o", str(to)], check=True)


@contextmanager
def python_working(library: Path, folder: Path, leaks: bool) -> Iterator[Work]:
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        raise MissingError(f"the headers of {sys.executable} are not installed")
    build("pages.c", folder / "pages.so", leaks, f"-I{headers}")
    settings = {"PYTHONPATH": str(folder), **profiled(folder)}
    command = [sys.executable, "-S", "-B", str(HERE / "shop.py")]
    with started(command, library, folder, settings) as child:
        assert child.stdin is not None and child.stdout is not None
        rounds = Rounds()
        listener = threading.Thread(target=lambda: [rounds.tick() for _ in child.stdout or ()])
        listener.start()
        try:
            yield Work(child, rounds, child.stdin.close)
        finally:
            child.kill()
            listener.join()


@contextmanager
def redis_working(library: Path, folder: Path, leaks: bool) -> Iterator[Work]:
    try:
        server = find("redis-server")
    except FileNotFoundError:
        raise MissingError("redis-server is not installed") from None
    build("visits.c", folder / "visits.so", leaks)
    # Frame pointers would lead no further than to Redis' own wrappers of malloc.
    settings = {"HAKMEM_PROFILE_UNWIND": "1", **profiled(folder)}
    options = ("--port", "0", "--unixsocket", "socket", "--save", "", "--loadmodule", "./visits.so")
    with (
        started([server, *options], library, folder, settings) as child,
        connected(child, folder / "socket") as connection,
    ):
        rounds, stop = Rounds(), threading.Event()
        driver = threading.Thread(target=drive_redis, args=(connection, rounds, stop))
        driver.start()

        def end() -> None:
            stop.set()
            driver.join()
            connection.sendall(b"SHUTDOWN NOSAVE\r\n")

        try:
            yield Work(child, rounds, end)
        finally:
            stop.set()
            driver.join()


def drive_redis(connection: socket, rounds: Rounds, stop: threading.Event) -> None:
    """Keys that stay, keys that expire, reading, and visits."""
    lines = connection.makefile("rb")

    def ask(*commands: str) -> None:
        connection.sendall("".join(f"{command}\r\n" for command in commands).encode())
        for _ in commands:
            answer = lines.readline()
            if answer.startswith(b"$") and answer != b"$-1\r\n":
                lines.readline()
            elif answer.startswith((b"-", b"$")) and answer != b"$-1\r\n":
                raise NotReadyError(f"Redis says {answer!r}")

    for first in range(0, REDIS_KEYS, 100):
        ask(*(f"SET fixed:{n} {'x' * (n % 150 + 1)}" for n in range(first, first + 100)))
    number = 0
    while not stop.wait(0.003):
        for _ in range(VISITS):
            number += 1
            ask(
                f"SET short:{number} {'y' * 200} PX 100",
                f"GET fixed:{number * 7919 % REDIS_KEYS}",
                f"GET short:{number - 30}",
                f"visits.add user{number}",
            )
        rounds.tick()


def profiled(folder: Path) -> dict[str, str]:
    return {
        "HAKMEM_PROFILE_INTERVAL": INTERVAL,
        "HAKMEM_PROFILE_OUTPUT": f"{folder}/heap.%p",
    }


def hakmem(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "COLUMNS": "200"}
    command = [sys.executable, "-B", "-m", "hakmem", *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode:
        raise NotReadyError(f"hakmem {' '.join(arguments)}: {result.stderr[-1000:]}")
    return result.stdout


def report_while(work: Work) -> str:
    """As JSON, of a moment in which the program has been at work as evenly as it should."""
    while True:
        wait_until(work.child, work.rounds.are_even)
        text = hakmem("report", str(work.child.pid), *AS_JSON)
        if work.rounds.are_even():
            return text


def report_file(work: Work, folder: Path) -> tuple[str, str]:
    """As JSON and as text, of what the program wrote at its end."""
    wait_until(work.child, work.rounds.are_even)
    work.end()
    status = work.child.wait(TIMEOUT_S)
    if status:
        raise NotReadyError(f"it ended with status {status}")
    path = str(folder / f"heap.{work.child.pid}")
    return hakmem("report", path, *AS_JSON), hakmem("report", path)


def complaints(text: str, planted: str, leaks: bool, where: str) -> list[str]:
    report = json.loads(text)
    if not any(passes(site, planted) for site in report["sites"]):
        return [f"{where}: {planted} was never sampled"]
    found = report["suspects"]
    for one in found:
        print(f"  {where}: {one['function']} {one['sentence']}")
    named = [one for one in found if passes(one, planted)]
    if not leaks:
        return [f"{where}: {planted} is a suspect and leaks nothing"] if named else []
    if not found or found[0] not in named:
        return [f"{where}: {planted} is not the first suspect"]
    if found[0]["function"] != planted:
        return [f"{where}: the suspect is called {found[0]['function']}, not {planted}"]
    return []


def passes(stack: dict[str, Any], function: str) -> bool:
    return any(frame["function"] == function for frame in stack["stack"])


def wrong_text(text: str, planted: str, leaks: bool) -> list[str]:
    _, _, suspects = text.partition("Leak suspects:\n")
    if leaks and not suspects.lstrip().startswith(f"{planted} "):
        return [f"the report does not name {planted} first:\n{text}"]
    return ["the report without a leak names it"] if not leaks and planted in suspects else []


def try_case(name: str, case: Case, library: Path, leaks: bool) -> list[str]:
    print(f"{name}, {'with' if leaks else 'without'} the leak:", flush=True)
    with tempfile.TemporaryDirectory(prefix="leaks-") as place:
        folder = Path(place)
        try:
            with case.working(library, folder, leaks) as work:
                found = complaints(report_while(work), case.planted, leaks, "running")
                ended, text = report_file(work, folder)
        except NotReadyError as error:
            errors = (folder / "errors").read_text(errors="replace")
            return [f"{error}\n{errors[-1000:]}"]
    found += complaints(ended, case.planted, leaks, "its file")
    return found + wrong_text(text, case.planted, leaks)


CASES = {
    "python": Case("copy_of_page", python_working),
    "redis": Case("remember_visit", redis_working),
}


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("case", choices=CASES)
    args = parser.parse_args()
    case, library = CASES[args.case], args.library.resolve()
    return status_of(
        lambda: [
            complaint
            for leaks in (True, False)
            for complaint in try_case(args.case, case, library, leaks)
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
