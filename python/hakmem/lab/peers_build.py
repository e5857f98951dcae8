"""Builds other allocators as preloadable libraries, from the sources that Rust packages carry.

Each is configured as its authors' own build files do it for a release; what the packages left out
of those files, because a build from Rust does not read it, is written here.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem.build import cmake_tool
from hakmem.lab.packages import Report, install, known

FETCH_TIMEOUT_S = 300
BUILD_TIMEOUT_S = 1800
MESSAGE_LENGTH = 200

# Debian's `cargo` may be too old for what the registry holds; `cargo-web` is kept current.
CARGO_PACKAGES = ("cargo-web", "cargo")


class BuildError(Exception):
    """Why a peer cannot be had, in one line."""


@dataclass(frozen=True)
class Workshop:
    """Where one peer is built: `source` is the unpacked package, `log` takes what the tools say."""

    source: Path
    build: Path
    log: Path

    def run(self, command: Sequence[str | Path], folder: Path | None = None) -> None:
        logged_run(command, folder or self.source, self.log, BUILD_TIMEOUT_S)


@dataclass(frozen=True)
class Recipe:
    """How one peer is made; `make` returns the library, `version_of` reads the source."""

    name: str
    crate: str
    version_of: Callable[[Path], str]
    make: Callable[[Workshop], Path]


def logged_run(command: Sequence[str | Path], folder: Path, log: Path, timeout_s: float) -> None:
    words = [str(word) for word in command]
    with log.open("ab") as output:
        output.write(f"$ {' '.join(words)}\n".encode())
        output.flush()
        try:
            status = subprocess.run(
                words,
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            ).returncode
        except OSError as error:
            raise BuildError(f"cannot start {words[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"{words[0]} took longer than {timeout_s:.0f} s") from error
    if status != 0:
        raise BuildError(f"{Path(words[0]).name} failed ({_last_error(log)}); see {log}")


def _environment() -> dict[str, str]:
    """Without flags of the user's: everybody's build of a version is the same."""
    mine = {"CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LD_PRELOAD", "MAKEFLAGS"}
    return {name: value for name, value in os.environ.items() if name not in mine}


def _last_error(log: Path) -> str:
    """The end of the log from its first error on, as one line."""
    # Our own lines, with the commands, begin with "$ ".
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    end = [line for line in lines if line and not line.startswith("$ ")][-60:] or ["no output"]
    first = next((n for n, line in enumerate(end) if "error" in line.lower()), -1)
    return " ".join(end[first:][:3])[:MESSAGE_LENGTH]


def ensure_cargo(report: Report) -> str:
    """The cargo command, installed if need be."""
    found = shutil.which("cargo")
    if found:
        return found
    package = next((name for name in CARGO_PACKAGES if known(name)), CARGO_PACKAGES[-1])
    reason = install([package], report).get(package)
    found = shutil.which("cargo")
    if found is None:
        raise BuildError(f"there is no cargo to fetch its source with: {reason or 'not in PATH'}")
    return found


def fetch(cargo: str, crate: str, folder: Path, log: Path) -> Path:
    """Unpacks the newest version of a package below the folder."""
    project = folder / "fetch"
    (project / "src").mkdir(parents=True)
    (project / "src" / "lib.rs").touch()
    (project / "Cargo.toml").write_text(
        '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\n{crate} = "*"\n',
        encoding="utf-8",
    )
    logged_run([cargo, "vendor", "--quiet", "vendor"], project, log, FETCH_TIMEOUT_S)
    return project / "vendor" / crate


def crate_version(source: Path) -> str:
    manifest = (source / "Cargo.toml").read_text(encoding="utf-8")
    return found(r'^version = "([^"]+)"', manifest)


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise BuildError(f"its source names no version ({pattern})")
    return match[1]


def jobs() -> str:
    return f"-j{len(os.sched_getaffinity(0))}"


def cmake_build(workshop: Workshop, source: Path, target: str, options: Sequence[str]) -> None:
    cmake = cmake_tool("cmake")
    settings = ["-DCMAKE_BUILD_TYPE=Release", *options]
    workshop.run([cmake, "-G", "Ninja", "-S", source, "-B", workshop.build, *settings])
    workshop.run([cmake, "--build", workshop.build, "--target", target])


# mimalloc


def _mimalloc_tree(source: Path, major: int) -> Path:
    for tree in (
        source / "c_src" / "mimalloc" / f"v{major}",
        source / "c_src" / f"mimalloc{major}",
    ):
        if tree.is_dir():
            return tree
    raise BuildError(f"{source.name} carries no mimalloc {major}")


def _mimalloc_numbers(tree: Path) -> tuple[int, int, int]:
    header = (tree / "include" / "mimalloc.h").read_text(encoding="utf-8")
    packed = int(found(r"define MI_MALLOC_VERSION\s+(\d+)", header))
    return packed // 10000, packed // 100 % 100, packed % 100


def _mimalloc(major: int) -> Recipe:
    def version(source: Path) -> str:
        return ".".join(map(str, _mimalloc_numbers(_mimalloc_tree(source, major))))

    def make(workshop: Workshop) -> Path:
        tree = _mimalloc_tree(workshop.source, major)
        _add_cmake_files(tree)
        others = ("STATIC", "OBJECT", "TESTS")
        options = ["-DMI_OVERRIDE=ON", *(f"-DMI_BUILD_{kind}=OFF" for kind in others)]
        cmake_build(workshop, tree, "mimalloc", options)
        return workshop.build / "libmimalloc.so"

    return Recipe(f"mimalloc{major}", "libmimalloc-sys", version, make)


def _add_cmake_files(tree: Path) -> None:
    """The two files that its CMakeLists.txt includes and the package leaves out."""
    folder = tree / "cmake"
    folder.mkdir(exist_ok=True)
    numbers = _mimalloc_numbers(tree)
    settings = dict(zip(("major", "minor", "patch"), numbers, strict=True))
    version = ".".join(map(str, numbers))
    files = {
        "mimalloc-config-version.cmake": "".join(
            f"set(mi_version_{part} {number})\n" for part, number in settings.items()
        )
        + f"set(mi_version {version})\n",
        "JoinPaths.cmake": "function(join_paths result)\n"
        '    list(JOIN ARGN "/" joined)\n'
        '    set(${result} "${joined}" PARENT_SCOPE)\n'
        "endfunction()\n",
    }
    for name, text in files.items():
        if not (folder / name).exists():
            (folder / name).write_text(text, encoding="utf-8")


# jemalloc


def _jemalloc_full_version(source: Path) -> str:
    """As its configure wants it: RELEASE-COMMITS-gHASH."""
    return found(r"\+(.+)", crate_version(source))


def _jemalloc_version(source: Path) -> str:
    release, commits, commit = _jemalloc_full_version(source).split("-")
    return release if commits == "0" else f"{release}-{commits}-{commit[:9]}"


def _make_jemalloc(workshop: Workshop) -> Path:
    # It builds in its own tree; `configure` is packed beside it.
    tree = workshop.build
    shutil.copytree(workshop.source / "jemalloc", tree)
    shutil.copy(workshop.source / "configure" / "configure", tree)
    version = _jemalloc_full_version(workshop.source)
    options = [f"--with-version={version}", "--enable-doc=no", "--disable-static"]
    workshop.run(["sh", "configure", *options], tree)
    workshop.run(["make", jobs(), "build_lib_shared"], tree)
    return tree / "lib" / "libjemalloc.so.2"


# snmalloc


def _make_snmalloc(workshop: Workshop) -> Path:
    options = ["-DSNMALLOC_BUILD_TESTING=OFF"]
    cmake_build(workshop, workshop.source / "upstream", "snmallocshim", options)
    return workshop.build / "libsnmallocshim.so"


# rpmalloc


def _rpmalloc_version(source: Path) -> str:
    changes = (source / "rpmalloc" / "CHANGELOG").read_text(encoding="utf-8")
    commit = crate_version(source).partition("+")[2]
    return found(r"^(\d+\.\d+\.\d+)", changes) + (f"+{commit}" if commit else "")


def _make_rpmalloc(workshop: Workshop) -> Path:
    workshop.build.mkdir()
    library = workshop.build / "librpmalloc.so"
    # As its own build files make `rpmallocwrap`, the library that is meant for preloading.
    macros = ("ENABLE_PRELOAD", "ENABLE_OVERRIDE", "BUILD_DYNAMIC_LINK", "BUILD_RELEASE")
    flags = [
        *("-std=gnu11", "-O3", "-funroll-loops", "-fstrict-aliasing", "-fPIC", "-D_GNU_SOURCE=1"),
        *(f"-D{macro}=1" for macro in macros),
    ]
    code = workshop.source / "rpmalloc" / "rpmalloc" / "rpmalloc.c"
    workshop.run(["cc", *flags, "-shared", "-pthread", "-o", library, code, "-ldl"])
    return library


RECIPES = (
    Recipe("jemalloc", "tikv-jemalloc-sys", _jemalloc_version, _make_jemalloc),
    _mimalloc(2),
    _mimalloc(3),
    Recipe("snmalloc", "snmalloc-sys", crate_version, _make_snmalloc),
    Recipe("rpmalloc", "rpmalloc-sys", _rpmalloc_version, _make_rpmalloc),
)


@dataclass(frozen=True)
class Built:
    """A finished peer, as its record beside the library says."""

    library: Path
    version: str
    source: str


def build(recipe: Recipe, folder: Path, report: Report) -> Built:
    """Fetches and builds; leaves the library and the log in the folder, and nothing else."""
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    log = folder / "build.log"
    log.write_bytes(b"")
    try:
        cargo = ensure_cargo(report)
        report(f"{recipe.name}: fetching {recipe.crate}")
        source = fetch(cargo, recipe.crate, work, log)
        version = recipe.version_of(source)
        report(f"{recipe.name}: building {version}")
        made = recipe.make(Workshop(source, work / "build", log))
        library = folder / f"lib{recipe.name}.so"
        # In place at once: another process may be running on what was here before.
        shutil.copy(made, work / library.name)
        (work / library.name).replace(library)
        return Built(library, version, f"{recipe.crate} {crate_version(source)}")
    except OSError as error:
        raise BuildError(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise BuildError(f"its source is not laid out as expected: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
