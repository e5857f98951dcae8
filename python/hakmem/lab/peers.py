"""The allocators to compare with: glibc, the distribution's, and builds of the newest sources."""

import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hakmem.clone import Clone
from hakmem.elf import read_elf
from hakmem.lab import packages
from hakmem.lab.model import Arm
from hakmem.lab.packages import Report
from hakmem.lab.peers_build import RECIPES, BuildError, Built, Recipe, build
from hakmem.launch import with_preload

RECORD = "peer.json"
PROBE_TIMEOUT_S = 60
PROBE_RUNS = 3  # rpmalloc 1.4.3 crashes in one of fifty, as a thread ends
LIBRARY_FOLDERS = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")

# Started under the library: uses all of the interface that programs use, in two threads, and
# prints which file serves malloc and free.
PROBE = """
import ctypes, threading
libc = ctypes.CDLL(None)
class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]
pointer, size = ctypes.c_void_p, ctypes.c_size_t
for name, takes in {"malloc": [size], "calloc": [size, size], "realloc": [pointer, size],
                    "aligned_alloc": [size, size], "free": [pointer]}.items():
    getattr(libc, name).restype, getattr(libc, name).argtypes = pointer, takes
def use():
    live = []
    for step in range(3000):
        block = libc.malloc(step * 37 % 5000 + 1)
        ctypes.memset(block, step & 255, step * 37 % 5000 + 1)
        block = libc.realloc(block, step * 53 % 200000 + 1)
        live += [block, libc.calloc(7, step % 90 + 1), libc.aligned_alloc(64, 64 * (step % 9 + 1))]
        if len(live) > 300:
            for old in live[:150]: libc.free(old)
            del live[:150]
    for block in live: libc.free(block)
threads = [threading.Thread(target=use) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for name in ("malloc", "free"):
    info = Info()
    found = libc.dladdr(ctypes.cast(getattr(libc, name), pointer), ctypes.byref(info))
    print(info.file.decode() if found else "?")
print(open("/proc/self/maps").read())
"""


@dataclass(frozen=True)
class PeerState:
    """One peer after set-up: its arm, or why there is none."""

    name: str
    arm: Arm | None
    source: str
    reason: str | None = None

    @property
    def version(self) -> str | None:
        return self.arm.version if self.arm else None


@dataclass(frozen=True)
class DistributionPeer:
    """An allocator that the distribution has ready; `patterns` are names of its library."""

    name: str
    patterns: tuple[str, ...]
    package: str

    def library(self) -> Path | None:
        folders = [hit for pattern in LIBRARY_FOLDERS for hit in Path("/").glob(pattern[1:])]
        hits = [hit for p in self.patterns for folder in folders for hit in sorted(folder.glob(p))]
        return next((hit for hit in hits if _for_this_machine(hit)), None)


DISTRIBUTION = (
    DistributionPeer("tcmalloc", ("libtcmalloc_minimal.so.4",), "libtcmalloc-minimal4"),
    DistributionPeer("jemalloc-debian", ("libjemalloc.so.2",), "libjemalloc2"),
    DistributionPeer("mimalloc-debian", ("libmimalloc.so.[0-9]*",), "libmimalloc2.0"),
)


def _for_this_machine(library: Path) -> bool:
    """Whether it is of the interpreter's own kind of processor and width."""
    mine, other = read_elf(Path(sys.executable)), read_elf(library)
    if mine is None or other is None:
        return False
    return (mine.bits, mine.machine) == (other.bits, other.machine)


def peers_folder(clone: Clone | None) -> Path:
    if clone is not None:
        return clone.root / "build" / "peers"
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "hakmem" / "peers"


def available(clone: Clone | None = None) -> list[Arm]:
    """Every allocator that is ready on this machine, glibc first."""
    ready = [_glibc()]
    for recipe in RECIPES:
        done = _recorded(peers_folder(clone) / recipe.name)
        if done:
            ready.append(_arm(recipe.name, done))
    for peer in DISTRIBUTION:
        library = peer.library()
        if library:
            ready.append(_distribution_arm(peer, library))
    return ready


def setup(
    clone: Clone | None,
    report: Report,
    only: Iterable[str] | None = None,
    refresh: bool = False,
) -> list[PeerState]:
    """Makes every peer ready that can be had here, and says of the others why not.

    What is built already is kept, unless `refresh` asks for what is newest now.
    """
    names = None if only is None else set(only)
    chosen = [peer for peer in DISTRIBUTION if names is None or peer.name in names]
    recipes = [recipe for recipe in RECIPES if names is None or recipe.name in names]
    states = [PeerState("glibc", _glibc(), "this system's C library")]
    states += [_set_up_built(recipe, peers_folder(clone), report, refresh) for recipe in recipes]
    return states + _set_up_distribution(chosen, report)


def _glibc() -> Arm:
    return Arm("glibc", platform.libc_ver()[1], None, kind="glibc")


def _distribution_arm(peer: DistributionPeer, library: Path) -> Arm:
    package = packages.package_of(library)
    version = packages.version_of(package) if package else ""
    return Arm(peer.name, version or library.resolve().name.partition(".so.")[2], library)


def _set_up_distribution(peers: Sequence[DistributionPeer], report: Report) -> list[PeerState]:
    wanted = [peer.package for peer in peers if peer.library() is None]
    reasons = packages.install(wanted, report)
    states = []
    for peer in peers:
        library = peer.library()
        if library:
            reason = why_unusable(library)
        else:
            reason = reasons.get(peer.package) or f"{peer.package} brought no {peer.patterns[0]}"
        arm = _distribution_arm(peer, library) if library and reason is None else None
        states.append(PeerState(peer.name, arm, f"package {peer.package}", reason))
    return states


def _set_up_built(recipe: Recipe, folder: Path, report: Report, refresh: bool) -> PeerState:
    own = folder / recipe.name
    try:
        with _one_at_a_time(own):
            done = None if refresh else _recorded(own)
            if done is None:
                started = time.monotonic()
                done = _build_and_check(recipe, own, report)
                report(f"{recipe.name}: ready after {time.monotonic() - started:.0f} s")
    except BuildError as error:
        report(f"{recipe.name}: left out, {error}")
        return PeerState(recipe.name, None, recipe.crate, str(error))
    except OSError as error:
        reason = f"cannot write to {own}: {error.strerror}"
        return PeerState(recipe.name, None, recipe.crate, reason)
    return PeerState(recipe.name, _arm(recipe.name, done), done.source)


def _build_and_check(recipe: Recipe, folder: Path, report: Report) -> Built:
    # No record while there is something half made.
    (folder / RECORD).unlink(missing_ok=True)
    done = build(recipe, folder, report)
    reason = why_unusable(done.library)
    if reason:
        raise BuildError(f"what was built does not work: {reason}")
    _write_record(folder, done)
    return done


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Two set-ups at once: the second waits, and finds the work done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _arm(name: str, done: Built) -> Arm:
    return Arm(name, done.version, done.library)


def _write_record(folder: Path, done: Built) -> None:
    record = {"version": done.version, "source": done.source, "library": done.library.name}
    partial = folder / f"{RECORD}.partial"
    partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    partial.replace(folder / RECORD)


def _recorded(folder: Path) -> Built | None:
    """The finished build in a folder, if there is one."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        done = Built(folder / record["library"], record["version"], record["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return done if done.library.is_file() else None


def why_unusable(library: Path) -> str | None:
    """Runs a program under the library; None if that went well once and the library served it."""
    for _ in range(PROBE_RUNS):
        reason, is_final = _probe(library)
        if reason is None or is_final:
            break
    return reason


def _probe(library: Path) -> tuple[str | None, bool]:
    """Why one run of it did not go well, and whether no other would."""
    scrubbed = {
        name: value for name, value in os.environ.items() if not name.startswith(("LD_", "PYTHON"))
    }
    command = [os.path.realpath(sys.executable), "-S", "-c", PROBE]
    try:
        result = subprocess.run(
            command,
            env=with_preload(scrubbed, library) | {"PYTHONMALLOC": "malloc"},
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"python3 hangs under {library}", True
    if result.returncode != 0:
        said = result.stderr.strip().splitlines() or [f"status {result.returncode}"]
        return f"python3 fails under {library}: {said[-1]}", False
    malloc, free, maps = result.stdout.split("\n", 2)
    if str(library.resolve()) not in maps:
        return f"the loader refuses {library}: {result.stderr.strip()}", True
    for name, file in (("malloc", malloc), ("free", free)):
        if not Path(file).exists() or not library.samefile(file):
            return f"{library} does not serve {name}, {file} does", True
    return None, True
