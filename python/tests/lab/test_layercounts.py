"""Instructions by layer: what is read from a callgrind file, and a run in which they are known."""

import platform
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT

from hakmem.errors import HakmemError
from hakmem.lab import layercounts, layers
from hakmem.lab.execute import Executor, ensure_launcher
from hakmem.lab.layercounts import LayerCount, Sums
from hakmem.lab.layermap import LAYERS, Locator
from hakmem.lab.model import Arm, Case
from hakmem.lab.precise import instructions_in

LIBRARY = ROOT / "build" / "release" / "libhakmem.so"
OTHER = Path("/opt/libother.so")
CALLGRIND = """\
positions: instr
events: Ir Dr Dw I1mr D1mr D1mw
summary: 1234 0 0 0 0 0

ob=(1) /usr/bin/server
fl=(1) server.c
fn=(1) main
0x100 5
0x104 2 1 1 0 1 1
cob=(2) /opt/libother.so
cfi=(2) other.c
cfn=(2) malloc
calls=1 0x3a10
0x108 1000 9 9 9 9 9

ob=(2)
fl=(2)
fn=(2)
0x3a10 40 20 10 0 3
0x3a14 60 0 0 0 0 4
totals: 107
"""


def test_what_is_spent_in_a_call_is_the_callees() -> None:
    sums = layercounts.sums_by_layer(CALLGRIND, Locator(OTHER))
    assert sums == {"program": Sums(7, 2), "allocator": Sums(100, 7)}
    assert instructions_in(CALLGRIND, "server") == 7
    assert instructions_in(CALLGRIND, OTHER.name) == 100


def test_code_of_no_file_is_the_allocators_that_has_such_sections() -> None:
    text = CALLGRIND.replace("\nob=(2)\n", "\nob=(3) ???\n")
    there = layercounts.sums_by_layer(text, Locator(OTHER))
    assert there == {"program": Sums(7, 2), "allocator": Sums(100, 7)}
    for library in (None, LIBRARY):
        assert layercounts.sums_by_layer(text, Locator(library)) == {"program": Sums(107, 9)}


CASE = Case(
    name="churn",
    arguments=(),
    threads=1,
    unit="pair",
    models="",
    cannot_show="",
    command=("churn",),
    timeout_s=60,
    precise=(("20000",), ("60000",)),
)


def test_what_cannot_be_counted_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/valgrind")
    layercounts.require_countable(CASE)
    with pytest.raises(HakmemError, match="several threads"):
        layercounts.require_countable(replace(CASE, threads=2))
    with pytest.raises(HakmemError, match="no two lengths"):
        layercounts.require_countable(replace(CASE, precise=()))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(HakmemError, match="apt install valgrind"):
        layercounts.require_countable(CASE)


def test_layers_without_a_sample_have_what_was_counted() -> None:
    counted = {"entry": LayerCount(26.4, 0.1), "remote": LayerCount(0.01, 0.0)}
    (layer,) = layers._shares(Counter(), 0.0, 1000, counted)
    assert (layer.key, layer.share, layer.low, layer.high) == ("entry", 0.0, 0.0, 1.0)
    assert (layer.instructions_per_op, layer.d1_misses_per_op) == (26.4, 0.1)
    sampled, other = layers._shares(Counter(entry=30, program=10), 2.0, 1000, counted)
    assert (sampled.key, sampled.instructions_per_op) == ("program", None)
    assert (other.key, other.share, other.ns_per_op) == ("entry", 0.75, 1.5e6)


def test_an_allocator_that_does_not_start_has_a_note() -> None:
    def count(_: Locator) -> dict[str, LayerCount]:
        raise HakmemError("under callgrind: it does not start")

    assert layers._counted(count, Locator(OTHER)) == (
        {},
        ["Instructions are not counted by layer: under callgrind: it does not start."],
    )
    assert layers._counted(None, Locator(OTHER)) == ({}, [])


@pytest.mark.skipif(
    shutil.which("valgrind") is None or not LIBRARY.exists() or platform.machine() != "x86_64",
    reason="needs valgrind, a release build and the numbers of this machine",
)
def test_a_pair_takes_what_the_fast_paths_have(tmp_path: Path) -> None:
    source = tmp_path / "churn.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "int main(int c, char **v) { long n = atol(v[c - 1]);\n"
        "  for (long i = 0; i < n; i++) { char *volatile p = malloc(32); free(p); }\n"
        '  printf("ops %ld\\n", n); }\n',
        encoding="utf-8",
    )
    program = tmp_path / "churn"
    subprocess.run(["cc", "-O1", "-o", str(program), str(source)], check=True)
    case = replace(CASE, command=(str(program),))
    arm = Arm("hakmem", "", LIBRARY, {"HAKMEM_PROFILE": "0"})
    executor = Executor(ensure_launcher(tmp_path))
    found = layercounts.count_layers(case, arm, executor, Locator(LIBRARY))
    assert set(found) <= {layer.key for layer in LAYERS}
    inside = sum(count.instructions for key, count in found.items() if key != "program")
    # 15 and 19 with the jumps to slow paths, and the countdown's end now and then.
    assert 30 < inside < 40
    assert found["entry"].instructions > inside / 2
    assert 5 < found["program"].instructions < 20
    assert found["entry"].d1_misses < 0.1
