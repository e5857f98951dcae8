"""Where the parts of hakmem lie: in a clone, or beside the installed package."""

import os
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import HakmemError

RELEASE = "release"
INSTALLED_LIBRARY = Path(__file__).with_name("libhakmem.so")
LIBRARY_NAME = "libhakmem.so"


@dataclass(frozen=True)
class Clone:
    """A checkout of hakmem's sources."""

    root: Path

    def build_folder(self, preset: str) -> Path:
        return self.root / "build" / preset

    def library(self, preset: str = RELEASE) -> Path:
        return self.build_folder(preset) / LIBRARY_NAME


def find_clone() -> Clone | None:
    """The clone whose `hakmem` script started this process, if one did.

    The variable is taken out of the environment: it is nothing to the programs that are run. Its
    name does not begin with HAKMEM_, or a library preloaded into this process would complain of it.
    """
    root = os.environ.pop("CLONE_OF_HAKMEM", None)
    return Clone(Path(root)) if root else None


def require_clone(clone: Clone | None) -> Clone:
    if clone is None:
        raise HakmemError("this command works in a clone of hakmem only; start it as ./hakmem")
    return clone


def profile_folder(clone: Clone | None) -> Path:
    return clone.root / "profiles" if clone else Path(__file__).parent / "profiles"
