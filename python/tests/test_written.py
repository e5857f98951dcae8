"""What commands write is whole or not there."""

import os
import resource
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hakmem.errors import HakmemError
from hakmem.written import PRIVATE, try_file, write_file

MOST = 1 << 16


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may become larger than MOST."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_text_and_bytes(tmp_path: Path) -> None:
    for content in ("größer", b"\0\xff"):
        write_file(tmp_path / "file", content)
        expected = content.encode() if isinstance(content, str) else content
        assert (tmp_path / "file").read_bytes() == expected
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_no_utf_8_is_written_as_an_escape(tmp_path: Path) -> None:
    write_file(tmp_path / "file", "heap.\udcff")
    assert (tmp_path / "file").read_text() == "heap.\\udcff"


def test_refused_content_leaves_the_old_one(tmp_path: Path, small_files: None) -> None:
    file = tmp_path / "file"
    write_file(file, "old")
    with pytest.raises(HakmemError, match=rf"cannot write '{file}': File too large"):
        write_file(file, bytes(2 * MOST))
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_refused_content_leaves_no_file(tmp_path: Path, small_files: None) -> None:
    with pytest.raises(HakmemError, match="File too large"):
        write_file(tmp_path / "file", bytes(2 * MOST))
    assert not list(tmp_path.iterdir())


def test_full_device() -> None:
    with pytest.raises(HakmemError, match="cannot write '/dev/full': No space left on device"):
        write_file(Path("/dev/full"), "x")


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(HakmemError, match=r"cannot write '.*/none/file': No such file"):
        write_file(tmp_path / "none" / "file", "x")


def test_trying_leaves_a_file_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "file"
    try_file(file)
    assert not list(tmp_path.iterdir())
    file.write_text("old")
    try_file(file)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
    try_file(Path("/dev/null"))
    try_file(tmp_path / "a" / "b", folders=True)


def test_trying_names_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HakmemError, match=r"cannot write '.*/none/file': No such file"):
        try_file(tmp_path / "none" / "file")
    with pytest.raises(HakmemError, match=r"cannot write '.*/file/x': .*; name a file in a folder"):
        try_file(tmp_path / "file" / "x", folders=True)


def test_new_file_has_the_mode_that_is_wanted(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_file(tmp_path / "shared", "x")
        write_file(tmp_path / "private", "x", mode=PRIVATE)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("shared", "private")]
    assert modes == [0o644, 0o600]


def test_mode_and_link_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_file(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("way", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_an_open_file_is_added_to(tmp_path: Path, way: str) -> None:
    """As the output of a shell is that says >> log."""
    log = tmp_path / "log"
    log.write_text("precious\n")
    with log.open("a") as file:
        path = Path(way.format(file.fileno()))
        if way == "link":
            path = tmp_path / way
            path.symlink_to(f"/dev/fd/{file.fileno()}")
        names, node = sorted(tmp_path.iterdir()), log.stat().st_ino
        try_file(path)
        assert log.read_text() == "precious\n"
        write_file(path, "one\n")
        write_file(path, "two\n")
        file.write("three\n")
    assert log.read_text() == "precious\none\ntwo\nthree\n"
    assert log.stat().st_ino == node
    assert sorted(tmp_path.iterdir()) == names


def test_an_open_file_of_another_process_is_added_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("precious\n")
    waiting = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log.open("a"))
    path = Path(f"/proc/{waiting.pid}/fd/1")
    try_file(path)
    write_file(path, "one\n")
    waiting.communicate(b"two\n")
    assert log.read_text() == "precious\none\ntwo\n"


def test_what_is_not_open_for_writing(tmp_path: Path) -> None:
    (tmp_path / "read").touch()
    with (tmp_path / "read").open() as file:
        taken = Path(f"/dev/fd/{file.fileno()}")
        for refused in (write_file, lambda path, _: try_file(path)):
            with pytest.raises(HakmemError, match=f"cannot write '{taken}': Bad file descriptor"):
                refused(taken, "x")
            with pytest.raises(HakmemError, match="cannot write '/dev/fd/9999': No such file"):
                refused(Path("/dev/fd/9999"), "x")


def test_links_in_a_circle(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    for refused in (write_file, lambda path, _: try_file(path)):
        for path in (circle, circle / "file"):
            with pytest.raises(HakmemError, match="Too many levels of symbolic links"):
                refused(path, "x")
    assert circle.is_symlink()


def test_a_link_to_what_is_not_there_yet(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("file")
    write_file(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "x"


def test_names_as_long_as_they_may_be(tmp_path: Path) -> None:
    for name in ("n" * 255, "\N{GREEK SMALL LETTER PI}" * 127):
        try_file(tmp_path / name)
        write_file(tmp_path / name, "x")
        assert (tmp_path / name).read_text() == "x"
    for refused in (write_file, lambda path, _: try_file(path)):
        with pytest.raises(HakmemError, match="File name too long"):
            refused(tmp_path / ("n" * 256), "x")
