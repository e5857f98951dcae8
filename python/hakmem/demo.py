"""The demonstration: real jobs under glibc and hakmem in turn, side by side."""

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from hakmem import __version__
from hakmem.errors import HakmemError
from hakmem.jobs import Job, prepare
from hakmem.launch import with_preload
from hakmem.results import Series, as_document
from hakmem.terminal import on_terminal, say

ROUNDS = 3
QUICK_ROUNDS = 1
RUN_TIMEOUT_S = 600

Step = Callable[[str], None]


@dataclass(frozen=True)
class Allocator:
    name: str
    version: str
    environment: dict[str, str]


def demonstrate(
    library: Path, name: str, environment: Mapping[str, str], quick: bool, as_json: bool
) -> int:
    """Returns the exit status: 1 if a run failed or an output differed."""
    plain = _plain_environment()
    with_library = with_preload(_plain_environment(environment), library)
    _check_preload(library, with_library)
    allocators = [
        Allocator("glibc", platform.libc_ver()[1], plain),
        Allocator(name, __version__ if name == "hakmem" else "", with_library),
    ]
    with tempfile.TemporaryDirectory(prefix="hakmem-demo-") as folder:
        say("preparing a JSON document and a C++ file")
        jobs = prepare(Path(folder))
        series = measure(jobs, allocators, QUICK_ROUNDS if quick else ROUNDS, Path(folder))
    if as_json:
        print(json.dumps(as_document(series), indent=2))
    else:
        print_table(jobs, series)
    return 1 if any(one.failed for one in series) else 0


def _plain_environment(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Without what would preload another allocator or change how the interpreter runs."""
    return {
        name: value
        for name, value in base.items()
        if name != "LD_PRELOAD" and not name.startswith("PYTHON")
    }


def _check_preload(library: Path, environment: Mapping[str, str]) -> None:
    """A library the loader refuses is only a warning to it: comparing glibc with itself is not."""
    command = ["/bin/cat", "/proc/self/maps"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0 or library.resolve().name not in result.stdout:
        problem = result.stderr.strip() or f"exit status {result.returncode}"
        raise HakmemError(f"{library} cannot be preloaded: {problem}")


def measure(
    jobs: list[Job], allocators: list[Allocator], rounds: int, folder: Path
) -> list[Series]:
    """Runs the allocators in turn within each round, so that a drift of the machine hits both."""
    series = {
        (job.name, allocator.name): Series(
            job.name, _arguments(job), allocator.name, allocator.version
        )
        for job in jobs
        for allocator in allocators
    }
    digests: dict[str, str] = {}
    plan = [(n, job, one) for job in jobs for n in range(rounds) for one in allocators]
    with _progress(len(plan)) as step:
        for number, job, allocator in plan:
            step(f"{job.name} on {allocator.name}, round {number + 1} of {rounds}")
            current = series[job.name, allocator.name]
            if current.failed:
                continue
            try:
                current.runs.append(run_once(job, allocator, folder))
                _check_output(job, digests)
            except HakmemError as error:
                current.failed = str(error)
    return list(series.values())


def _arguments(job: Job) -> list[str]:
    """Without the folders, which differ from one demonstration to the next."""
    return [Path(word).name if "/" in word else word for word in job.command[1:]]


def _check_output(job: Job, digests: dict[str, str]) -> None:
    digest = hashlib.sha256(job.output.read_bytes()).hexdigest()
    if digests.setdefault(job.name, digest) != digest:
        raise HakmemError("the output differs from the first run's")


def run_once(job: Job, allocator: Allocator, folder: Path) -> dict[str, float]:
    """Costs of one run, measured from a small process of its own."""
    job.output.unlink(missing_ok=True)
    errors = folder / "stderr"
    spec = {
        "command": job.command,
        "environment": allocator.environment | job.environment,
        "stdout": str(folder / "stdout"),
        "stderr": str(errors),
    }
    measurer = str(Path(__file__).with_name("measure.py"))
    result = _run_measurer([sys.executable, "-I", "-S", measurer, json.dumps(spec)])
    status = int(result.pop("status"))
    if status != 0:
        said = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        raise HakmemError(": ".join([reason, *said[-1:]]))
    return result


def _run_measurer(command: list[str]) -> dict[str, float]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={},
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise HakmemError(f"did not end within {RUN_TIMEOUT_S} s") from error
    finally:
        # On a time-out or Ctrl-C the measured program must not stay behind.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:
        raise HakmemError(errors.strip().rpartition("\n")[2] or "the measuring process failed")
    result: dict[str, float] = json.loads(output)
    return result


@contextmanager
def _progress(total: int) -> Iterator[Step]:
    if not on_terminal():
        yield say
        return
    columns = (
        TextColumn("hakmem: {task.description}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=total)
        started = 0

        def step(description: str) -> None:
            nonlocal started
            bars.update(task, description=description, completed=started)
            started += 1

        yield step


def print_table(jobs: list[Job], series: list[Series]) -> None:
    base, other = series[0], series[1]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    table.add_column(f"{base.allocator} {base.version}".strip(), justify="right")
    table.add_column(f"{other.allocator} {other.version}".strip(), justify="right")
    table.add_column("ratio", justify="right")
    for index, job in enumerate(jobs):
        table.add_row(job.title, style="bold")
        pair = series[2 * index], series[2 * index + 1]
        broken = [f"{one.allocator}: {one.failed}" for one in pair if one.failed]
        for line in broken:
            table.add_row(f"  failed on {line}", style="red")
        if not broken:
            for row in _rows(*pair):
                table.add_row(*row)
    console = Console()
    console.print(table)
    rounds = max(len(one.runs) for one in series)
    console.print(
        f"Medians of {rounds} interleaved round{'s' if rounds > 1 else ''}. A ratio below 1.00: "
        f"{other.allocator} needs less.",
        soft_wrap=True,
    )
    console.print("Python has PYTHONMALLOC=malloc; of g++ it is the compiler proper, cc1plus.")
    if not any(one.failed for one in series):
        console.print("The outputs under both allocators are equal.")


def _rows(base: Series, other: Series) -> Iterator[tuple[str, str, str, str]]:
    seconds, mebibytes, count = "{:.2f} s", "{:.1f} MiB", "{:,.0f}"
    kinds = (
        ("wall time", seconds, 1, ("time_s",)),
        ("user + system time", seconds, 1, ("user_s", "sys_s")),
        ("peak resident memory", mebibytes, 1024, ("peak_rss_kib",)),
        ("page faults", count, 1, ("page_faults",)),
    )
    for label, form, divisor, metrics in kinds:
        a, b = base.median(*metrics) / divisor, other.median(*metrics) / divisor
        ratio = f"{b / a:.2f}" if a else "-"
        yield f"  {label}", form.format(a), form.format(b), ratio
