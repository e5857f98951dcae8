"""Whether hakmem is active in a process, and why not: made-up trees of /proc and real processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from examined import PID, Tree, compiled, make_tree, maps, one, said

from hakmem.cli import main
from hakmem.commands.doctor import doctor
from hakmem.errors import HakmemError
from hakmem.insight import attaching
from hakmem.insight.area import NoAreaError
from hakmem.insight.doctor import examine_process


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return partial(make_tree, tmp_path)


# Made up.


def test_process_that_is_served(tree: Tree) -> None:
    report = examine_process(PID, None, tree({}))
    assert report.active is True
    assert report.target == f"process {PID} (server)"
    assert "/opt/libhakmem.so is loaded" in one(report, "ok", "library")
    assert not said(report, "problem")


def test_name_that_a_terminal_would_obey(tree: Tree) -> None:
    report = examine_process(PID, None, tree({f"proc/{PID}/comm": "a\x1b]0;b\a\nc\n"}))
    assert report.target == f"process {PID} (a ]0;b c)"


def test_thread_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()
    monkeypatch.setattr(attaching, "process_of", lambda _: 4711)
    with pytest.raises(NoAreaError, match=f"{here} is a thread of process 4711: name that"):
        examine_process(here, None)


def test_process_that_is_not(tree: Tree) -> None:
    report = examine_process(PID, None, tree({f"proc/{PID}/maps": maps("/usr/bin/server")}))
    assert report.active is False
    problems = "\n".join(said(report, "problem"))
    assert "hakmem is not in this process" in problems
    assert "LD_PRELOAD names /opt/libhakmem.so" in problems
    assert "not there for the process" in problems


def test_process_with_another_malloc(tree: Tree) -> None:
    files = maps("/usr/bin/server", "/opt/libhakmem.so", "/usr/lib/libjemalloc.so.2")
    report = examine_process(PID, None, tree({f"proc/{PID}/maps": files}))
    assert "libjemalloc.so.2 is loaded too, but not" in one(report, "ok", "other malloc")
    preload = "LD_PRELOAD=/opt/libhakmem.so:/usr/lib/libjemalloc.so.2\0"
    both = {f"proc/{PID}/maps": files, f"proc/{PID}/environ": preload}
    report = examine_process(PID, None, tree(both))
    assert report.active is True
    assert "libjemalloc.so.2 is loaded too: who" in one(report, "note", "other malloc")
    both[f"proc/{PID}/environ"] = "LD_PRELOAD=/usr/lib/libjemalloc.so.2:/opt/libhakmem.so\0"
    report = examine_process(PID, None, tree(both))
    assert report.active is False
    assert "libjemalloc.so.2 before hakmem" in one(report, "problem", "other malloc")


def test_process_whose_library_was_replaced(tree: Tree) -> None:
    files = maps("/usr/bin/server", "/opt/libhakmem.so (deleted)")
    report = examine_process(PID, None, tree({f"proc/{PID}/maps": files}))
    assert report.active is True
    assert "replaced or removed" in one(report, "note", "library")


def test_other_preloads(tree: Tree) -> None:
    preload = "LD_PRELOAD=/opt/libhakmem.so:libfaketime.so.1 /usr/lib/libtcmalloc_minimal.so.4\0"
    system_wide = {f"proc/{PID}/root/etc/ld.so.preload": "/usr/lib/libeverywhere.so\n"}
    report = examine_process(PID, None, tree({f"proc/{PID}/environ": preload} | system_wide))
    assert "libtcmalloc_minimal.so.4 as well, another malloc" in one(report, "problem", "preload")
    notes = "\n".join(said(report, "note"))
    assert "libfaketime.so.1" in notes
    assert "/etc/ld.so.preload has /usr/lib/libeverywhere.so" in notes


@contextmanager
def zombie() -> Iterator[int]:
    """A process that has ended, and that nobody has waited for."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    yield child
    os.waitpid(child, 0)


@pytest.mark.parametrize("command", ["doctor", "why", "stats", "report"])
def test_process_without_memory(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing can be started on hakmem there."""
    with zombie() as pid:
        assert main([command, str(pid)]) == 1
    said = f"hakmem: process {pid} has no memory: it has ended, or is the kernel's\n"
    assert capsys.readouterr() == ("", said)


def test_set_user_id_process(tree: Tree) -> None:
    root = tree({f"proc/{PID}/maps": maps("/usr/bin/server")})
    secure = (23).to_bytes(8, "little") + (1).to_bytes(8, "little") + bytes(16)
    (root / f"proc/{PID}/auxv").write_bytes(secure)
    report = examine_process(PID, None, root)
    assert any("another user's rights" in text for text in said(report, "problem"))


def test_container_and_seccomp(tree: Tree) -> None:
    root = tree({f"proc/{PID}/status": "Seccomp:\t2\n"})
    for who, namespace in (("self", "mnt:[1]"), (str(PID), "mnt:[2]")):
        (root / f"proc/{who}/ns").mkdir()
        (root / f"proc/{who}/ns/mnt").symlink_to(namespace)
    report = examine_process(PID, None, root)
    assert "another mount namespace" in one(report, "note", "container")
    assert "shmget" in one(report, "note", "seccomp")


def test_mappings_nearly_used_up(tree: Tree) -> None:
    files = maps("/opt/libhakmem.so") * 900
    root = tree({f"proc/{PID}/maps": files, "proc/sys/vm/max_map_count": "1000\n"})
    assert "900 of them used" in one(examine_process(PID, None, root), "problem", "mappings")


def test_no_such_process() -> None:
    with pytest.raises(HakmemError, match="there is no process"):
        examine_process(1 << 22, None)


# Real.


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[int]:
    """A process that has started and waits."""
    process = subprocess.Popen(
        command, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(b"ready\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def test_real_process(library: Path) -> None:
    environment = {"LD_PRELOAD": str(library), "HAKMEM_RETAIN": "5M", "HAKMEM_OUTPUT": "/tmp/%p"}
    with running(["cat"], environment) as pid:
        report = examine_process(pid, library)
    assert report.active is True
    settings = {s.name: s for s in report.settings}
    assert settings["retain"].value == 5 << 20
    assert settings["retain"].source.startswith("environment")
    assert settings["huge_pages"].source == "default"
    assert settings["output"].value == "/tmp/%p"
    assert report.version


ECHO = """
#include <unistd.h>
int main(void)
{
    char line[6];
    for (ssize_t n; (n = read(0, line, sizeof line)) > 0;)
        if (write(1, line, (size_t)n) != n) return 1;
    return 0;
}
"""


@pytest.mark.parametrize(("order", "active"), [(["-lhakmem"], True), (["-lc", "-lhakmem"], False)])
def test_who_is_linked_first_serves(
    library: Path, tmp_path: Path, compiler: str, order: list[str], active: bool
) -> None:
    where = [f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-Wl,--no-as-needed"]
    program = compiled(compiler, tmp_path, ECHO, *where, *order)
    with running([str(program)], {}) as pid:
        report = examine_process(pid, library)
    assert report.active is active
    assert bool(said(report, "problem")) is not active


def test_what_was_opened_later_serves_nothing(library: Path) -> None:
    code = f"import ctypes, os; ctypes.CDLL({str(library)!r}); os.write(1, os.read(0, 6)); input()"
    with running([sys.executable, "-c", code], {}) as pid:
        report = examine_process(pid, library)
    assert report.active is False
    assert "malloc is the C library's all the same" in one(report, "problem", "library")


OTHER_MALLOC = """
#include <stdlib.h>
#include <string.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *), *__libc_memalign(size_t, size_t);
void *aligned_alloc(size_t to, size_t size) { return __libc_memalign(to, size); }
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t n, size_t size) { return __libc_calloc(n, size); }
void *realloc(void *p, size_t size) { return __libc_realloc(p, size); }
void free(void *p) { __libc_free(p); }
extern char **environ;
__attribute__((constructor)) static void forget(void)
{
    for (char **e = environ; *e != NULL; e++) memset(*e, 0, strlen(*e));
}
"""


def test_who_is_preloaded_later_serves_nothing(
    library: Path, tmp_path: Path, compiler: str
) -> None:
    """Told also where the program has overwritten its environment."""
    first = tmp_path / "libjemalloc.so.2"
    compiled(compiler, tmp_path, OTHER_MALLOC, "-shared", "-fPIC").rename(first)
    for order, active in ((f"{first}:{library}", False), (f"{library}:{first}", True)):
        with running(["cat"], {"LD_PRELOAD": order}) as pid:
            report = examine_process(pid, library)
        assert report.active is active
        assert bool(said(report, "problem")) is not active


def test_the_librarys_file_may_have_another_name(library: Path, tmp_path: Path) -> None:
    other = tmp_path / "malloc.so"
    other.write_bytes(library.read_bytes())
    with running(["cat"], {"LD_PRELOAD": str(other)}) as pid:
        report = examine_process(pid, library)
    assert report.active is True
    assert "another name" in one(report, "ok", "library")


def test_a_process_with_bad_settings(library: Path) -> None:
    environment = {
        "LD_PRELOAD": str(library),
        "HAKMEM_RETIAN": "64M",
        "HAKMEM_KEEP": "foo",
        "HAKMEM_CONF": "bogus:1,rules:another/folders",
    }
    with running(["cat"], environment) as pid:
        report = examine_process(pid, library)
    assert any(text.startswith("live area: is there") for text in said(report, "ok"))
    refused = [found for found in report.findings if found.topic == "settings"]
    assert len(refused) == 3
    for name in ("'bogus'", "'keep'", "'RETIAN'"):
        (found,) = (found for found in refused if name in found.text)
        assert found.verdict == "problem"
        assert "correct or remove the variable" in found.remedy


def test_real_process_without() -> None:
    with running(["cat"], {}) as pid:
        result = CliRunner().invoke(doctor, ["--json", str(pid)], standalone_mode=False)
    assert result.return_value == 1
    assert json.loads(result.output)["active"] is False
