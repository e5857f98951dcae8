"""Workloads: every installed program runs, and a wrong result is seen."""

import subprocess
import sys
from pathlib import Path

import pytest

from hakmem.clone import Clone
from hakmem.lab import workload_catalogue as catalogue
from hakmem.lab import workload_inputs as inputs
from hakmem.lab import workloads
from hakmem.lab.execute import Executor, ensure_launcher
from hakmem.lab.model import Arm, Case
from hakmem.lab.workload_catalogue import Place, Plan, Workload

ROOT = Path(__file__).resolve().parents[3]
GLIBC = Arm("glibc", "", None, kind="glibc")
SMALL = {
    "python3": 1,
    "sqlite3": 5_000,
    "lua": 1,
    "perl": 2_000,
    "jq": 500,
    "node": 1,
    "g++": 1,
    "ghostscript": 3,
    "z3": 8,
    "zstd": 5_000,
    "redis": 1_000,
    "postgres": 20,
}


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Executor:
    return Executor(ensure_launcher(tmp_path_factory.mktemp("launcher")))


def example(command: tuple[str, ...], name: str = "example", **more: object) -> Workload:
    return Workload(
        name=name,
        packages=("a-package",),
        programs=("sh",),
        plan=lambda place, size: Plan(tuple(word.format(size=size) for word in command)),
        full=3,
        models="",
        cannot_show="",
        **more,  # type: ignore[arg-type]
    )


def case_of(monkeypatch: pytest.MonkeyPatch, workload: Workload) -> Case:
    monkeypatch.setattr(workloads, "WORKLOADS", (workload,))
    (case,) = workloads.workloads(Clone(ROOT))
    return case


def test_every_workload_has_a_small_size() -> None:
    assert set(SMALL) == {one.name for one in catalogue.WORKLOADS}


@pytest.mark.parametrize("workload", catalogue.WORKLOADS, ids=lambda one: one.name)
def test_runs_and_is_checked(workload: Workload, executor: Executor) -> None:
    if workload.lacking():
        pytest.skip(f"{workload.packages} is not installed")
    place = Place(workloads.scripts_folder(Clone(ROOT)))
    case = workloads._case(workload, place, SMALL[workload.name])
    assert case.models and case.cannot_show and case.group == "program"
    for _ in range(2):
        sample = executor.run(case, GLIBC)
        assert sample.failed is None
        assert sample.time_s > 0 and sample.peak_rss_kib > 1000
        assert bool(sample.ops) == case.self_preloading


def test_different_output_fails(monkeypatch: pytest.MonkeyPatch, executor: Executor) -> None:
    case = case_of(monkeypatch, example(("sh", "-c", "echo $HAKMEM_DIFFERENCE")))
    assert executor.run(case, GLIBC).failed is None
    other = Arm("other", "", None, {"HAKMEM_DIFFERENCE": "1"})
    assert executor.run(case, other).failed == "example: the result differs from the one with glibc"


def test_different_file_fails(monkeypatch: pytest.MonkeyPatch, executor: Executor) -> None:
    case = case_of(monkeypatch, example(("sh", "-c", "echo $HAKMEM_DIFFERENCE >out/file")))
    assert executor.run(case, GLIBC).failed is None
    assert executor.run(case, Arm("other", "", None, {"HAKMEM_DIFFERENCE": "1"})).failed


def test_program_that_fails_on_glibc_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, executor: Executor
) -> None:
    """It is tried once, and whatever else is to be measured goes on."""
    script = f"echo >>{tmp_path}/tries; echo reason >&2; exit 4"
    case = case_of(monkeypatch, example(("sh", "-c", script)))
    for arm in (GLIBC, GLIBC, Arm("other", "", None)):
        failed = executor.run(case, arm).failed
        assert failed == "example does not work on glibc either: exit status 4 reason"
    assert (tmp_path / "tries").read_text() == "\n"


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (
        example(("sh", "{size}"), "small", quick=1),
        example(("sh", "{size}"), "large"),
    )
    monkeypatch.setattr(workloads, "WORKLOADS", both)
    full = [(case.name, case.command[1]) for case in workloads.workloads(Clone(ROOT))]
    quick = [(case.name, case.command[1]) for case in workloads.workloads(Clone(ROOT), quick=True)]
    assert full == [("small", "3"), ("large", "3")]
    assert quick == [("small", "1")]


def test_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Workload(
        name="absent",
        packages=("absent-package",),
        programs=("no-such-program", "sh"),
        plan=lambda place, size: pytest.fail("planned what is not there"),
        full=1,
        models="",
        cannot_show="",
    )
    monkeypatch.setattr(workloads, "WORKLOADS", (absent,))
    assert workloads.workloads(Clone(ROOT)) == []
    (named,) = workloads.missing()
    assert str(named) == "absent: no no-such-program (apt install absent-package)"
    asked: list[str] = []

    def install(names: list[str], report: object) -> dict[str, str]:
        asked.extend(names)
        return {names[0]: "needs root"}

    monkeypatch.setattr(workloads.packages, "install", install)
    assert workloads.install_programs(lambda text: None) == ["absent-package: needs root"]
    assert asked == ["absent-package"]


def test_inputs_are_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        inputs.write_document(tmp_path / name / "document", 50)
        inputs.write_text(tmp_path / name / "text", 50)
        inputs.write_queens(tmp_path / name / "queens", 5)
    first, second = ([p.read_bytes() for p in sorted((tmp_path / n).iterdir())] for n in "ab")
    assert first == second


def drive(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    folder = str(workloads.scripts_folder(Clone(ROOT)))
    return subprocess.run(
        [sys.executable, "-B", "-c", f"import sys; sys.path.insert(0, {folder!r})\n{code}"],
        env={"PATH": catalogue.SYSTEM_PATH} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


START = """
import driving
from pathlib import Path
server = driving.Server(["sleep", "60"], Path({log!r}), driving.preload())
try:
    server.wait_until(lambda: "/sleep" in Path(f"/proc/{{server.process.pid}}/maps").read_text())
    {body}
finally:
    if server.process.returncode is None:
        server.process.kill()
"""


def test_driver_preloads_the_server_alone(marker_library: Path, tmp_path: Path) -> None:
    # The loader takes no blanks.
    library = tmp_path / "libmarker.so"
    library.write_bytes(marker_library.read_bytes())
    log = tmp_path / "log"
    body = (
        "server.wait_until(lambda: server.log.read_text() == 'preloaded\\n'); "
        "server.check_library(); print(driving.run(['env'], 'env')); server.end()"
    )
    environment = {"HAKMEM_ARM_PRELOAD": str(library)}
    result = drive(START.format(log=str(log), body=body), environment)
    assert result.returncode == 0, result.stderr
    assert "PRELOAD" not in result.stdout
    assert "preloaded" not in result.stderr


def test_driver_sees_a_library_that_is_not_there(tmp_path: Path) -> None:
    environment = {"HAKMEM_ARM_PRELOAD": str(tmp_path / "libabsent.so")}
    code = START.format(log=str(tmp_path / "log"), body="server.check_library()")
    result = drive(code, environment)
    assert result.returncode == 1
    assert f"{tmp_path / 'libabsent.so'} is not mapped in the server" in result.stderr


def test_driver_tells_of_a_server_that_ends(tmp_path: Path) -> None:
    code = (
        "import driving\nfrom pathlib import Path\n"
        "server = driving.Server(['sh', '-c', 'echo no such option; exit 3'], "
        f"Path({str(tmp_path / 'log')!r}), driving.preload())\n"
        "server.wait_until(lambda: False)"
    )
    result = drive(code, {})
    assert result.returncode == 1
    assert result.stderr == "the server ended before it was ready: no such option\n"
