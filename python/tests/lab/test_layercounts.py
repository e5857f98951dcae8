"""Instructions by layer: what is read from a callgrind file, and a run in which they are known."""

import shutil
import subprocess
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
    assert layercounts.sums_by_layer(text, Locator(None)) == {"program": Sums(107, 9)}


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
    assert layercounts.obstacle(CASE) is None
    assert "several threads" in (layercounts.obstacle(replace(CASE, threads=2)) or "")
    assert "no two lengths" in (layercounts.obstacle(replace(CASE, precise=())) or "")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "apt install valgrind" in (layercounts.obstacle(CASE) or "")


def test_an_allocator_that_does_not_start_has_a_note() -> None:
    def count(_: Locator) -> dict[str, LayerCount]:
        raise HakmemError("under callgrind: it does not start")

    assert layers._counted(count, Locator(OTHER)) == (
        {},
        ["Instructions are not counted by layer: under callgrind: it does not start."],
    )
    assert layers._counted(None, Locator(OTHER)) == ({}, [])


@pytest.mark.skipif(
    shutil.which("valgrind") is None or not LIBRARY.exists(), reason="valgrind, a release build"
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
    # 15 and 19, and the countdown's end now and then.
    assert 30 < inside < 40
    assert found["entry"].instructions > inside / 2
    assert 5 < found["program"].instructions < 20
    assert found["entry"].d1_misses < 0.1
