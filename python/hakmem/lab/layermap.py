"""Which layer a place in code belongs to: the one table, and how an address is looked up in it."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hakmem.lab.sampling import Frame, Stack


@dataclass(frozen=True)
class Layer:
    key: str
    label: str


LAYERS = (
    Layer("program", "the program itself"),
    Layer("entry", "entry: malloc and free"),
    Layer("magazine", "magazine: ready blocks"),
    Layer("refill", "refill: heap, slabs, runs"),
    Layer("remote", "remote: to other threads"),
    Layer("pool", "pool: shared, large blocks"),
    Layer("insight", "insight: samples, what is shown"),
    Layer("purge", "purge: giving memory back"),
    Layer("allocator", "the allocator, not divided"),
    Layer("faults", "kernel: page faults"),
    Layer("memory_calls", "kernel: map and unmap"),
    Layer("kernel", "kernel: everything else"),
)


@dataclass(frozen=True)
class Rule:
    """Code whose source file is under `source` and whose function's name begins with `function`."""

    layer: str
    source: str
    function: str = ""


# hakmem's sources, the more particular first. Headers and folders that are not named serve all
# layers: their inlined code counts for whoever called it.
RULES = (
    Rule("magazine", "heap/heap.h", "magazine_"),
    Rule("magazine", "heap/magazine.h"),
    Rule("remote", "heap/remote.c"),
    Rule("refill", "heap/heap.c"),
    Rule("refill", "heap/refill.c"),
    Rule("refill", "heap/capacity.c"),
    Rule("refill", "heap/capacity.h"),
    Rule("refill", "heap/shared.c"),
    Rule("refill", "heap/shared.h"),
    Rule("refill", "heap/surplus.c"),
    Rule("refill", "heap/surplus.h"),
    Rule("refill", "heap/slots.c"),
    Rule("refill", "heap/explicit.c"),
    Rule("refill", "heap/explicit_end.c"),
    Rule("refill", "heap/lease.c"),
    Rule("refill", "heap/fresh.c"),
    Rule("refill", "heap/paged.c"),
    Rule("refill", "heap/paged.h"),
    Rule("refill", "heap/touched.c"),
    Rule("refill", "heap/touched.h"),
    Rule("purge", "heap/hollow.c"),
    Rule("purge", "heap/worker.c"),
    Rule("refill", "heap/runs.c"),
    Rule("refill", "heap/registry.c"),
    Rule("refill", "heap/fork.c"),
    Rule("refill", "heap/verify.c"),
    Rule("refill", "slab/row.c"),
    Rule("refill", "slab/slab.c"),
    Rule("purge", "super/super.c", "purge_"),
    Rule("purge", "super/super.c", "supers_purge"),
    Rule("purge", "big/big.c", "big_purge"),
    Rule("purge", "os/os.c", "os_purge"),
    Rule("purge", "pages/pages.c", "pages_purge"),
    Rule("insight", "purge/show.c"),
    Rule("purge", "purge/"),
    Rule("purge", "pressure/"),
    Rule("purge", "mind/"),
    Rule("pool", "super/super.c"),
    Rule("pool", "super/huge.c"),
    Rule("pool", "region/region.c"),
    Rule("pool", "region/arrays.c"),
    Rule("pool", "region/free_map.c"),
    Rule("pool", "pages/"),
    Rule("pool", "big/"),
    Rule("pool", "os/os.c"),
    Rule("pool", "os/lock.c"),
    Rule("insight", "live/"),
    Rule("insight", "profile/"),
    Rule("insight", "heap/show.c"),
    Rule("entry", "front/"),
    Rule("entry", "api/"),
    Rule("entry", "control/"),
)

PAGE_FAULT = re.compile(r"page_fault$|^el0_da$|^do_translation_fault$")
MEMORY_CALL = re.compile(r"_sys_(madvise|munmap|mmap|mprotect|mremap|brk)$|^exit_mmap$")
# What malloc.o of glibc exports, under whichever prefix.
MALLOC_NAME = re.compile(
    r"(__libc_)?(malloc|free|cfree|calloc|realloc|memalign|aligned_alloc|p?valloc|posix_memalign"
    r"|mallinfo2?|mallopt|malloc_(usable_size|trim|stats|info))(@.*)?"
)


def layer_of_source(chain: Iterable[tuple[str, str]]) -> str | None:
    """The layer of an address, from its inlined functions and files, innermost first."""
    for function, source in chain:
        parts = PurePosixPath(source).parts[-2:]
        place = "/".join(parts)
        for rule in RULES:
            if place.startswith(rule.source) and function.startswith(rule.function):
                return rule.layer
    return None


def kernel_layer(frames: tuple[str, ...]) -> str:
    if any(PAGE_FAULT.search(symbol) for symbol in frames):
        return "faults"
    if any(MEMORY_CALL.search(symbol) for symbol in frames):
        return "memory_calls"
    return "kernel"


class Locator:
    """Places samples in layers, for one allocator."""

    def __init__(self, library: Path | None) -> None:
        self.notes: list[str] = []
        self._library = library.resolve() if library else None
        self._asked: set[int] = set()
        self._known: dict[int, tuple[str, str]] = {}
        self._malloc_of_libc: dict[str, range] = {}
        self._divides = self._library is not None and self._library.name.startswith("libhakmem")
        self._addr2line = shutil.which("addr2line")
        if self._divides and self._addr2line is None:
            self._divides = False
            self.notes.append(
                "The allocator's part is not divided: "
                "addr2line is not installed (package binutils)."
            )

    def place_all(self, stacks: list[Stack]) -> list[tuple[str, str]]:
        """For each sample its layer, and the function's name where it is the allocator's."""
        if self._divides:
            self._resolve({s.user.offset for s in stacks if s.user and self._is_library(s.user)})
        return [self._place(stack) for stack in stacks]

    @property
    def of_no_file(self) -> str:
        """The layer of code that valgrind knows no file of, in a program that makes none itself:
        what another allocator has in sections of its own, and hakmem has not."""
        return "program" if self._library is None or self._divides else "allocator"

    def _place(self, stack: Stack) -> tuple[str, str]:
        if stack.kernel:
            return kernel_layer(stack.kernel), ""
        if stack.user is None:
            return "program", ""
        if self._library is None:
            return self._place_in_glibc(stack.user)
        if not self._is_library(stack.user):
            return "program", ""
        return self._known.get(stack.user.offset, ("allocator", stack.user.symbol))

    def _is_library(self, frame: Frame) -> bool:
        return self._library is not None and Path(frame.file).name == self._library.name

    def _place_in_glibc(self, frame: Frame) -> tuple[str, str]:
        if not re.fullmatch(r"libc(\.so\.6|-[\d.]+\.so)", Path(frame.file).name):
            return "program", ""
        if frame.file not in self._malloc_of_libc:
            self._malloc_of_libc[frame.file] = _malloc_range(frame.file)
        inside = frame.offset in self._malloc_of_libc[frame.file]
        return ("allocator", frame.symbol) if inside else ("program", "")

    def _resolve(self, addresses: set[int]) -> None:
        """Asks addr2line for all addresses at once; each answer begins with the address."""
        addresses = addresses - self._asked
        if not addresses or self._addr2line is None:
            return
        self._asked |= addresses
        answer = subprocess.run(
            [self._addr2line, "-a", "-i", "-f", "-e", str(self._library)],
            input="\n".join(f"{address:#x}" for address in addresses),
            capture_output=True,
            text=True,
            check=False,
        )
        for address, chain in _chains(answer.stdout.splitlines()):
            layer = layer_of_source(chain)
            if layer is not None:
                self._known[address] = (layer, chain[-1][0])
        note = f"The allocator's part is not divided: {self._library} has no debug information."
        if not self._known and note not in self.notes:
            self.notes.append(note)


def _chains(lines: list[str]) -> Iterable[tuple[int, list[tuple[str, str]]]]:
    """Pairs of lines, function and file:line, after a line with the address."""
    address: int | None = None
    chain: list[tuple[str, str]] = []
    function = ""
    for line in lines:
        if line.startswith("0x"):
            if address is not None:
                yield address, chain
            address, chain, function = int(line, 16), [], ""
        elif not function:
            function = line
        else:
            chain.append((function, line.rpartition(":")[0]))
            function = ""
    if address is not None:
        yield address, chain


def _malloc_range(libc: str) -> range:
    """Where glibc's malloc lies: one object file, whose static functions come before its exported
    ones, so from the end of the exported function before it."""
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", "-n", "-S", libc],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    first = last = before = 0
    for line in symbols:
        words = line.split()
        if len(words) != 4 or words[2] not in "TtWi":
            continue
        end = int(words[0], 16) + int(words[1], 16)
        if MALLOC_NAME.fullmatch(words[3]):
            first = first or before
            last = max(last, end)
        elif not first:
            before = end
    return range(first, last)
