"""Whether hakmem would be active in a command, with which settings, and what `doctor` prints."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from examined import compiled, one

from hakmem.cli import main
from hakmem.commands.doctor import doctor
from hakmem.errors import HakmemError
from hakmem.insight import library_settings
from hakmem.insight.doctor import examine_command
from hakmem.insight.library_settings import ask

PLAIN = "int main(void) { return 0; }\n"
OWN_MALLOC = """
#include <stddef.h>
static char room[1 << 16];
void *malloc(size_t n) { static size_t used; used += (n + 15) & ~15ul; return room + used; }
void free(void *p) { (void)p; }
int main(int argc, char **argv) { (void)argv; free(malloc((size_t)argc)); return 0; }
"""


def test_command(library: Path) -> None:
    report = examine_command(Path("/bin/sh"), library, {"HAKMEM_CONF": "huge_pages:0"})
    assert report.active is True
    assert {s.name: s.source for s in report.settings}["huge_pages"] == "environment (HAKMEM_CONF)"


@pytest.mark.parametrize(
    ("source", "options", "text"),
    [
        (PLAIN, ["-static"], "statically linked"),
        (OWN_MALLOC, ["-rdynamic"], "defines free, malloc itself"),
        (PLAIN, ["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"], "made for musl"),
    ],
)
def test_commands_out_of_reach(
    tmp_path: Path, compiler: str, source: str, options: list[str], text: str
) -> None:
    program = compiled(compiler, tmp_path, source, *options)
    report = examine_command(program, None, {})
    assert report.active is False
    assert text in one(report, "problem", "program")


def test_static_go_is_not_to_be_linked(tmp_path: Path, compiler: str) -> None:
    """Go's runtime never calls malloc; the section tells such a program."""
    section = '__attribute__((section(".go.buildinfo"))) int built;\n'
    program = compiled(compiler, tmp_path, section + PLAIN, "-static")
    found = examine_command(program, None, {}).findings
    remedy = next(one.remedy for one in found if "statically linked" in one.text)
    assert "libhakmem.a" not in remedy
    assert "Go" in remedy


def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script"
    for line, name in (
        ("/no/such/shell -e", "/no/such/shell"),
        ("/usr/bin/env nobash", "nobash"),
    ):
        script.write_text(f"#!{line}\n")
        assert f"{name}, which is to run it" in one(
            examine_command(script, None, {}), "problem", "program"
        )


# As libhakmem.a has its code.
HAKMEM_CODE = '__attribute__((section("hak_text"))) int code(void) { return 0; }\n'


@pytest.mark.parametrize(
    ("source", "options"), [(OWN_MALLOC, ["-rdynamic"]), (PLAIN, ["-static", "-s"])]
)
def test_program_that_hakmem_is_linked_into(
    tmp_path: Path, compiler: str, source: str, options: list[str]
) -> None:
    program = compiled(compiler, tmp_path, source + HAKMEM_CODE, *options)
    report = examine_command(program, None, {})
    assert report.active is True
    assert "linked into it" in one(report, "ok", "program")
    assert [found for found in report.findings if found.verdict == "problem"] == []


def test_not_a_program(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"\0nothing\n")
    file.chmod(0o755)
    report = examine_command(file, None, {})
    assert report.active is False
    assert "no program" in one(report, "problem", "program")


def test_command_on_what_is_no_library(tmp_path: Path) -> None:
    file = tmp_path / "libhakmem.so"
    file.write_text("nothing\n")
    report = examine_command(Path("/bin/sh"), file, {})
    assert report.active is False
    assert "cannot be asked" in one(report, "problem", "library")


# Settings, for which the library is asked.


def test_bad_settings_are_the_library_s_to_name(library: Path) -> None:
    report = examine_command(Path("/bin/sh"), library, {"HAKMEM_RETIAN": "1M"})
    assert "did you mean 'retain'" in one(report, "problem", "settings")
    report = examine_command(Path("/bin/sh"), library, {"HAKMEM_XYZZY": "1"})
    assert one(report, "problem", "settings").endswith("'XYZZY' is ignored")


def test_texts_are_what_the_library_took(library: Path) -> None:
    answer = ask(library, {"HAKMEM_RULES": "/no/rules", "HAKMEM_OUTPUT": "o" * 256})
    values = {s.name: s.value for s in answer.settings}
    assert values["rules"] == "/no/rules"
    assert values["output"] == ""
    assert values["profile_output"] == ""


def test_values_are_shown_as_they_are_written(library: Path) -> None:
    answer = ask(library, {"HAKMEM_CONF": "keep:site,keep_time:1500,retain:64M,guards:3"})
    shown = {s.name: s.shown for s in answer.settings}
    assert (shown["keep"], shown["magazines"]) == ("site", "learnt")
    assert (shown["keep_time"], shown["retain"]) == ("1.5 s", "64.0 MiB")
    assert (shown["guards"], shown["huge_pages"], shown["rules"]) == ("3", "1", "")


def test_asking_what_is_no_library(tmp_path: Path) -> None:
    file = tmp_path / "libhakmem.so"
    file.write_text("nothing\n")
    with pytest.raises(HakmemError, match="cannot be asked for its settings"):
        ask(file, {})


def test_asking_leaves_the_files_of_who_is_asked_about(library: Path, tmp_path: Path) -> None:
    """Where they are named without %p, they are of the process that runs."""
    files = {name: tmp_path / name for name in ("HAKMEM_OUTPUT", "HAKMEM_PROFILE_OUTPUT")}
    for file in files.values():
        file.write_text("precious")
    own = {name: str(file) for name, file in files.items()} | {"HAKMEM_STATS": "1"}
    settings = {s.name: s.value for s in ask(library, own).settings}
    assert settings["output"] == own["HAKMEM_OUTPUT"]
    assert {file.read_text() for file in files.values()} == {"precious"}


@pytest.mark.parametrize(
    ("child", "patience_s", "said"),
    [
        ("print('nothing')", library_settings.TIMEOUT_S, "its answer is not JSON"),
        ("while True: pass", 1, "no answer within 1 s"),
    ],
)
def test_an_answer_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: str, patience_s: int, said: str
) -> None:
    script = tmp_path / "child.py"
    script.write_text(child)
    monkeypatch.setattr(library_settings, "CHILD", script)
    monkeypatch.setattr(library_settings, "TIMEOUT_S", patience_s)
    with pytest.raises(HakmemError, match=f"x.so: cannot be asked for its settings: {said}"):
        ask(Path("x.so"), {})


# What is printed.


def test_output(library: Path) -> None:
    result = CliRunner().invoke(
        doctor, ["--library", str(library), "--", "sh", "-c", "true"], standalone_mode=False
    )
    assert result.return_value == 0
    assert "would be active in /" in result.output
    assert "crash_log" in result.output


def test_options_may_follow_the_pid() -> None:
    result = CliRunner().invoke(doctor, [str(os.getpid()), "--problems"], standalone_mode=False)
    assert f"process {os.getpid()}" in result.output
    assert not any(line.startswith("ok ") for line in result.output.splitlines())


def test_two_processes_are_one_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "2468", "5"]) == 2
    assert "doctor takes one PID, not 2468, 5" in capsys.readouterr().err


def test_problems_only(tmp_path: Path, compiler: str) -> None:
    program = compiled(compiler, tmp_path, PLAIN, "-static")
    result = CliRunner().invoke(doctor, ["--problems", str(program)], standalone_mode=False)
    assert result.return_value == 1
    assert "would not be active" in result.output
    assert "link it with libhakmem.a" in result.output
    assert not any(line.startswith("ok ") for line in result.output.splitlines())


def test_no_target_has_no_verdict() -> None:
    result = CliRunner().invoke(doctor, [], standalone_mode=False)
    assert result.return_value == 0
    assert result.output.startswith("this system:")
