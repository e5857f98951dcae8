"""The layer profile: where the time of one command goes, from malloc's entry to the kernel."""

import ctypes
import mmap
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table
from scipy.stats import binomtest

from hakmem.errors import HakmemError
from hakmem.lab.layercounts import LayerCount
from hakmem.lab.layermap import LAYERS, Locator
from hakmem.lab.sampling import perf_obstacle, sample

CONFIDENCE = 0.95
FEW_SAMPLES = 400
# Two runs of one command differ by less than this.
MUCH_APART = 1.25
TOP_FUNCTIONS = 10
# For each operation; a layer with fewer, and no sample, is not shown.
LEAST_INSTRUCTIONS = 0.05
HUGE_PAGE = 2 << 20
CALIBRATION_BYTES = 64 << 20
CALIBRATION_ROUNDS = 5


@dataclass(frozen=True)
class LayerShare:
    """One layer's share of the processor time, with the interval that sampling leaves open."""

    key: str
    label: str
    share: float
    low: float
    high: float
    seconds: float
    ns_per_op: float | None
    # Simulated, of a run of its own; None where they are not counted, as in the kernel.
    instructions_per_op: float | None = None
    d1_misses_per_op: float | None = None


@dataclass(frozen=True)
class FaultCost:
    """What one page fault costs here and now, measured by touching fresh memory."""

    page_ns: float
    huge_page_ns: float | None


@dataclass(frozen=True)
class PlainRun:
    """The same command without sampling: what it costs when nobody looks."""

    wall_s: float
    user_s: float
    sys_s: float
    page_faults: int
    ops: int | None
    counters: dict[str, int]


@dataclass(frozen=True)
class LayerProfile:
    command: list[str]
    allocator: str
    samples: int
    cpu_s: float
    layers: list[LayerShare]
    functions: list[tuple[str, str, float]]
    plain: PlainRun
    fault_cost: FaultCost
    notes: list[str] = field(default_factory=list)

    @property
    def fault_seconds(self) -> float:
        """What the faults should have cost by the calibration, all of them of 4 KiB."""
        return self.plain.page_faults * self.fault_cost.page_ns / 1e9

    def share_of(self, key: str) -> float:
        return next((layer.share for layer in self.layers if layer.key == key), 0.0)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "fault_seconds": self.fault_seconds}


def profile_layers(
    command: list[str],
    environment: Mapping[str, str] | None = None,
    library: Path | None = None,
    *,
    name: str = "",
    folder: Path | None = None,
    prepare: Callable[[], None] | None = None,
    count: Callable[[Locator], Mapping[str, LayerCount]] | None = None,
    notes: Sequence[str] = (),
) -> LayerProfile:
    """Runs the command twice, plainly and sampled, and again in `count`, if it is there.

    `library` is the allocator's file, None for glibc's own malloc. A given `environment` is the
    program's whole one and has to preload it; without one, ours serves and it is preloaded.
    `folder` is where the command is started and `prepare` what is called before each run. `count`
    counts instructions by layer, and `notes` stand before those of the profile.
    """
    obstacle = perf_obstacle()
    if obstacle:
        raise HakmemError(obstacle)
    settings = _own_environment(library) if environment is None else dict(environment)
    with tempfile.TemporaryDirectory(prefix="hakmem-layers-") as scratch:
        ready = prepare or (lambda: None)
        ready()
        plain = run_plainly(command, settings, Path(scratch), folder)
        ready()
        sampling = sample(command, settings, Path(scratch) / "perf.data", folder)
    locator = Locator(library)
    places = locator.place_all(sampling.stacks)
    counted, uncounted = _counted(count, locator)
    counts = Counter(key for key, _ in places)
    cpu_s = len(places) / sampling.frequency
    if not sampling.sees_kernel:
        kernel_s = cpu_s * plain.sys_s / max(plain.user_s, 1e-9)
        counts["kernel"] = round(kernel_s * sampling.frequency)
        cpu_s += kernel_s
    return LayerProfile(
        command=list(command),
        allocator=name or (library.name.partition(".")[0] if library else "glibc"),
        samples=len(places),
        cpu_s=cpu_s,
        layers=_shares(counts, cpu_s, plain.ops, counted),
        functions=_functions(places, sum(counts.values())),
        plain=plain,
        fault_cost=measure_fault_cost(),
        notes=[
            *notes,
            *_notes(len(places), sampling.sees_kernel, plain.user_s + plain.sys_s, cpu_s),
            *locator.notes,
            *uncounted,
        ],
    )


def _counted(
    count: Callable[[Locator], Mapping[str, LayerCount]] | None, locator: Locator
) -> tuple[Mapping[str, LayerCount], list[str]]:
    """By layer, or a note why not: some allocators do not start under valgrind."""
    if count is None:
        return {}, []
    try:
        return count(locator), []
    except HakmemError as error:
        return {}, [f"Instructions are not counted by layer: {error}."]


def _own_environment(library: Path | None) -> dict[str, str]:
    settings = dict(os.environ)
    settings.pop("LD_PRELOAD", None)
    return settings if library is None else {**settings, "LD_PRELOAD": str(library)}


def run_plainly(
    command: list[str], environment: Mapping[str, str], scratch: Path, folder: Path | None
) -> PlainRun:
    """One undisturbed run, with the counters that hakmem prints at the end of each process."""
    program = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if program is None:
        raise HakmemError(f"'{command[0]}' is no program that can be found", 127)
    output = scratch / "stdout"
    settings = {
        **environment,
        "HAKMEM_STATS": "1",
        "HAKMEM_OUTPUT": str(scratch / "counters-%p"),
    }
    with output.open("wb") as stdout:
        started = time.perf_counter()
        process = subprocess.Popen(
            [program, *command[1:]],
            env=settings,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise HakmemError(
            f"'{command[0]}' ended with status {process.returncode}; "
            "a layer profile needs a command that succeeds"
        )
    return PlainRun(
        wall_s=wall_s,
        user_s=usage.ru_utime,
        sys_s=usage.ru_stime,
        page_faults=usage.ru_minflt + usage.ru_majflt,
        ops=_ops(output),
        counters=read_counters(scratch.glob("counters-*")),
    )


def _ops(output: Path) -> int | None:
    """The line `ops N` that the benchmark programs print."""
    for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "ops" and words[1].isdigit() and int(words[1]):
            return int(words[1])
    return None


def read_counters(files: Iterable[Path]) -> dict[str, int]:
    """The lines `name value`, added up over the processes of a command."""
    total: Counter[str] = Counter()
    for file in files:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split()
            if len(words) == 2 and words[1].isdigit():
                total[words[0]] += int(words[1])
    return dict(total)


def _shares(
    counts: Counter[str], cpu_s: float, ops: int | None, counted: Mapping[str, LayerCount]
) -> list[LayerShare]:
    total = sum(counts.values())
    shares = []
    for layer in LAYERS:
        exact = counted.get(layer.key)
        if not counts[layer.key] and (exact is None or exact.instructions < LEAST_INSTRUCTIONS):
            continue
        share, low, high = _share(counts[layer.key], total)
        seconds = share * cpu_s
        shares.append(
            LayerShare(
                key=layer.key,
                label=layer.label,
                share=share,
                low=low,
                high=high,
                seconds=seconds,
                ns_per_op=seconds * 1e9 / ops if ops else None,
                instructions_per_op=exact.instructions if exact else None,
                d1_misses_per_op=exact.d1_misses if exact else None,
            )
        )
    return shares


def _share(samples: int, total: int) -> tuple[float, float, float]:
    """With its interval; of no samples nothing is known."""
    if total == 0:
        return 0.0, 0.0, 1.0
    interval = binomtest(samples, total).proportion_ci(CONFIDENCE, "wilson")
    return samples / total, float(interval.low), float(interval.high)


def _functions(places: list[tuple[str, str]], total: int) -> list[tuple[str, str, float]]:
    """The busiest functions of the allocator: layer, function, share of all time."""
    inside = Counter(place for place in places if place[1] not in ("", "[unknown]"))
    return [(key, name, n / total) for (key, name), n in inside.most_common(TOP_FUNCTIONS)]


def _notes(samples: int, sees_kernel: bool, plain_s: float, sampled_s: float) -> list[str]:
    notes = []
    if samples < FEW_SAMPLES:
        notes.append(
            f"Only {samples} samples: let the command run longer for shares that can be relied on."
        )
    elif max(plain_s, sampled_s) > MUCH_APART * min(plain_s, sampled_s):
        notes.append(
            f"The sampled run took {sampled_s:.2f} s of processor time, the other {plain_s:.2f} s: "
            "sampling, or the machine, got in the way. Take its shares with caution."
        )
    if not sees_kernel:
        notes.append(
            "The kernel's part is the system time of a run without sampling and is not divided: "
            "sampling inside the kernel needs root or kernel.perf_event_paranoid below 2."
        )
    return notes


def measure_fault_cost() -> FaultCost:
    """Touches fresh memory and touches it again: the difference is the price of the faults."""
    page = mmap.PAGESIZE
    page_ns = _cost_per_fault(mmap.MADV_NOHUGEPAGE, page)
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    try:
        available = "[never]" not in huge.read_text(encoding="ascii")
    except OSError:
        available = False
    return FaultCost(page_ns, _cost_per_fault(mmap.MADV_HUGEPAGE, HUGE_PAGE) if available else None)


def _cost_per_fault(advice: int, page: int) -> float:
    return statistics.median(_one_cost(advice, page) for _ in range(CALIBRATION_ROUNDS))


def _one_cost(advice: int, page: int) -> float:
    # The tail makes room for the first whole huge page.
    with mmap.mmap(-1, CALIBRATION_BYTES + HUGE_PAGE, mmap.MAP_PRIVATE) as area:
        area.madvise(advice)
        view = ctypes.c_char.from_buffer(area)
        first = -(-ctypes.addressof(view) // HUGE_PAGE) * HUGE_PAGE
        fresh, again = _fill_time(first), _fill_time(first)
        # A mapping with a view into it cannot be closed.
        del view
    return max(0.0, fresh - again) * 1e9 / (CALIBRATION_BYTES / page)


def _fill_time(address: int) -> float:
    # Processor time: what else runs on the machine is not the price of a fault.
    started = time.thread_time()
    ctypes.memset(address, 1, CALIBRATION_BYTES)
    return time.thread_time() - started


@dataclass(frozen=True)
class Column:
    title: str
    text: Callable[[LayerShare], str]
    style: str = ""
    per_op: bool | None = None  # only where the number of operations is known, or is not


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


# Of a column in which nothing stands nothing is shown.
COLUMNS = (
    Column("share", lambda layer: f"{layer.share:.1%}"),
    Column("95 %", lambda layer: f"{layer.low:.1%} .. {layer.high:.1%}", style="dim"),
    Column("seconds", lambda layer: f"{layer.seconds:.3f}", per_op=False),
    Column("ns\nper op", lambda layer: _figure(layer.ns_per_op, ".1f"), per_op=True),
    Column("instr.\nper op", lambda layer: _figure(layer.instructions_per_op, ".1f")),
    Column("D1 misses\nper op", lambda layer: _figure(layer.d1_misses_per_op, ".3f")),
)


def layer_table(profile: LayerProfile) -> Table:
    """The profile for a terminal."""
    table = Table(
        title=f"Where the time goes: {profile.allocator}",
        caption=_caption(profile),
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("layer")
    per_op = profile.plain.ops is not None
    shown = [c for c in COLUMNS if c.per_op in (None, per_op) and any(map(c.text, profile.layers))]
    for column in shown:
        table.add_column(column.title, justify="right", style=column.style, no_wrap=True)
    for layer in profile.layers:
        table.add_row(layer.label, *(column.text(layer) for column in shown))
    return table


def _caption(profile: LayerProfile) -> str:
    plain, cost = profile.plain, profile.fault_cost
    lines = [
        f"{profile.samples:,} samples over {profile.cpu_s:.2f} s of processor time; without "
        f"sampling {plain.user_s:.2f} s user, {plain.sys_s:.2f} s system",
        f"{plain.page_faults:,} page faults; a fresh page costs {cost.page_ns:.0f} ns here, so "
        f"at most about {profile.fault_seconds:.3f} s for 4 KiB pages",
    ]
    return "\n".join([*lines, *profile.notes])
