"""Strict overcommit (vm.overcommit_memory=2): programs run, and more than there is gives ENOMEM.

usage: run_overcommit.py --exhaustion PROGRAM

Sets it for the whole machine while a few short programs run; a process of its own puts it back,
however this script ends. Skipped where it cannot be set. What is preloaded into this script is
preloaded into the programs.
"""

import argparse
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

SKIPPED = 77
TIMEOUT_S = 120
NEEDED_KIB = 1 << 20
STRICT = "2"
MEMORY = Path("/proc/sys/vm/overcommit_memory")
LOCK = Path(tempfile.gettempdir()) / "hakmem-overcommit-test.lock"
# What ends this script, a whole process group too, does not end it.
KEEPER = 'trap "" TERM INT HUP; echo ready; cat >/dev/null; printf %s "$2" >"$1"'
JSON_JOB = """
import json
text = json.dumps([{"name": str(i), "values": list(range(20))} for i in range(20000)])
assert json.loads(text)[19999]["name"] == "19999"
"""
# All that the machine promises at once, which the system itself already has a part of.
ASK_FOR_ALL = """
from pathlib import Path
lines = Path("/proc/meminfo").read_text().splitlines()
limit = next(int(line.split()[1]) for line in lines if line.startswith("CommitLimit:"))
try:
    bytearray(limit << 10)
except MemoryError:
    assert len(bytearray(64 << 20)) == 64 << 20
else:
    raise SystemExit(f"{limit} KiB were not refused")
"""
# What has been freed is promised no more, or a fork would need it promised twice.
FREED_JOB = """
from pathlib import Path
def data():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmData:")) >> 10
blocks = [bytearray(300_000) for _ in range(800)] + [bytearray(4 << 20) for _ in range(60)]
full = data()
assert full >= 460, f"{full} MiB are mapped for 469"
del blocks
assert data() < full - 350, f"{data()} MiB are mapped still, of {full}"
"""


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def promised_left() -> int:
    """KiB that a strict kernel would still promise: sanitizers are promised terabytes."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    kib = {line[0].rstrip(":"): int(line[1]) for line in lines}
    return kib["CommitLimit"] - kib["Committed_AS"]


def keep(setting: str) -> subprocess.Popen[str]:
    """Starts what sets it again once its input ends: when we close it, or when we are killed."""
    keeper = subprocess.Popen(
        ["sh", "-c", KEEPER, "keeper", MEMORY, setting],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    keeper.stdout.readline()
    return keeper


@contextmanager
def strict_overcommit() -> Iterator[None]:
    if not os.access(MEMORY, os.W_OK):
        skip("vm.overcommit_memory cannot be set")
    # Another run of this test, from another clone, must not take our setting for the machine's.
    turn = LOCK.open("w")
    fcntl.flock(turn, fcntl.LOCK_EX)
    if promised_left() < NEEDED_KIB:
        skip("what runs beside this has been promised all memory there is")
    before = MEMORY.read_text()
    keeper = keep(before)
    try:
        MEMORY.write_text(STRICT)
    except OSError as error:
        skip(f"vm.overcommit_memory cannot be set: {error.strerror}")
    try:
        yield
    finally:
        keeper.communicate()
        turn.close()


def run(*command: str) -> None:
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONMALLOC": "malloc"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        sys.exit(f"FAILED with {done.returncode}: {command[0]}\n{done.stdout}{done.stderr}")
    print(f"{Path(command[0]).name}: {done.stderr.strip() or 'as it should'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exhaustion", required=True)
    exhaustion: str = parser.parse_args().exhaustion
    with strict_overcommit():
        run(exhaustion)
        run(exhaustion, "--mixed")
        run(sys.executable, "-c", JSON_JOB)
        run(sys.executable, "-c", ASK_FOR_ALL)
        run(sys.executable, "-c", FREED_JOB)


if __name__ == "__main__":
    main()
