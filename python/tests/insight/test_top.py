"""`hakmem top`: its pictures, its rates, and how it ends."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.cells import cell_len
from sample import MIB, sample
from synthetic_area import shown

from hakmem.cli import main
from hakmem.commands.top import _draw
from hakmem.insight import watch as module
from hakmem.insight.naming import naming_of
from hakmem.insight.watch import Everyone, Line, Look, Watch, sparkline

DEADLINE_S = 300.0


def drawn(watch: Watch, height: int) -> str:
    return "".join(f"{line.text}\n" for line in watch.picture(height))


def test_one_picture_of_a_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with shown(sample(), tmp_path) as pid:
        assert main(["top", str(pid), "--once"]) == 0
    out = capsys.readouterr().out
    assert f"({pid}) on hakmem 9.9.9, " in out
    assert re.search(r"RSS [\d.]+ MiB, peak [\d.]+ MiB    live 8\.87 MiB in 866 blocks", out)
    assert "requested 10.0 MiB, peak 12.0 MiB" in out
    assert "magazines 9.38 KiB    in slabs 16.9 KiB    dirty 212 KiB    cached 2.00 MiB" in out
    assert "allocated -    purged -    refills -    flushes -" in out
    assert "requested ▁▂▃▄▅▅▆▇██ since it began" in out
    # The class that keeps more unused comes first.
    assert re.search(r"^ *64 +860 .*\n *73,728 +2 ", out, re.MULTILINE)
    assert re.search(r"running +11 +1\.17 MiB +6\.25 KiB +-", out)
    assert re.search(r"5\.00 MiB +0 +0 B +\S", out)
    assert "\x1b" not in out


def test_without_a_terminal_it_is_one_picture_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown(sample(), tmp_path) as pid:
        assert main(["top"]) == 0
    out = capsys.readouterr().out
    assert re.search(rf"^ *{pid} +[\d.]+ MiB +8\.87 MiB +9\.38 KiB ", out, re.MULTILINE)


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with shown(sample(), tmp_path) as pid:
        assert main(["top", str(pid), "--once", "--json"]) == 0
        one = json.loads(capsys.readouterr().out)
        assert main(["top", "--once", "--json"]) == 0
        all_of_them = json.loads(capsys.readouterr().out)
    assert one["pid"] == pid
    assert one["call_sites"][0]["live_bytes"] == 5 * MIB
    assert pid in [found["pid"] for found in all_of_them]
    assert main(["top", "--json"]) == 2
    assert "add --once" in capsys.readouterr().err


def test_what_is_no_process(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("zero", "0", "-", ""):
        assert main(["top", wrong]) == 2
        assert f"'{wrong}' is no process id" in capsys.readouterr().err
    assert main(["top", str(os.getpid()), "--once"]) == 1
    assert "does not run on hakmem" in capsys.readouterr().err


def test_rates_are_by_the_time_between_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shown(sample(), tmp_path) as pid:
        watch = Watch.begin(pid)
    first = watch.look
    threads = [
        replace(t, counters=t.counters | {"refill": t.counters["refill"] + 30})
        for t in first.numbers.threads
    ]
    numbers = replace(
        first.numbers,
        counters=first.numbers.counters | {"refill": 102, "flush": 2},
        process=first.numbers.process | {"purged_bytes": 27 * MIB},
        threads=threads,
    )
    monkeypatch.setattr(module, "look_at", lambda pid: Look(first.at + 10, first.area, numbers))
    watch.again()
    text = drawn(watch, 40)
    assert "allocated 0 B/s    purged 2.00 MiB/s    refills 9/s    flushes 0/s" in text
    assert re.search(r"running +11 +1\.17 MiB +6\.25 KiB +3$", text, re.MULTILINE)
    assert "live      ██" in text


def test_a_low_terminal_gets_fewer_rows(tmp_path: Path) -> None:
    with shown(sample(), tmp_path) as pid:
        watch = Watch.begin(pid)
    for height in (26, 40, 80):
        assert drawn(watch, height).count("\n") <= height


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([0, 0], "▁▁"), ([1, 2, 4, 8], "▂▃▅█"), ([-5, 10**15], "▁█")],
)
def test_sparklines(values: list[int], bars: str) -> None:
    assert sparkline(values) == bars


def test_call_sites_without_the_package_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hakmem.insight.symbols", None)
    with shown(sample(), tmp_path) as pid:
        name = naming_of(module.look_at(pid).area)
    assert name([0x10, 0x20, 0x30, 0x40]) == "0x10 < 0x20 < 0x30"


def test_new_processes_are_looked_for_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pids() -> set[int]:
        return {n.pid for n in everyone.seen}

    now = 1000.0
    monkeypatch.setattr("hakmem.insight.watch.time.monotonic", lambda: now)
    everyone = Everyone()
    with shown(sample(), tmp_path) as pid:
        everyone.again()
        assert pid not in pids()
        now += module.LISTED_EVERY_S
        everyone.again()
        assert pid in pids()
    everyone.again()
    assert pid not in pids()


def test_mappings_are_not_read_again_at_each_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shown(sample(), tmp_path) as pid:
        monkeypatch.setattr(module.Targets, "current", lambda _: (str(pid),))
        everyone = Everyone()
        first = everyone.as_json()
        with monkeypatch.context() as without:
            without.setattr("hakmem.insight.attaching.read_maps", lambda _: pytest.fail("read"))
            everyone.again()
        assert [one["process"] for one in everyone.as_json()] == [one["process"] for one in first]
    everyone.again()
    assert everyone.seen == []


class Terminal:
    """The command line in a terminal of its own."""

    def __init__(self, *arguments: str, kind: str = "xterm") -> None:
        self.primary, secondary = pty.openpty()
        environment = {**os.environ, "TERM": kind, "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "hakmem", "top", *arguments],
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            env=environment,
        )
        os.close(secondary)
        self.text = ""

    def read_until(self, met: Callable[[str], Any]) -> None:
        end = time.monotonic() + DEADLINE_S
        while not met(self.text):
            assert time.monotonic() < end, self.text
            ready, _, _ = select.select([self.primary], [], [], 1)
            try:
                self.text += os.read(self.primary, 65536).decode(errors="replace") if ready else ""
            except OSError:
                # All have closed it: the command has ended.
                assert met(self.text), self.text

    def ended(self) -> int:
        status = self.process.wait(DEADLINE_S)
        os.close(self.primary)
        return status


def test_q_leaves(tmp_path: Path) -> None:
    with shown(sample(), tmp_path) as pid:
        terminal = Terminal(str(pid), "--interval", "0.1")
        terminal.read_until(lambda text: "refills 0/s" in text)
        os.write(terminal.primary, b"xq")
        # Back on the screen as it was before.
        terminal.read_until(lambda text: "\x1b[?1049l" in text)
        assert terminal.ended() == 0
    assert "the process has ended" not in terminal.text


def test_it_ends_with_the_process(tmp_path: Path) -> None:
    with ExitStack() as stack:
        pid = stack.enter_context(shown(sample(), tmp_path))
        terminal = Terminal(str(pid), "--interval", "0.1")
        terminal.read_until(lambda text: "on hakmem 9.9.9" in text)
        stack.close()
        terminal.read_until(lambda text: "the process has ended" in text)
        assert terminal.ended() == 0
    _, _, after = terminal.text.partition("\x1b[?1049l")
    assert "Size classes" in after


def test_a_terminal_that_cannot_show_it(tmp_path: Path) -> None:
    with shown(sample(), tmp_path) as pid:
        terminal = Terminal(str(pid), kind="dumb")
        terminal.read_until(lambda text: "use --once" in text)
        assert terminal.ended() == 1


def test_wide_letters_end_at_the_edge_as_well() -> None:
    class Screen:
        written: ClassVar[list[str]] = []

        def getmaxyx(self) -> tuple[int, int]:
            return 1, 21

        def addstr(self, row: int, column: int, text: str, attributes: int) -> None:
            self.written.append(text)

        def erase(self) -> None: ...

        refresh = erase

    class View:
        def picture(self, height: int) -> list[Line]:
            return [Line("4711 " + "\u6771\u4eac" * 40)]

    _draw(Screen(), View())  # type: ignore[arg-type]
    assert [cell_len(text) for text in Screen.written] == [20]
