"""Peers: what is ready is used, what is not is said, and nothing that does not work is offered."""

import shutil
import threading
from pathlib import Path

import pytest

from hakmem.clone import Clone
from hakmem.lab import packages, peers, peers_build
from hakmem.lab.peers_build import BuildError, Built, Recipe, Workshop

ALLOCATOR = """
#include <stddef.h>
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
"""
FREE = "void free(void *p) { __libc_free(p); }\n"
CRASH = "void free(void *p) { if (p) __builtin_trap(); }\n"
# At the first start, of which a file tells.
CRASH_ONCE = """
#include <fcntl.h>
__attribute__((constructor)) static void crash_once(void)
{
    if (open("%s", O_CREAT | O_EXCL, 0600) >= 0)
        __builtin_trap();
}
"""


def recipe(text: str, name: str = "example") -> Recipe:
    """A peer whose source is given as text."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")

    def make(workshop: Workshop) -> Path:
        workshop.build.mkdir()
        source, library = workshop.build / "example.c", workshop.build / "libexample.so"
        source.write_text(text)
        workshop.run(["gcc", "-shared", "-fPIC", "-fno-builtin", source, "-o", library])
        return library

    return Recipe(name, "example-sys", lambda source: "1.2.3", make)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package is there at once, as if it had been fetched."""

    def fetch(cargo: str, crate: str, folder: Path, log: Path) -> Path:
        source = folder / crate
        source.mkdir()
        (source / "Cargo.toml").write_text('[package]\nversion = "0.4.5"\n')
        return source

    monkeypatch.setattr(peers_build, "ensure_cargo", lambda report: "cargo")
    monkeypatch.setattr(peers_build, "fetch", fetch)


def set_up(
    monkeypatch: pytest.MonkeyPatch, root: Path, one: Recipe, refresh: bool = False
) -> tuple[peers.PeerState, list[str]]:
    monkeypatch.setattr(peers, "RECIPES", (one,))
    said: list[str] = []
    states = peers.setup(Clone(root), said.append, only=[one.name], refresh=refresh)
    assert states[0].name == "glibc"
    return states[1], said


def test_glibc_comes_first(tmp_path: Path) -> None:
    arms = peers.available(Clone(tmp_path))
    assert (arms[0].name, arms[0].preload, arms[0].kind) == ("glibc", None, "glibc")
    assert arms[0].version
    assert all(arm.preload and arm.preload.exists() for arm in arms[1:])


def test_builds_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None) -> None:
    state, said = set_up(monkeypatch, tmp_path, recipe(ALLOCATOR + FREE))
    assert state.reason is None and state.version == "1.2.3"
    assert state.source == "example-sys 0.4.5"
    assert said[-1].startswith("example: ready after")
    assert [arm.name for arm in peers.available(Clone(tmp_path))][:2] == ["glibc", "example"]
    folder = tmp_path / "build" / "peers" / "example"
    assert not (folder / "work").exists()

    again, said = set_up(monkeypatch, tmp_path, recipe("not C"))
    assert (again.version, said) == ("1.2.3", [])
    failed, _ = set_up(monkeypatch, tmp_path, recipe("not C"), refresh=True)
    assert failed.arm is None
    assert [arm.name for arm in peers.available(Clone(tmp_path))][1:2] != ["example"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("int unrelated;\n", "does not serve malloc"),
        (ALLOCATOR, "does not serve free"),
        (ALLOCATOR + CRASH, "python3 fails under"),
    ],
    ids=["no malloc", "no free", "crashes"],
)
def test_what_does_not_work_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None, text: str, reason: str
) -> None:
    state, said = set_up(monkeypatch, tmp_path, recipe(text))
    assert state.arm is None and state.reason is not None
    assert reason in state.reason
    assert said[-1] == f"example: left out, {state.reason}"
    assert "example" not in [arm.name for arm in peers.available(Clone(tmp_path))]


def test_what_crashes_seldom_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    crashed = tmp_path / "crashed"
    text = ALLOCATOR + FREE + CRASH_ONCE % crashed
    state, _ = set_up(monkeypatch, tmp_path, recipe(text))
    assert crashed.exists()
    assert state.arm is not None and state.reason is None


def test_failing_build_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    def make(workshop: Workshop) -> Path:
        workshop.run(["sh", "-c", "echo 'x.c:1: error: no such thing'; exit 3"])
        raise AssertionError("not reached")

    broken = Recipe("broken", "broken-sys", lambda source: "1", make)
    state, _ = set_up(monkeypatch, tmp_path, broken)
    assert state.reason is not None
    assert "sh failed (x.c:1: error: no such thing)" in state.reason
    assert str(tmp_path / "build" / "peers" / "broken" / "build.log") in state.reason


def test_without_cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = recipe(ALLOCATOR + FREE)
    monkeypatch.setattr(peers_build.shutil, "which", lambda name: None)
    monkeypatch.setattr(
        peers_build, "install", lambda names, report: dict.fromkeys(names, "no apt here")
    )
    state, _ = set_up(monkeypatch, tmp_path, one)
    assert state.reason == "there is no cargo to fetch its source with: no apt here"


def test_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\necho 'error: failed to get `example-sys`' >&2\nexit 101\n")
    cargo.chmod(0o755)
    monkeypatch.setattr(peers_build, "ensure_cargo", lambda report: str(cargo))
    state, _ = set_up(monkeypatch, tmp_path, recipe(ALLOCATOR + FREE))
    assert state.reason is not None
    assert state.reason.startswith("cargo failed (error: failed to get `example-sys`)")


def test_two_at_once_build_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    made = []
    one = recipe(ALLOCATOR + FREE)

    def make(workshop: Workshop) -> Path:
        made.append(1)
        return one.make(workshop)

    counted = Recipe(one.name, one.crate, one.version_of, make)
    monkeypatch.setattr(peers, "RECIPES", (counted,))
    states: list[peers.PeerState] = []

    def work() -> None:
        states.extend(peers.setup(Clone(tmp_path), lambda text: None, only=["example"]))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert [state.version for state in states if state.name == "example"] == ["1.2.3"] * 2


def test_missing_package_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = peers.DistributionPeer("absent", ("libno-such-thing.so",), "libno-such-thing")
    monkeypatch.setattr(peers, "DISTRIBUTION", (absent,))
    monkeypatch.setattr(
        packages, "install", lambda names, report: dict.fromkeys(names, "needs root")
    )
    state = peers.setup(Clone(tmp_path), lambda text: None, only=["absent"])[-1]
    assert (state.name, state.arm, state.reason) == ("absent", None, "needs root")


@pytest.mark.parametrize("record", ["", "{}", "[]", '{"library": "gone.so", "version": "1"}'])
def test_damaged_record_is_no_peer(tmp_path: Path, record: str) -> None:
    folder = peers.peers_folder(Clone(tmp_path)) / "jemalloc"
    folder.mkdir(parents=True)
    (folder / peers.RECORD).write_text(record)
    assert "jemalloc" not in [arm.name for arm in peers.available(Clone(tmp_path))]


def test_without_a_clone_the_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert peers.peers_folder(None) == tmp_path / "hakmem" / "peers"


def jemalloc_source(folder: Path, version: str) -> Path:
    folder.mkdir()
    (folder / "Cargo.toml").write_text(f'[package]\nname = "x"\nversion = "{version}"\n')
    return folder


@pytest.mark.parametrize(
    ("crate", "version"),
    [
        ("0.7.1+5.3.1-0-g81034ce1f1373e37", "5.3.1"),
        ("0.6.0+5.3.0-12-gabcdef0123", "5.3.0-12-gabcdef01"),
    ],
)
def test_jemalloc_version(tmp_path: Path, crate: str, version: str) -> None:
    source = jemalloc_source(tmp_path / "source", crate)
    assert _recipe("jemalloc").version_of(source) == version


def test_mimalloc_version(tmp_path: Path) -> None:
    include = tmp_path / "c_src" / "mimalloc" / "v3" / "include"
    include.mkdir(parents=True)
    (include / "mimalloc.h").write_text("#define MI_MALLOC_VERSION 30302   // comment\n")
    assert _recipe("mimalloc3").version_of(tmp_path) == "3.3.2"
    with pytest.raises(BuildError, match="carries no mimalloc 2"):
        _recipe("mimalloc2").version_of(tmp_path)


def test_unexpected_source_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    # No version of jemalloc's in the package's: its own recipe has to cope.
    state, _ = set_up(monkeypatch, tmp_path, _recipe("jemalloc"))
    assert state.arm is None and state.reason


def _recipe(name: str) -> Recipe:
    return next(one for one in peers_build.RECIPES if one.name == name)


def test_every_build_that_is_ready_serves_malloc(free_promises: None) -> None:
    root = Path(__file__).resolve().parents[3]
    arms = [arm for arm in peers.available(Clone(root)) if arm.preload]
    if not arms:
        pytest.skip("no peer is ready; hakmem bench --setup-peers makes them")
    problems = {arm.name: peers.why_unusable(arm.preload) for arm in arms if arm.preload}
    assert {name: problem for name, problem in problems.items() if problem} == {}


def test_record_round_trip(tmp_path: Path) -> None:
    library = tmp_path / "libx.so"
    library.touch()
    done = Built(library, "1", "x-sys 2")
    peers._write_record(tmp_path, done)
    assert peers._recorded(tmp_path) == done
