"""Single runs: what they cost, how they fail, and what they see of the user's environment."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from hakmem.errors import HakmemError
from hakmem.lab import execute
from hakmem.lab.execute import (
    Executor,
    ensure_launcher,
    environment_for,
    interruptions_held,
    preload_problem,
    scratch_folder,
)
from hakmem.lab.model import Arm, Case
from hakmem.lab.timeline import Watch

GLIBC = Arm("glibc", "", None, kind="glibc")


def case(*command: str, timeout_s: float = 60, **others: object) -> Case:
    fixed = {"name": "case", "arguments": (), "threads": 1, "unit": "run"}
    words = {"models": "", "cannot_show": "", "command": command, "timeout_s": timeout_s}
    return Case(**(fixed | words | others))  # type: ignore[arg-type]


def shell(script: str, **others: object) -> Case:
    return case("/bin/sh", "-c", script, **others)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def launcher(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_launcher(tmp_path_factory.mktemp("launcher"))


@pytest.fixture
def executor(launcher: Path, tmp_path: Path) -> Executor:
    return Executor(launcher, tmp_path / "failures")


def test_launcher_is_compiled_once(launcher: Path) -> None:
    before = launcher.stat().st_mtime_ns
    assert ensure_launcher(launcher.parent) == launcher
    assert launcher.stat().st_mtime_ns == before


def test_no_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HakmemError, match="install gcc"):
        ensure_launcher(tmp_path)


def test_small_program_is_not_charged_for_the_interpreter(executor: Executor) -> None:
    own_kib = int(Path("/proc/self/statm").read_text().split()[1]) * 4
    sample = executor.run(case("/bin/true"), GLIBC)
    assert sample.failed is None
    assert 0 < sample.peak_rss_kib < own_kib / 2
    assert sample.time_s > 0
    assert sample.page_faults > 0


def test_processor_time_is_the_whole_trees(executor: Executor) -> None:
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    sample = executor.run(shell(f"/bin/sh -c '{burn}'; true"), GLIBC)
    assert sample.user_s + sample.sys_s > 0.01


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo wrong sum >&2; exit 1", "exit status 1: wrong sum"),
        ("kill -SEGV $$", "crashed, SIGSEGV"),
        ("exit 3", "exit status 3"),
    ],
)
def test_failures_say_why(executor: Executor, script: str, reason: str) -> None:
    assert executor.run(shell(script), GLIBC).failed == reason


def test_missing_program(executor: Executor) -> None:
    assert "No such file" in str(executor.run(case("/no/such/program"), GLIBC).failed)


def test_what_a_failed_run_said_is_kept(executor: Executor) -> None:
    executor.run(shell("echo out; echo err >&2; exit 1"), GLIBC)
    assert executor.failures is not None
    kept = (executor.failures / execute.failure_file("case", "glibc")).read_text()
    assert "out\n" in kept
    assert "err\n" in kept


def test_run_beside_another_keeps_its_failures_apart(tmp_path: Path) -> None:
    first, second = execute.failures_folder(tmp_path), execute.failures_folder(tmp_path)
    assert [first.name, second.name] == ["failures", "failures-2"]


def test_failures_of_a_run_that_has_ended_make_room(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from hakmem.lab.execute import failures_folder; "
    code += "print(failures_folder(Path(sys.argv[1])).name)"
    for _ in range(2):
        command = [sys.executable, "-c", code, tmp_path]
        assert subprocess.check_output(command, text=True) == "failures\n"


def test_time_out_ends_the_whole_tree(executor: Executor, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    sample = executor.run(shell(f"sleep 1000 & echo $! >{note}; wait", timeout_s=5), GLIBC)
    assert sample.failed == "no end within 5 s"
    assert gone(int(note.read_text()))


@pytest.mark.parametrize("number", [1, 2])
def test_writing_without_end_is_stopped(executor: Executor, number: int) -> None:
    """The file is long, and mostly a hole."""
    endless = f"truncate -s 2G /proc/self/fd/{number}; sleep 1000"
    sample = executor.run(shell(endless, timeout_s=100), GLIBC)
    assert str(sample.failed).startswith("it wrote more than 1 GiB")


def gone(pid: int) -> bool:
    """Waits for an orphan to be reaped, which is up to init."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_benchmarks_lines_win(executor: Executor) -> None:
    script = "echo ops 1000; echo time_s 0.5; echo p50_ns 12.5; echo peak_rss_kib 7; echo a b c"
    sample = executor.run(shell(script), GLIBC)
    assert (sample.ops, sample.time_s, sample.peak_rss_kib) == (1000, 0.5, 7)
    assert sample.extra == {"p50_ns": 12.5}
    assert sample.values()["ops_per_s"] == 2000


def test_a_programs_output_is_no_figure(executor: Executor) -> None:
    sample = executor.run(shell("echo time_s 99; echo ops 5", group="program"), GLIBC)
    assert sample.time_s < 99
    assert sample.ops is None


def test_prepared_folder_and_check(executor: Executor) -> None:
    def prepare(folder: Path) -> None:
        (folder / "input").write_text("42")

    def check(folder: Path, output: bytes) -> str | None:
        return None if output == (folder / "input").read_bytes() else "another output"

    assert executor.run(shell("cat input", prepare=prepare, check=check), GLIBC).failed is None
    wrong = executor.run(shell("echo 41", prepare=prepare, check=check), GLIBC)
    assert wrong.failed == "another output"

    def cannot(folder: Path) -> None:
        raise HakmemError("no input")

    assert executor.run(shell("true", prepare=cannot), GLIBC).failed == "no input"


def test_pinning(executor: Executor) -> None:
    cpu = max(os.sched_getaffinity(0))
    script = "import os; print('ops', 1 + max(os.sched_getaffinity(0)))"
    script += "; print('n', len(os.sched_getaffinity(0)))"
    sample = executor.run(case(sys.executable, "-c", script), GLIBC, cpu=cpu)
    assert sample.ops == 1 + cpu
    assert sample.extra["n"] == 1


def test_interruption_leaves_nothing_behind(executor: Executor) -> None:
    seen: list[int] = []

    def interrupt(pid: int) -> None:
        seen.append(pid)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor.run(case("/bin/sleep", "1000"), GLIBC, on_start=interrupt)
    assert gone(seen[0])


def test_users_settings_of_allocators_do_not_leak() -> None:
    base = {
        "PATH": "/bin",
        "LD_PRELOAD": "x.so",
        "MALLOC_CONF": "a:b",
        "MALLOC_ARENA_MAX": "1",
        "HAKMEM_STATS": "1",
        "_RJEM_MALLOC_CONF": "c",
        "GLIBC_TUNABLES": "d",
        "MIMALLOC_VERBOSE": "1",
        "HKM_WHALE_CAPACITY": "8",
    }
    arm = Arm("hakmem", "", None, {"HAKMEM_CONF": "retain:1M"}, "hakmem")
    assert environment_for(case("true"), GLIBC, base) == {"PATH": "/bin"}
    others = {"OPENSSL_CONF": "a", "PGSYSCONF": "b", "CONFIG": "c"}
    assert environment_for(case("true"), GLIBC, base | others) == {"PATH": "/bin"} | others
    assert environment_for(case("true"), arm, base) == {"PATH": "/bin", "HAKMEM_CONF": "retain:1M"}


def test_driver_gets_the_library_by_another_name() -> None:
    arm = Arm("peer", "", Path("/lib/peer.so"))
    found: Mapping[str, str] = environment_for(case("drive", self_preloading=True), arm, {})
    assert found == {"HAKMEM_ARM_PRELOAD": "/lib/peer.so"}


def test_each_run_has_a_copy_of_the_library(
    executor: Executor, marker_library: Path, tmp_path: Path
) -> None:
    noted = tmp_path / "noted"
    script = f'echo "$LD_PRELOAD" >> "{noted}" && cmp -s "$LD_PRELOAD" "{marker_library}"'
    for _ in range(2):
        assert executor.run(shell(script), Arm("peer", "", marker_library)).failed is None
    copies = noted.read_text().split()
    assert len({*copies, str(marker_library)}) == 3
    assert {Path(copy).name for copy in copies} == {marker_library.name}
    assert not any(Path(copy).exists() for copy in copies)


def test_library_that_would_miss_others_is_not_copied(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"...$ORIGIN/...")
    for arm in (GLIBC, Arm("peer", "", library), Arm("glibc", "", library, {}, "glibc")):
        assert execute.laid_anew(arm, tmp_path / "none") == arm


def test_library_that_does_not_load(marker_library: Path, tmp_path: Path) -> None:
    good = Arm("good", "", marker_library)
    assert preload_problem(good, os.environ) is None
    text = tmp_path / "text.so"
    text.write_text("no library")
    assert "cannot be preloaded" in str(preload_problem(Arm("bad", "", text), os.environ))
    assert "there is no" in str(preload_problem(Arm("bad", "", tmp_path / "none"), os.environ))


def test_memory_over_time(executor: Executor) -> None:
    """The program goes on until it was seen with its memory: no clock decides."""
    seen = Watch(0.002)

    def watch(pid: int) -> None:
        seen.start(pid)
        while not any(size > 50_000 for size in seen.sizes):
            time.sleep(0.01)
        os.kill(pid, signal.SIGTERM)

    script = "block = bytearray(b'x' * 60_000_000); import time; time.sleep(100)"
    executor.run(case(sys.executable, "-c", script), GLIBC, on_start=watch)
    seen.stop()
    assert seen.times == sorted(seen.times)
    assert len(seen.times) == len(seen.sizes)


def test_what_has_begun_is_known_before_an_interruption() -> None:
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    begun = False
    try:
        with pytest.raises(KeyboardInterrupt), interruptions_held():
            signal.raise_signal(signal.SIGINT)
            begun = True
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, usual)
    assert begun


def test_no_scratch_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rmtree, usual = shutil.rmtree, signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(place: str) -> None:
        signal.raise_signal(signal.SIGINT)
        rmtree(place)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt), scratch_folder() as place:
            (place / "file").touch()
    finally:
        signal.signal(signal.SIGINT, usual)
    assert list(tmp_path.iterdir()) == []
