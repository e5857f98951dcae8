"""What is written when a program ends: counters and profile, to where the settings say.

usage: check_at_exit.py PROGRAM FIRST_FILE    (on hakmem, or linked with it)
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FIGURES = re.compile(r"hakmem statistics\nlive_bytes \d+\nheaps [1-9]\d*\n")
PROFILE_START = b"hakmem1\0"


def environment_of(settings: dict[str, str]) -> dict[str, str]:
    return os.environ | {f"HAKMEM_{name.upper()}": v for name, v in settings.items()}


def said(program: str, **settings: str) -> str:
    """Standard error of the program, which must end well."""
    environment = environment_of(settings)
    done = subprocess.run([program], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: status {done.returncode} with {settings}\n{done.stderr}")
    return done.stderr


def expect(holds: object, what: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {what}")


def only_file(folder: Path) -> Path:
    found = list(folder.iterdir())
    expect(len(found) == 1, f"one file was to be written, not {found}")
    expect(re.fullmatch(r"of-\d+", found[0].name), f"{found[0].name} has no process id")
    return found[0]


def leaves_files_alone(first_file: str, *names: str, **settings: str) -> None:
    """Without standard error its number is that of the first file that the program opens. `names`:
    how those begin that are to be in the folder where it started."""
    with tempfile.TemporaryDirectory(prefix="hakmem-at-exit-") as folder:
        file = Path(folder) / "file"
        done = subprocess.run(
            [first_file, file],
            cwd=folder,
            env=environment_of(settings),
            preexec_fn=lambda: os.close(2),
        )
        held = file.read_text() if file.exists() else ""
        found = sorted(name.name.partition("-")[0] for name in Path(folder).iterdir())
    expect(done.returncode == 0, f"status {done.returncode} without standard error")
    expect(found == sorted(["file", *names]), f"with {settings} there is {found}, not {names}")
    expect(held == "mine\n", f"with {settings} the program's file has: {held}")


def main() -> None:
    program, first_file = sys.argv[1:]
    expect(FIGURES.search(said(program, stats="1")), "no figures on standard error")
    expect(not FIGURES.search(said(program)), "figures that nobody asked for")
    nowhere = "/no/such/folder/of-%p"
    text = said(program, stats="1", output=nowhere)
    expect("cannot write to '/no/such/folder/of-" in text, "nothing said of figures that are lost")
    text = said(program, profile_output=nowhere)
    expect("cannot write to '/no/such/folder/of-" in text, "nothing said of a profile that is lost")
    text = said(program, profile_output="/dev/full")
    expect("cannot write to '/dev/full'" in text, "nothing said of a profile on a full disk")
    with tempfile.TemporaryDirectory(prefix="hakmem-at-exit-") as folder:
        expect(said(program, stats="1", output=f"{folder}/of-%p") == "", "words beside the file")
        expect(FIGURES.match(only_file(Path(folder)).read_text()), "no figures in the file")
    with tempfile.TemporaryDirectory(prefix="hakmem-at-exit-") as folder:
        expect(said(program, profile_output=f"{folder}/of-%p") == "", "words beside the profile")
        expect(only_file(Path(folder)).read_bytes().startswith(PROFILE_START), "no profile")
    leaves_files_alone(first_file, stats="1")
    leaves_files_alone(first_file, stats="1", output=nowhere)
    leaves_files_alone(first_file, profile_output=nowhere)
    here = {"stats": "1", "output": "numbers-%p", "profile_output": "profile-%p"}
    leaves_files_alone(first_file, "numbers", "profile", **here)
    print("at exit: ok")


if __name__ == "__main__":
    main()
