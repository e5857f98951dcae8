"""What the kernel tells, as text and words made by hand, and of this very process."""

import mmap
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hakmem.errors import HakmemError
from hakmem.insight import smaps
from hakmem.insight.smaps import Pages, pages_of, parse, read_pages, read_process

TEXT = """\
00400000-00500000 r-xp 00001000 08:01 1234                       /usr/bin/a program (deleted)
Size:               1024 kB
KernelPageSize:        4 kB
Rss:                 512 kB
Pss:                 100 kB
Swap:                 12 kB
AnonHugePages:         0 kB
VmFlags: rd ex mr mw me
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                2048 kB
AnonHugePages:      2048 kB
Swap:                  0 kB
VmFlags: rd wr mr mw me ac nh
7f0000400000-7f0000500000 rw-p 00000000 00:00 0                          [anon:buffers]
Rss:                   4 kB
7f0000500000-7f0000600000 rw-s 00000000 00:01 99                         /SYSV00000000 (deleted)
Rss:                   8 kB
"""
THERE, OWN, AWAY = 0x80, 0x81, 0x40
PAGE = 4096


def test_mappings_are_read_with_their_figures() -> None:
    found = parse(TEXT)
    program, plain, named, shared = found.rows
    assert program.path == "/usr/bin/a program (deleted)"
    assert (program.rss, program.swap, program.offset) == (512 << 10, 12 << 10, 0x1000)
    assert plain.anonymous
    assert plain.huge == 2 << 20
    assert "nh" in plain.flags
    assert named.anonymous
    assert not shared.anonymous
    assert found.rss == (512 + 2048 + 4 + 8) << 10
    assert found.swap == 12 << 10


def test_figures_that_are_none_are_passed_over() -> None:
    (mapping,) = parse("00400000-00500000 r-xp 0 08:01 1 /a\nRss: \0\0 kB\nSwap:\nRss: x kB\n").rows
    assert (mapping.rss, mapping.swap) == (0, 0)


def test_mappings_are_found_by_address() -> None:
    found = parse(TEXT)
    assert found.at(0x400000) == found.rows[0]
    assert found.at(0x4FFFFF) == found.rows[0]
    assert found.at(0x500000) is None
    assert found.at(0) is None


def test_maps_read_as_smaps_without_figures() -> None:
    lines = [line for line in TEXT.splitlines() if "-" in line.split()[0] and ":" in line]
    found = parse("\n".join(lines))
    assert len(found.rows) == 4
    assert found.rss == 0


def words(*tops: int) -> bytes:
    return bytes(tops)


def test_pages_are_there_or_not() -> None:
    assert pages_of(words(OWN, 0, AWAY, THERE), PAGE, 2 * PAGE) == bytes([1, 0, 0, 1])


def test_pages_of_zeros_do_not_count() -> None:
    read_only = words(OWN, THERE, THERE, OWN)
    assert pages_of(read_only, PAGE, 2 * PAGE) == bytes([1, 0, 0, 1])


def test_pages_that_a_fork_shares_count() -> None:
    shared = words(THERE, THERE, 0, OWN)
    assert pages_of(shared, PAGE, 3 * PAGE) == bytes([1, 1, 0, 1])


def test_a_range_counts_what_lies_in_it() -> None:
    pages = Pages(0x10000, PAGE, bytes([1, 0, 1, 1]), bytes([0, 1, 0, 0]))
    assert [pages.away_in(at, at + 2 * PAGE) for at in (0x10000, 0x12000)] == [PAGE, 0]
    assert pages.bytes_in(0x10000, 0x14000) == 3 * PAGE
    assert pages.bytes_in(0x12000, 0x13000) == PAGE
    assert pages.bytes_in(0, 0x11000) == PAGE
    assert pages.bytes_in(0x13000, 0x20000) == PAGE
    assert pages.bytes_in(0x20000, 0x30000) == 0


def test_the_kernel_shows_which_pages_were_touched() -> None:
    page = mmap.PAGESIZE
    with mmap.mmap(-1, 64 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for touched in (3, 4, 40):
            memory[touched * page] = 1
        found = read_process(os.getpid())
        touched_in = []
        for m in found.mappings.rows:
            if m.anonymous and m.size >= 64 * page:
                pages = read_pages(os.getpid(), [m], page)
                assert pages is not None
                touched_in.append(abs(pages[0].bytes_in(m.start, m.end) - m.rss))
        # What the interpreter allocates meanwhile is the only difference.
        assert touched_in
        assert sorted(touched_in)[0] <= 64 * page


def test_threads_are_told() -> None:
    found = read_process(os.getpid())
    assert os.getpid() in [thread.tid for thread in found.threads]
    assert found.program == str(Path(sys.executable).resolve())


def test_a_process_that_is_not_there() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    with pytest.raises(HakmemError, match=f"there is no process {child.pid}"):
        read_process(child.pid)


def test_the_kernels_own_processes_have_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smaps, "_read", lambda pid, name: "")
    with pytest.raises(HakmemError, match="process 2 has no memory"):
        read_process(2)


def test_another_users_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(
        HakmemError, match=r"smaps cannot be read: .* belongs to .*; ask as .*root$"
    ):
        read_process(os.getpid())


def test_pagemap_may_be_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("proc", "memory_folder"):
        monkeypatch.setattr(smaps, name, lambda pid: tmp_path)
    assert read_pages(1, [], PAGE) is None


def test_a_waiting_threads_stack_is_known(tmp_path: Path) -> None:
    (tmp_path / "syscall").write_text("0 0x3 0x1 0x2 0x0 0x0 0x0 0x7ffd1000 0x401000\n")
    assert smaps._stack_pointer(tmp_path) == 0x7FFD1000
    (tmp_path / "syscall").write_text("running\n")
    assert smaps._stack_pointer(tmp_path) is None
    (tmp_path / "syscall").write_text("-1 0x7ffd2000 0x401000\n")
    assert smaps._stack_pointer(tmp_path) == 0x7FFD2000


def test_pagemap_words_are_read_by_their_last_byte(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entries = [1 << 63 | 1 << 56, 0, 1 << 62, 1 << 63 | 1 << 56]
    (tmp_path / "pagemap").write_bytes(bytes(8 * 16) + struct.pack("<4Q", *entries))
    for name in ("proc", "memory_folder"):
        monkeypatch.setattr(smaps, name, lambda pid: tmp_path)
    monkeypatch.setattr(smaps, "CHUNK_PAGES", 3)
    mapping = smaps.Mapping(16 * PAGE, 20 * PAGE, "rw-p", 0, 0, "", rss=2 * PAGE)
    pages = read_pages(1, [mapping], PAGE)
    assert pages is not None
    assert pages[0].there == bytes([1, 0, 0, 1])


def test_threads_of_a_container_have_their_own_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder, numbers in (("", "4711\t1"), ("task/4711", "4711\t1"), ("task/4720", "4720\t9")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "status").write_text(f"Name:\tx\nNSpid:\t{numbers}\nVmRSS: 1 kB\n")
        (tmp_path / folder / "comm").write_text(f"name {numbers[-1]}\n")
    monkeypatch.setattr(smaps, "proc", lambda pid: tmp_path)
    assert [(t.tid, t.name) for t in smaps.read_threads(4711)] == [(1, "name 1"), (9, "name 9")]
