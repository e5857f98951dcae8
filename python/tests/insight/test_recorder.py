"""`hakmem run --report`: the program is as without it, and its profile becomes a page."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import OwnFailure, Run
from synthetic_area import build

from hakmem.insight.area import load
from hakmem.insight.profile import profile_of
from hakmem.insight.recorder import MOST_POINTS, PAUSE_S, ResidentMemory

OBJECT = 1024
# What hakmem does at the end of a process: copies its area into the file it was told.
WRITER = """
import os, struct, sys, time
data = bytearray(open(sys.argv[1], "rb").read())
def write_profile():
    struct.pack_into("<I", data, int(sys.argv[2]), os.getpid())
    name = os.environ["HAKMEM_PROFILE_OUTPUT"].replace("%p", str(os.getpid()))
    open(name, "wb").write(data + open("/proc/self/maps", "rb").read())
"""


@pytest.fixture
def writer(tmp_path: Path) -> list[str | Path]:
    """A program that leaves a profile, and its first arguments; a script file comes before them."""
    site = {
        "hash": 1,
        "depth": 1,
        "live_bytes": 3 << 20,
        "live_objects": 3 * OBJECT,
        "peak_bytes": 3 << 20,
        "peak_objects": 3 * OBJECT,
        "total_bytes": 3 << 20,
        "total_objects": 3 * OBJECT,
        "first_ms": 1500,
        "last_ms": 2500,
        "samples": 3,
        "live_samples": 3,
    }
    block = {"address": 64, "size": 1 << 20, "usable": 1 << 20, "weight_bytes": 1 << 20}
    built = build(
        {
            "process": [
                {"page_size": 4096, "shown_ms": 1000, "changed_ms": 9000, "interval": 524288}
            ],
            "settings": [{"retain": 1}],
            "sites": [site],
            "stacks": [{"address": 0x1234}],
            "blocks": [{**block, "weight_objects": OBJECT, "born_ms": 1500 + i} for i in range(3)],
            "timeline": [{"ms": 1000 * i, "live_bytes": i << 20} for i in range(1, 9)],
        }
    )
    area = tmp_path / "area"
    area.write_bytes(built.data)
    return [area, str(built.process_at)]


def script(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(WRITER + text)
    return path


@pytest.fixture
def reported(hakmem: Run, marker_library: Path) -> Run:
    """Runs a program with `--report`: the page, then the program's words."""
    return lambda page, *program: hakmem(
        "run", "--library", marker_library, "--report", page, "--", *program
    )


def test_page_of_a_program(reported: Run, tmp_path: Path, writer: list[str | Path]) -> None:
    program = script(
        tmp_path,
        'print(os.environ["HAKMEM_PROFILE_UNWIND"])\nwrite_profile()\n'
        "time.sleep(0.5)\nsys.exit(42)\n",
    )
    page = tmp_path / "page.html"
    result = reported(page, sys.executable, "-S", program, *writer)
    assert result.returncode == 42, result.stderr
    assert result.stdout == "1\n"
    assert "preloaded" in result.stderr
    text = page.read_text(encoding="utf-8")
    assert "3.00 MiB at the peak, 3.00 MiB left after " in text
    assert '"first":1' in text
    assert str(program) in text
    assert '"rss":[]' not in text


def test_children_are_counted(reported: Run, tmp_path: Path, writer: list[str | Path]) -> None:
    program = script(tmp_path, "if not os.fork():\n write_profile(); os._exit(0)\nos.wait()\n")
    page = tmp_path / "page.html"
    result = reported(page, sys.executable, "-S", program, *writer)
    assert result.returncode == 0
    assert "the one with most of those that it started and that left a profile (1)" in result.stderr
    assert "3.00 MiB at the peak, 3.00 MiB left after " in page.read_text(encoding="utf-8")


def test_profile_is_kept_if_the_page_cannot_be_written(
    reported: Run, tmp_path: Path, writer: list[str | Path]
) -> None:
    result = reported(
        "/dev/full", sys.executable, "-S", script(tmp_path, "write_profile()"), *writer
    )
    assert result.returncode == 0
    assert "No space left" in result.stderr
    kept = re.search(r"kept: hakmem report (\S+)", result.stderr)
    assert kept
    assert load(Path(kept[1]))
    Path(kept[1]).unlink()


@pytest.mark.parametrize("conf", [[], ["--conf", "profile:0"]])
def test_profile_without_samples_is_not_kept(
    hakmem: Run, marker_library: Path, tmp_path: Path, conf: list[str]
) -> None:
    interval = 0 if conf else 4096
    process = {"page_size": 4096, "shown_ms": 1000, "changed_ms": 9000, "interval": interval}
    built = build({"process": [process], "settings": [{"retain": 1}]})
    area, temporary = tmp_path / "area", tmp_path / "temporary"
    area.write_bytes(built.data)
    temporary.mkdir()
    program = [sys.executable, "-S", script(tmp_path, "write_profile()"), area, built.process_at]
    command = ["run", "--library", marker_library, *conf, "--report", tmp_path / "page.html"]
    result = hakmem(*command, "--", *program, environment={"TMPDIR": str(temporary)})
    assert result.returncode == 0
    assert ("leave profile:0 out of --conf" if conf else "has no samples") in result.stderr
    assert ["kept" in result.stderr, "HAKMEM_PROFILE=1" in result.stderr] == [False, False]
    assert not list(temporary.iterdir())


def test_a_page_behind_links_in_a_circle(own_failure: OwnFailure, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.symlink_to(page)
    message = f"cannot write '{page}': Too many levels of symbolic links"
    own_failure(["--report", str(page), "--", "true"], 125, message)


def test_a_place_of_the_users_in_either_case(
    hakmem: Run, marker_library: Path, tmp_path: Path
) -> None:
    command = ["run", "--library", marker_library, "--report", tmp_path / "page.html", "--"]
    for environment, named in (
        ({"HAKMEM_profile_output": "mine"}, "leave HAKMEM_profile_output out of"),
        ({"HAKMEM_CONF": "PROFILE_OUTPUT:mine"}, "leave profile_output out of"),
    ):
        result = hakmem(*command, "echo", "ran", environment=environment)
        assert (result.returncode, result.stdout) == (125, "")
        assert named in result.stderr
    result = hakmem(*command, "env", environment={"HAKMEM_profile_output": ""})
    assert "HAKMEM_profile_output" not in result.stdout
    assert "HAKMEM_PROFILE_OUTPUT=/" in result.stdout


@pytest.mark.parametrize("origin", ["environment", "profile"])
def test_a_place_of_the_users_for_the_profile_is_refused(
    hakmem: Run, marker_library: Path, tmp_path: Path, origin: str
) -> None:
    settings = tmp_path / "own.env"
    settings.write_text("HAKMEM_CONF=profile_output:mine\n")
    profile = ["--profile", settings] if origin == "profile" else []
    environment = {} if profile else {"HAKMEM_PROFILE_OUTPUT": "mine"}
    command = ["run", "--library", marker_library, *profile, "--report", tmp_path / "page.html"]
    result = hakmem(*command, "--", "echo", "ran", environment=environment)
    assert (result.returncode, result.stdout) == (125, "")
    assert "leave HAKMEM_PROFILE_OUTPUT out of the environment and of --profile" in result.stderr


def test_a_temporary_folder_that_the_library_would_not_find(
    hakmem: Run, marker_library: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a%pb"
    folder.mkdir()
    command = ["run", "--library", marker_library, "--report", tmp_path / "page.html"]
    result = hakmem(*command, "--", "echo", "ran", environment={"TMPDIR": str(folder)})
    assert (result.returncode, result.stdout) == (125, "")
    assert "set TMPDIR to another folder" in result.stderr


def test_program_ended_by_a_signal(reported: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = reported(page, "sh", "-c", "kill -SEGV $$")
    assert result.returncode == 128 + signal.SIGSEGV
    assert "SIGSEGV ended the program" in result.stderr
    assert not page.exists()


LEAVING = """
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words)
{
    for (int i = 0; i < 64; i++)
        memset(malloc(1 << 20), 1, 1 << 20);
    usleep(300000);
    if (count > 2)
        execv(words[2], (char *[]){words[2], words[1], NULL});
    if (atoi(words[1]) == 0)
        _exit(3);
    raise(atoi(words[1]));
    return 1;
}
"""


@pytest.fixture(scope="module")
def leaving(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Allocates 64 MiB and ends by a signal, or becomes another program first."""
    folder = tmp_path_factory.mktemp("leaving")
    program = folder / "leaving"
    (folder / "leaving.c").write_text(LEAVING)
    subprocess.run([compiler, "-O0", folder / "leaving.c", "-o", program], check=True)
    return program


@pytest.mark.parametrize(
    "signo", [0, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGKILL]
)
def test_what_a_program_without_an_end_held(
    hakmem: Run, library: Path, tmp_path: Path, leaving: Path, signo: int
) -> None:
    """The area outlives it, as it was at the last moment."""
    page = tmp_path / "page.html"
    command = ["run", "--library", library, "--report", page, "--", leaving, str(int(signo))]
    for words in (command, [*command, leaving]):
        result = hakmem(*words)
        assert result.returncode == (128 + signo if signo else 3), result.stderr
        text = page.read_text(encoding="utf-8")
        found = re.search(r"([0-9.]+) MiB left after", text)
        assert found is not None
        assert 30 < float(found[1]) < 120
        assert "main" in text
        page.unlink()


def test_what_was_live_when_memory_became_tight_outlives_the_program(
    library: Path, tmp_path: Path, leaving: Path
) -> None:
    """The file is there before the kernel kills."""
    path = tmp_path / "heap"
    settings = {"LD_PRELOAD": str(library), "HAKMEM_PROFILE_OUTPUT": str(path)}
    for limit, is_tight in (("1G", False), ("66M", True)):
        environment = {**os.environ, **settings, "HAKMEM_SOFT_LIMIT": limit}
        ended = subprocess.run([leaving, str(int(signal.SIGKILL))], env=environment, check=False)
        assert ended.returncode == -signal.SIGKILL
        assert path.exists() == is_tight
    profile = profile_of(str(path))
    assert 30 << 20 < profile.tight.value < 120 << 20
    assert str(leaving) in {module.path for module in profile.modules}
    assert profile.program == str(leaving)


FORKING = """
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void take(int blocks)
{
    for (int i = 0; i < blocks; i++)
        memset(malloc(1 << 20), 1, 1 << 20);
}
int main(void)
{
    take(64);
    if (fork() == 0) {
        take(32);
        raise(SIGKILL);
    }
    wait(NULL);
    raise(SIGKILL);
}
"""


def test_a_child_of_a_fork_leaves_its_own(library: Path, compiler: str, tmp_path: Path) -> None:
    """Also if memory was tight before."""
    source, program = tmp_path / "forking.c", tmp_path / "forking"
    source.write_text(FORKING)
    subprocess.run([compiler, "-O0", source, "-o", program], check=True)
    settings = {"LD_PRELOAD": str(library), "HAKMEM_PROFILE_OUTPUT": str(tmp_path / "heap.%p")}
    environment = {**os.environ, **settings, "HAKMEM_SOFT_LIMIT": "66M"}
    subprocess.run([program], env=environment, check=False)
    profiles = [profile_of(str(path)) for path in tmp_path.glob("heap.*")]
    assert len({profile.pid for profile in profiles}) == 2
    assert all(profile.tight.value > 30 << 20 for profile in profiles)


@pytest.mark.parametrize("signo", [0, signal.SIGKILL])
def test_what_came_after_memory_had_become_tight(
    hakmem: Run, library: Path, tmp_path: Path, leaving: Path, signo: int
) -> None:
    """The page is of the end, not of the moment of which there is a file."""
    page = tmp_path / "page.html"
    command = ["run", "--library", library, "--report", page, "--conf", "soft_limit:20M"]
    hakmem(*command, "--", leaving, str(int(signo)))
    text = page.read_text(encoding="utf-8")
    left = re.search(r"([0-9.]+) MiB left after", text)
    tight = re.search(r"live when memory was tight</dt><dd>([0-9.]+) MiB", text)
    assert left and tight
    assert float(left[1]) > 30 > float(tight[1]) > 10


def test_program_that_leaves_no_profile(reported: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = reported(page, "true")
    assert result.returncode == 0
    assert "left no profile" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--report", "p.html", "--", "no-such-program"], 127, "not found"),
        (["--report", "/no/such/folder/p.html", "--", "true"], 125, "/no/such/folder"),
        (["--report", "/proc/p.html", "--", "no-such-program"], 125, "/proc/p.html"),
        (["--report", "p.html", "--conf", "profile_output:x", "--", "true"], 125, "leave"),
        (["--report", "p.html"], 125, "needs a CMD"),
    ],
)
def test_own_failures(
    own_failure: OwnFailure, arguments: list[str], status: int, message: str
) -> None:
    own_failure(arguments, status, message)


def test_signals_reach_the_program(marker_library: Path, tmp_path: Path) -> None:
    """It says that it is ready, and ends by its own choice when it is told to."""
    program = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    command = [sys.executable, "-I", "-m", "hakmem", "run", "--library", str(marker_library)]
    command += ["--report", str(tmp_path / "page.html"), "--", "sh", "-c", program]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        threads = list(Path(f"/proc/{child.pid}/task").iterdir())
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=300) == 7
        # Another one could have taken the signal and ended by it.
        assert len(threads) == 1


COUNTING = """
import signal, sys, time
count = 0
def note(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, note)
print("ready", flush=True)
while not count:
    time.sleep(0.01)
time.sleep(1)
print(count)
"""


@pytest.mark.parametrize("to_group", [True, False])
def test_signal_is_delivered_once(marker_library: Path, tmp_path: Path, to_group: bool) -> None:
    """Also one that goes to the group, which the program is in too."""
    command = [sys.executable, "-I", "-m", "hakmem", "run", "--library", str(marker_library)]
    command += ["--report", str(tmp_path / "page.html"), "--", sys.executable, "-S", "-c", COUNTING]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")}
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        (os.killpg if to_group else os.kill)(child.pid, signal.SIGINT)
        assert child.stdout.read() == b"1\n"
        assert child.wait(timeout=300) == 0


def test_memory_over_weeks_stays_small() -> None:
    memory = ResidentMemory(os.getpid())
    for _ in range(3 * MOST_POINTS):
        memory.look()
    assert len(memory.points) < MOST_POINTS
    assert memory.pause_s >= 4 * PAUSE_S
    now = time.monotonic_ns() // 1_000_000
    assert all(0 < ms <= now and size > 0 for ms, size in memory.points)
