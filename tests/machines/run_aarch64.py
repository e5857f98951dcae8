"""Builds everything for 64-bit ARM and runs what an emulator can show, also with larger pages.

usage: run_aarch64.py --source SOURCE_DIR

Skipped where Debian's cross compiler or qemu-aarch64 is missing.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from build_and_test import LABELS, build_preset, require, run, skip, test

PROGRAMS = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "qemu-aarch64", "apt-get", "dpkg")
# What tests are built with and no cross package of amd64 brings.
PACKAGES = ("libcmocka0", "libcmocka-dev", "systemtap-sdt-dev")
# Tests where the size of a page matters.
PAGED = (
    r"^unit\.test_(os|region|super|slab|pages|big|purge|heap|runs|front|live)$"
    r"|^abi_(edges|alignment|realloc|introspection)$|^stress\.(mix|free_only)$"
)
PAGE_SIZES = (16384, 65536)


def fetch_packages(folder: Path) -> None:
    """Unpacks packages of the other machine. Their lists are apart from the system's."""
    if folder.is_dir():
        return
    with tempfile.TemporaryDirectory(prefix="hakmem-arm64-") as name:
        work = Path(name)
        for part in ("lists/partial", "cache/archives/partial", "packages", "unpacked"):
            (work / part).mkdir(parents=True)
        settings = {
            "APT::Architecture": "arm64",
            "APT::Architectures": "arm64",
            "APT::Sandbox::User": "root",
            "Dir::State::lists": work / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": work / "cache",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        for words in (("update",), ("download", *PACKAGES)):
            command = ["apt-get", "-qq", *options, *words]
            if subprocess.run(command, cwd=work / "packages").returncode != 0:
                skip("the system's package sources have nothing for arm64")
        for package in (work / "packages").glob("*.deb"):
            run("dpkg", "-x", package, work / "unpacked")
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(work / "unpacked", folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    source: Path = parser.parse_args().source
    require(PROGRAMS)
    fetch_packages(source / "build" / "machines" / "arm64")
    build = build_preset(source, "aarch64")
    test(build, "-L", LABELS)
    for size in PAGE_SIZES:
        test(build, "-R", PAGED, QEMU_PAGESIZE=str(size))


if __name__ == "__main__":
    main()
