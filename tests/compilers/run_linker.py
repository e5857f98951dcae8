"""Builds the static library where CMake has found a linker that is not GNU's.

With clang it prefers lld where there is one, which leaves several relocation sections for the code
of an object. No linker reads that, and programs crash as they are loaded.

usage: run_linker.py --source SOURCE_DIR
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

OTHER_LINKER = """#!/bin/sh
[ "$*" = --version ] && { echo 'LLD 14.0.6 (compatible with GNU linkers)'; exit; }
echo "called with: $*"
exit 1
"""
OF_CODE = re.compile(r"^\s*\[ *(\d+)\] hak_text ", re.MULTILINE)


def output_of(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED with {done.returncode}: {' '.join(command)}\n{done.stdout}")
    return done.stdout


def check(member: str) -> None:
    """`member`: what readelf says of an object's sections, its name in the first line."""
    code = OF_CODE.search(member)
    if code is None:
        sys.exit(f"FAILED: no section hak_text in {member}")
    relocations = re.findall(rf" RELA .* {code[1]} +\d+$", member, re.MULTILINE)
    if len(relocations) > 1:
        sys.exit(f"FAILED: {len(relocations)} sections relocate hak_text in {member}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    source = parser.parse_args().source
    with tempfile.TemporaryDirectory(prefix="hakmem-linker-") as scratch:
        build, linker = Path(scratch, "build"), Path(scratch, "ld.lld")
        linker.write_text(OTHER_LINKER)
        linker.chmod(0o755)
        output_of(
            *("cmake", "--preset", "release", "-S", str(source), "-B", str(build)),
            *(f"-DCMAKE_LINKER={linker}", "-DHAKMEM_BENCHMARKS=OFF", "-DBUILD_TESTING=OFF"),
        )
        output_of("cmake", "--build", str(build), "--target", "hakmem_static")
        members = output_of("readelf", "-SW", str(build / "libhakmem.a")).split("\nFile: ")[1:]
    for member in members:
        check(member)
    if not members:
        sys.exit("FAILED: libhakmem.a has no members")
    print(f"one relocation section for the code of each of {len(members)} objects")


if __name__ == "__main__":
    main()
