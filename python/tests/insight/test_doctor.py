"""Whether hakmem is active, and what is in its way: made-up trees of /proc and real processes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from hakmem.cli import main
from hakmem.commands.doctor import doctor
from hakmem.errors import HakmemError
from hakmem.insight import attaching, library_settings
from hakmem.insight.area import NoAreaError
from hakmem.insight.doctor import examine_command, examine_machine, examine_process
from hakmem.insight.findings import Report
from hakmem.insight.library_settings import ask

PID = 4711
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max stack size            {stack:<20} unlimited            bytes
Max resident set          {resident:<20} unlimited            bytes
Max processes             96365                96365                processes
Max locked memory         8388608              8388608              bytes
Max address space         {space:<20} unlimited            bytes
"""

Tree = Callable[[dict[str, str]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A system in which nothing is wrong, with some files changed."""

    def make(changed: dict[str, str]) -> Path:
        files = {
            "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
            "proc/sys/kernel/shmmni": "4096\n",
            "proc/sys/kernel/shmall": "18446744073692774399\n",
            "proc/sys/kernel/yama/ptrace_scope": "1\n",
            "proc/sys/vm/overcommit_memory": "0\n",
            "proc/sys/vm/overcommit_ratio": "50\n",
            "proc/sys/vm/max_map_count": "65530\n",
            "proc/meminfo": "CommitLimit: 1000000 kB\nCommitted_AS: 500000 kB\n",
            "proc/sysvipc/shm": "       key      shmid perms\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "sys/kernel/mm/transparent_hugepage/defrag": "always defer+madvise [madvise] never\n",
            **{f"proc/{who}/{name}": text for who in ("self", PID) for name, text in OWN.items()},
            f"proc/{PID}/comm": "server\n",
            f"proc/{PID}/environ": "LD_PRELOAD=/opt/libhakmem.so\0HOME=/\0",
            f"proc/{PID}/maps": maps("/usr/bin/server", "/opt/libhakmem.so"),
        }
        for name, text in (files | changed).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


OWN = {
    "cgroup": "0::/group\n",
    "limits": LIMITS.format(stack=8388608, resident="unlimited", space="unlimited"),
    "status": "Name:\tserver\nSeccomp:\t0\n",
}


def maps(*names: str) -> str:
    return "".join(
        f"7f00000{i}0000-7f00000{i}1000 r-xp 00000000 fe:00 {100 + i}      {name}\n"
        for i, name in enumerate(names)
    )


def said(report: Report, verdict: str) -> list[str]:
    return [f"{f.topic}: {f.text}" for f in report.findings if f.verdict == verdict]


def one(report: Report, verdict: str, topic: str) -> str:
    found = [f.text for f in report.findings if (f.verdict, f.topic) == (verdict, topic)]
    assert len(found) == 1, report.findings
    return found[0]


# The system.


def test_nothing_is_wrong(tree: Tree) -> None:
    report = examine_machine(tree({}))
    assert report.active is None
    assert {f.verdict for f in report.findings} == {"ok"}
    assert {f.topic for f in report.findings} == {
        *("kernel", "huge pages", "overcommit", "mappings", "cgroup", "limits", "live area"),
        "ptrace",
    }


@pytest.mark.parametrize(
    ("name", "content", "verdict", "topic", "text"),
    [
        ("proc/sys/kernel/osrelease", "5.10.0\n", "note", "kernel", "MADV_POPULATE_WRITE"),
        ("proc/sys/kernel/osrelease", "4.9.0\n", "note", "kernel", "MAP_FIXED_NOREPLACE"),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always madvise [never]\n",
            *("note", "huge pages", "no effect"),
        ),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never\n",
            *("ok", "huge pages", "blocks above 1 MiB"),
        ),
        (
            "sys/kernel/mm/transparent_hugepage/defrag",
            "[always] madvise never\n",
            *("note", "huge pages", "may wait"),
        ),
        ("proc/sys/vm/overcommit_memory", "2\n", "note", "overcommit", "488 MiB of 977 MiB"),
        ("proc/sys/vm/max_map_count", "1000\n", "note", "mappings", "fewer than usual"),
        (
            "sys/fs/cgroup/group/memory.max",
            "10485760\n",
            "problem",
            "cgroup",
            "9.90 MiB of 10.0 MiB",
        ),
        ("sys/fs/cgroup/memory.max", "11000000\n", "note", "cgroup", "9.90 MiB of 10.5 MiB"),
        ("sys/fs/cgroup/memory.max", "max\n", "ok", "cgroup", "no memory limit"),
        ("sys/fs/cgroup/memory.high", "10485760\n", "problem", "cgroup", "9.90 MiB of 10.0 MiB"),
        ("proc/sys/kernel/shmmni", "0\n", "problem", "live area", "0 segments are used"),
        ("proc/sys/kernel/shmall", "100\n", "note", "live area", "100 pages"),
    ],
)
def test_system(tree: Tree, name: str, content: str, verdict: str, topic: str, text: str) -> None:
    used = {
        "sys/fs/cgroup/group/memory.current": f"{int(9.9 * (1 << 20))}\n",
        "sys/fs/cgroup/memory.current": f"{int(9.9 * (1 << 20))}\n",
    }
    report = examine_machine(tree(used | {name: content}))
    assert text in "\n".join(
        f.text for f in report.findings if (f.verdict, f.topic) == (verdict, topic)
    )
    # Nothing else is spoken of as wrong.
    assert len(said(report, "problem") + said(report, "note")) == (verdict != "ok")


def test_overcommit_that_is_used_up(tree: Tree) -> None:
    memory = "CommitLimit: 1000000 kB\nCommitted_AS: 990000 kB\n"
    root = tree({"proc/sys/vm/overcommit_memory": "2\n", "proc/meminfo": memory})
    assert "967 MiB of 977 MiB" in one(examine_machine(root), "problem", "overcommit")


def test_cgroup_of_the_first_version(tree: Tree) -> None:
    root = tree(
        {
            "proc/self/cgroup": "3:cpu,memory:/a/b\n1:name=systemd:/a\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1048576\n",
            "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1040000\n",
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": "1040000\n",
        }
    )
    assert "1.00 MiB" in one(examine_machine(root), "problem", "cgroup")


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"stack": "unlimited", "resident": "unlimited", "space": "unlimited"}, "ulimit -s"),
        ({"stack": "8388608", "resident": "1000", "space": "unlimited"}, "ulimit -m"),
        ({"stack": "8388608", "resident": "unlimited", "space": "1073741824"}, "-v is 1.00 GiB"),
    ],
)
def test_limits(tree: Tree, limits: dict[str, str], text: str) -> None:
    report = examine_machine(tree({"proc/self/limits": LIMITS.format(**limits)}))
    assert text in one(report, "note", "limits")


# Processes, made up.


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


# Processes, real.


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


def test_real_process_without() -> None:
    with running(["cat"], {}) as pid:
        result = CliRunner().invoke(doctor, ["--json", str(pid)], standalone_mode=False)
    assert result.return_value == 1
    assert json.loads(result.output)["active"] is False


# Commands.


def test_command(library: Path) -> None:
    report = examine_command(Path("/bin/sh"), library, {"HAKMEM_CONF": "huge_pages:0"})
    assert report.active is True
    assert {s.name: s.source for s in report.settings}["huge_pages"] == "environment (HAKMEM_CONF)"


def test_bad_settings_are_the_library_s_to_name(library: Path) -> None:
    report = examine_command(Path("/bin/sh"), library, {"HAKMEM_RETIAN": "1M"})
    assert "did you mean 'retain'" in one(report, "problem", "settings")
    report = examine_command(Path("/bin/sh"), library, {"HAKMEM_XYZZY": "1"})
    assert one(report, "problem", "settings").endswith("'XYZZY' is ignored")


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


def compiled(compiler: str, folder: Path, source: str, *options: str) -> Path:
    program = folder / "program"
    (folder / "program.c").write_text(source)
    subprocess.run([compiler, folder / "program.c", "-o", program, *options], check=True)
    return program


PLAIN = "int main(void) { return 0; }\n"
OWN_MALLOC = """
#include <stddef.h>
static char room[1 << 16];
void *malloc(size_t n) { static size_t used; used += (n + 15) & ~15ul; return room + used; }
void free(void *p) { (void)p; }
int main(int argc, char **argv) { (void)argv; free(malloc((size_t)argc)); return 0; }
"""


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


def test_command_on_what_is_no_library(tmp_path: Path) -> None:
    file = tmp_path / "libhakmem.so"
    file.write_text("nothing\n")
    report = examine_command(Path("/bin/sh"), file, {})
    assert report.active is False
    assert "cannot be asked" in one(report, "problem", "library")


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


def test_cache_that_the_kernel_drops_is_not_used(tree: Tree) -> None:
    root = tree(
        {
            "sys/fs/cgroup/group/memory.max": "10485760\n",
            "sys/fs/cgroup/group/memory.current": "10400000\n",
            "sys/fs/cgroup/group/memory.stat": "inactive_file 8351424\nactive_file 2000000\n",
        }
    )
    assert "1.00 MiB of 10.0 MiB" in one(examine_machine(root), "ok", "cgroup")
