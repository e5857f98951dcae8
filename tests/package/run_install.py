"""Installs a build into an empty prefix and uses it from there as other projects do.

usage: run_install.py --build BUILD_DIR [--deb]

With --deb what is used is the Debian package that cpack makes, unpacked.

Checks that CMake's find_package and pkg-config find the library, that programs linked with either
library have hakmem's malloc, and that the shared one can be preloaded by its bare name.
"""

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from commands import SKIPPED, TIMEOUT_S, run

SONAME = "libhakmem.so.1"
CONSUMER = Path(__file__).with_name("consumer")
SOURCE = Path(__file__).resolve().parents[2]
PACKAGES = ("hakmem.pc", "hakmem-config.cmake", "hakmem-config-version.cmake")
HEADERS = ("hakmem.h", "inline.h", "hakmem.hpp")
# What inline.h compiles into programs, and must find in the library that they are started with.
INLINE_SYMBOL = "hak_thread_v1"


def find(prefix: Path, name: str) -> Path:
    found = sorted(prefix.rglob(name))
    if not found:
        sys.exit(f"FAILED: {name} is not installed")
    return found[0]


def check_installed(prefix: Path) -> Path:
    """Returns the folder of the libraries."""
    for name in (*PACKAGES, *HEADERS, "libhakmem.a"):
        find(prefix, name)
    library = find(prefix, SONAME)
    found = re.search(r"\(SONAME\).*\[(.*)\]", run("readelf", "-dW", library))
    if found is None or found[1] != SONAME:
        sys.exit(f"FAILED: {library.name} calls itself {found and found[1]}, not {SONAME}")
    check_manual(prefix / "share" / "man")
    return library.parent


def check_manual(pages: Path) -> None:
    """The settings have a page whatever Python there is, the commands where it has click-man."""
    page = find(pages, "hakmem.7.gz")
    if b".BR retain " not in gzip.decompress(page.read_bytes()):
        sys.exit(f"FAILED: {page} tells of no setting")
    python = SOURCE / ".venv" / "bin" / "python3"
    if python.exists() and subprocess.run([python, "-c", "import click_man"]).returncode == 0:
        find(pages, "hakmem-run.1.gz")


def unpack_package(build_dir: Path, folder: Path) -> None:
    """Makes a Debian package of the build and unpacks it, as installing does."""
    config = build_dir / "CPackConfig.cmake"
    run("cpack", "-G", "DEB", "--config", config, "-B", folder / "packages")
    package = find(folder / "packages", "hakmem_*.deb")
    run("dpkg", "-x", package, folder)
    control = run("dpkg-deb", "--field", package)
    for words in ("Package: hakmem", "Version: ", "Depends: libc6"):
        if words not in control:
            sys.exit(f"FAILED: the package does not say '{words}':\n{control}")


def build_with_cmake(prefix: Path, build: Path) -> None:
    run("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)


def build_with_pkg_config(prefix: Path, build: Path) -> None:
    path = str(find(prefix, "hakmem.pc").parent)
    for kind, more in (("shared", ()), ("static", ("--static",))):
        flags = run("pkg-config", *more, "--cflags", "--libs", "hakmem", PKG_CONFIG_PATH=path)
        words = flags.split()
        if kind == "static":
            words = ["-l:libhakmem.a" if word == "-lhakmem" else word for word in words]
        run("cc", CONSUMER / "consumer.c", "-o", build / f"pc_{kind}", *words)
        if kind == "static":
            plugin = ("-shared", "-fPIC", CONSUMER / "plugin.c", "-o", build / "pc_plugin.so")
            run("cc", *plugin, *words)


def check_absolute_folders(folder: Path) -> None:
    """Some distributions name the folders of libraries and headers whole."""
    libraries, headers = folder / "lib64" / "here", folder / "headers"
    kinds = {"LIB": libraries, "INCLUDE": headers}
    options = [f"-DCMAKE_INSTALL_{kind}DIR={path}" for kind, path in kinds.items()]
    options += ["-DBUILD_TESTING=OFF", "-DHAKMEM_BENCHMARKS=OFF"]
    run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", folder / "build", *options)
    (libraries / "pkgconfig").mkdir(parents=True)
    shutil.copy(folder / "build" / "hakmem.pc", libraries / "pkgconfig")
    path = str(libraries / "pkgconfig")
    for variable, wanted in (("libdir", libraries), ("includedir", headers)):
        found = run("pkg-config", f"--variable={variable}", "hakmem", PKG_CONFIG_PATH=path)
        if os.path.normpath(found.strip()) != str(wanted):
            sys.exit(f"FAILED: hakmem.pc says {variable} is {found.strip()}, not {wanted}")


def check_part_of_a_project(build: Path) -> None:
    """It is its libraries then, whatever the project wants tested."""
    run("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", build, f"-DHAKMEM_SOURCE={SOURCE}")
    targets = run("ninja", "-C", build, "-t", "targets", "all")
    for name in ("hakmem/libhakmem.so", "hakmem/libhakmem.a", "c_shared"):
        if f"{name}:" not in targets:
            sys.exit(f"FAILED: a project with hakmem as a part has no {name}")
    for name in ("hakmem/tests/", "hakmem/bench/"):
        if name in targets:
            sys.exit(f"FAILED: a project with hakmem as a part has {name}")
    if (build / "CPackConfig.cmake").exists():
        sys.exit("FAILED: a project with hakmem as a part is packed as hakmem")


def check_without_python(build: Path) -> None:
    """The library needs none; what has tests would."""
    none = "-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON"
    run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", build, none)
    targets = run("ninja", "-C", build, "-t", "targets", "all")
    if "libhakmem.so:" not in targets or "tests/" in targets:
        sys.exit("FAILED: without Python there is no library, or there are tests")


def links_shared(program: Path) -> bool:
    return f"[{SONAME}]" in run("readelf", "-dW", program)


def check_programs(build: Path, libraries: Path) -> None:
    """Programs of the static library must run without the shared one."""
    for program in ("c_shared", "cpp_shared", "pc_shared"):
        if not links_shared(build / program):
            sys.exit(f"FAILED: {program} does not need {SONAME}")
        run(build / program, LD_LIBRARY_PATH=str(libraries))
        if INLINE_SYMBOL not in run("nm", "-D", "--undefined-only", build / program):
            sys.exit(f"FAILED: {program} does not use the inline paths")
    for program in ("c_static", "cpp_static", "pc_static"):
        if links_shared(build / program):
            sys.exit(f"FAILED: {program} needs {SONAME}")
        run(build / program)


def check_plugins(build: Path) -> None:
    """What has the static library in it stays mapped when it is closed."""
    for plugin in ("libplugin.so", "pc_plugin.so"):
        run(build / "host", build / plugin)


def check_preload(build: Path, libraries: Path) -> None:
    run(build / "plain", LD_PRELOAD=SONAME, LD_LIBRARY_PATH=str(libraries))
    alone = subprocess.run([build / "plain"], capture_output=True, text=True, timeout=TIMEOUT_S)
    if alone.returncode == 0:
        sys.exit("FAILED: the program finds hakmem without the preload: this checks nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--deb", action="store_true", help="by way of a Debian package")
    arguments = parser.parse_args()
    build_dir: Path = arguments.build
    package_tools = ("cpack", "dpkg", "dpkg-deb", "dpkg-shlibdeps") if arguments.deb else ()
    for tool in ("cmake", "ninja", "nm", "pkg-config", "readelf", *package_tools):
        if shutil.which(tool) is None:
            print(f"skipped: there is no {tool}")
            sys.exit(SKIPPED)
    # What is preloaded into this test must not be into the tools.
    os.environ.pop("LD_PRELOAD", None)
    with tempfile.TemporaryDirectory(prefix="hakmem-install-") as folder:
        prefix, build = Path(folder, "prefix"), Path(folder, "build")
        if arguments.deb:
            unpack_package(build_dir, Path(folder))
            prefix = Path(folder, "usr")
        else:
            run("cmake", "--install", build_dir, "--prefix", prefix)
            check_absolute_folders(Path(folder, "absolute"))
            check_part_of_a_project(Path(folder, "part"))
            check_without_python(Path(folder, "without"))
        libraries = check_installed(prefix)
        build_with_cmake(prefix, build)
        build_with_pkg_config(prefix, build)
        check_programs(build, libraries)
        check_plugins(build)
        check_preload(build, libraries)
    print("installed, found by CMake and pkg-config, linked, preloaded by name")


if __name__ == "__main__":
    main()
