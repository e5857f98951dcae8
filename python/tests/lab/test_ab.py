"""Two states of hakmem as arms: revisions built on the side, settings, profiles, libraries."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hakmem.clone import Clone
from hakmem.errors import HakmemError
from hakmem.insight.library_settings import Answer
from hakmem.lab.ab import commit_of, side
from hakmem.lab.arms import chosen_arms, forced_glibc, library_arm
from hakmem.lab.model import Arm

CMAKE_LISTS = """
cmake_minimum_required(VERSION 3.25)
project(small C)
add_library(hakmem_shared SHARED small.c)
set_target_properties(hakmem_shared PROPERTIES OUTPUT_NAME hakmem)
"""
PRESETS = {
    "version": 6,
    "configurePresets": [
        {"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}
    ],
}
GLIBC = Arm("glibc", "", None, kind="glibc")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    for tool in ("cmake", "ninja", "git"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    root = tmp_path / "small clone"
    (root / "profiles").mkdir(parents=True)
    (root / "profiles" / "lean.env").write_text("HAKMEM_RETAIN=1M\n")
    (root / "CMakeLists.txt").write_text(CMAKE_LISTS)
    (root / "CMakePresets.json").write_text(json.dumps(PRESETS))
    git(root, "init", "--quiet")
    for number in (1, 2):
        (root / "small.c").write_text(f"int version_{number};\n")
        git(root, "add", "CMakeLists.txt", "CMakePresets.json", "small.c", "profiles")
        git(root, "commit", "--quiet", "--message", f"version {number}")
    (root / "small.c").write_text("int version_3;\n")
    return Clone(root)


def git(root: Path, *words: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(root), *identity, *words], check=True, capture_output=True)


def library_of(arm: Arm) -> bytes:
    assert arm.preload is not None
    return arm.preload.read_bytes()


def test_revisions_and_the_working_tree(clone: Clone) -> None:
    for letter, text, version in (("a", "HEAD~1", 1), ("b", "HEAD", 2), ("b", ".", 3)):
        arm = side(letter, text, clone)
        assert f"version_{version}".encode() in library_of(arm)
        assert arm.name == f"{letter} {text}"
    status = subprocess.run(
        ["git", "-C", str(clone.root), "worktree", "list"], capture_output=True, text=True
    )
    assert len(status.stdout.splitlines()) == 1


def test_revision_is_built_once(clone: Clone) -> None:
    first = side("a", "HEAD", clone)
    assert first.preload is not None
    before = first.preload.stat().st_mtime_ns
    again = side("b", "HEAD", clone)
    assert again.preload == first.preload
    assert first.preload.stat().st_mtime_ns == before
    commit = commit_of(clone, "HEAD")
    assert commit is not None
    assert first.preload.is_relative_to(clone.root / "build" / "ab" / commit)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library without settings is asked for them."""

    def ask(library: Path, environment: Mapping[str, str]) -> Answer:
        wrong = ("hakmem: no",) if "wrong" in str(environment) else ()
        return Answer("", (), wrong)

    monkeypatch.setattr("hakmem.lab.arms.ask", ask)


def test_settings_and_profiles(clone: Clone, asked: None) -> None:
    assert side("a", "retain:1M,huge_pages:0", clone).environment == {
        "HAKMEM_CONF": "retain:1M,huge_pages:0"
    }
    assert side("b", "profile:lean", clone).environment == {"HAKMEM_RETAIN": "1M"}
    with pytest.raises(HakmemError, match="no profile named 'fat'; there are: lean"):
        side("b", "profile:fat", clone)
    with pytest.raises(HakmemError, match="arm b wrong:1: no"):
        side("b", "wrong:1", clone)


def test_libraries(clone: Clone, tmp_path: Path) -> None:
    probe, build = tmp_path / "probe.so", tmp_path / "build.so"
    probe.touch()
    build.touch()
    assert side("a", str(build), clone).preload == build
    both = side("b", f"{probe}:{build}", clone)
    assert (both.preload, both.environment) == (probe, {"LD_PRELOAD": str(build)})


def test_what_is_none_of_these_is_named(clone: Clone) -> None:
    with pytest.raises(HakmemError, match="--a nonsense: not a revision"):
        side("a", "nonsense", clone)


def test_both_sides_the_same_stay_two(clone: Clone) -> None:
    assert side("a", ".", clone).name != side("b", ".", clone).name


def test_choice_of_arms(tmp_path: Path, asked: None) -> None:
    hakmem = library_arm("hakmem", tmp_path / "lib.so")
    peers = [Arm(name, "", tmp_path) for name in ("jemalloc", "jemalloc-debian", "tcmalloc")]
    available = [GLIBC, *peers]

    def names(wanted: str | None) -> list[str]:
        return [arm.name for arm in chosen_arms(wanted, available, hakmem, None)]

    assert names(None) == ["glibc", "hakmem", "jemalloc", "tcmalloc"]
    assert names("all") == ["glibc", "hakmem", "jemalloc", "jemalloc-debian", "tcmalloc"]
    assert names("tcmalloc,hakmem") == ["tcmalloc", "hakmem"]
    settings = chosen_arms("hakmem,retain:1M+huge_pages:0", available, hakmem, None)[1]
    assert settings.environment == {"HAKMEM_CONF": "retain:1M,huge_pages:0"}
    with pytest.raises(HakmemError, match="no allocator named 'hoard'"):
        names("glibc,hoard")
    with pytest.raises(HakmemError, match="needs two"):
        names("glibc")


def test_distributions_own_stands_in_where_it_is_the_only_one(tmp_path: Path) -> None:
    hakmem = library_arm("hakmem", tmp_path)
    available = [GLIBC, Arm("jemalloc-debian", "", tmp_path)]
    names = [arm.name for arm in chosen_arms(None, available, hakmem, None)]
    assert names == ["glibc", "hakmem", "jemalloc-debian"]


def test_program_linked_with_another_malloc(compiler: str, tmp_path: Path) -> None:
    """glibc's arm must be glibc's also there."""
    source = tmp_path / "main.c"
    source.write_text("extern int other; int main(void) { return other; }\n")
    (tmp_path / "other.c").write_text("int other;\n")
    library = tmp_path / "libjemalloc.so"
    command = [compiler, "-shared", "-fPIC", str(tmp_path / "other.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    program = tmp_path / "main"
    link = [compiler, str(source), str(library), "-o", str(program)]
    subprocess.run(link, check=True)
    forced = forced_glibc(GLIBC, program)
    assert forced.preload is not None
    assert forced.preload.name == "libc.so.6"
    assert forced_glibc(GLIBC, Path("/bin/true")) == GLIBC
