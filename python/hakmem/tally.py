"""Counts of tests, read from the JUnit files that ctest and pytest write."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

# What ctest says of a test that skipped itself; any other test it did not run is a failure.
CTEST_SKIPS = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION")


@dataclass(frozen=True)
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    @property
    def status(self) -> int:
        """A run that tested nothing has not succeeded."""
        return 0 if self.passed and not self.failed else 1


def read_junit(path: Path, exit_status: int) -> Tally:
    """The counts in a file, and a failure more if the runner failed without naming a test."""
    tally = Tally()
    if path.exists():
        for case in ElementTree.parse(path).iter("testcase"):
            tally += _one(case)
    if exit_status != 0 and not tally.failed:
        tally += Tally(failed=1)
    return tally


def _one(case: ElementTree.Element) -> Tally:
    if case.find("failure") is not None or case.find("error") is not None:
        return Tally(failed=1)
    # ctest's own attribute; pytest has none.
    status = case.get("status")
    if status == "disabled":
        return Tally(skipped=1)
    skip = case.find("skipped")
    if skip is None:
        return Tally(passed=1)
    if status and not skip.get("message", "").startswith(CTEST_SKIPS):
        return Tally(failed=1)
    return Tally(skipped=1)
