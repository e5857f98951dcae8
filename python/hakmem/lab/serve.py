"""Measures a server by what a second command needs to drive it; run as a script of its own.

    serve.py --launcher PATH --ready PORT|REGEX --driver 'CMD ARG...' --timeout SECONDS
             -- SERVER [ARG...]

Starts the server with the library that HAKMEM_ARM_PRELOAD names, waits until a port listens or a
line matches, runs the driver without that library, ends the server with SIGTERM, and prints the
driver's wall time and what the server cost. Only the standard library: it runs once per
measurement.
"""

import argparse
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

READY_WITHIN_S = 30.0
ENDS_WITHIN_S = 30.0
# Beyond its time limit, to end the server and to say what was waited for.
GRACE_S = ENDS_WITHIN_S + 30.0
POLL_S = 0.01
COSTS = (
    "user_s",
    "sys_s",
    "peak_rss_kib",
    "page_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
)


class ServeError(Exception):
    """Why there is no result, in one line."""


def listening(port: int) -> bool:
    try:
        with socket.create_connection(("localhost", port), timeout=1):
            return True
    except OSError:
        return False


class Server:
    """The server behind the launcher, which does the accounting."""

    def __init__(self, launcher: str, command: list[str], folder: Path) -> None:
        self.output, self.errors = folder / "stdout", folder / "stderr"
        environment = dict(os.environ)
        preload = environment.pop("HAKMEM_ARM_PRELOAD", None)
        self.library = Path(preload.split(":")[0]).name if preload else None
        if preload:
            environment["LD_PRELOAD"] = preload
        order = [launcher, "-o", str(self.output), "-e", str(self.errors), "--", *command]
        self.process = subprocess.Popen(
            order, env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline().split()[1])

    def wait_ready(self, ready: str, timeout_s: float) -> None:
        limit = min(READY_WITHIN_S, timeout_s)
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServeError(f"the server ended before it was ready: {self.last_words()}")
            if self._is_ready(ready):
                return
            time.sleep(POLL_S)
        where = f"on port {ready}" if ready.isdecimal() else f"({ready})"
        # A longer --timeout helps only where that was the limit.
        options = "--ready" if limit < timeout_s else "--ready, --timeout"
        raise ServeError(
            f"the server was not ready {where} within {limit:g} s (see {options}): "
            f"{self.last_words()}"
        )

    def _is_ready(self, ready: str) -> bool:
        if ready.isdecimal():
            return listening(int(ready))
        return any(re.search(ready, text, re.MULTILINE) for text in self._said())

    def _said(self) -> list[str]:
        files = (self.output, self.errors)
        return [file.read_text(errors="replace") for file in files if file.exists()]

    def last_words(self) -> str:
        lines = "".join(self._said()).strip().splitlines()
        return lines[-1][:160] if lines else "it said nothing"

    def check_library(self) -> None:
        if self.library and self.library not in Path(f"/proc/{self.pid}/maps").read_text():
            raise ServeError(f"{self.library} is not in the server's memory map")

    def end(self) -> dict[str, str]:
        """Its costs. That it ends by the signal it was sent is as good as by itself."""
        try:
            os.kill(self.pid, signal.SIGTERM)
        except ProcessLookupError as error:
            raise ServeError(f"the server is gone: {self.last_words()}") from error
        if self._lingers():
            raise ServeError(f"the server did not end within {ENDS_WITHIN_S:g} s of SIGTERM")
        assert self.process.stdout is not None
        figures = dict(line.split() for line in self.process.stdout)
        if int(figures["status"]) not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
            raise ServeError(f"the server ended with {figures['status']}: {self.last_words()}")
        return figures

    def _lingers(self) -> bool:
        try:
            self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            return True
        return False

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def drive(driver: list[str], deadline: float) -> float:
    begun = time.monotonic()
    left = max(0.0, deadline - begun)
    try:
        result = subprocess.run(
            driver, capture_output=True, text=True, errors="replace", timeout=left
        )
    except OSError as error:
        raise ServeError(f"the driver {driver[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise ServeError(f"the driver did not end within {left:.3g} s (see --timeout)") from None
    elapsed = time.monotonic() - begun
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip().splitlines()
        detail = f": {said[-1][:160]}" if said else ""
        raise ServeError(f"the driver ended with {result.returncode}{detail}")
    return elapsed


def measure(launcher: str, ready: str, driver: str, timeout_s: float, command: list[str]) -> None:
    deadline = time.monotonic() + timeout_s
    if ready.isdecimal() and listening(int(ready)):
        raise ServeError(f"port {ready} is taken already; end what listens there")
    with tempfile.TemporaryDirectory(prefix="hakmem-serve-") as place:
        server = Server(launcher, command, Path(place))
        try:
            server.wait_ready(ready, timeout_s)
            server.check_library()
            time_s = drive(shlex.split(driver), deadline)
            figures = server.end()
        finally:
            server.stop()
    print(f"time_s {time_s:.9f}")
    for name in COSTS:
        print(name, figures[name])


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--launcher", "--ready", "--driver"):
        parser.add_argument(name, required=True)
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    try:
        measure(
            arguments.launcher,
            arguments.ready,
            arguments.driver,
            arguments.timeout,
            arguments.command,
        )
    except (ServeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
