"""Programs that hakmem cannot serve: what `run` and `compare` say of them, and do."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Run

MUSL_LOADER = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"
PLAIN = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { puts(getenv("LD_PRELOAD") ? "with" : "without"); return 0; }
"""
OWN_MALLOC = """
#include <stddef.h>
static char room[1 << 16];
void *malloc(size_t n) { static size_t used; used += (n + 15) & ~15ul; return room + used; }
void free(void *p) { (void)p; }
int main(void) { free(malloc(1)); return 0; }
"""


def compiled(compiler: str, folder: Path, source: str, *options: str) -> Path:
    program = folder / "program"
    (folder / "program.c").write_text(source)
    subprocess.run([compiler, folder / "program.c", "-o", program, *options], check=True)
    return program


@pytest.fixture
def of_musl(tmp_path: Path) -> Path:
    if shutil.which("musl-gcc") is None:
        pytest.skip("musl is not there")
    return compiled("musl-gcc", tmp_path, PLAIN)


def test_of_musl_is_started_without(hakmem: Run, marker_library: Path, of_musl: Path) -> None:
    done = hakmem("run", "--library", marker_library, "--", of_musl)
    assert (done.returncode, done.stdout) == (0, "without\n")
    assert "made for musl" in done.stderr
    assert "started without hakmem" in done.stderr


def test_of_musl_is_not_compared(hakmem: Run, compiler: str, tmp_path: Path) -> None:
    program = compiled(compiler, tmp_path, PLAIN, MUSL_LOADER)
    done = hakmem("compare", "--", program)
    assert done.returncode == 125
    assert "made for musl" in done.stderr
    assert "can be preloaded" in done.stderr


def test_own_malloc_is_said(
    hakmem: Run, marker_library: Path, compiler: str, tmp_path: Path
) -> None:
    program = compiled(compiler, tmp_path, OWN_MALLOC, "-rdynamic")
    done = hakmem("run", "--library", marker_library, "--", program)
    assert done.returncode == 0
    assert "defines free, malloc itself, so hakmem does not act on it" in done.stderr


def test_a_missing_interpreter_is_named(hakmem: Run, marker_library: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/shell\n")
    script.chmod(0o755)
    done = hakmem("run", "--library", marker_library, "--", script)
    assert done.returncode == 127
    assert "/no/such/shell, which is to run it, is not there" in done.stderr
