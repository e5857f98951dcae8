"""Names of addresses, from files that a compiler made for the test."""

import gzip
import mmap
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT

from hakmem.insight import keeping
from hakmem.insight.attaching import mappings_text
from hakmem.insight.images import read_image
from hakmem.insight.pprof import message_class, pprof
from hakmem.insight.profile import Module, modules_of, profile_of
from hakmem.insight.roots import as_named_inside, is_elsewhere
from hakmem.insight.symbols import JIT, NOWHERE, Frame, Symbols
from hakmem.insight.views import stacks_of

BASE = 0x7F0000000000
SOURCE = """\
namespace app {
template <class T> struct Cache {
    static inline __attribute__((always_inline)) void *helper(int n) {
        return ::operator new(n * sizeof(T));
    }
    __attribute__((noinline)) static void *grow(int n) { return helper(n); }
};
}
extern "C" void *plain(int n) { return app::Cache<long>::grow(n); }
int main(int argc, char **argv) { return plain(argc) == argv; }
"""
RUST = """\
mod inner {
    pub trait Make { fn make(&self) -> Vec<u8>; }
    pub struct Maker<T>(pub T);
    impl<T> Make for Maker<T> {
        #[inline(never)] fn make(&self) -> Vec<u8> { std::env::args().map(|_| 1u8).collect() }
    }
}
use inner::Make;
fn main() { println!("{}", inner::Maker(3u32).make().len()); }
"""


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("program")
    (folder / "app.cc").write_text("#include <new>\n" + SOURCE)
    run(compiler, "-g", "-O2", "-Wl,--build-id", folder / "app.cc", "-o", folder / "app")
    return folder / "app"


def mapped(path: Path, build_id: str | None = None) -> Module:
    """As the loader would map all of it; only where code lies matters here."""
    image = read_image(path)
    assert image is not None
    own = image.build_id if build_id is None else build_id
    return Module(BASE, BASE + path.stat().st_size, 0, str(path), own)


def address_in(path: Path, symbol: str) -> int:
    """Where a call within that function could return to."""
    for line in run("nm", path).splitlines():
        address, _, name = line.rpartition(" ")
        if re.search(symbol, name):
            image = read_image(path)
            assert image is not None
            at = int(address.split()[0], 16)
            segment = next(
                s for s in reversed(image.segments) if s.address <= at < s.address + s.size
            )
            return BASE + at - segment.address + segment.offset + 5
    raise AssertionError(f"no {symbol} in {path}")


def test_inlined_frames_files_and_lines(program: Path) -> None:
    address = address_in(program, "grow")
    inner, outer = Symbols([mapped(program)]).frames(address)
    assert (inner.function, inner.inlined, inner.line) == ("app::Cache<long>::helper", True, 5)
    assert (outer.function, outer.inlined, outer.line) == ("app::Cache<long>::grow", False, 7)
    assert Path(inner.file).name == "app.cc"
    assert outer.module == "app"


def test_without_debug_information_functions_have_names(program: Path, tmp_path: Path) -> None:
    copy = tmp_path / "app"
    run("strip", "--strip-debug", program, "-o", copy)
    (frame,) = Symbols([mapped(copy)]).frames(address_in(copy, "grow"))
    assert (frame.function, frame.file, frame.line) == ("app::Cache<long>::grow", "", 0)


def test_path_that_is_no_utf_8(program: Path, tmp_path: Path) -> None:
    copy = tmp_path / os.fsdecode(b"app\xff")
    shutil.copy(program, copy)
    frame = Symbols([mapped(copy)]).frames(address_in(program, "grow"))[-1]
    assert frame.function == "app::Cache<long>::grow"
    assert frame.module == "app\N{REPLACEMENT CHARACTER}"


def test_path_with_the_end_of_a_line(program: Path, tmp_path: Path) -> None:
    """As the kernel writes it, and as its own process maps it."""
    copy = tmp_path / "an\napp\r"
    shutil.copy(program, copy)
    with copy.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as _:
        text = mappings_text(os.getpid(), "maps")
    (line,) = [line for line in text.split("\n") if line.endswith(r"an\012app" + "\r")]
    (module,) = modules_of(f"{line}\n".replace("r--s", "r-xp"), {})
    assert module.path == str(copy)
    frame = Symbols([mapped(copy)]).frames(address_in(program, "grow"))[-1]
    assert (frame.function, frame.module) == ("app::Cache<long>::grow", r"an\napp\r")


def stripped(program: Path, folder: Path, link: bool) -> tuple[Path, Path]:
    """The program without any names, and the file with all of them."""
    copy, debug = folder / "app", folder / "app.debug"
    run("objcopy", "--only-keep-debug", program, debug)
    extra = [f"--add-gnu-debuglink={debug}"] if link else []
    run("objcopy", "--strip-all", *extra, program, copy)
    return copy, debug


def test_stripped_program_has_places_instead(program: Path, tmp_path: Path) -> None:
    copy, debug = stripped(program, tmp_path, link=False)
    address = address_in(program, "grow")
    debug.unlink()
    symbols = Symbols([mapped(copy)], debug_folder=tmp_path / "none")
    (frame,) = symbols.frames(address)
    assert frame == Frame(f"app+{address - 1 - BASE:#x}", "app", named=False)


@pytest.mark.parametrize("place", ["beside", ".debug", "folder"])
def test_debug_link(program: Path, tmp_path: Path, place: str) -> None:
    copy, debug = stripped(program, tmp_path, link=True)
    elsewhere = {
        "beside": tmp_path,
        ".debug": tmp_path / ".debug",
        "folder": tmp_path / "debug" / str(tmp_path).lstrip("/"),
    }[place]
    elsewhere.mkdir(parents=True, exist_ok=True)
    debug.rename(elsewhere / debug.name)
    symbols = Symbols([mapped(copy)], debug_folder=tmp_path / "debug")
    assert len(symbols.frames(address_in(program, "grow"))) == 2


def test_debug_file_by_build_id(program: Path, tmp_path: Path) -> None:
    copy, debug = stripped(program, tmp_path, link=False)
    build_id = mapped(copy).build_id
    place = tmp_path / "debug" / ".build-id" / build_id[:2]
    place.mkdir(parents=True)
    debug.rename(place / f"{build_id[2:]}.debug")
    symbols = Symbols([mapped(copy)], debug_folder=tmp_path / "debug")
    assert len(symbols.frames(address_in(program, "grow"))) == 2


def test_debug_file_of_another_build_is_not_used(program: Path, tmp_path: Path) -> None:
    copy, debug = stripped(program, tmp_path, link=True)
    (tmp_path / "other.c").write_text("int other(void) { return 1; }\n")
    run("gcc", "-g", "-shared", "-Wl,--build-id", tmp_path / "other.c", "-o", debug)
    symbols = Symbols([mapped(copy)], debug_folder=tmp_path / "none")
    (frame,) = symbols.frames(address_in(program, "grow"))
    assert not frame.named


def test_debug_link_without_a_build_id_tells_by_its_checksum(tmp_path: Path, program: Path) -> None:
    source, whole = program.with_name("app.cc"), tmp_path / "whole"
    run("g++", "-g", "-O2", "-Wl,--build-id=none", source, "-o", whole)
    copy, debug = stripped(whole, tmp_path, link=True)
    assert mapped(copy).build_id == ""
    address = address_in(whole, "grow")
    assert len(Symbols([mapped(copy)]).frames(address)) == 2
    run("g++", "-g", "-O1", "-Wl,--build-id=none", source, "-o", whole)
    run("objcopy", "--only-keep-debug", whole, debug)
    (frame,) = Symbols([mapped(copy)]).frames(address)
    assert not frame.named


def test_changed_file_is_said_once(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    symbols = Symbols([mapped(program, build_id="00" * 20)])
    for symbol in ("grow", "plain"):
        (frame,) = symbols.frames(address_in(program, symbol))
        assert frame.function.startswith("app+0x")
    assert capsys.readouterr().err.count("build id differs") == 1


def test_deleted_file_is_said(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = mapped(program)
    gone = Module(module.start, module.end, 0, f"{program} (deleted)")
    (frame,) = Symbols([gone]).frames(BASE + 0x123)
    assert frame.function == "app+0x122"
    assert "no longer there" in capsys.readouterr().err


def test_what_the_kernel_shows_is_read_whatever_its_name_leads_to(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app").write_text("another by now")
    places = ("/proc/none", str(program))
    for path in (f"{tmp_path}/gone (deleted)", f"{tmp_path}/app"):
        module = replace(mapped(program), path=path, shown=places)
        frames = Symbols([module]).frames(address_in(program, "plain"))
        assert [frame.function for frame in frames] == ["plain"]
    assert capsys.readouterr().err == ""


def test_a_running_program_is_shown_by_its_process() -> None:
    maps = Path("/proc/self/maps").read_text()
    own = next(
        m
        for m in modules_of(maps, {}, os.getpid())
        if m.path == str(Path("/proc/self/exe").readlink())
    )
    stretch = f"{own.start:x}-{own.end:x}"
    assert own.shown == (f"/proc/{os.getpid()}/map_files/{stretch}", f"/proc/{os.getpid()}/exe")
    assert modules_of(maps, {})[0].shown == ()


def program_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


@pytest.fixture(params=["mounts", "root"])
def contained(request: pytest.FixtureRequest, program: Path, tmp_path: Path) -> Iterator[Module]:
    """Of a process that has mapped another file than there is here by that name."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for folder in (inner, outer, tmp_path / "root"):
        folder.mkdir()
    shutil.copy(shutil.which("sleep") or "", inner / "app")
    shutil.copy(program, outer / "app")
    script = {
        "mounts": 'mount --bind inner outer && exec "$PWD/outer/app" 1000',
        "root": 'mount --rbind / root && mount --bind inner "root$PWD/outer" && at=$PWD && cd root'
        ' && pivot_root . mnt && exec chroot . "$at/outer/app" 1000',
    }[request.param]
    process = subprocess.Popen(
        ["unshare", "-rm", "sh", "-c", script], cwd=tmp_path, stderr=subprocess.PIPE
    )
    try:
        while process.poll() is None and program_of(process.pid) != "app":
            time.sleep(0.01)
        if process.poll() is not None:
            assert process.stderr is not None
            pytest.skip(f"no namespaces here: {process.stderr.read().decode()}")
        modules = modules_of(mappings_text(process.pid, "maps"), {}, process.pid)
        yield next(one for one in modules if one.path == str(outer / "app") and one.is_code)
    finally:
        process.kill()
        process.wait()


def test_a_name_in_a_container_is_looked_up_there(contained: Module, program: Path) -> None:
    theirs = read_image(Path(shutil.which("sleep") or ""))
    assert read_image(contained.file) == theirs != read_image(program)
    # Whoever may not see the files that are mapped, nor the process' root.
    unseen = replace(contained, shown=(), place="/proc/none/root/app")
    for module, image in ((replace(contained, shown=()), theirs), (unseen, None)):
        file = Symbols([module])._file(module)
        assert file._image == image
    offset = address_in(program, "plain") - BASE
    (frame,) = Symbols([unseen]).frames(unseen.start + offset - unseen.offset)
    assert not frame.named


def test_a_profile_that_is_kept_has_build_ids_of_the_containers_files(
    contained: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = SimpleNamespace(maps_text="", seen_as=1)
    theirs = read_image(Path(shutil.which("sleep") or ""))
    for place, ids in ((contained.place, {contained.start: theirs.build_id}), ("/proc/none", {})):
        module = replace(contained, shown=(), place=place)
        monkeypatch.setattr(keeping, "modules_of", lambda *_, module=module: (module,))
        assert keeping._build_ids(area) == ids


def test_a_root_with_a_name_here_is_no_other_place(tmp_path: Path) -> None:
    """As of a service that has changed its root: what it has mapped is named from here."""
    root = tmp_path / "root"
    root.symlink_to("/")
    assert not is_elsewhere(tmp_path)
    assert as_named_inside(tmp_path, "/usr/app") == "/usr/app"
    root.unlink()
    root.symlink_to("/srv/jail")
    assert as_named_inside(tmp_path, "/srv/jail/usr/app") == "/usr/app"
    assert as_named_inside(tmp_path, "/srv/jailed/app") == "/srv/jailed/app"
    assert not is_elsewhere(Path("/proc/self"))


def test_other_mappings() -> None:
    modules = [
        Module(0x1000, 0x2000, 0, "[vdso]"),
        Module(0x3000, 0x4000, 0, ""),
        Module(0x5000, 0x6000, 0, "/memfd:doublemapper (deleted)"),
    ]
    symbols = Symbols(modules)
    assert symbols.frames(0x1235)[0].function == "[vdso]+0x234"
    assert symbols.frames(0x3100)[0].function == JIT
    assert symbols.frames(0x5100)[0].function == JIT
    assert symbols.frames(0x90000)[0].function == NOWHERE
    assert symbols.frames(0x9000)[0].function == "site 36864"


def test_program_that_is_not_relocated(program: Path, tmp_path: Path) -> None:
    (tmp_path / "app.cc").write_text("#include <new>\n" + SOURCE)
    fixed = tmp_path / "fixed"
    run("g++", "-g", "-O2", "-no-pie", "-Wl,--build-id", tmp_path / "app.cc", "-o", fixed)
    frames = Symbols([mapped(fixed)]).frames(address_in(fixed, "plain"))
    assert [frame.function for frame in frames] == ["plain"]


@pytest.mark.parametrize("options", [[], ["-Csymbol-mangling-version=v0"]], ids=["usual", "v0"])
def test_rust_names(tmp_path: Path, options: list[str]) -> None:
    compiler = shutil.which("rustc")
    if compiler is None:
        pytest.skip("rustc is not installed")
    (tmp_path / "app.rs").write_text(RUST)
    path = tmp_path / "app"
    run(compiler, "-g", "-O", *options, tmp_path / "app.rs", "-o", path)
    symbol = r"^_ZN\S*Make\$GT\$4make17h\w+E$|^_RNvX\w*4Make4makeB\w+$"
    outer = Symbols([mapped(path)]).frames(address_in(path, symbol))[-1]
    # The older way of mangling does not say which types a generic function is for.
    assert re.fullmatch("<app::inner::Maker<(T|u32)> as app::inner::Make>::make", outer.function)


def test_maps_and_build_ids() -> None:
    maps = """\
400000-401000 r--p 00000000 fe:00 12 /opt/an app/bin
401000-402000 r-xp 00001000 fe:00 12 /opt/an app/bin
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
7fff00000000-7fff00001000 rwxp 00000000 00:00 0
"""
    modules = modules_of(maps, {0x400000: "abcd", 0x999: "ffff"})
    assert modules == (
        Module(0x400000, 0x401000, 0, "/opt/an app/bin", "abcd", is_code=False),
        Module(0x401000, 0x402000, 0x1000, "/opt/an app/bin", "abcd"),
        Module(0x7FFD00000000, 0x7FFD00002000, 0, "[vdso]"),
        Module(0x7FFF00000000, 0x7FFF00001000, 0, ""),
    )


def test_strings_are_named_as_everybody_does() -> None:
    symbols = Symbols(())
    symbols._demangle(
        {"_ZNSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS5_EE1fEv"}
    )
    assert list(symbols._names.values()) == [
        "std::vector<std::string, std::allocator<std::string> >::f"
    ]


SITES = """
#include <stdlib.h>
#include <hakmem/hakmem.h>
__attribute__((noipa)) static void *take(size_t size, uintptr_t site)
{
    return hak_alloc_at(size, site);
}
int main(void)
{
    for (int i = 0; i < 64; i++) {
        take(400000, HAK_CALLSITE());
        take(900, 42);
        malloc(70000);
    }
    return 0;
}
"""


def test_sites_that_the_program_names(library: Path, compiler: str, tmp_path: Path) -> None:
    """By where they are in the source, or by number; other blocks have none of them."""
    source, program, heap = (tmp_path / name for name in ("sites.c", "sites", "heap"))
    source.write_text(SITES)
    options = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-builtin"]
    run(compiler, *options, f"-I{ROOT / 'include'}", source, library, "-o", program)
    settings = {"LD_LIBRARY_PATH": str(library.parent), "HAKMEM_PROFILE_OUTPUT": str(heap)}
    settings |= {"HAKMEM_PROFILE_INTERVAL": "1", "HAKMEM_PROFILE_RATE": "1000000"}
    subprocess.run([program], env=os.environ | settings, check=True)
    profile = profile_of(str(heap))
    symbols = Symbols(profile.modules)
    found = {
        stack.culprit.function: (stack.frames[1].function, round(stack.site.total_objects))
        for stack in stacks_of(profile, symbols)
        if len(stack.frames) > 1
    }
    line = SITES[: SITES.index("HAK_CALLSITE")].count("\n") + 1
    assert found[f"sites.c:{line}"] == ("take", 64)
    assert found["site 42"] == ("take", 64)
    assert found["main"][1] == 64
    message = message_class("Profile")()
    message.ParseFromString(gzip.decompress(pprof(profile, symbols)))
    assert {f"sites.c:{line}", "site 42"} <= set(message.string_table)
    assert len(message.mapping) == sum(module.is_code for module in profile.modules)


def test_images_of_other_files(tmp_path: Path) -> None:
    for name, content in (("empty", b""), ("text", b"hello"), ("cut", b"\x7fELF\x02\x01")):
        (tmp_path / name).write_bytes(content)
        assert read_image(tmp_path / name) is None
    assert read_image(tmp_path / "missing") is None
