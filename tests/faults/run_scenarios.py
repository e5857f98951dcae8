"""What the system limits or does beside the scripted run, each at many points and counted.

usage: run_scenarios.py --shim faults.so --library libhakmem.so --program FAULT_SCRIPT [SCENARIO...]

Every run has to end with status 0 within its time, whatever is refused; the script checks every
byte, and that memory is refused with ENOMEM alone. `failed` counts what the scenario refused,
interrupted or made jump, as far as it can be seen.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python"
sys.path.insert(0, str(PACKAGE))
from hakmem.insight.area import load, number  # noqa: E402

SCRIPTS = ("start-up", "threaded", "swings")
TIMEOUT_S = 120
MIB = 1 << 20
NOBODY = 65534
LONGEST_GAP_S = 3600  # src/mind/keep.c
LOADER_FAILED = 127
LOADED_FROM_MIB = 16  # of address space: program, C library and hakmem take a third of it


@dataclass
class Tally:
    points: int = 0
    failed: int = 0
    problems: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.problems.append(what)


@dataclass(frozen=True)
class Ended:
    status: int
    said: str

    def number(self, pattern: str) -> int:
        found = re.search(pattern, self.said)
        return int(found[1]) if found else 0

    @property
    def why(self) -> str:
        return f"ended with {self.status}: {self.said.strip()[-300:]}"


@dataclass(frozen=True)
class Machine:
    shim: Path
    library: Path
    program: Path
    scratch: Path

    def run(
        self,
        words: list[str],
        settings: dict[str, str] | None = None,
        limit: Callable[[], None] | None = None,
        shimmed: bool = False,
    ) -> Ended:
        preload = f"{self.shim}:{self.library}" if shimmed else str(self.library)
        environment = {"LD_PRELOAD": preload, "FAULT_LIBRARY": self.library.name}
        try:
            done = subprocess.run(
                [str(self.program), *words],
                env=environment | (settings or {}),
                preexec_fn=limit,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return Ended(-1, f"no end after {TIMEOUT_S} s")
        return Ended(done.returncode, done.stderr)

    def try_point(self, tally: Tally, words: list[str], what: str, **how: object) -> Ended:
        ended = self.run(words, **how)  # type: ignore[arg-type]
        tally.points += 1
        tally.expect(ended.status == 0, f"{' '.join(words)}, {what}: {ended.why}")
        return ended


def limiting(what: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (value, value))


# ---- limits ----


def address_space(machine: Machine) -> Tally:
    """RLIMIT_AS from where the loader just manages to where all fits."""
    tally = Tally()
    for script in SCRIPTS:
        for mib in (*range(5, 40), *range(40, 400, 12)):
            limit = limiting(resource.RLIMIT_AS, mib * MIB)
            ended = machine.run([script], limit=limit)
            if mib < LOADED_FROM_MIB and without_room_to_load(ended):
                continue
            tally.points += 1
            tally.failed += ended.number(r"(\d+) requests refused")
            tally.expect(ended.status == 0, f"{script}, {mib} MiB: {ended.why}")
    return tally


def without_room_to_load(ended: Ended) -> bool:
    """The loader could not load the program, one of its libraries, or hakmem."""
    return ended.status == LOADER_FAILED or "cannot be preloaded (failed to map" in ended.said


def descriptors(machine: Machine) -> Tally:
    """RLIMIT_NOFILE from 0 on, with everything switched on that opens files."""
    tally = Tally()
    for script in SCRIPTS:
        for count in range(9):
            profile = machine.scratch / "profile"
            numbers = machine.scratch / "numbers"
            settings = {
                "HAKMEM_PROFILE_OUTPUT": str(profile),
                "HAKMEM_STATS": "1",
                "HAKMEM_OUTPUT": str(numbers),
                "HAKMEM_PROFILE_UNWIND": "1",
            }
            words = [script, "--descriptors", str(count)]
            ended = machine.try_point(tally, words, "all files wanted", settings=settings)
            for name, file in (("output", numbers), ("profile_output", profile)):
                refused = (
                    f"hakmem: {name}: cannot write to '{file}': the process has no file"
                    in ended.said
                )
                whole = file.exists() and file.stat().st_size > 0
                tally.failed += refused
                tally.expect(refused != whole, f"{words}: {name}: {ended.said}")
                file.unlink(missing_ok=True)
    return tally


def threads(machine: Machine) -> Tally:
    """No thread to be had: by RLIMIT_NPROC for the program, by the shim for hakmem's own."""
    tally = Tally()
    if os.geteuid() == 0:
        machine.scratch.chmod(0o755)

        def one_process() -> None:
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            os.setgid(NOBODY)
            os.setuid(NOBODY)

        for worker in ("0", "1"):
            ended = machine.try_point(
                tally,
                ["threaded"],
                f"no threads, worker {worker}",
                settings={"HAKMEM_WORKER": worker},
                limit=one_process,
            )
            refused = ended.number(r"(\d+) threads refused")
            tally.failed += refused
            tally.expect(refused > 0, f"RLIMIT_NPROC refused no thread: {ended.said}")
    for script in SCRIPTS:
        report = machine.scratch / "report"
        settings = {"FAULT_CALL": "pthread_create", "FAULT_K": "1", "FAULT_MODE": "forever"}
        settings |= {"HAKMEM_WORKER": "1", "FAULT_REPORT": str(report)}
        machine.try_point(tally, [script], "no worker", settings=settings, shimmed=True)
        counts = reported(report)
        tally.failed += counts["pthread_create"][1]
        tally.expect(counts["pthread_create"][1] > 0, f"{script}: no worker was refused")
    return tally


def reported(report: Path) -> dict[str, tuple[int, int]]:
    rows = [line.split() for line in report.read_text().splitlines()]
    report.unlink()
    return {name: (int(made), int(met)) for name, made, met in rows}


# ---- time and signals ----


def clocks(machine: Machine) -> Tally:
    """The clock jumps by up to two days: no hang, no more calls than a purge at each jump."""
    tally = Tally()
    for script in SCRIPTS:
        for every in (1, 2, 3, 7, 20, 100):
            for keep in ("size", "site", "off", "fixed"):
                report, profile = machine.scratch / "report", machine.scratch / "profile"
                settings = {"FAULT_CLOCK": str(every), "FAULT_REPORT": str(report)}
                settings |= {"HAKMEM_KEEP": keep, "HAKMEM_PROFILE_OUTPUT": str(profile)}
                settings |= {"HAKMEM_PROFILE_INTERVAL": "4096", "HAKMEM_SOFT_LIMIT": "64M"}
                what = f"a jump every {every} readings, keep:{keep}"
                machine.try_point(tally, [script], what, settings=settings, shimmed=True)
                counts = reported(report)
                readings, jumps = counts["clock_gettime"]
                tally.failed += jumps
                tally.expect(jumps > 0, f"{script}, {what}: the clock was not read {every} times")
                calls = sum(made for name, (made, _) in counts.items() if name != "clock_gettime")
                tally.expect(
                    calls < 20 * readings + 1000, f"{script}, {what}: {calls} system calls"
                )
                tally.expect(
                    figures_are_bounded(profile), f"{script}, {what}: figures out of all bounds"
                )
    return tally


def figures_are_bounded(profile: Path) -> bool:
    """What the mind has kept, and for how long."""
    rows = load(profile).table("rules").rows()
    kept = [
        (number(row, "saved_kib") + number(row, "vain_kib"), number(row, "held_kib_s"))
        for row in rows
    ]
    return all(held <= kib * LONGEST_GAP_S for kib, held in kept)


def signals(machine: Machine) -> Tally:
    """A timer's handler allocates, as often as the machine can."""
    tally = Tally()
    for script in SCRIPTS:
        for every_us in (100, 197, 500, 1000):
            for sampled in ("524288", "4096"):
                words = [script, "--recovers", "--signal-us", str(every_us)]
                settings = {"HAKMEM_PROFILE_INTERVAL": sampled}
                ended = machine.try_point(tally, words, "signals", settings=settings)
                tally.failed += ended.number(r"(\d+) signals handled")
    tally.expect(tally.failed > 100, f"only {tally.failed} signals were handled")
    return tally


# ---- files ----


@contextmanager
def small_disk(place: Path) -> Iterator[Path | None]:
    """A file system of 64 KiB, where one may be mounted."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    mounted = subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)


def disk(machine: Machine) -> Tally:
    """Files at exit on a full device or disk, behind a limit, nowhere: a line each, none half."""
    tally = Tally()

    def attempt(key: str, file: Path, reason: str, limit: Callable[[], None] | None = None) -> None:
        settings = {"HAKMEM_STATS": "1", f"HAKMEM_{key}": str(file)}
        what = f"{key.lower()} into {file.name}"
        ended = machine.try_point(tally, ["start-up"], what, settings=settings, limit=limit)
        line = f"hakmem: {key.lower()}: cannot write to '{file}': {reason}"
        said = line in ended.said
        tally.failed += said
        tally.expect(said, f"{what}: not said: {line}: {ended.said[-300:]}")
        if key == "PROFILE_OUTPUT" and file.is_file():
            tally.expect(file.stat().st_size == 0, f"{what}: half a profile is left")

    here = machine.scratch
    for key in ("OUTPUT", "PROFILE_OUTPUT"):
        attempt(key, Path("/dev/full"), "no space is left there")
        attempt(key, here / "none" / "file", "there is no such folder")
        attempt(key, here, "it is a folder")
        for size in (0, 1, 300):
            limit = limiting(resource.RLIMIT_FSIZE, size)
            attempt(
                key, here / f"limit-{size}", "it would be larger than the file size limit", limit
            )
    with small_disk(here / "disk") as place:
        if place is not None:
            (place / "fill").write_bytes(bytes(40 << 10))
            attempt("PROFILE_OUTPUT", place / "profile", "no space is left there")
            with (place / "rest").open("wb", buffering=0) as rest:
                while_room(rest.write)
            attempt("OUTPUT", place / "numbers", "no space is left there")
    return tally


def while_room(write: Callable[[bytes], int]) -> None:
    try:
        while True:
            write(bytes(4096))
    except OSError:
        pass


SCENARIOS: dict[str, Callable[[Machine], Tally]] = {
    "address_space": address_space,
    "descriptors": descriptors,
    "threads": threads,
    "clocks": clocks,
    "signals": signals,
    "disk": disk,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shim", type=Path, required=True, help="the preload library faults.so")
    parser.add_argument("--library", type=Path, required=True, help="libhakmem.so")
    parser.add_argument("--program", type=Path, required=True, help="fault_script")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    arguments = parser.parse_args()
    problems = []
    for name in arguments.scenarios or SCENARIOS:
        with tempfile.TemporaryDirectory(prefix="hakmem-faults-") as folder:
            machine = Machine(arguments.shim, arguments.library, arguments.program, Path(folder))
            tally = SCENARIOS[name](machine)
        print(
            f"{name}: {tally.points} points tried, {tally.failed} failed, "
            f"{len(tally.problems)} went wrong"
        )
        problems += [f"{name}: {problem}" for problem in tally.problems]
    for problem in problems[:20]:
        print("FAILED:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
