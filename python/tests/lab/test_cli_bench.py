"""`compare` and `bench` as users call them."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic_results import suite_results

from hakmem.lab.serve import ServeError, drive

# The suite and the goals are the clone's.
IN_CLONE = {"CLONE_OF_HAKMEM": str(Path(__file__).resolve().parents[3])}

Run = Callable[..., subprocess.CompletedProcess[str]]

SERVER = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready to serve", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def compare(hakmem: Run, marker_library: Path, tmp_path: Path, compiler: str) -> Run:
    """Two rounds under glibc and a library that only says that it is there."""

    def run(*words: str | Path, arms: str = "glibc,hakmem") -> subprocess.CompletedProcess[str]:
        fixed = ("--rounds", "2", "--arms", arms, "--library", marker_library)
        files = ("--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
        return hakmem("compare", *fixed, *files, *words)

    return run


def rows(tmp_path: Path) -> dict[str, dict[str, Any]]:
    form = json.loads((tmp_path / "r.json").read_text())
    return {row["allocator"]: row for row in form["rows"] if row["metric"] == "time_s"}


def test_compare(compare: Run, tmp_path: Path) -> None:
    done = compare("--", "sh", "-c", "echo to be hidden")
    assert done.returncode == 0, done.stderr
    assert "to be hidden\n" not in done.stdout + done.stderr
    assert "geometric mean" not in done.stdout
    assert "hakmem" in done.stdout.splitlines()[-1]
    assert {name: len(row["samples"]) for name, row in rows(tmp_path).items()} == {
        "glibc": 2,
        "hakmem": 2,
    }
    assert (tmp_path / "r.html").read_text().startswith("<!")
    assert "\x1b[" not in done.stdout + done.stderr


def test_json_to_standard_output(compare: Run) -> None:
    done = compare("--json", "-", "--", "true")
    assert {row["allocator"] for row in json.loads(done.stdout)["rows"]} == {"glibc", "hakmem"}


def test_one_crashing_arm_is_a_row(compare: Run, library: Path, tmp_path: Path) -> None:
    script = 'if [ -n "$HAKMEM_CONF" ]; then echo oh no >&2; kill -ABRT $$; fi'
    words = ("--library", library, "--", "sh", "-c", script)
    done = compare(*words, arms="glibc,hakmem,retain:1M")
    assert done.returncode == 0, done.stderr
    assert "oh no" in done.stderr
    assert "SIGABRT" in rows(tmp_path)["retain:1M"]["failed"]
    assert rows(tmp_path)["glibc"]["failed"] is None
    assert "SIGABRT" in done.stdout


@pytest.mark.parametrize("wrong", ["retian:1M", "retain:much"])
def test_settings_that_the_library_does_not_know(compare: Run, library: Path, wrong: str) -> None:
    done = compare("--library", library, "--", "true", arms=f"glibc,{wrong}")
    assert done.returncode == 125
    assert f"hakmem: arm {wrong}: " in done.stderr
    assert "is ignored" in done.stderr


def test_command_that_works_nowhere(compare: Run) -> None:
    done = compare("--", "sh", "-c", "echo not today >&2; exit 3")
    assert done.returncode == 125
    assert "nothing to compare" in done.stderr
    assert "not today" in done.stderr


def test_time_that_is_up_before_a_round_is_no_failure(hakmem: Run, marker_library: Path) -> None:
    fixed = ("--arms", "glibc,hakmem", "--library", marker_library, "--budget", "0.5s")
    done = hakmem("compare", *fixed, "--", "sleep", "1")
    assert done.returncode == 125
    assert "a round of sleep 1 takes longer than --budget" in done.stderr
    assert "watching" not in done.stderr


@pytest.mark.parametrize("words", [("compare", "--rounds", "none"), ("tune", "--runs", "none")])
def test_what_is_typed_wrong_is_the_wrappers_failure(hakmem: Run, words: tuple[str, ...]) -> None:
    done = hakmem(*words, "--", "true")
    assert done.returncode == 125
    assert "Usage: ./hakmem" in done.stderr


def test_command_that_is_not_there(compare: Run) -> None:
    done = compare("--", "no-such-command")
    assert done.returncode == 127
    assert done.stderr.strip() == "hakmem: no-such-command: not found"


def test_time_out_is_a_failure(compare: Run) -> None:
    done = compare("--timeout", "0.2s", "--", "sleep", "100")
    assert done.returncode == 125
    assert "no end within 0.2 s" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "soon"), "'soon' is no time"),
        (("--budget", "0"), "'0' is too short"),
        (("--timeout", "0s"), "'0s' is too short"),
        (("--timeout", "1000h"), "'1000h' is too long; at most 168h"),
        (("--budget", "9" * 400), f"'{'9' * 57}...' is too long; at most 168h"),
        (("--arms", ""), "--arms '': a comparison needs two; there are: glibc"),
        (("--metric", "beauty"), "--metric beauty: a command's run has none; there are time_s, "),
        (("--metric", "ops_per_s"), "--metric ops_per_s: a command's run has none; "),
        (("--ready", "80"), "--ready belongs to --driver"),
        (("--arms", "glibc,hoard"), "no allocator named 'hoard'"),
        (("--driver", "true"), "--ready PORT or REGEX"),
        (("--driver", "tr'ue", "--ready", "80"), "--driver tr'ue: No closing quotation"),
        (("--driver", "", "--ready", "80"), "--driver '' names no command"),
        (("--driver", "true", "--ready", "("), "--ready ( is no regular expression"),
        (("--driver", "true", "--ready", "99999"), "a port is a number from 1 to 65535"),
        (("--driver", "true", "--ready", ""), "--ready '' is neither"),
        (("--json", "/proc/r.json"), "cannot write '/proc/r.json': "),
        (("--json", "no/where.json"), "cannot write 'no/where.json': No such file"),
        (("--html", "no/where.html"), "cannot write 'no/where.html': No such file"),
        (("--png", "/proc/none"), "cannot write '/proc/none': "),
        (("--png", "no/where"), "cannot write 'no/where': No such file"),
        (("--png", "/dev/null"), "cannot write '/dev/null/picture.png': "),
        (("--markdown", "/proc/r.md"), "cannot write '/proc/r.md': "),
    ],
)
def test_users_mistakes_are_named(compare: Run, words: tuple[str, ...], said: str) -> None:
    done = compare(*words, "--", "true")
    assert done.returncode == 125
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "measuring" not in done.stderr


def test_every_run_reads_all_of_the_input(
    marker_library: Path, tmp_path: Path, compiler: str
) -> None:
    source = tmp_path / "input"
    source.write_text("all of it")
    command = [sys.executable, "-I", "-m", "hakmem", "compare", "--rounds", "2"]
    command += ["--arms", "glibc,hakmem", "--library", str(marker_library)]
    command += ["--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html")]
    command += ["--", "sh", "-c", 'test "$(cat)" = "all of it"']
    home = {"XDG_CACHE_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with source.open() as file:
        done = subprocess.run(command, stdin=file, env=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_server_with_a_driver(compare: Run, tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    driven = ("--driver", "sh -c true", "--ready", "^ready to")
    done = compare(*driven, "--", sys.executable, server)
    assert done.returncode == 0, done.stderr + done.stdout
    found = rows(tmp_path)
    assert [row["failed"] for row in found.values()] == [None, None]
    assert all(0 < value < 60 for row in found.values() for value in row["samples"])


@pytest.mark.parametrize(
    ("driver", "server", "said"),
    [
        ("false", SERVER, "the driver ended with 1"),
        ("true", "raise SystemExit('no room')", "ended before it was ready: no room"),
    ],
)
def test_server_that_fails(
    compare: Run, tmp_path: Path, driver: str, server: str, said: str
) -> None:
    script = tmp_path / "server.py"
    script.write_text(server)
    done = compare("--driver", driver, "--ready", "ready", "--", sys.executable, script)
    assert done.returncode == 125
    assert said in done.stderr


def test_server_that_is_never_ready(compare: Run, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    for ready, shown in ((port, f"on port {port}"), ("^done", "(^done)")):
        driven = ("--driver", "true", "--ready", ready)
        done = compare("--timeout", "1s", *driven, "--", sys.executable, script)
        assert done.returncode == 125
        assert f"was not ready {shown} within 1 s (see --ready, --timeou" in done.stderr
        assert "no end within" not in done.stderr


def test_driver_that_takes_too_long() -> None:
    with pytest.raises(ServeError, match=r"the driver did not end within .* \(see --timeout\)"):
        drive(["sleep", "99"], time.monotonic() + 0.1)


def test_bench_mistakes_are_named(hakmem: Run, tmp_path: Path) -> None:
    both = hakmem("bench", "--a", ".", "--arms", "glibc")
    assert both.returncode == 2
    assert "without --arms" in both.stderr
    other = tmp_path / "other.json"
    other.write_text("{}")
    wrong = hakmem("bench", "--quick", "--against", other)
    assert wrong.returncode == 1
    assert "no baseline" in wrong.stderr


def test_a_saved_run_is_shown_and_judged_again(hakmem: Run, tmp_path: Path) -> None:
    saved, tables, page = (tmp_path / name for name in ("s.json", "t.md", "p.html"))
    suite_results(rounds=3).save(saved)
    files = ("--markdown", tables, "--html", page, "--json", tmp_path / "again.json")
    done = hakmem("bench", "--from", saved, "--goals", *files, environment=IN_CLONE)
    assert done.returncode == 0, done.stderr
    goals = json.loads((tmp_path / "again.json").read_text())["goals"]
    assert {goal["verdict"] for goal in goals} <= {"holds", "does not hold", "cannot tell"}
    assert all(goal["name"] in tables.read_text() for goal in goals)
    assert f"of {len(goals)} hold" in done.stdout
    assert 'id="goals"' in page.read_text()
    plain = hakmem("bench", "--from", saved, environment=IN_CLONE)
    assert plain.returncode == 0, plain.stderr
    assert "Goals" not in plain.stdout
    assert not (tmp_path / "clone" / "build").exists()


@pytest.mark.parametrize(("option", "begin"), [("--html", "<!"), ("--markdown", "")])
def test_page_and_tables_to_standard_output(
    hakmem: Run, tmp_path: Path, option: str, begin: str
) -> None:
    saved, kept = tmp_path / "s.json", tmp_path / "kept"
    suite_results(rounds=3).save(saved)
    command = ("bench", "--from", saved, option)
    done = hakmem(*command, "-", environment=IN_CLONE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(begin)
    hakmem(*command, kept, environment=IN_CLONE)
    assert done.stdout == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--json", "-", "--markdown", "-"), "--json -, --markdown -: standard output takes one"),
        (("--save-baseline", "-"), "--save-baseline -: that is for later; name a file"),
        (("--goals", "--a", "."), "without --a and --b"),
        (("--goals", "--a", ""), "without --a and --b"),
        (("--a", ".", "--arms", ""), "without --arms"),
        (("--from", "FILE", "--arms", ""), "--from shows what was measured"),
        (("--from", "FILE", "--layers", ""), "--from shows what was measured"),
        (("--from", "FILE", "--quick"), "--from shows what was measured"),
        (("--from", "FILE", "--layers", "json"), "--from shows what was measured"),
        (("--from", "FILE"), "does not hold results"),
    ],
)
def test_goals_and_from_are_refused(
    hakmem: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "f.json").write_text("{}")
    done = hakmem("bench", *(tmp_path / "f.json" if word == "FILE" else word for word in words))
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def worse(saved: Path, path: Path) -> Path:
    """The same run, in which hakmem takes twice the memory."""
    form = json.loads(saved.read_text())
    for row in form["rows"]:
        if row["allocator"] == "hakmem" and row["metric"] == "peak_rss_kib":
            row["samples"] = [2 * value for value in row["samples"]]
    path.write_text(json.dumps(form))
    return path


def test_what_is_compared_with_is_not_replaced(hakmem: Run, tmp_path: Path) -> None:
    saved, kept = tmp_path / "s.json", tmp_path / "base.json"
    suite_results(rounds=7).save(saved)
    slow = worse(saved, tmp_path / "slow.json")
    assert hakmem("bench", "--from", saved, "--save-baseline", kept).returncode == 0
    before, link = kept.read_bytes(), tmp_path / "link"
    link.symlink_to(kept)
    for same in (kept, link):
        done = hakmem("bench", "--from", slow, "--against", kept, "--save-baseline", same)
        assert done.returncode == 2
        assert f"--save-baseline and {kept} are the same file" in done.stderr
        assert kept.read_bytes() == before
    new = tmp_path / "new.json"
    done = hakmem("bench", "--from", slow, "--against", kept, "--save-baseline", new)
    assert done.returncode == 1
    assert f"figures are worse than in {kept}" in done.stdout
    assert new.exists()


def test_what_is_no_baseline_is_told_before_anything_is_written(
    hakmem: Run, tmp_path: Path
) -> None:
    saved, page = tmp_path / "s.json", tmp_path / "page.html"
    suite_results(rounds=3).save(saved)
    done = hakmem("bench", "--from", saved, "--against", saved, "--html", page)
    assert done.returncode == 1
    assert "is no baseline" in done.stderr
    assert not page.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--markdown", "s.json"), "--markdown and s.json are the same file"),
        (("--json", "s.json"), "--json and s.json are the same file"),
        (("--json", "o", "--save-baseline", "./o"), "--save-baseline and --json are the same file"),
    ],
)
def test_no_file_takes_two_results(
    hakmem: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    suite_results(rounds=3).save(Path("s.json"))
    before = Path("s.json").read_bytes()
    done = hakmem("bench", "--from", "s.json", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert Path("s.json").read_bytes() == before
    assert not Path("o").exists()


def test_help_has_examples(hakmem: Run) -> None:
    for command in ("bench", "compare"):
        done = hakmem(command, "--help")
        assert done.returncode == 0
        assert f"./hakmem {command}" in done.stdout


def test_run_does_without_the_laboratorys_packages() -> None:
    """They are installed on the first bench or compare only."""
    script = (
        "import os, sys\n"
        "sys.modules.update(dict.fromkeys(('numpy', 'scipy', 'matplotlib', 'jinja2')))\n"
        "from hakmem.cli import main\n"
        "for words in (['--help'], ['bench', '--help'], ['run', '--help']):\n"
        "    os.environ['CLONE_OF_HAKMEM'] = '/'\n"
        "    assert main(words) == 0\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
