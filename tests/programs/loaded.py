"""Makes sure that the library really was in the processes it is said to have served."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from sandbox import Outcome, Sandbox

PT_INTERP = 3


def interpreter(binary: Path) -> str | None:
    """The dynamic loader that an ELF file asks for; None if it is a script or static."""
    with binary.open("rb") as file:
        ident = file.read(16)
        if ident[:4] != b"\x7fELF" or ident[4] != 2:
            return None
        order = "<" if ident[5] == 1 else ">"
        header = struct.unpack(order + "HHIQQQIHHHHHH", file.read(48))
        table, entry_size, entries = header[4], header[8], header[9]
        for index in range(entries):
            file.seek(table + index * entry_size)
            kind, _, offset, _, _, size = struct.unpack(order + "IIQQQQ", file.read(40))
            if kind == PT_INTERP:
                file.seek(offset)
                return file.read(size).rstrip(b"\0").decode()
    return None


def loader_lists(binary: Path, sandbox: Sandbox) -> bool:
    """Asks the dynamic loader, without running the program, whether it would load the library."""
    loader = interpreter(binary)
    if loader is None:
        return False
    shown = subprocess.run(
        [loader, "--list", str(binary)],
        env=sandbox.environment(sandbox.base, True),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return str(sandbox.library) in shown.stdout


def check_binaries(sandbox: Sandbox) -> list[str]:
    """Complaints about programs that the dynamic loader would not give the library to."""
    program = sandbox.program
    wanted = program.commands if program.loads is None else program.loads
    complaints = []
    for name in wanted:
        found = program.find(name)
        if found is None:
            complaints.append(f"{name} is not there")
        elif not loader_lists(Path(os.path.realpath(found)), sandbox):
            complaints.append(f"{found} would not load {sandbox.library}")
    return complaints


def check_probe(sandbox: Sandbox) -> list[str]:
    if str(sandbox.library) in sandbox.maps_of_probe():
        return []
    return [f"{sandbox.library} is not mapped in a child started like the workload"]


def check_evidence(sandbox: Sandbox, plain: Outcome, preloaded: Outcome) -> list[str]:
    """Looks at the maps that workloads keep of their servers and of themselves."""
    complaints = []
    for name in sandbox.program.mapped:
        for outcome, expected in ((plain, False), (preloaded, True)):
            path = outcome.directory / "mapped" / name
            maps = path.read_text(errors="replace") if path.exists() else ""
            if "[stack]" not in maps:
                complaints.append(f"{outcome.directory.name} run kept no maps of {name}")
            elif (str(sandbox.library) in maps) != expected:
                state = "not mapped" if expected else "mapped"
                complaints.append(f"library {state} in {name} in {outcome.directory.name} run")
    return complaints
