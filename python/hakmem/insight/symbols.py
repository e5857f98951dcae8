"""Names of addresses: function, file and line, with inlined frames, read from the files that were
mapped or their separate debug files."""

import bisect
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from symbolic.debuginfo import Archive
from symbolic.exceptions import SymbolicError
from symbolic.symcache import SymCache

from hakmem.elf import open_regular
from hakmem.insight.images import Image, checksum, first_image, read_image
from hakmem.insight.profile import Module
from hakmem.terminal import legible, say

DEBUG_FOLDER = Path("/usr/lib/debug")
DELETED = " (deleted)"
JIT = "[generated code]"
NOWHERE = "[unknown]"
# Below this no program has code.
LEAST_ADDRESS = 64 << 10
# "file:line", as HAK_CALLSITE() has it.
PLACE = re.compile(r"[^\n]+:[0-9]+")
TEXT_MOST = 4096
MANGLED = ("_Z", "_R", "__Z", "__R")
# What tells versions of a crate, copies or aliases of a function apart, and people nothing.
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$|(?<=\w)\[[0-9a-f]{1,16}\]")
# What everybody writes in short.
STRING = re.compile(
    r"std::(__cxx11::)?basic_string<char, std::char_traits<char>, std::allocator<char> ?>( (?=>))?"
)
CLONE = re.compile(
    r"( \[clone [^\]]*\])+$|\.(isra|part|constprop|cold|llvm)\.[\w.]+$|\.cold$|_alias_\d+$"
)


@dataclass(frozen=True)
class Frame:
    """A function at work."""

    function: str
    module: str
    file: str = ""
    line: int = 0
    inlined: bool = False
    # False: nothing names it, and `function` is where it lies.
    named: bool = True


class Symbols:
    """Names the addresses of one profile. Files are read when an address in them comes up."""

    def __init__(self, modules: Sequence[Module], debug_folder: Path = DEBUG_FOLDER) -> None:
        self._modules = sorted(modules, key=lambda module: module.start)
        self._starts = [module.start for module in self._modules]
        self._files: dict[str, _File] = {}
        self._frames: dict[int, tuple[Frame, ...]] = {}
        self._names: dict[str, str] = {}
        self._debug_folder = debug_folder
        self._is_warned = False

    def frames(self, address: int) -> tuple[Frame, ...]:
        """What was called when that return address was noted, innermost first."""
        if address not in self._frames:
            self.prepare([address])
        return self._frames[address]

    def prepare(self, addresses: Iterable[int]) -> None:
        """Names many at once, which is much quicker than one by one."""
        found = {
            address: self._lookup(address)
            for address in set(addresses)
            if address not in self._frames
        }
        self._demangle({frame.function for frames in found.values() for frame in frames})
        for address, frames in found.items():
            self._frames[address] = tuple(
                replace(frame, function=self._names.get(frame.function, frame.function))
                for frame in frames
            )

    def module_of(self, address: int) -> Module | None:
        """Of a return address, or a site: a function's last call may end where its code does."""
        found = self.module_at(address)
        return found if found is not None and not found.is_code else self.module_at(address - 1)

    def module_at(self, address: int) -> Module | None:
        index = bisect.bisect_right(self._starts, address) - 1
        if index >= 0 and address < self._modules[index].end:
            return self._modules[index]
        return None

    def _lookup(self, address: int) -> tuple[Frame, ...]:
        # The call is what matters; the return address may belong to the next line or function.
        call = address - 1
        module = self.module_of(address)
        if module is None:
            if address < LEAST_ADDRESS:
                return (Frame(f"site {address}", ""),)
            return (Frame(NOWHERE, NOWHERE, named=False),)
        if not module.is_code:
            return (self._site(module, address - module.start + module.offset),)
        offset = call - module.start + module.offset
        if not module.path or module.path.startswith(("[anon", "//anon", "/memfd:")):
            return (Frame(JIT, JIT, named=False),)
        found = self._file(module).frames(offset) if module.is_file else ()
        name = module.name.removesuffix(DELETED)
        return found or (Frame(f"{name}+{offset:#x}", name, named=False),)

    def _site(self, module: Module, offset: int) -> Frame:
        """What hak_alloc_at was given: with HAK_CALLSITE() the place in the source, a constant."""
        text = self._file(module).text(offset)
        if not PLACE.fullmatch(text):
            return Frame(f"site {module.name}+{offset:#x}", module.name, named=False)
        return Frame(legible(text.rpartition("/")[2]), module.name)

    def _file(self, module: Module) -> "_File":
        if module.path not in self._files:
            self._files[module.path] = _File(module, self._debug_folder)
        return self._files[module.path]

    def _demangle(self, names: set[str]) -> None:
        mangled = sorted(name for name in names - self._names.keys() if name.startswith(MANGLED))
        for name, plain in zip(mangled, self._plain(mangled), strict=True):
            self._names[name] = STRING.sub("std::string", RUST_HASH.sub("", CLONE.sub("", plain)))

    def _plain(self, mangled: list[str]) -> list[str]:
        if not mangled:
            return []
        program = shutil.which("c++filt")
        if program:
            # Without argument types: they make names long and seldom tell functions apart.
            result = subprocess.run(
                [program, "--no-params"],
                input="\n".join(mangled),
                capture_output=True,
                text=True,
                check=False,
            )
            lines = result.stdout.splitlines()
            if len(lines) == len(mangled):
                return lines
        if not self._is_warned:
            self._is_warned = True
            say("c++filt is not there (package binutils): names of C++ and Rust stay mangled")
        return mangled


class _File:
    """One mapped file and what names the code in it."""

    def __init__(self, module: Module, debug_folder: Path) -> None:
        self._module = module
        self._debug_folder = debug_folder
        self._path = first_image(module.shown) or module.file

    def frames(self, offset: int) -> tuple[Frame, ...]:
        if self._image is None or self._cache is None:
            return ()
        address = self._image.relative(offset)
        if address is None:
            return ()
        found = self._cache.lookup(address)  # type: ignore[no-untyped-call]
        return tuple(
            Frame(
                function=legible(CLONE.sub("", one.symbol)),
                module=self._module.name,
                file=legible(one.full_path or ""),
                line=one.line,
                inlined=one is not found[-1],
            )
            for one in found
            if one.symbol
        )

    def text(self, offset: int) -> str:
        """The constant that begins there; empty if the file is another by now."""
        if self._image is None:
            return ""
        try:
            with open_regular(self._path) as file:
                file.seek(offset)
                text, end, _ = file.read(TEXT_MOST).partition(b"\0")
        except OSError:
            return ""
        return text.decode(errors="replace") if end else ""

    @cached_property
    def _image(self) -> Image | None:
        """None, and said once, if the file is not the one that was mapped."""
        name = legible(self._module.path)
        if self._module.path.endswith(DELETED) and self._path == self._module.file:
            say(f"{name.removesuffix(DELETED)} is no longer there: its functions stay unnamed")
            return None
        image = read_image(self._path)
        if image is None:
            say(f"{name} cannot be read: its functions stay unnamed")
        elif self._module.build_id and image.build_id and image.build_id != self._module.build_id:
            say(
                f"{name} has changed since the profile (its build id differs): "
                "its functions stay unnamed"
            )
            return None
        return image

    @cached_property
    def _cache(self) -> SymCache | None:
        """Of the debug file if there is one, else of the file itself."""
        for path in (*self._debug_files(), self._path):
            try:
                # The package takes a path of UTF-8 only: the file is opened for it.
                with path.open("rb") as file:
                    archive = Archive.open(f"/proc/self/fd/{file.fileno()}")
                entry = next(iter(archive.iter_objects()), None)
                if entry is not None:
                    return entry.make_symcache()
            except (SymbolicError, OSError):
                continue
        return None

    def _debug_files(self) -> list[Path]:
        assert self._image is not None
        found = []
        own = self._image.build_id
        if own:
            found.append(self._debug_folder / ".build-id" / own[:2] / f"{own[2:]}.debug")
        link = self._image.debug_link
        if link:
            folder = self._module.file.parent
            beyond = self._debug_folder / str(Path(self._module.path).parent).lstrip("/")
            found += [folder / link, folder / ".debug" / link, beyond / link]
        return [path for path in found if path != self._module.file and self._fits(path)]

    def _fits(self, path: Path) -> bool:
        assert self._image is not None
        image = read_image(path)
        if image is None or image.build_id != self._image.build_id:
            return False
        return bool(image.build_id) or checksum(path) == self._image.debug_checksum
