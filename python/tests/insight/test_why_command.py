"""`hakmem why` as users call it."""

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic_area
from click.testing import CliRunner, Result
from rich.console import Console
from synthetic_area import build, class_rows, heap, shown

from hakmem.commands.why import why
from hakmem.errors import HakmemError
from hakmem.insight import why as explaining
from hakmem.insight.why_view import print_explanation

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def built() -> synthetic_area.Built:
    """Without a window: the process that shows it is Python."""
    process: dict[str, int | list[int]] = {"page_size": PAGE, "interval": 524288}
    return build(
        {"process": [process], "settings": [{}], "classes": class_rows(), "heaps": [heap(4096, 1)]}
    )


def call(*arguments: str) -> Result:
    return CliRunner().invoke(why, list(arguments), catch_exceptions=False)


def test_rows_of_a_process_add_up(built: synthetic_area.Built, tmp_path: Path) -> None:
    with shown(built, tmp_path) as pid:
        result = call(str(pid), "--json")
    figures = json.loads(result.stdout)
    assert figures["pid"] == pid
    assert sum(row["bytes"] for row in figures["rows"]) == figures["rss"] > 0
    assert abs(figures["unexplained"]["bytes"]) == 0
    rows = {row["key"]: row for row in figures["rows"]}
    parts = {row["key"]: row["bytes"] for row in rows["metadata"]["children"]}
    assert parts["area"] >= PAGE
    assert {"program", "libraries"} & {row["key"] for row in rows["not_ours"]["children"]}


def test_the_table_names_the_process(built: synthetic_area.Built, tmp_path: Path) -> None:
    with shown(built, tmp_path) as pid:
        result = call(str(pid), "--all", "--classes", "--threads")
    assert f"RSS of process {pid}" in result.stdout
    assert "hakmem's metadata" in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("width", [40, 60, 80])
def test_figures_are_whole_where_there_is_little_room(
    built: synthetic_area.Built, tmp_path: Path, width: int
) -> None:
    with shown(built, tmp_path) as pid:
        seen = explaining.why(str(pid))
    note = "a note that takes more room than is left"
    rows = tuple(replace(row, note=note) for row in seen.rows)
    lines = io.StringIO()
    print_explanation(Console(file=lines, width=width), replace(seen, rows=rows), [], False)
    assert "…" not in lines.getvalue()
    for row in rows:
        assert re.search(rf" {row.bytes:,} .*[=~]", lines.getvalue())


def test_a_file_needs_no_process(built: synthetic_area.Built, tmp_path: Path) -> None:
    path = tmp_path / "heap.hakprof"
    path.write_bytes(built.data)
    result = call(str(path))
    assert "held by hakmem" in result.stdout
    assert "nothing that is not hakmem's" in result.stdout


def test_a_process_without_hakmem_is_an_error() -> None:
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        with pytest.raises(HakmemError, match="does not run on hakmem"):
            call(str(child.pid))
        child.stdin.close()


def test_the_best_of_several_looks_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from synthetic_process import World

    looks = []
    for dirty in (3, 1, 2, 5):
        world = World()
        world.heap(1)
        world.slab(1, 16)
        world.free_units(dirty, dirty=False)
        looks.append(world.explain())
    left = iter(looks)
    monkeypatch.setattr(explaining, "look", lambda pid: next(left))
    assert explaining.why("1") is looks[1]
    assert list(left) == []


def test_one_good_look_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    from synthetic_process import World

    world = World()
    world.heap(1)
    good = world.explain()
    calls: list[int] = []

    def look(pid: int) -> explaining.Explanation:
        calls.append(pid)
        return good

    monkeypatch.setattr(explaining, "look", look)
    assert explaining.why("7") is good
    assert calls == [7]
