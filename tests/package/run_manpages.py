"""Makes the manual pages: no command and no setting is missing, nothing is cut off, the library has
the settings that are shown, and groff takes the pages.

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
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "packaging"))

from tables import Option, options

from hakmem.insight.library_settings import ask

SKIPPED = 77


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"FAILED: {command[-1]}\n{done.stdout}{done.stderr}")
    return done.stderr


def missing_in(pages: Path, source: Path, rows: Sequence[Option]) -> list[str]:
    front_door = (source / "hakmem").read_text()
    commands = re.findall(r"^  (\w+) {2,}\S", front_door, re.MULTILINE)
    text = (pages / "man7" / "hakmem.7").read_text()
    absent = [row.name for row in rows if not shows(text, row)]
    return absent + [c for c in commands if not (pages / "man1" / f"hakmem-{c}.1").exists()]


def shows(page: str, row: Option) -> bool:
    """With its bounds, where it has any."""
    heading = next((line for line in page.split("\n") if line.startswith(f".BR {row.name} ")), "")
    return bool(heading) and row.bounds in heading


def lacking(page: Path) -> str:
    """What a command's page does not have of its help."""
    lines = page.read_text().split("\n")
    sentences = [lines[lines.index(".SH NAME") + 1], *(one for one in lines if one[:1] == " ")]
    cut_off = [one for one in sentences if one.endswith("...")]
    return ", ".join([*cut_off, *([] if ".SH EXAMPLES" in lines else ["examples"])])


def differences(rows: Sequence[Option], library: Path) -> list[str]:
    """What the library says otherwise than the table that is shown."""
    said = {row.name: row for row in ask(library, {}).settings}
    shown = {row.name: row for row in rows if not row.secure_only}
    lines = [f"{name} is in one of them only" for name in said.keys() ^ shown.keys()]
    for name in said.keys() & shown.keys():
        here, there = shown[name], said[name]
        if (here.kind, here.text) != (there.kind, there.text):
            lines.append(f"{name}: {here.kind} '{here.text}', {there.kind} '{there.text}'")
        if here.kind != "TEXT" and here.initial != there.value:
            lines.append(f"{name}: {here.initial}, {there.value}")
    return lines


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
        run(sys.executable, "-B", writer, pages)
        rows = options()
        absent = missing_in(pages, arguments.source, rows)
        if absent:
            sys.exit(f"FAILED: no manual page tells of {', '.join(absent)}")
        for page in sorted((pages / "man1").iterdir()):
            if lack := lacking(page):
                sys.exit(f"FAILED: {page.name} is without all of: {lack}")
        wrong = differences(rows, arguments.build / "libhakmem.so")
        if wrong:
            sys.exit("FAILED: options.def as it is shown, and the library:\n" + "\n".join(wrong))
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
