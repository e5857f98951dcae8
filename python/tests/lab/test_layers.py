"""The layer profile: how samples are placed, and what a real run of it says."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hakmem.errors import HakmemError
from hakmem.lab import layers, sampling
from hakmem.lab.layermap import LAYERS, RULES, Locator, kernel_layer, layer_of_source
from hakmem.lab.sampling import Frame, Stack

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "build" / "release" / "libhakmem.so"

PERF_SCRIPT = """
server
\tffffffff821f5127 exc_page_fault ([kernel.kallsyms])
\tffffffff81000c82 asm_exc_page_fault ([kernel.kallsyms])
\t          16e0ba __memset_avx2 (/usr/lib/libc.so.6)
\t    2c2a79e00000 [unknown] ([unknown])

server
\t            3a10 malloc (/opt/libhakmem.so.1.0.0)

kworker/0:1
\tffffffff82000000 worker_thread ([kernel.kallsyms])
"""

needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None or not LIBRARY.exists(), reason="needs perf and a release build"
)


def test_stacks_are_read_from_what_perf_prints() -> None:
    found = list(sampling._stacks(PERF_SCRIPT.splitlines()))
    assert found == [
        Stack(
            ("exc_page_fault", "asm_exc_page_fault"),
            Frame("__memset_avx2", "/usr/lib/libc.so.6", 0x16E0BA),
        ),
        Stack((), Frame("malloc", "/opt/libhakmem.so.1.0.0", 0x3A10)),
        Stack(("worker_thread",), None),
    ]


@pytest.mark.parametrize(
    ("frames", "layer"),
    [
        (("clear_page_erms", "asm_exc_page_fault"), "faults"),
        (("unmap_page_range", "__x64_sys_madvise", "do_syscall_64"), "memory_calls"),
        (("free_pages", "exit_mmap", "do_exit"), "memory_calls"),
        (("vfs_write", "__x64_sys_write"), "kernel"),
        # A fault taken inside a call is a fault.
        (("clear_page", "exc_page_fault", "copy_to_user", "__x64_sys_read"), "faults"),
    ],
)
def test_kernel_samples_are_told_apart_by_their_stacks(frames: tuple[str, ...], layer: str) -> None:
    assert kernel_layer(frames) == layer


@pytest.mark.parametrize(
    ("chain", "layer"),
    [
        ([("front_alloc", "/x/src/front/front.h"), ("malloc", "/x/src/api/malloc.c")], "entry"),
        ([("magazine_pop", "/x/src/heap/heap.h"), ("malloc", "/x/src/api/malloc.c")], "magazine"),
        # Small helpers of other layers count for who called them.
        ([("unit_of", "/x/src/region/region.h"), ("free", "/x/src/api/malloc.c")], "entry"),
        ([("lock_take", "/x/src/os/lock.h"), ("f", "/x/src/heap/remote.c")], "remote"),
        ([("slab_take", "/x/src/slab/slab.c")], "refill"),
        ([("purge_super", "/x/src/super/super.c")], "purge"),
        ([("units_take", "/x/src/super/super.c")], "pool"),
        ([("_init", "??")], None),
    ],
)
def test_sources_have_their_layer(chain: list[tuple[str, str]], layer: str | None) -> None:
    assert layer_of_source(chain) == layer


def test_every_source_of_the_allocator_has_a_layer() -> None:
    missing = [
        source
        for source in (ROOT / "src").glob("*/*.c")
        if layer_of_source([("any", str(source))]) is None
    ]
    assert not missing


def test_rules_name_what_is_there() -> None:
    known = {layer.key for layer in LAYERS}
    for rule in RULES:
        assert rule.layer in known
        assert (ROOT / "src" / rule.source).exists()
        if rule.function:
            text = (ROOT / "src" / rule.source).read_text(encoding="utf-8")
            assert f"{rule.function}" in text


def test_code_outside_the_allocator_is_the_programs() -> None:
    stack = Stack((), Frame("main", "/usr/bin/server", 0x100))
    assert Locator(Path("/opt/libjemalloc.so.2")).place_all([stack]) == [("program", "")]


def test_another_allocator_is_not_divided() -> None:
    stack = Stack((), Frame("je_malloc", "/opt/libjemalloc.so.2", 0x100))
    found = Locator(Path("/opt/libjemalloc.so.2")).place_all([stack])
    assert found == [("allocator", "je_malloc")]


def test_a_failing_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HakmemError, match="status 3"):
        layers.run_plainly(["sh", "-c", "exit 3"], {"PATH": "/usr/bin:/bin"}, tmp_path, None)


def test_counters_of_several_processes_add_up(tmp_path: Path) -> None:
    for number, text in enumerate(("hakmem statistics\nrefill 3\n", "refill 4\nflush 1\n")):
        (tmp_path / f"counters-{number}").write_text(text, encoding="utf-8")
    assert layers.read_counters(tmp_path.glob("*")) == {"refill": 7, "flush": 1}


def test_fresh_pages_cost_something() -> None:
    assert layers.measure_fault_cost().page_ns > 0


@needs_perf
def test_a_profile_of_a_real_program(tmp_path: Path) -> None:
    source = tmp_path / "churn.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "int main(void) { static void *p[5000]; unsigned s = 1;\n"
        "  for (int i = 0; i < 8000000; i++) { s = s * 1664525u + 1013904223u;\n"
        "    unsigned k = (s >> 8) % 5000; free(p[k]); p[k] = malloc(16 + s % 900); }\n"
        '  puts("ops 8000000"); }\n',
        encoding="utf-8",
    )
    program = tmp_path / "churn"
    subprocess.run(["cc", "-O1", "-o", str(program), str(source)], check=True)
    profile = layers.profile_layers([str(program)], None, LIBRARY)
    assert sum(layer.share for layer in profile.layers) == pytest.approx(1.0)
    assert profile.share_of("entry") > 0
    assert profile.share_of("entry") + profile.share_of("program") > 0.3
    assert profile.share_of("allocator") < 0.02
    assert profile.plain.ops == 8_000_000
    assert profile.plain.counters["refill"] > 0
    assert all(layer.low <= layer.share <= layer.high for layer in profile.layers)
    assert profile.as_json()["layers"][0]["key"]
