"""Whether hakmem serves a process, or would serve a command, and why not.

All of /proc is read below `root`, which only tests change.
"""

import contextlib
import os
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hakmem.elf import gains_privilege, missing_interpreter, program_behind, read_elf
from hakmem.errors import HakmemError
from hakmem.insight.area import GoneError, NoAreaError
from hakmem.insight.attaching import (
    MAPS_LINE,
    attach,
    is_hakmem,
    mapped_name,
    read_maps,
    refuse_thread,
    runs_hakmem,
    without_memory,
)
from hakmem.insight.findings import Report
from hakmem.insight.library_settings import SAID, Answer, Setting, ask
from hakmem.insight.numbers import numbers_of
from hakmem.insight.programs import Program, harm, read_program
from hakmem.insight.roots import as_named_inside, inside, same_mounts
from hakmem.insight.system import Proc, examine_system
from hakmem.terminal import in_one_line

AT_SECURE = 23
OTHER_MALLOCS = re.compile(
    r"lib(jemalloc|tcmalloc\w*|mimalloc|snmalloc\w*|rpmalloc\w*|hoard|tbbmalloc\w*|scudo|asan|tsan)\b"
    r"|vgpreload_"
)
START_ON_HAKMEM = "start it with: hakmem run -- COMMAND"
LD_SO_PRELOAD = "etc/ld.so.preload"
OF_RULES = f"{SAID}rules: "


@dataclass(frozen=True)
class Mapped:
    """A file that a process has mapped."""

    name: str
    deleted: bool


def examine_machine(root: Path = Path("/")) -> Report:
    """Without a target: what holds for every program."""
    report = Report("this system")
    _preload_file(root / LD_SO_PRELOAD, None, report)
    examine_system(Proc(root, None), report)
    return report


# ---- a command


def examine_command(
    path: Path, library: Path | None, environment: Mapping[str, str], root: Path = Path("/")
) -> Report:
    """Whether hakmem would serve the program, started by `hakmem run`."""
    program = program_behind(path)
    shown = str(program) if program == path else f"{path}, run by {program}"
    report = Report(shown)
    linked = _has_hakmem(program, report)
    able = linked or _can_be_preloaded(program, library, report)
    _other_preloads(environment, report)
    _preload_file(root / LD_SO_PRELOAD, None, report)
    loadable = library is not None and _loadable(library, environment, report)
    if library is None and not linked:
        report.problem("library", "there is no library yet", "build it: ./hakmem build")
    report.active = linked or (able and loadable)
    examine_system(Proc(root, None), report)
    return report


def _has_hakmem(path: Path | None, report: Report) -> bool:
    """Linked into it, which serves whatever is preloaded."""
    program = read_program(path) if path else None
    if program is None or not program.has_hakmem:
        return False
    report.ok("program", "hakmem is linked into it")
    return True


def _can_be_preloaded(path: Path, library: Path | None, report: Report) -> bool:
    header = read_elf(path)
    if header is None:
        _no_program(path, report)
        return False
    if gains_privilege(path):
        report.problem(
            "program",
            "it runs with another user's rights (set-user-ID or capabilities): the loader ignores "
            "LD_PRELOAD and hakmem its settings",
            "link it with hakmem, or install libhakmem.so as such programs want it: ld.so(8), "
            "secure-execution mode",
        )
        return False
    if not header.has_loader:
        report.problem(
            "program",
            "it is statically linked: nothing can be preloaded into it",
            _static_remedy(read_program(path)),
        )
        return False
    own = read_elf(library) if library else None
    if own and (own.bits, own.machine) != (header.bits, header.machine):
        report.problem(
            "program",
            f"it is built for another kind of processor ({header.bits} bits, machine "
            f"{header.machine}) than {library}",
            "build hakmem for it; it needs 64 bits",
        )
        return False
    return _own_malloc(read_program(path), report)


def _no_program(path: Path, report: Report) -> None:
    if missing := missing_interpreter(path):
        report.problem(
            "program", f"{missing}, which is to run it, is not there", f"install {missing}"
        )
    else:
        report.problem("program", f"{path} is no program that the loader knows", "name a program")


def _static_remedy(program: Program | None) -> str:
    if program and program.is_go:
        return "none: Go's runtime has an allocator of its own, and never calls malloc"
    return "link it with libhakmem.a"


def _own_malloc(program: Program | None, report: Report) -> bool:
    """What only the whole file tells; if that cannot be read nothing is claimed."""
    if program is None:
        report.note("program", "its file cannot be read: what it defines is not known")
        return True
    if program.is_of_musl and (reason := harm(program)):
        report.problem(
            "program",
            f"it {reason}; `hakmem run` starts it without hakmem",
            "use a build of the program for the GNU C library",
        )
        return False
    if program.sanitizer:
        report.problem(
            "program",
            f"it is built with {program.sanitizer}, which has a malloc of its own and ends a "
            "program into which another is preloaded; `hakmem run` starts it without hakmem",
            "build it without the sanitizer; its reports are for glibc's or its own malloc",
        )
        return False
    if program.is_go:
        report.note(
            "program",
            "it is a Go program: Go's runtime has an allocator of its own, hakmem serves only what "
            "C code in it allocates",
        )
    if program.symbolic:
        report.note("program", "it is linked with -Bsymbolic: its own symbols come first")
    if program.defined:
        report.problem(
            "program",
            f"it defines {program.own_malloc} itself, which come before those of a preloaded "
            "library",
            "build it without its own malloc (jemalloc, tcmalloc, mimalloc)",
        )
        return False
    report.ok("program", "dynamically linked, with the C library's malloc")
    return True


def _loadable(library: Path, environment: Mapping[str, str], report: Report) -> bool:
    """Whether it is hakmem: only then can it be asked for its settings."""
    if not os.access(library, os.R_OK):
        report.problem("library", f"{library} cannot be read", "check the path and its permissions")
        return False
    try:
        _settings_of(library, environment, report)
    except HakmemError as error:
        report.problem("library", str(error), "name a build of hakmem: libhakmem.so")
        return False
    return True


# ---- a process


def examine_process(pid: int, library: Path | None, root: Path = Path("/")) -> Report:
    proc = Proc(root, pid)
    maps = read_maps(pid) if root == Path("/") else proc.own_text("maps")
    if maps is None:
        raise GoneError(f"there is no process {pid}")
    if not maps:
        raise without_memory(pid)
    if root == Path("/"):
        refuse_thread(pid)
    name = in_one_line(proc.own_text("comm") or "")
    report = Report(f"process {pid} ({name})")
    environment = _environment(proc)
    files = _mapped_files(maps)
    shown = _is_shown(pid) if root == Path("/") else None
    linked = _has_hakmem(_file(proc, "exe"), report)
    is_mapped = linked or _is_mapped(maps, files, shown, report)
    serves = linked or (is_mapped and (shown or _is_bound(proc, environment, report)))
    is_later = serves and not linked and _another_comes_first(files, environment, shown, report)
    if serves and not is_later:
        _other_mallocs(files, environment, report)
    report.active = linked or (serves and not is_later and _comes_first(proc, report))
    _other_preloads(environment, report)
    _preload_file(root / proc.own / "root" / LD_SO_PRELOAD, name, report)
    _symbolic_libraries(proc, files, report)
    _namespace(proc, report)
    if serves and not is_later:
        _figures(pid, root, environment, _own_library(proc, files, library), report)
    elif not serves:
        _why_not(proc, environment, report)
    examine_system(proc, report)
    return report


def _mapped_files(maps: str) -> list[Mapped]:
    names = dict.fromkeys(mapped_name(line["path"]) for line in MAPS_LINE.finditer(maps))
    return [
        Mapped(name.removesuffix(" (deleted)"), name.endswith(" (deleted)"))
        for name in names
        if name.startswith("/")
    ]


def _environment(proc: Proc) -> dict[str, str]:
    """As the process was started with."""
    rows = (proc.own_text("environ") or "").split("\0")
    return dict(row.split("=", 1) for row in rows if "=" in row)


def _is_shown(pid: int) -> bool:
    """Whether there is a live area, as there is from the first block on that hakmem gives out."""
    try:
        attach(pid)
    except NoAreaError:
        return False
    return True


def _is_mapped(maps: str, files: list[Mapped], shown: bool | None, report: Report) -> bool:
    if not runs_hakmem(maps):
        if shown:
            report.ok("library", "is loaded, from a file with another name")
            return True
        report.problem("library", "hakmem is not in this process", START_ON_HAKMEM)
        return False
    for file in files:
        if is_hakmem(file.name):
            _mapped_library(file, report)
    return True


def _is_bound(proc: Proc, environment: Mapping[str, str], report: Report) -> bool:
    if not _comes_late(proc, environment):
        return True
    report.problem(
        "library",
        "malloc is the C library's all the same: the program has opened hakmem itself (dlopen), or "
        "is linked with it behind the C library",
        f"{START_ON_HAKMEM}; or link the program with hakmem first",
    )
    return False


def _comes_late(proc: Proc, environment: Mapping[str, str]) -> bool:
    """Whether names are looked for in the C library before hakmem. What is not known is no."""
    preloads = _preloads(environment) + _words_of(proc.root / proc.own / "root" / LD_SO_PRELOAD)
    executable = _file(proc, "exe")
    program = read_program(executable) if executable else None
    if not environment or any(map(is_hakmem, preloads)) or program is None:
        return False
    for name in program.needed if program.interpreter else ():
        if is_hakmem(name) or name.startswith("libc."):
            return not is_hakmem(name)
    return False


def _words_of(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").split()
    except OSError:
        return []


def _mapped_library(file: Mapped, report: Report) -> None:
    if file.deleted:
        report.note(
            "library",
            f"{file.name} has been replaced or removed since the process started, which goes on "
            "with what it has loaded",
            "start it anew to use what is there now",
        )
    else:
        report.ok("library", f"{file.name} is loaded")


def _another_comes_first(
    files: list[Mapped], environment: Mapping[str, str], shown: bool | None, report: Report
) -> bool:
    """By LD_PRELOAD; or where the program has overwritten that, by what hakmem does not show."""
    preloads = _preloads(environment)
    if any(map(is_hakmem, preloads)):
        first = next(name for name in preloads if is_hakmem(name) or _is_other_malloc(name))
        if is_hakmem(first):
            return False
        text = f"LD_PRELOAD names {first} before hakmem: that serves malloc"
    else:
        others = [file.name for file in files if _is_other_malloc(file.name)]
        if shown is not False or not others:
            return False
        text = (
            f"{others[0]} is loaded too, and hakmem has given out no block: that most likely "
            "serves malloc"
        )
    report.problem("other malloc", text, "take it out of LD_PRELOAD, or start it on hakmem alone")
    return True


def _is_other_malloc(file: str) -> bool:
    return OTHER_MALLOCS.search(file.rpartition("/")[2]) is not None


def _other_mallocs(files: list[Mapped], environment: Mapping[str, str], report: Report) -> None:
    preloads = _preloads(environment)
    is_preloaded = any(map(is_hakmem, preloads))
    for file in files:
        if not _is_other_malloc(file.name):
            continue
        if is_preloaded and not any(map(_is_other_malloc, preloads)):
            report.ok(
                "other malloc",
                f"{file.name} is loaded too, but not preloaded: hakmem comes first and serves",
            )
        else:
            report.note(
                "other malloc",
                f"{file.name} is loaded too: who is preloaded first serves malloc",
                "if that is preloaded too, preload one of them only; if the program is linked "
                "with it, what is preloaded comes before",
            )


def _comes_first(proc: Proc, report: Report) -> bool:
    """Whether malloc is hakmem's, and not the program's own."""
    executable = _file(proc, "exe")
    program = read_program(executable) if executable else None
    return program is None or _own_malloc(program, report)


def _why_not(proc: Proc, environment: Mapping[str, str], report: Report) -> None:
    if _is_secure(proc):
        report.problem(
            "program",
            "it was started with another user's rights, for which the loader ignores LD_PRELOAD",
            "link the program with hakmem",
        )
        return
    executable = _file(proc, "exe")
    if executable is not None:
        _can_be_preloaded(executable, None, report)
    for name in _preloads(environment):
        if not is_hakmem(name):
            continue
        report.problem(
            "library",
            f"LD_PRELOAD names {name}, which the loader did not load: "
            + (
                "it is not there for the process" if _absent(proc, name) else "see its first output"
            ),
            "name a path that exists where the process runs, in its container",
        )


def _absent(proc: Proc, name: str) -> bool:
    return "/" in name and not inside(proc.root / proc.own, name).exists()


def _is_secure(proc: Proc) -> bool:
    try:
        data = (proc.root / proc.own / "auxv").read_bytes()
    except OSError:
        return False
    pairs = struct.iter_unpack("<QQ", data[: len(data) // 16 * 16])
    return any(key == AT_SECURE and value != 0 for key, value in pairs)


def _file(proc: Proc, name: str) -> Path | None:
    path = proc.root / proc.own / name
    return path if os.access(path, os.R_OK) else None


def _symbolic_libraries(proc: Proc, files: list[Mapped], report: Report) -> None:
    """Libraries that prefer a malloc of their own."""
    folder = proc.root / proc.own
    for file in files:
        if file.deleted:  # what has its name now is another
            continue
        program = read_program(inside(folder, as_named_inside(folder, file.name)))
        if program and program.symbolic and program.defined and "libhakmem" not in file.name:
            report.note(
                "other malloc",
                f"{file.name} is linked with -Bsymbolic and defines malloc: what it allocates "
                "itself is not hakmem's",
            )


def _namespace(proc: Proc, report: Report) -> None:
    if same_mounts(proc.root / proc.own, proc.root / "proc/self") is False:
        report.note(
            "container",
            "the process is in a container (another mount namespace): paths mean other files there",
            "the library's path must be one inside it",
        )


# ---- preloading


def _preloads(environment: Mapping[str, str]) -> list[str]:
    return re.split(r"[ :]+", environment.get("LD_PRELOAD", "").strip(" :"))


def _other_preloads(environment: Mapping[str, str], report: Report) -> None:
    for name in _preloads(environment):
        if name == "" or is_hakmem(name):
            continue
        if _is_other_malloc(name):
            report.problem(
                "preload",
                f"LD_PRELOAD has {name} as well, another malloc: who comes first serves",
                "take it out of LD_PRELOAD",
            )
        else:
            report.note("preload", f"LD_PRELOAD has {name} as well", "if in doubt, try without it")


def _preload_file(path: Path, process: str | None, report: Report) -> None:
    for name in _words_of(path):
        text = f"/etc/ld.so.preload has {name}, which every program loads"
        if _is_other_malloc(name):
            report.problem("preload", text + ", another malloc", "take it out of that file")
        else:
            report.note("preload", text)


# ---- version and settings


def _figures(
    pid: int, root: Path, environment: Mapping[str, str], library: Path | None, report: Report
) -> None:
    """From the live area, which tells what is in force; else what library and environment say."""
    try:
        if root != Path("/"):
            raise NoAreaError("a tree of files has no live area")
        numbers = numbers_of(attach(pid), pid)
    except NoAreaError as error:
        report.note("live area", str(error).removesuffix(f": hakmem doctor {pid}"))
        try:
            if library is not None:
                _settings_of(library, environment, report)
        except HakmemError as refusal:
            report.note("settings", str(refusal))
        return
    report.ok("live area", f"is there; threads' heaps: {len(numbers.threads)}")
    report.version = numbers.version
    answer = _answer(library, environment)
    # Kind and text of each setting, and those values that are no numbers: the area has none.
    known = {s.name: (s.value, s.kind, s.text) for s in answer.settings}
    for name, (number, source) in numbers.settings.items():
        value, kind, text = known.get(name, ("", "", ""))
        shown = value if kind == "TEXT" else number
        report.settings.append(Setting(name, shown, source, kind, text))
    # A file of rules may have been another one when the process began, or in another folder.
    _refused([line for line in answer.warnings if not line.startswith(OF_RULES)], report)


def _answer(library: Path | None, environment: Mapping[str, str]) -> Answer:
    """Nothing, where nobody can be asked."""
    with contextlib.suppress(HakmemError):
        if library is not None:
            return ask(library, environment)
    return Answer("", (), ())


def _own_library(proc: Proc, files: list[Mapped], library: Path | None) -> Path | None:
    """The library to ask: the process' own where that may be loaded here, else the caller's.

    A file that another user could have written must not be run, least of all by root.
    """
    for file in files:
        path = Path(file.name)
        if "libhakmem" not in path.name or file.deleted or proc.root != Path("/"):
            continue
        try:
            mine, theirs = path.stat(), (proc.root / proc.own / "root" / file.name[1:]).stat()
        except OSError:
            continue
        same = (mine.st_dev, mine.st_ino) == (theirs.st_dev, theirs.st_ino)
        if same and mine.st_uid in (0, os.geteuid()) and not mine.st_mode & 0o022:
            return path
    return library


def _settings_of(library: Path, environment: Mapping[str, str], report: Report) -> None:
    answer = ask(library, environment)
    report.version = answer.version
    report.settings = list(answer.settings)
    _refused(answer.warnings, report)


def _refused(warnings: Iterable[str], report: Report) -> None:
    for line in warnings:
        report.problem(
            "settings",
            line.removeprefix(SAID),
            "correct or remove the variable; a program reads it when it starts",
        )
