"""The tests of a clone: every preset's CTest tests and the Python tests, with one closing line.

Where time may run out the release build's come first: it is what users get.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path

from hakmem.build import build, cmake_tool, configure, output_of, presets
from hakmem.clone import RELEASE, Clone
from hakmem.errors import HakmemError
from hakmem.launch import NO_PRELOAD
from hakmem.tally import Tally, read_junit
from hakmem.terminal import say

# In the order of what each finds per minute; those that CMakePresets.json lacks are not run.
SANITIZERS = ("asan", "ubsan", "tsan")
PRESET_ORDER = (RELEASE, *SANITIZERS, "debug", "secure")
PYTHON_SECTION = "python"
PROGRAMS_SECTION = "programs"

CPUS = len(os.sched_getaffinity(0))

# A usual run ends within 15 minutes: no preset is begun after this many.
USUAL_BUDGET_MINUTES = 10.0
# For tests that set no time-out of their own.
TEST_TIMEOUT_S = 300
LONG_TEST_TIMEOUT_S = 1800


class Part(Enum):
    """Which of a preset's tests, as arguments of ctest."""

    CHOSEN = ()  # by other arguments alone
    ALL = ("-LE", "^seldom$")
    SHORT = ("-LE", "^long$")
    LONG = ("-L", "^long$", "-LE", "^seldom$")
    SELDOM = ("-L", "^seldom$")  # many minutes or hours each; they are long as well


NAME_ENDS = {Part.LONG: "-long", Part.SELDOM: "-seldom"}


@dataclass(frozen=True)
class Selection:
    """Which tests a user asked for."""

    everything: bool = False
    preset: str | None = None
    label: str | None = None
    regex: str | None = None
    budget_minutes: float | None = None

    @property
    def filtered(self) -> bool:
        return bool(self.label or self.regex)

    @property
    def budget_s(self) -> float:
        minutes = self.budget_minutes
        if minutes is None:
            minutes = float("inf") if self.everything else USUAL_BUDGET_MINUTES
        return minutes * 60


@dataclass
class Section:
    """One part of the run and what came of it."""

    name: str
    tally: Tally
    seconds: float
    note: str = ""

    def __str__(self) -> str:
        note = f": {self.note}" if self.note else ""
        return f"{self.name}: {self.tally} in {self.seconds:.0f} s{note}"


@dataclass
class Report:
    sections: list[Section] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def total(self) -> Tally:
        return sum((section.tally for section in self.sections), Tally())

    def as_json(self) -> str:
        document = {
            "sections": [asdict(section) for section in self.sections],
            "left_out": self.left_out,
            "total": asdict(self.total),
        }
        return json.dumps(document, indent=2)


class Suite:
    """Runs what a selection names; `output` is where the runners' own words go."""

    def __init__(self, clone: Clone, selection: Selection, output: int) -> None:
        self.clone = clone
        self.selection = selection
        self.output = output
        self.report = Report()
        self.started = time.monotonic()

    def run(self) -> Report:
        self._check_selection()
        for name, step in self._steps():
            # The first step is always taken: a budget too small for anything tests nothing.
            if self.report.sections and self._elapsed() >= self.selection.budget_s:
                self.report.left_out.append(name)
            else:
                self._take(name, step)
        return self.report

    def _check_selection(self) -> None:
        for option, text in (("-L", self.selection.label), ("-R", self.selection.regex)):
            try:
                re.compile(text or "")
            except re.error as error:
                raise HakmemError(f"{option} '{text}' is no regular expression: {error}") from None
        named, known = self.selection.preset, presets(self.clone)
        if named and named not in known:
            raise HakmemError(f"no preset named '{named}'; there are: {', '.join(known)}")

    def _steps(self) -> list[tuple[str, Callable[[], Tally]]]:
        steps: list[tuple[str, Callable[[], Tally]]] = []
        for preset, part in self._parts():
            name = preset + NAME_ENDS.get(part, "")
            steps.append((name, partial(self._run_preset, preset, part)))
        if not self.selection.preset and not self.selection.filtered:
            steps.insert(1, (PYTHON_SECTION, self._run_pytest))
            if self.selection.everything and self._programs_script.exists():
                steps.insert(0, (PROGRAMS_SECTION, self._install_programs))
        return steps

    def _parts(self) -> list[tuple[str, Part]]:
        """Which tests of which presets, in order, since time may run out: short ones of the release
        build and the sanitizers, the release build's long ones, short ones of what finds less, the
        other long ones, and what takes hours."""
        chosen = self.selection
        whole = Part.ALL if chosen.everything or chosen.filtered else Part.SHORT
        if chosen.everything and chosen.filtered:
            whole = Part.CHOSEN
        if chosen.preset:
            seldom = chosen.preset == RELEASE and whole is Part.ALL and chosen.everything
            return [(chosen.preset, whole), *([(RELEASE, Part.SELDOM)] if seldom else [])]
        known = presets(self.clone)
        others = [preset for preset in PRESET_ORDER if preset in known and preset != RELEASE]
        if not chosen.everything or chosen.filtered:
            return [(preset, whole) for preset in (RELEASE, *others)]
        at_once = [RELEASE, *(preset for preset in others if preset in SANITIZERS)]
        later = [preset for preset in others if preset not in SANITIZERS]
        return [
            *((preset, Part.SHORT) for preset in at_once),
            (RELEASE, Part.LONG),
            *((preset, Part.SHORT) for preset in later),
            *((preset, Part.LONG) for preset in others),
            (RELEASE, Part.SELDOM),
        ]

    @property
    def _programs_script(self) -> Path:
        return self.clone.root / "tests" / "programs" / "install.sh"

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    def _take(self, name: str, step: Callable[[], Tally]) -> None:
        say(f"testing {name}")
        begun, note = time.monotonic(), ""
        try:
            tally = step()
        except HakmemError as error:
            say(str(error))
            tally, note = Tally(failed=1), str(error).splitlines()[0]
        self.report.sections.append(Section(name, tally, time.monotonic() - begun, note))

    def _install_programs(self) -> Tally:
        """Brings the real programs that the tests use; counts only when it fails."""
        if self._call(["bash", str(self._programs_script)]) != 0:
            raise HakmemError("tests/programs/install.sh failed")
        return Tally()

    def _run_pytest(self) -> Tally:
        build(self.clone, RELEASE)  # what many of them look at
        # A file's tests stay together: they share what is dear to make.
        workers = ["-n", str(CPUS), "--dist", "loadfile"]
        return self._counted(
            lambda junit: [sys.executable, "-m", "pytest", "-q", *workers, f"--junit-xml={junit}"]
        )

    def _run_preset(self, preset: str, part: Part) -> Tally:
        if self.selection.filtered and not self._has_chosen(preset):
            return Tally()
        build(self.clone, preset)
        return self._counted(lambda junit: self._ctest(preset, part, junit))

    def _has_chosen(self, preset: str) -> bool:
        """Known without building it, which takes minutes."""
        configure(self.clone, preset)
        folder = self.clone.build_folder(preset)
        command = [cmake_tool("ctest"), "--test-dir", str(folder), "-N", *self._filters()]
        result = output_of(command, self.clone.root)
        return "Total Tests: 0" not in result.stdout.splitlines()

    def _filters(self) -> list[str]:
        chosen = (("-L", self.selection.label), ("-R", self.selection.regex))
        return [word for option, text in chosen if text for word in (option, text)]

    def _ctest(self, preset: str, part: Part, junit: Path) -> list[str]:
        timeout = LONG_TEST_TIMEOUT_S if self.selection.everything else TEST_TIMEOUT_S
        command: list[str] = [
            *(cmake_tool("ctest"), "--test-dir", str(self.clone.build_folder(preset))),
            *("--output-on-failure", "--no-tests=ignore", "--output-junit", str(junit)),
            *("-j", str(CPUS), "--timeout", str(timeout)),
        ]
        return [*command, *self._filters(), *part.value]

    def _counted(self, command: Callable[[Path], list[str]]) -> Tally:
        with tempfile.TemporaryDirectory(prefix="hakmem-test-") as folder:
            junit = Path(folder) / "junit.xml"
            status = self._call(command(junit))
            return read_junit(junit, status)

    def _call(self, command: list[str]) -> int:
        """Runs a command whose words the user sees as they come."""
        try:
            return subprocess.run(
                command,
                cwd=self.clone.root,
                # Tests say themselves what they set.
                env={k: v for k, v in os.environ.items() if not k.startswith("HAKMEM_")},
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                check=False,
            ).returncode
        except OSError as error:
            raise HakmemError(f"cannot start {command[0]}: {error.strerror}") from error


def check_place(clone: Clone) -> None:
    root = str(clone.root)
    if unfit := next((c for c in NO_PRELOAD if c in root), None):
        raise HakmemError(
            f"the tests preload the library, which the loader does not take from a path with "
            f"'{unfit}': move the clone, which is {root}"
        )


def _none_chosen(clone: Clone, selection: Selection) -> str:
    """Which tests there are not, and how to see those that there are."""
    asked = (("label", "-L", selection.label), ("name", "-R", selection.regex))
    what = " and ".join(f"a {kind} like {opt} '{text}'" for kind, opt, text in asked if text)
    folder = clone.build_folder(selection.preset or RELEASE).relative_to(clone.root)
    listing = f"{cmake_tool('ctest')} --test-dir {folder} -N"
    return (
        f"no CTest test has {what}: list the names with {listing}, the labels with {listing} "
        "--print-labels"
    )


def run_suite(clone: Clone, selection: Selection, as_json: bool) -> int:
    check_place(clone)
    output = sys.stderr if as_json else sys.stdout
    sys.stdout.flush()
    report = Suite(clone, selection, output.fileno()).run()
    if selection.filtered and report.total == Tally() and not report.left_out:
        say(_none_chosen(clone, selection))
    print("\nSummary", file=output)
    for section in report.sections:
        print(f"  {section}", file=output)
    if report.left_out:
        print(f"  left out, out of time: {', '.join(report.left_out)}", file=output)
    print(report.as_json() if as_json else report.total, flush=True)
    return report.total.status
