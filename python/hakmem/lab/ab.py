"""Two states of hakmem against each other: revisions, builds, profiles, settings."""

import re
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hakmem.build import LIBRARY_TARGET, build, ensure_library
from hakmem.clone import RELEASE, Clone
from hakmem.errors import HakmemError
from hakmem.lab.arms import PROFILE, library_arm, profile_arm, settings_arm
from hakmem.lab.model import Arm

# What the clone holds now, changes that are not committed included.
WORKING_TREE = "."
SETTINGS = re.compile(r"[a-z][a-z0-9_]*:[^,:\s]+(?:,[a-z][a-z0-9_]*:[^,:\s]+)*")
KINDS = "a revision, '.', a library, profile:NAME or key:value,..."


def side(letter: str, text: str, clone: Clone) -> Arm:
    """One side of a comparison, from what the user typed; `letter` keeps two equal ones apart."""
    name = f"{letter} {text}"
    if text == WORKING_TREE:
        return library_arm(name, ensure_library(clone), "working tree")
    if text.startswith(PROFILE):
        return profile_arm(name, ensure_library(clone), clone, text.removeprefix(PROFILE))
    libraries = [Path(part).absolute() for part in text.split(":")]
    if all(path.is_file() for path in libraries):
        return _of_libraries(letter, libraries)
    if SETTINGS.fullmatch(text):
        return settings_arm(name, ensure_library(clone), text)
    commit = commit_of(clone, text)
    if commit is None:
        raise HakmemError(f"--{letter} {text or repr(text)}: not {KINDS}")
    return library_arm(name, revision_library(clone, commit), commit[:12])


def _of_libraries(letter: str, libraries: Sequence[Path]) -> Arm:
    """As in LD_PRELOAD: several stand for each other's front, for instance a probe and a build."""
    first, *rest = libraries
    environment = {"LD_PRELOAD": ":".join(map(str, rest))} if rest else {}
    names = " + ".join(path.name for path in libraries)
    return Arm(f"{letter} {first.name.partition('.so')[0]}", names, first, environment, "hakmem")


def commit_of(clone: Clone, revision: str) -> str | None:
    result = _git(clone, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    return result.stdout.strip() if result.returncode == 0 else None


def revision_library(clone: Clone, commit: str) -> Path:
    """The release library of a commit, built in a folder of its own and kept."""
    place = Clone(clone.root / "build" / "ab" / commit)
    library = place.library()
    if library.exists():
        return library
    if not (place.root / "CMakePresets.json").exists():
        _export(clone, commit, place.root)
    build(place, RELEASE, LIBRARY_TARGET)
    if not library.exists():
        raise HakmemError(f"the build of {commit[:12]} made no {library.name}")
    return library


def _export(clone: Clone, commit: str, folder: Path) -> None:
    """The files of a commit. A `git worktree` would leave traces in the clone's own records."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        archive = Path(place) / "sources.tar"
        result = _git(clone, "archive", "--format=tar", f"--output={archive}", commit)
        if result.returncode != 0:
            raise HakmemError(f"cannot take {commit[:12]} out of git: {result.stderr.strip()}")
        with tarfile.open(archive) as sources:
            sources.extractall(Path(place) / "tree", filter="data")
        (Path(place) / "tree").rename(folder)


def _git(clone: Clone, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(clone.root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise HakmemError(f"cannot start git: {error.strerror}") from error
