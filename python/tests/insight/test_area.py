"""Reading live areas: of processes, of files, and what is said when there is none."""

import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic_area import COUNTERS, Built, build, class_rows, heap, shapes, shown

from hakmem.errors import HakmemError
from hakmem.insight import attaching as module
from hakmem.insight.area import (
    DESCRIPTOR,
    HEADER,
    TEXT_BEGIN,
    TEXT_END,
    GoneError,
    NoAreaError,
    NotOnHakmemError,
    Saved,
    _settled,
    load,
    parse,
)
from hakmem.insight.attaching import (
    area_of,
    attach,
    program_of,
    read_maps,
)
from hakmem.pids import memory_folder

TABLES = {
    "process": [{"pid": 77, "page_size": 4096, "big_bytes": 1 << 40}],
    "classes": class_rows(),
    "heaps": [heap(0x1000, 7, by_class={3: (5, 6, 7, 8)}, refill=9), heap(0x2000, 8, 2)],
    "sites": [{"hash": 1 << 63, "stack": 0, "depth": 2, "lifetimes": list(range(8))}],
    "stacks": [{"address": 0xAAAA}, {"address": 0xBBBB}],
}
MAPS = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 12    /opt/a program/libx.so (deleted)\n"


IDS = "build-id 7f0000000000 c0ffee\nbuild-id 7f1200000000 beef\n"


@pytest.fixture(scope="module")
def built() -> Built:
    return build(TABLES)


def saved(folder: Path, data: bytes) -> Path:
    path = folder / "profile"
    path.write_bytes(data)
    return path


def test_a_row_that_is_being_written_is_left_out() -> None:
    old, new, half = b"1old", b"2new", b"1new"
    assert _settled(old + new, old + new, 4) == old + new
    assert _settled(half + new, new + new, 4) == bytes(4) + new


# A program at a random place, above what is mapped later.
ELSEWHERE = """\
7f00000000-7f00001000 rw-s 00000000 00:01 0    /SYSV00000000 (deleted)
7f00002000-7f00003000 rw-s 00000000 00:01 9    /memfd:pool (deleted)
7f00004000-7f00005000 r-xp 00000000 fe:00 12   /lib/libfirst.so
7f00006000-7f00007000 r--p 00000000 fe:00 13   /bin/a program
7f00007000-7f00008000 r-xp 00001000 fe:00 13   /bin/a program
"""


@pytest.mark.parametrize(
    ("line", "program"),
    [("program 7f00006000\n", "/bin/a program"), ("", "/lib/libfirst.so")],
)
def test_a_file_says_which_object_is_the_program(
    built: Built, tmp_path: Path, line: str, program: str
) -> None:
    text = f"{TEXT_BEGIN}{ELSEWHERE}{line}{IDS}{TEXT_END}"
    area = load(saved(tmp_path, built.data + text.encode()))
    assert area.maps_text == ELSEWHERE
    assert program_of(area) == program


@pytest.mark.parametrize(("before", "behind"), [(TEXT_BEGIN, TEXT_END), ("", "")])
def test_a_file_is_read_back(built: Built, tmp_path: Path, before: str, behind: str) -> None:
    path = saved(tmp_path, built.data + f"{before}{MAPS}{IDS}{behind}".encode())
    area = area_of(str(path))
    assert area.version == "9.9.9"
    assert area.pid == 77
    assert area.row("process")["big_bytes"] == 1 << 40
    assert area.maps_text == MAPS
    assert area.build_ids == {0x7F0000000000: "c0ffee", 0x7F1200000000: "beef"}
    first, second = area.table("heaps").rows()
    by_class = first["by_class"]
    assert isinstance(by_class, tuple)
    assert by_class[12:16] == (5, 6, 7, 8)
    assert sum(by_class) == 26
    assert (first["refill"], second["state"], second["refill"]) == (9, 2, 0)
    (site,) = area.table("sites").rows()
    assert site["lifetimes"] == tuple(range(8))
    assert site["hash"] == 1 << 63
    assert [row["address"] for row in area.table("stacks").rows()] == [0xAAAA, 0xBBBB]
    assert area.table("blocks").used == 0
    for name in ("address", "tid", "refill", "state"):
        assert area.table("heaps").column(name) == [row[name] for row in area.table("heaps").rows()]
    assert set(COUNTERS) < set(area.table("heaps").names)
    assert area.table("heaps").capacity == shapes()["heaps"].rows


def damaged(built: Built, offset: int, word: int) -> bytes:
    data = bytearray(built.data)
    struct.pack_into("<I", data, offset, word)
    return bytes(data)


def built_with(**tables: list[dict[str, int | list[int]]]) -> bytes:
    return build(TABLES | tables).data


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda b: b"", "not a profile"),
        (lambda b: b"#!/bin/sh\necho this is no profile at all\n", "not a profile"),
        (lambda b: b.data[:-1], "cut off"),
        (lambda b: damaged(b, 12, len(b.data) * 2), "cut off"),
        (lambda b: damaged(b, 16, 99), "damaged"),
        (lambda b: damaged(b, HEADER.size + 16, len(b.data)), "'process'.* damaged"),
        (lambda b: damaged(b, HEADER.size + 20, 8), "'process'.* damaged"),
        (lambda b: damaged(b, HEADER.size + 32, 0), "damaged"),
        (lambda b: damaged(b, HEADER.size + 32, len(b.data)), "damaged"),
        (lambda b: build(TABLES, magic=b"hakmem2\0").data, "layout '2'.*reads '1'"),
        (lambda b: b.data.replace(b"pid:u32", b"pid:f32"), "'pid:f32'"),
        # Rows of no words, and of more than any row has.
        (lambda b: b.data.replace(b"lifetimes:u32[8]", b"lifetimes:u32[0]"), "'lifetimes:u32.0.'"),
        (lambda b: b.data.replace(b"lifetimes:u32[", b"life:u32[99999"), "'life:u32.999998.'"),
        # What is divided by, counted with, or looked up.
        (lambda b: b.data.replace(b"page_size:u32", b"pagf_size:u32"), "no field 'page_size'"),
        (lambda b: b.data.replace(b"by_class:u32[", b"by_clans:u32["), "no field 'by_class'"),
        (lambda b: damaged(b, b.process_at + 4, 0), "'process' of its live area"),
        (lambda b: damaged(b, b.process_at + 4, 4097), "'process' of its live area"),
        (lambda b: built_with(classes=[{"size": 0}]), "'classes' of its live area"),
        (lambda b: built_with(classes=class_rows()[:5]), "'heaps' of its live area"),
        (
            lambda b: built_with(decisions=[{"number": 1, "key": 3}]),
            "'decisions' of its live area",
        ),
        (lambda b: built_with(blocks=[{"size": 1 << 58}]), "'blocks' of its live area"),
        (lambda b: built_with(blocks=[{"weight_bytes": 1 << 58}]), "'blocks' of its live area"),
        (lambda b: built_with(sites=[{"live_bytes": 1 << 58}]), "'sites' of its live area"),
        (lambda b: built_with(blocks=[{}, {"usable": 1 << 63}]), "'blocks' of its live area"),
    ],
)
def test_what_is_no_area_is_told(
    spoil: Callable[[Built], bytes], message: str, built: Built, tmp_path: Path
) -> None:
    path = saved(tmp_path, spoil(built))
    with pytest.raises(HakmemError, match=message):
        load(path)


def test_a_file_without_its_end_is_told(built: Built, tmp_path: Path) -> None:
    """Wherever it was cut off behind its tables."""
    text = f"{TEXT_BEGIN}{MAPS}{IDS}{Saved(1, 2, 'app').line()}{TEXT_END}".encode()
    for length in range(1, len(text)):
        with pytest.raises(NoAreaError, match="is cut off"):
            load(saved(tmp_path, built.data + text[:length]))
    assert load(saved(tmp_path, built.data + text)).saved == Saved(1, 2, "app")


def test_an_older_file_without_its_end_is_told(built: Built, tmp_path: Path) -> None:
    with pytest.raises(NoAreaError, match="is cut off"):
        load(saved(tmp_path, built.data + f"{MAPS}{IDS}"[:-3].encode()))


def test_more_rows_counted_than_there_is_room(built: Built, tmp_path: Path) -> None:
    names = list(shapes())
    used = HEADER.size + DESCRIPTOR.size * names.index("heaps") + 28
    area = load(saved(tmp_path, damaged(built, used, 1 << 31)))
    assert area.table("heaps").used == shapes()["heaps"].rows


def test_what_refers_to_rows_is_copied_before_them(built: Built) -> None:
    """Of a running process the rows that come meanwhile are there."""
    at: list[int] = []

    def read(offset: int, length: int) -> bytes:
        at.append(offset)
        return built.data[offset : offset + length]

    tables = parse(read, len(built.data), "here").tables
    first = {row.split(b"\0")[0].decode(): offset for row, offset in offsets(built.data)}
    order = sorted(tables, key=lambda name: at.index(first[name]))
    for refers, to in (
        ("blocks", "sites"),
        ("sites", "stacks"),
        ("decisions", "rules"),
        ("decisions", "classes"),
    ):
        assert order.index(refers) < order.index(to)


def offsets(data: bytes) -> list[tuple[bytes, int]]:
    """Name and place of each table."""
    count = HEADER.unpack_from(data)[3]
    rows = [DESCRIPTOR.unpack_from(data, HEADER.size + i * DESCRIPTOR.size) for i in range(count)]
    return [(name, offset) for name, offset, *_ in rows]


def test_a_missing_table_is_named(built: Built, tmp_path: Path) -> None:
    path = saved(tmp_path, built.data.replace(b"timeline", b"timetrap"))
    with pytest.raises(HakmemError, match=r"9\.9\.9 shows no table 'timeline'"):
        load(path).table("timeline")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(HakmemError, match="neither a process id nor a file"):
        area_of("nothing-here")
    with pytest.raises(HakmemError, match="a folder"):
        area_of(str(tmp_path))


def test_a_process_is_read_and_read_again(built: Built, tmp_path: Path) -> None:
    with shown(built, tmp_path) as pid:
        for _ in range(2):
            area = attach(pid)
            assert area.pid == pid
            assert area.row("process")["big_bytes"] == 1 << 40
            assert "libhakmem.so" in area.maps_text
        # Nothing stays attached, or it would outlive the process.
        assert "SYSV" not in Path("/proc/self/maps").read_text()
    with pytest.raises(GoneError, match=f"no process {pid}"):
        attach(pid)


def test_a_process_in_a_container_is_read_through_its_memory(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "same_ipc_namespace", lambda pid: False)
    with shown(built, tmp_path) as pid:
        try:
            os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
        except PermissionError:
            with pytest.raises(NoAreaError, match="in a container"):
                attach(pid)
        else:
            assert attach(pid).pid == pid


def test_an_inherited_area_is_the_parents(built: Built, tmp_path: Path) -> None:
    with (
        shown(built, tmp_path, pid="4000000") as pid,
        pytest.raises(NoAreaError, match=f"{pid} was forked from process 4000000"),
    ):
        attach(pid)


def test_a_thread_is_told_from_a_process(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id has the area of its process among its mappings, as a child would."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    number = thread.native_id
    assert number is not None
    found = [module.process_of(number), module.process_of(os.getpid())]
    over.set()
    thread.join()
    assert found == [os.getpid()] * 2
    monkeypatch.setattr(module, "process_of", lambda _: 77)
    with (
        shown(built, tmp_path, pid="4000000") as pid,
        pytest.raises(NoAreaError, match=f"{pid} is a thread of process 77: name that"),
    ):
        attach(pid)


def test_an_area_being_made_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0)
    unfinished = build(TABLES, magic=bytes(8))
    with (
        shown(unfinished, tmp_path) as pid,
        pytest.raises(NoAreaError, match="still making"),
    ):
        attach(pid)


def test_foreign_shared_memory_is_no_area(tmp_path: Path) -> None:
    other = build(TABLES, magic=b"\x7fELF\0\0\0\0")
    with shown(other, tmp_path) as pid, pytest.raises(NoAreaError, match="live:0"):
        attach(pid)
    with shown(other, tmp_path, library="") as pid, pytest.raises(NotOnHakmemError):
        attach(pid)


def test_not_on_hakmem() -> None:
    with pytest.raises(NotOnHakmemError, match="does not run on hakmem; start it with"):
        attach(os.getpid())


def test_process_that_root_may_not_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: str) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(NoAreaError, match=r"not even as root: in a container .* SYS_PTRACE"):
        read_maps(1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")
def test_of_another_user(built: Built, tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from hakmem.insight.area import NoAreaError\n"
        "from hakmem.insight.attaching import attach\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try:\n    attach(int(sys.argv[1]))\n"
        "except NoAreaError as error:\n    print(error)\n"
    )
    with shown(built, tmp_path) as pid:
        command = [sys.executable, "-I", "-c", script, str(pid)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == f"not permitted to look at process {pid}: run as root\n"


FIRST_THREAD_ENDS = """
import ctypes
libc = ctypes.CDLL(None)
thread = ctypes.c_ulong()
libc.pthread_create(ctypes.byref(thread), None, libc.pause, None)
libc.pthread_exit(None)
"""


def test_a_process_goes_on_without_its_first_thread() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", FIRST_THREAD_ENDS]) as process:
        try:
            while memory_folder(process.pid).name == str(process.pid):
                assert process.poll() is None
            assert memory_folder(process.pid).parent == Path(f"/proc/{process.pid}/task")
            assert "libc" in read_maps(process.pid)
        finally:
            process.kill()
    assert memory_folder(process.pid) == Path(f"/proc/{process.pid}")
