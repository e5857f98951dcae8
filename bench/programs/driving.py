"""What the drivers of servers share: start the server with the library under measure, account for it.

A driver itself runs without that library. It is given in HAKMEM_ARM_PRELOAD, as LD_PRELOAD would
have it; without the variable the server is measured on glibc.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

READY_WITHIN_S = 60.0
POLL_S = 0.005


def fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(1)


def own_libc() -> str:
    """The C library's file, from what this process has mapped."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/libc.so.6"):
            return line.split(maxsplit=5)[5]
    fail("no libc.so.6 is mapped here: the driver needs glibc")


def preload() -> str:
    """For LD_PRELOAD. glibc's is named too: a server may be linked with another allocator."""
    return os.environ.get("HAKMEM_ARM_PRELOAD") or own_libc()


def plain_environment() -> dict[str, str]:
    # The library reads HAKMEM_ variables as its settings; this one is none.
    return {k: v for k, v in os.environ.items() if k not in ("HAKMEM_ARM_PRELOAD", "LD_PRELOAD")}


class Server:
    """A server process: started with the library, ended by a signal, its costs from the kernel."""

    def __init__(self, command: list[str], log: Path, library: str, **more: Any) -> None:
        self.log = log
        self.library = library
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                env=plain_environment() | {"LD_PRELOAD": library},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                **more,
            )

    def wait_until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while not ready():
            if self.process.poll() is not None:
                fail(f"the server ended before it was ready: {self.last_words()}")
            if time.monotonic() > deadline:
                self.process.kill()
                fail(f"the server was not ready within {READY_WITHIN_S:g} s: {self.last_words()}")
            time.sleep(POLL_S)

    def check_library(self) -> None:
        maps = Path(f"/proc/{self.process.pid}/maps").read_text()
        for part in self.library.split(":"):
            if Path(part).resolve().name not in maps:
                fail(f"{part} is not mapped in the server: {self.last_words()}")

    def status(self, field: str) -> int:
        """A field of the kernel's status file, in KiB."""
        return status_field(Path(f"/proc/{self.process.pid}/status").read_text(), field)

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:160] if lines else "it said nothing"

    def end(self, how: signal.Signals = signal.SIGTERM) -> dict[str, float]:
        """Asks it to end; its costs, those of its children included."""
        os.kill(self.process.pid, how)
        _, status, usage = os.wait4(self.process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.process.returncode = code
        if code not in (0, -how):
            fail(f"the server ended with {code}: {self.last_words()}")
        return {
            "user_s": usage.ru_utime,
            "sys_s": usage.ru_stime,
            "page_faults": usage.ru_minflt,
            "major_faults": usage.ru_majflt,
            "voluntary_switches": usage.ru_nvcsw,
            "involuntary_switches": usage.ru_nivcsw,
        }


def status_field(text: str, field: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    fail(f"the kernel's status file has no {field}")


def run(command: list[str], what: str, given: bytes | None = None, **more: Any) -> str:
    """A helper program, without the library; it must succeed."""
    result = subprocess.run(
        command, env=plain_environment(), input=given, capture_output=True, check=False, **more
    )
    if result.returncode != 0:
        said = (result.stderr or result.stdout).decode(errors="replace").strip().splitlines()
        fail(f"{what} ended with {result.returncode}: {said[-1][:160] if said else ''}")
    return result.stdout.decode(errors="replace")


def report(figures: dict[str, float]) -> None:
    for name, value in figures.items():
        print(name, f"{value:.9f}" if isinstance(value, float) else value)
