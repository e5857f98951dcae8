"""Real programs as cases: through the distribution's own packages, with checked results."""

import atexit
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hakmem.clone import Clone
from hakmem.errors import HakmemError
from hakmem.lab import packages
from hakmem.lab.execute import environment_for
from hakmem.lab.model import Arm, Case
from hakmem.lab.packages import Report
from hakmem.lab.workload_catalogue import (
    OUTPUT,
    WORKLOADS,
    Place,
    Plan,
    Workload,
    find_program,
    search_path,
)
from hakmem.terminal import in_one_line

TIMEOUT_S = 120.0

# What would make two machines, or two users, get different results.
SETTLED = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Missing:
    """A real program that is not installed, and where it comes from."""

    name: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: no {', '.join(self.programs)} (apt install {' '.join(self.packages)})"


def scripts_folder(clone: Clone | None) -> Path:
    return clone.root / "bench" / "programs" if clone else Path(__file__).parent / "programs"


def workloads(clone: Clone | None, quick: bool = False) -> list[Case]:
    """The real programs that are installed here."""
    place = Place(scripts_folder(clone).resolve())
    sizes = [(one, one.quick if quick else one.full) for one in WORKLOADS]
    return [
        _case(workload, place, size)
        for workload, size in sizes
        if size is not None and not workload.lacking()
    ]


def missing(quick: bool = False) -> list[Missing]:
    """The real programs that are not."""
    lacking = [(one, one.lacking()) for one in WORKLOADS if one.quick or not quick]
    return [Missing(one.name, one.packages, tuple(names)) for one, names in lacking if names]


def install_programs(report: Report) -> list[str]:
    """Installs the missing programs with apt; says of each package that cannot be had why not."""
    wanted = sorted({package for one in missing() for package in one.packages})
    reasons = packages.install(wanted, report)
    find_program.cache_clear()
    search_path.cache_clear()
    return [f"{package}: {reason}" for package, reason in reasons.items()]


def _case(workload: Workload, place: Place, size: int) -> Case:
    plan = workload.plan(place, size)
    environment = SETTLED | {"PATH": search_path()} | plan.environment
    session = _Session(workload, plan, environment)
    return Case(
        name=workload.name,
        arguments=(str(size),),
        threads=workload.threads,
        unit=workload.unit,
        models=workload.models,
        cannot_show=workload.cannot_show,
        command=plan.command,
        timeout_s=TIMEOUT_S,
        prepare=session.prepare,
        check=None if plan.self_preloading else session.check,
        environment=environment,
        group="program",
        self_preloading=plan.self_preloading,
    )


class _Session:
    """One workload's inputs and expected result, made once and kept until this process ends."""

    def __init__(self, workload: Workload, plan: Plan, environment: Mapping[str, str]) -> None:
        self.workload = workload
        self.plan = plan
        self.environment = dict(environment)
        self.lock = threading.Lock()
        self.inputs: Path | None = None
        self.broken: str | None = None
        self.expected: str | None = None

    def prepare(self, folder: Path) -> None:
        """Fills the folder of a run; the first time, finds out what the result must be."""
        with self.lock:
            if self.inputs is None and self.broken is None:
                self._begin()
        if self.broken is not None:
            raise HakmemError(self.broken)
        self._fill(folder)

    def _begin(self) -> None:
        try:
            self.inputs = self._made_inputs()
            if not self.plan.self_preloading:
                self.expected = self._reference()
        except HakmemError as error:
            # Once is enough: it may have taken the whole time-out.
            self.broken = in_one_line(str(error))

    def check(self, folder: Path, output: bytes) -> str | None:
        if digest(folder, output) == self.expected:
            return None
        return f"{self.workload.name}: the result differs from the one with glibc"

    def _fill(self, folder: Path) -> None:
        (folder / OUTPUT).mkdir()
        assert self.inputs is not None
        for path in self.inputs.iterdir():
            if path.is_dir():
                (folder / path.name).symlink_to(path)
            else:
                # Not every program reads what is a symbolic link.
                (folder / path.name).hardlink_to(path)

    def _made_inputs(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=f"hakmem-{self.workload.name}-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        if self.plan.make:
            self.plan.make(folder)
        return folder

    def _reference(self) -> str:
        """The digest of the result that the program has on glibc."""
        with tempfile.TemporaryDirectory(prefix="hakmem-reference-") as place:
            folder = Path(place)
            self._fill(folder)
            return digest(folder, self._output_on_glibc(folder))

    def _output_on_glibc(self, folder: Path) -> bytes:
        case = Case("", (), 1, "", "", "", self.plan.command, 0, environment=self.environment)
        environment = environment_for(case, Arm("glibc", "", None, kind="glibc"), os.environ)
        name = self.workload.name
        try:
            result = subprocess.run(
                self.plan.command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HakmemError(f"{name} does not work on glibc either: {error}") from error
        if result.returncode != 0:
            said = result.stderr.decode(errors="replace").strip().splitlines()[-1:]
            reason = " ".join([f"exit status {result.returncode}", *said])
            raise HakmemError(f"{name} does not work on glibc either: {reason}")
        return result.stdout


def digest(folder: Path, output: bytes) -> str:
    """What a run wrote to standard output and into its folder `out`, as one number."""
    hashed = hashlib.sha256(output)
    root = folder / OUTPUT
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        hashed.update(str(path.relative_to(root)).encode() + b"\0")
        hashed.update(path.read_bytes())
    return hashed.hexdigest()
