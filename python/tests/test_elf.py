"""What is read from a program's headers."""

import os
import stat
import struct
import sys
from pathlib import Path

import pytest

from hakmem.elf import (
    gains_privilege,
    missing_interpreter,
    preload_obstacle,
    program_behind,
    read_elf,
)
from hakmem.insight.images import read_image
from hakmem.insight.programs import read_program

MACHINE_OF_NOBODY = 0x7A7A


def write_elf(path: Path, bits: int, order: str, machine: int, segments: list[int]) -> Path:
    """The headers of a program and nothing behind them."""
    wide = bits == 64
    head, entry = (64, 56) if wide else (52, 32)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    word = "Q" if wide else "I"
    rest = (2, machine, 1, 0, head, 0, 0, head, entry, len(segments), 0, 0, 0)
    header = ident + struct.pack(f"{order}HHI{word}{word}{word}IHHHHHH", *rest)
    table = b"".join(struct.pack(order + "I", kind).ljust(entry, b"\0") for kind in segments)
    path.write_bytes(header + table)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("segments", [[1, 1], [6, 1, 3, 1], []])
def test_headers(tmp_path: Path, bits: int, order: str, segments: list[int]) -> None:
    header = read_elf(write_elf(tmp_path / "x", bits, order, 62, segments))
    assert header is not None
    assert (header.bits, header.machine, header.has_loader) == (bits, 62, 3 in segments)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(12), b"#!/bin/sh"])
def test_not_a_program(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert read_elf(path) is None


def test_own_interpreter_has_no_obstacle() -> None:
    assert preload_obstacle(Path(sys.executable)) is None


def test_static_and_foreign(tmp_path: Path) -> None:
    own = read_elf(Path(sys.executable))
    assert own is not None
    static = write_elf(tmp_path / "static", own.bits, "<", own.machine, [1])
    assert "statically linked" in (preload_obstacle(static) or "")
    foreign = write_elf(tmp_path / "foreign", own.bits, "<", MACHINE_OF_NOBODY, [3])
    assert "another kind of processor" in (preload_obstacle(foreign) or "")


def test_script_leads_to_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh -e\n")
    assert program_behind(script) == Path("/bin/sh")
    script.write_text("#!/usr/bin/env -S A=b sh\n")
    assert program_behind(script).name == "sh"
    script.write_text("#!/no/such/thing\n")
    assert program_behind(script) == script
    assert missing_interpreter(script) == "/no/such/thing"


def test_scripts_that_run_scripts(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text("#!/bin/sh\n")
    outer.write_text(f"#!{inner}\n")
    assert program_behind(outer) == Path("/bin/sh")
    inner.write_text(f"#!{outer}\n")  # each other, for ever
    assert program_behind(outer) in (inner, outer)


def test_text_that_names_no_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    assert program_behind(script) == script
    script.chmod(0o755)
    assert program_behind(script) == Path("/bin/sh")
    script.write_bytes(b"\x00\x01\n")
    assert program_behind(script) == script


def test_set_user_id(tmp_path: Path) -> None:
    program = write_elf(tmp_path / "x", 64, "<", 62, [3])
    program.chmod(0o755 | stat.S_ISUID)
    # One's own set-user-ID program gives nobody new rights to oneself.
    assert not gains_privilege(program)
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(program, 65534, -1)
    program.chmod(0o755 | stat.S_ISUID)
    assert "another user's rights" in (preload_obstacle(program) or "")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        read_elf(pipe)
    assert read_program(pipe) is None
    assert read_image(pipe) is None


def test_a_place_that_no_file_has(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF\x02\x01" + b"\0" * 26 + b"\xff" * 8 + b"\1" * 24)
    assert read_elf(broken) is None
    assert preload_obstacle(broken) is None
