"""`hakmem run`: the program is unchanged but for what it was asked to be run with."""

import errno
import os
import signal
from pathlib import Path

import pytest
from conftest import OwnFailure, Run

from hakmem.cli import main
from hakmem.errors import HakmemError
from hakmem.launch import find_program, with_preload


def test_exit_status_is_the_programs(hakmem: Run, marker_library: Path) -> None:
    result = hakmem("run", "--library", marker_library, "--", "sh", "-c", "exit 42")
    assert result.returncode == 42
    assert "preloaded" in result.stderr


def test_death_by_signal_is_the_programs(hakmem: Run, marker_library: Path) -> None:
    result = hakmem("run", "--library", marker_library, "--", "sh", "-c", "kill -SEGV $$")
    assert result.returncode == -signal.SIGSEGV


def test_program_sees_default_signals(hakmem: Run, marker_library: Path) -> None:
    result = hakmem("run", "--library", marker_library, "grep", "SigIgn", "/proc/self/status")
    ignored = int(result.stdout.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


def test_options_after_the_program_are_the_programs(hakmem: Run, marker_library: Path) -> None:
    result = hakmem("run", "--library", marker_library, "echo", "--stats", "--help")
    assert result.stdout == "--stats --help\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--", "no-such-program"], 127, "not found"),
        (["--", "/no/such/program"], 127, "not found"),
        (["--", "n" * 5000], 127, f"hakmem: {'n' * 57}...: not found"),
        (["--", "/" + "n" * 5000], 127, f"hakmem: /{'n' * 56}...: not found"),
        (["--", "/etc/passwd"], 126, "cannot be run"),
        (["--", "/etc"], 126, "cannot be run"),
        (["--conf", "nonsense", "--", "true"], 125, "nonsense"),
        (["--profile", "nope", "--", "true"], 125, "tinyhot_best"),
        (["--profile", "", "--", "true"], 125, "no profile named ''; there are: default"),
        (["--no-such-option", "--", "true"], 125, "--no-such-option"),
        (["--json", "--", "true"], 125, "--json"),
    ],
)
def test_own_failures(
    own_failure: OwnFailure, arguments: list[str], status: int, message: str
) -> None:
    own_failure(arguments, status, message)


@pytest.mark.parametrize(
    ("library", "message"), [("/etc/passwd", "invalid ELF header"), ("libm.so.6", "has no malloc")]
)
def test_library_that_serves_nothing(hakmem: Run, library: str, message: str) -> None:
    path = next(Path("/").glob(f"usr/lib/*/{library}"), library)
    result = hakmem("run", "--library", path, "--", "echo", "started")
    assert (result.returncode, result.stdout) == (125, "")
    assert message in result.stderr
    assert "libhakmem.so" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_folder_that_may_not_be_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(HakmemError, match="nosuch: not found") as caught:
        find_program("nosuch", {"PATH": str(tmp_path)})
    assert caught.value.status == 127


def test_broken_program_cannot_run(hakmem: Run, marker_library: Path, tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_bytes(b"\x7fELF\0\0\0\0 not really")
    program.chmod(0o755)
    assert hakmem("run", "--library", marker_library, program).returncode == 126


def test_script_without_interpreter_line(hakmem: Run, marker_library: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "$0 $1"; exit 3\n')
    script.chmod(0o755)
    result = hakmem("run", "--library", marker_library, script, "argument")
    assert (result.returncode, result.stdout) == (3, f"{script} argument\n")


def test_clone_that_cannot_be_built(hakmem: Run) -> None:
    result = hakmem("run", "--", "true")
    assert result.returncode == 125
    assert "CMakePresets.json" in result.stderr


def test_what_nobody_has_thought_of_is_hakmems_own_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_down(*_: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("hakmem.settings.merged_environment", break_down)
    monkeypatch.setattr("hakmem.commands.stats._list", break_down)
    assert main(["run", "--", "true"]) == 125
    assert capsys.readouterr().err.endswith("RuntimeError: unforeseen\n")
    with pytest.raises(RuntimeError):
        main(["stats"])


def test_environment(hakmem: Run, marker_library: Path) -> None:
    arguments = ("--profile", "lean", "--conf", "retain:1M", "--stats", "--", "env")
    inherited = {"HAKMEM_PREFAULT": "1", "LD_LIBRARY_PATH": "/somewhere"}
    result = hakmem("run", "--library", marker_library, *arguments, environment=inherited)
    values = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    assert values["HAKMEM_CONF"] == "retain:1M"
    assert values["HAKMEM_STATS"] == "1"
    assert values["HAKMEM_PREFAULT"] == "1"
    assert values["HAKMEM_MAGAZINE_MAX"] == "16"
    assert values["LD_LIBRARY_PATH"] == f"/somewhere:{marker_library.parent}"
    assert "HAKMEM_RETAIN" not in values
    assert "CLONE_OF_HAKMEM" not in values


def test_preload_goes_before_what_is_preloaded() -> None:
    environment = with_preload({"LD_PRELOAD": "libother.so"}, Path("/lib/libhakmem.so"))
    assert environment["LD_PRELOAD"] == "/lib/libhakmem.so:libother.so"
    assert "LD_LIBRARY_PATH" not in environment


def test_warning_about_static_program(
    hakmem: Run, marker_library: Path, compiler: str, tmp_path: Path
) -> None:
    program = tmp_path / "static"
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 5; }\n")
    if os.system(f"{compiler} -static {source} -o {program}") != 0:
        pytest.skip("no static C library")
    result = hakmem("run", "--library", marker_library, program)
    assert result.returncode == 5
    assert "statically linked" in result.stderr


@pytest.mark.parametrize(("typed", "guess"), [("stat", "'stats'"), ("xyzzy", None)])
def test_a_command_is_guessed_only_if_alike(hakmem: Run, typed: str, guess: str | None) -> None:
    said = hakmem(typed).stderr
    assert ("Did you mean" in said) == (guess is not None)
    assert guess is None or guess in said


def test_help_is_for_where_it_is_called(hakmem: Run) -> None:
    """What only a clone has is not shown by an installed command."""
    installed = {"CLONE_OF_HAKMEM": ""}
    for command in ("run", "report", "compare"):
        assert f"\n    ./hakmem {command}" in hakmem(command, "--help").stdout
        said = hakmem(command, "--help", environment=installed).stdout
        assert f"\n    hakmem {command}" in said
        assert "./hakmem" not in said
    for environment, shown in (({}, True), (installed, False)):
        said = hakmem("--help", environment=environment).stdout
        assert all(
            (f"\n  {name} " in said) == shown for name in ("setup", "build", "test", "bench")
        )
        assert "\n  stats " in said
        assert ("drop-in malloc for Linux: build it" in said) == shown


@pytest.mark.parametrize("command", ["setup", "build", "test", "bench"])
def test_what_only_a_clone_has_is_refused_elsewhere(hakmem: Run, command: str) -> None:
    """Its help as well, which would be of what cannot be done."""
    for words in ((), ("--help",), ("-h",), ("--quick", "--a", "x")):
        done = hakmem(command, *words, environment={"CLONE_OF_HAKMEM": ""})
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "hakmem: this command works in a clone of hakmem only; start it as ./hakmem\n"
        )
