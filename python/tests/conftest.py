"""What the tests share: a way to run the command line as users do, and small programs to run."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).resolve().parents[2]

# What runs in the background of a shell ignores it, and so would the commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def free_promises() -> None:
    """For what reserves far more address space than it uses, as sanitizers and snmalloc do."""
    mode = Path("/proc/sys/vm/overcommit_memory")
    if mode.exists() and mode.read_text().strip() == "2":
        pytest.skip("vm.overcommit_memory is 2: not that much is promised here")


@pytest.fixture(scope="session")
def compiler() -> str:
    found = shutil.which("gcc")
    if found is None:
        pytest.skip("gcc is not installed")
    return found


@pytest.fixture(scope="session")
def marker_library(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A malloc whose constructor says that it was preloaded; the folder has a blank in it."""
    folder = tmp_path_factory.mktemp("a folder")
    source = folder / "marker.c"
    source.write_text(
        "#include <unistd.h>\n"
        "void *__libc_malloc(unsigned long);\n"
        "void *malloc(unsigned long size) { return __libc_malloc(size); }\n"
        "__attribute__((constructor)) static void mark(void) {\n"
        '    if (write(2, "preloaded\\n", 10) < 0) return;\n'
        "}\n"
    )
    library = folder / "libmarker.so"
    command = [compiler, "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


@pytest.fixture(scope="session")
def library() -> Path:
    """The clone's own build, for what only hakmem itself can be asked."""
    found = ROOT / "build" / "release" / "libhakmem.so"
    if not found.exists():
        pytest.skip("the library is not built")
    return found


OwnFailure = Callable[[list[str], int, str], None]


@pytest.fixture
def own_failure(hakmem: Run, marker_library: Path) -> OwnFailure:
    """Checks that `hakmem run` with the arguments fails with that status and message."""

    def check(arguments: list[str], status: int, message: str) -> None:
        result = hakmem("run", "--library", marker_library, *arguments)
        assert result.returncode == status
        assert message in result.stderr

    return check


@pytest.fixture
def hakmem(tmp_path: Path) -> Run:
    """Runs the command line in a process of its own, from a clone that has profiles only."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "profiles", clone / "profiles")

    def run(
        *arguments: str | Path,
        environment: dict[str, str] | None = None,
        stdout: int | TextIO = subprocess.PIPE,
    ) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_"))}
        return subprocess.run(
            [sys.executable, "-I", "-m", "hakmem", *map(str, arguments)],
            env=inherited | {"CLONE_OF_HAKMEM": str(clone)} | (environment or {}),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )

    return run
