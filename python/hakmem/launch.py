"""Starts the user's program with hakmem preloaded, most often in place of this process."""

import errno
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from hakmem.elf import missing_interpreter, preload_obstacle, program_behind
from hakmem.errors import CANNOT_RUN, NOT_FOUND, HakmemError
from hakmem.insight.programs import Program, harm, read_program
from hakmem.terminal import legible, say, shortened

LOADERS_REASON = re.compile(r"cannot be preloaded \((.*)\): ignored")
# LD_PRELOAD cannot quote any of them.
NO_PRELOAD = " :;$"
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def with_preload(environment: Mapping[str, str], library: Path) -> dict[str, str]:
    """Puts the library in front of what is preloaded already."""
    name = str(library)
    result = dict(environment)
    if any(character in name for character in NO_PRELOAD):
        # LD_PRELOAD cannot quote a blank; a bare name is looked up in LD_LIBRARY_PATH, which can
        # hold one.
        folder = str(library.parent)
        if any(character in folder for character in ":;$"):
            raise HakmemError(f"the loader cannot take a path with ':', ';' or '$': {folder}")
        name = library.name
        result["LD_LIBRARY_PATH"] = _joined(environment.get("LD_LIBRARY_PATH"), folder)
    result["LD_PRELOAD"] = _joined(name, environment.get("LD_PRELOAD"))
    return result


def not_preloaded(library: Path, environment: Mapping[str, str]) -> str | None:
    """Why the loader does not take the library, which it says and goes on; None: it does."""
    if not library.exists():
        return f"there is no {library}"
    wanted = with_preload(environment, library)
    result = subprocess.run(
        ["/bin/cat", "/proc/self/maps"],
        env=wanted,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    names = [Path(part).resolve().name for part in wanted["LD_PRELOAD"].split(":")]
    if result.returncode == 0 and all(f"/{name}" in result.stdout for name in names):
        return None
    said = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
    reason = LOADERS_REASON.search(said[-1])
    return f"{library} cannot be preloaded: {reason[1] if reason else said[-1]}"


def checked_library(library: Path) -> Path:
    """What a user names as --library: nothing would run on what the loader passes over."""
    # No setting comes along, which could make it write files.
    own = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
    problem = not_preloaded(library, own)
    if problem is None:
        program = read_program(library)
        if program is None or program.defined:
            return library
        problem = f"{library} has no malloc"
    raise HakmemError(f"--library: {problem}; name a build of hakmem: libhakmem.so")


def _joined(*parts: str | None) -> str:
    return ":".join(part for part in parts if part)


def find_program(command: str, environment: Mapping[str, str]) -> Path:
    name = shortened(legible(command)) or "''"
    if "/" in command:
        path = Path(command)
        if not os.access(path, os.F_OK):
            raise HakmemError(f"{name}: not found", NOT_FOUND)
        if path.is_dir() or not os.access(path, os.X_OK):
            raise HakmemError(f"{name}: cannot be run", CANNOT_RUN)
        return path
    search = environment.get("PATH", os.defpath)
    found = shutil.which(command, path=search)
    if found:
        return Path(found)
    if any(_is_file(Path(folder) / command) for folder in search.split(":")):
        raise HakmemError(f"{name}: cannot be run", CANNOT_RUN)
    raise HakmemError(f"{name}: not found", NOT_FOUND)


def _is_file(path: Path) -> bool:
    """Not where the folder may not be searched, or the name is too long for it."""
    try:
        return path.is_file()
    except OSError:
        return False


def become(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Signals and the exit status are the program's own, since no process of ours stays."""
    path, environment = _checked(command, environment)
    # Python ignores these two, and what is ignored stays so in the program.
    for ignored in IGNORED_BY_PYTHON:
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execve(path, list(command), environment)
    except OSError as error:
        words = _script(path, command) if error.errno == errno.ENOEXEC else None
        if words:
            os.execve(words[0], words, environment)
        raise _refused(path, command, error) from error


def start(command: Sequence[str], environment: Mapping[str, str], mask: Iterable[int]) -> int:
    """The id of a child that runs the program, with that mask of blocked signals."""
    path, environment = _checked(command, environment)

    def spawn(program: Path | str, words: list[str]) -> int:
        return os.posix_spawn(
            program, words, environment, setsigmask=mask, setsigdef=IGNORED_BY_PYTHON
        )

    try:
        return spawn(path, list(command))
    except OSError as error:
        words = _script(path, command) if error.errno == errno.ENOEXEC else None
        if words:
            return spawn(words[0], words)
        raise _refused(path, command, error) from error


def _checked(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[Path, Mapping[str, str]]:
    """The program, and what it is started with."""
    path = find_program(command[0], environment)
    program = started_by(path)
    if program and (reason := harm(program)):
        say(f"warning: {program.path} {reason}, so it is started without hakmem")
        return path, _without_preload(environment)
    if reason := obstacle(path):
        say(f"warning: {reason}, so hakmem does not act on it")
    return path, environment


def started_by(path: Path) -> Program | None:
    """What its file tells; of a script its interpreter."""
    try:
        return read_program(program_behind(path))
    except OSError:
        return None


def obstacle(path: Path) -> str | None:
    """Why a preloaded library does not act on it, which does no harm; None: nothing is known."""
    program = started_by(path)
    if program and program.has_hakmem:
        return None
    if program and program.defined:
        return f"{program.path} defines {program.own_malloc} itself"
    return preload_obstacle(path)


def _without_preload(environment: Mapping[str, str]) -> dict[str, str]:
    """As `with_preload` found it: its own library comes first."""
    result = dict(environment)
    others = result.pop("LD_PRELOAD", "").partition(":")[2]
    if others:
        result["LD_PRELOAD"] = others
    return result


def _refused(path: Path, command: Sequence[str], error: OSError) -> HakmemError:
    status = NOT_FOUND if error.errno == errno.ENOENT else CANNOT_RUN
    reason = f"{error.strerror}"
    if status == NOT_FOUND and (missing := _missing(path)):
        reason = f"{missing}, which is to run it, is not there"
    return HakmemError(f"{shortened(legible(command[0]))}: {reason}", status)


def _missing(path: Path) -> str | None:
    """The interpreter of a script, or the loader of a program, if that is what is not there."""
    program = started_by(path)
    if program and not Path(program.interpreter).exists():
        return program.interpreter
    try:
        return missing_interpreter(path)
    except OSError:
        return None


def _script(path: Path, command: Sequence[str]) -> list[str] | None:
    """A text file without #! is the shell's, as it is for every shell; anything else is broken."""
    with path.open("rb") as file:
        if b"\0" in file.read(256):
            return None
    return ["/bin/sh", str(path), *command[1:]]
