"""The catalogue: what programs.toml says of each program."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORK = HERE / "work"
CATALOGUE = HERE / "programs.toml"

# Only the distribution's own programs: what a user has put elsewhere is not known to be the same.
SYSTEM_PATH = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]

# -P: a workload named after the module that it imports must not hide it.
INTERPRETERS = {".sh": ["sh"], ".bash": ["bash"], ".py": ["python3", "-P"]}


class CatalogueError(Exception):
    """programs.toml contradicts itself or the folder `work`."""


def matches(pattern: str) -> list[str]:
    """The files that an absolute pattern names."""
    return [str(path) for path in Path("/").glob(pattern.removeprefix("/"))]


@dataclass(frozen=True)
class Program:
    """One row of programs.toml; the comments there explain each field."""

    name: str
    packages: list[str]
    commands: list[str]
    weight: str = "quick"
    timeout: int = 120
    path: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    loads: list[str] | None = None
    mapped: list[str] = field(default_factory=list)
    user: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    normalise: list[list[str]] = field(default_factory=list)
    unordered: bool = False

    def script(self) -> Path:
        """The workload, whose suffix tells what runs it."""
        found = [p for p in WORK.glob(f"{self.name}.*") if p.suffix in INTERPRETERS]
        if len(found) != 1:
            raise CatalogueError(f"{self.name}: wants exactly one workload, found {len(found)}")
        return found[0]

    def search_path(self) -> str:
        extra = [hit for pattern in self.path for hit in sorted(matches(pattern), reverse=True)]
        return os.pathsep.join(extra + SYSTEM_PATH)

    def find(self, command: str) -> str | None:
        return shutil.which(command, path=self.search_path())

    def missing(self) -> list[str]:
        """The commands and files that this machine lacks."""
        lacking = [c for c in self.commands if self.find(c) is None]
        return lacking + [pattern for pattern in self.needs if not matches(pattern)]

    def check(self) -> None:
        if self.weight not in ("quick", "long"):
            raise CatalogueError(f"{self.name}: weight is quick or long, not {self.weight}")
        if not self.packages or not self.commands:
            raise CatalogueError(f"{self.name}: packages and commands must not be empty")
        for pattern, _ in self.normalise:
            re.compile(pattern)
        self.script()


def load(path: Path = CATALOGUE) -> dict[str, Program]:
    """Reads the catalogue; a mistake in it is an error, never a program left out."""
    known = {f.name for f in fields(Program)}
    programs = {}
    for name, row in tomllib.loads(path.read_text()).items():
        unknown = set(row) - known
        if unknown:
            raise CatalogueError(f"{name}: unknown field {', '.join(sorted(unknown))}")
        programs[name] = Program(name=name, **row)
        programs[name].check()
    return programs
