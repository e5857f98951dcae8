"""`tune` as users call it, on the real library and a tiny program. Nobody judges its speed."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest
from conftest import ROOT

from hakmem.settings import parse_profile

LIBRARY = ROOT / "build" / "release" / "libhakmem.so"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tune(hakmem: Run, tmp_path: Path) -> Run:
    if not LIBRARY.exists():
        pytest.skip("the library is not built")
    fixed = ("--library", LIBRARY, "--output", tmp_path / "tiny.env")

    def run(
        *words: str | Path, stdout: int | TextIO = subprocess.PIPE
    ) -> subprocess.CompletedProcess[str]:
        return hakmem("tune", *fixed, *words, stdout=stdout)

    return run


def test_writes_a_profile_that_run_takes(tune: Run, hakmem: Run, tmp_path: Path) -> None:
    files = ("--json", tmp_path / "f.json", "--plot", tmp_path / "p.png")
    arms = ("--only", "prefault|mine", "--arm", "mine=retain:1M,huge_pages:0")
    done = tune("--runs", "10", *arms, *files, "--", "sh", "-c", "echo hidden")
    assert done.returncode == 0, done.stderr
    assert "hidden\n" not in done.stdout
    assert "\x1b[" not in done.stdout + done.stderr
    form = json.loads((tmp_path / "f.json").read_text())
    assert [arm["name"] for arm in form["arms"]] == ["default", "prefault:0", "mine"]
    assert form["arms"][2]["settings"] == {"HAKMEM_RETAIN": "1M", "HAKMEM_HUGE_PAGES": "0"}
    assert form["runs"] <= 10
    assert len(form["duels"]) == (form["runs"] - 1) // 2
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "tiny.env").read_text()
    assert "sh -c 'echo hidden'" in text
    chosen = form["leader"] if form["proven"] else "default"
    settings = next(arm["settings"] for arm in form["arms"] if arm["name"] == chosen)
    assert parse_profile(text, "tiny.env") == settings
    options = ("--library", LIBRARY, "--profile", tmp_path / "tiny.env")
    shown = hakmem("run", *options, "--", "sh", "-c", "env | grep ^HAKMEM_ | sort")
    assert shown.stdout.split() == sorted(f"{key}={value}" for key, value in settings.items())


def test_files_are_written_where_nothing_can_be_printed(tune: Run, tmp_path: Path) -> None:
    figures = tmp_path / "f.json"
    words = ("--runs", "5", "--only", "^retain:0$", "--json", figures)
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = tune(*words, "--", "true", stdout=full)
    assert "cannot write standard output" in done.stderr
    assert json.loads(figures.read_text())["runs"] == 5
    assert (tmp_path / "tiny.env").exists()


def test_json_alone_on_standard_output(tune: Run) -> None:
    done = tune("--runs", "5", "--only", "^retain:0$", "--json", "-", "--goal", "memory:1,cpu:1",
                "--", "sh", "-c", "echo $((1 + 1))")  # fmt: skip
    form = json.loads(done.stdout)
    assert form["goal"] == {"memory": 0.5, "cpu": 0.5}
    assert form["arms"][0]["medians"]["mean_memory"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--arm", "x=retian:1M"), "did you mean 'retain'"),
        (("--arm", "magazine_max:1"), "value '1' of 'magazine_max'"),
        (("--arm", "x=retain"), "key:value"),
        (("--arm", "nothing"), "no profile named 'nothing'; there are: default, lean"),
        (("--arm", "nothing.env"), "cannot read the profile nothing.env"),
        (("--arm", "lean"), "there is an arm 'lean' already"),
        (("--only", "nothing"), "matches none of retain:0"),
        (("--only", "("), "no regular expression"),
        (("--goal", "speed"), "'speed' is none of time"),
        (("--goal", "time,time:2"), "'time' is there twice"),
        (("--output", "here.txt"), "ends in .env"),
        (("--output", "no/where.env"), "cannot write 'no/where.env': No such file"),
        (("--json", "no/where.json"), "cannot write 'no/where.json': No such file"),
        (("--plot", "no/where.png"), "cannot write 'no/where.png': No such file"),
        (("--output", "p.env", "--json", "p.env"), "--json and --output are the same file"),
        (("--plot", "arms.foo"), "--plot arms.foo: a picture's name ends in .png"),
        (("--goal", "mean_memory", "--driver", "true", "--ready", "1"), "a server"),
    ],
)
def test_bad_input_is_named(tune: Run, words: tuple[str, ...], said: str) -> None:
    done = tune(*words, "--", "true")
    assert done.returncode == 125
    assert said in done.stderr


def test_command_that_fails_is_shown(tune: Run, tmp_path: Path) -> None:
    done = tune("--", "sh", "-c", "echo not today >&2; exit 3")
    assert done.returncode == 125
    assert "not today" in done.stderr
    assert "does not work on hakmem as it is: exit status 3" in done.stderr
    assert not (tmp_path / "tiny.env").exists()


@pytest.mark.parametrize("told_by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_on_a_terminal(tune: Run, tmp_path: Path, told_by: signal.Signals) -> None:
    """Shows the arms while it runs; each of these ends it with what is known by then."""
    count, scratch = tmp_path / "count", tmp_path / "scratch"
    scratch.mkdir()
    controller, terminal = pty.openpty()
    words = ["--library", LIBRARY, "--output", tmp_path / "t.env", "--budget", "5m", "--only", "re"]
    # From the eighth on runs are slow, so that no leader is clear before the signal comes.
    script = f"echo >> {count}; [ $(wc -c < {count}) -lt 8 ] || exec sleep 1"
    # What ignores a signal, as nohup does SIGHUP, hands that on, and then so does tune.
    tune_command = ["env", "--default-signal", sys.executable, "-I", "-m", "hakmem", "tune"]
    process = subprocess.Popen(
        [*tune_command, *words, "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        env=os.environ | {"CLONE_OF_HAKMEM": str(ROOT), "TERM": "xterm", "TMPDIR": str(scratch)},
    )
    os.close(terminal)
    seen = b""
    try:
        while b"running" not in seen or not count.exists() or count.stat().st_size < 8:
            seen += os.read(controller, 65536)
    finally:
        process.send_signal(told_by)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        try:
            seen += os.read(controller, 65536)
        except OSError:  # all of its ends are closed
            break
    output, _ = process.communicate(timeout=120)
    os.close(controller)
    assert process.returncode == 130
    assert list(scratch.iterdir()) == []
    assert "because it was interrupted" in output
    assert "\x1b[" in seen.decode()
    parse_profile((tmp_path / "t.env").read_text(), "t.env")
