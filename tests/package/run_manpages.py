"""Makes the manual pages: no command and no setting is missing, and groff takes them.

usage: run_manpages.py --source SOURCE_DIR --build BUILD_DIR

Run by the private environment's Python; skipped where that has no click-man.
"""

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"FAILED: {command[-1]}\n{done.stdout}{done.stderr}")
    return done.stderr


def missing_in(pages: Path, source: Path) -> list[str]:
    table = (source / "src" / "control" / "options.def").read_text()
    # What only another build has is not among this one's.
    table = re.sub(r"^#if.*?^#endif", "", table, flags=re.DOTALL | re.MULTILINE)
    settings = re.findall(r"^OPTION\((\w+)", table, re.MULTILINE)
    front_door = (source / "hakmem").read_text()
    commands = re.findall(r"^  (\w+) {2,}\S", front_door, re.MULTILINE)
    text = (pages / "man7" / "hakmem.7").read_text()
    absent = [name for name in settings if f".BR {name} " not in text]
    return absent + [c for c in commands if not (pages / "man1" / f"hakmem-{c}.1").exists()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    arguments = parser.parse_args()
    if importlib.util.find_spec("click_man") is None:
        print("skipped: there is no click-man")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="hakmem-man-") as name:
        pages = Path(name)
        writer = arguments.source / "packaging" / "manpages.py"
        library = arguments.build / "libhakmem.so"
        run(sys.executable, "-B", writer, "--library", library, pages)
        absent = missing_in(pages, arguments.source)
        if absent:
            sys.exit(f"FAILED: no manual page tells of {', '.join(absent)}")
        written = sorted(pages.rglob("*.[17]"))
        if shutil.which("groff") is not None:
            for page in written:
                warnings = run("groff", "-man", "-Tutf8", "-ww", "-z", page)
                if warnings:
                    sys.exit(f"FAILED: {page.name}: {warnings}")
        print(f"{len(written)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
