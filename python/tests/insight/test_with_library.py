"""What another process reads is what the library says of itself when the program ends."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from hakmem.insight.area import NoAreaError, load
from hakmem.insight.attaching import attach
from hakmem.insight.doctor import examine_process
from hakmem.insight.magazines import read_lengths
from hakmem.insight.numbers import numbers_of
from hakmem.insight.processes import own_processes
from hakmem.insight.why import look

LIBRARY = ROOT / "build" / "release" / "libhakmem.so"

# Threads that end with some of their blocks alive, runs, big blocks; then it waits.
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *kept[150000];
static void *work(void *at)
{
    void **to = at;
    for (size_t i = 0; i < 50000; i++) {
        to[i] = malloc(i * 37 % 5000 + 1);
        if (i % 4 != 0) {
            free(to[i]);
            to[i] = NULL;
        }
    }
    return NULL;
}
int main(void)
{
    pthread_t threads[3];
    void *large[40];
    for (size_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, kept + i * 50000);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 40; i++)
        large[i] = malloc(300000 + i * 100000);
    char byte = large[39] != NULL ? 'r' : 'f';
    if (write(1, &byte, 1) != 1)
        return 1;
    return (int)read(0, &byte, 1);
}
"""
# By the library's name for it, where that is another.
NAMES = {"super_bytes": "mapped_bytes", "big_cached": "big_cached_bytes"}
# The library itself says of a magazine how long it was when last refilled or flushed.
LAGGING = ("small", "magazine", "live")


def test_linked_in_it_is_seen_as_well(compiler: str, tmp_path: Path) -> None:
    archive = LIBRARY.with_suffix(".a")
    if not archive.exists():
        pytest.skip("the library is not built")
    (tmp_path / "program.c").write_text(PROGRAM)
    program = tmp_path / "program"
    command = [compiler, tmp_path / "program.c", archive, "-o", program, "-pthread"]
    subprocess.run(command, check=True)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.read(1) == b"r"
        assert child.pid in own_processes()
        assert examine_process(child.pid, None).active is True
        child.stdin.close()


@pytest.fixture
def program(compiler: str, tmp_path: Path) -> Path:
    if not LIBRARY.exists():
        pytest.skip("the library is not built")
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    made = tmp_path / "program"
    # -fno-builtin: or the compiler would leave out blocks that nobody looks at.
    subprocess.run([compiler, "-fno-builtin", "-pthread", source, "-o", made], check=True)
    return made


def test_figures_agree_with_the_librarys_own(program: Path, tmp_path: Path) -> None:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    printed = tmp_path / "printed"
    own = {"LD_PRELOAD": str(LIBRARY), "HAKMEM_STATS": "1", "HAKMEM_OUTPUT": str(printed)}
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=inherited | own
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"r"
        command = [sys.executable, "-I", "-m", "hakmem", "stats", str(process.pid), "--json"]
        result = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        process.communicate()
    seen = json.loads(result.stdout)["process"]
    said = {
        NAMES.get(name, name): int(value)
        for name, value in re.findall(r"^(\w+) (\d+)$", printed.read_text(), re.MULTILINE)
    }
    compared = {name: said[name] for name in seen.keys() & said.keys()}
    exact = {name for name in compared if not name.startswith(LAGGING)}
    assert {"run_bytes", "big_bytes", "slab_bytes", "mapped_bytes", "dirty_bytes"} < exact
    assert {name: seen[name] for name in exact} == {name: compared[name] for name in exact}
    for unit in ("bytes", "blocks"):
        parts = [f"small_{unit}", f"magazine_{unit}"]
        assert sum(seen[name] for name in parts) == sum(said[name] for name in parts)
    assert seen["small_blocks"] == pytest.approx(said["small_blocks"], rel=0.01)


def test_what_lies_in_magazines_is_not_in_use(library: Path) -> None:
    """Threads that have freed half of what they had, all of which their magazines have room for."""
    threads, made, size = 20, 24, 4000
    code = f"""
import ctypes, threading
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
waiting, go_on = threading.Barrier({threads + 1}), threading.Event()
def work():
    for block in [libc.malloc({size}) for _ in range({made})][::2]:
        libc.free(block)
    waiting.wait()
    go_on.wait()
for _ in range({threads}):
    threading.Thread(target=work).start()
waiting.wait()
print(flush=True)
input()
go_on.set()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_PRELOAD": str(library), "HAKMEM_PROFILE": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"\n"
        area = attach(child.pid)
        lengths = read_lengths(child.pid, area)
        seen = numbers_of(area, child.pid)
        child.communicate(b"\n")
    if lengths is None:
        pytest.skip("the kernel does not let one read the process")
    held = next(c for c in seen.classes if c.size >= size)
    assert 0 <= held.blocks - threads * made // 2 <= 10  # some are Python's


def test_side_arrays_that_have_grown_are_metadata(library: Path) -> None:
    units, unit, line = 6400, 1 << 16, 64  # a line of each unit, and there is more
    code = f"x = [bytes({unit} * 3 // 4) for _ in range({units})]; print(flush=True); input()"
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONMALLOC": "malloc"}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"\n"
        assert look(child.pid).bytes("arrays") >= units * line
        child.communicate(b"\n")


def test_a_profile_that_was_cut_off_is_told(library: Path, tmp_path: Path) -> None:
    """At the end of one of its last lines, as well as anywhere else."""
    file = tmp_path / "heap"
    own = {"LD_PRELOAD": str(library), "HAKMEM_PROFILE_OUTPUT": str(file)}
    subprocess.run(["cat", "/dev/null"], env=os.environ | own, check=True)
    whole = file.read_bytes()
    assert load(file).build_ids
    for cut in (whole.rindex(b"end\n"), whole.rindex(b"build-id"), len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(NoAreaError, match="is cut off"):
            load(file)


def test_a_setting_that_the_program_changes_is_shown(library: Path) -> None:
    code = "import ctypes; ctypes.CDLL(None).mallopt(-1, 4 << 20); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_PRELOAD": str(library)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"\n"
        assert numbers_of(attach(child.pid), child.pid).settings["retain"] == (4 << 20, "program")
        child.communicate(b"\n")
