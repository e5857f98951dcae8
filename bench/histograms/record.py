#!/usr/bin/env python3
"""Records which block sizes real programs ask for.

    .venv/bin/python -B bench/histograms/record.py [NAME ...]

writes a file NAME.csv each beside this script: by size and alignment the number of allocations, and
of blocks at the moment when their bytes were most. The programs are those of `hakmem bench` and of
tests/programs; of one that starts others it is the process of its own name with the most bytes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "programs")]

from catalogue import Program, load  # noqa: E402
from sandbox import Sandbox, adopt_orphans  # noqa: E402

from hakmem.clone import Clone  # noqa: E402
from hakmem.lab.execute import environment_for  # noqa: E402
from hakmem.lab.model import Arm, Case  # noqa: E402
from hakmem.lab.workloads import workloads  # noqa: E402

# The programs of tests/programs that allocate enough to say something, and that `bench` has not.
MORE = [
    "clang",
    "R",
    "cmake",
    "emacs",
    "erlang",
    "ffmpeg",
    "gdb",
    "git",
    "imagemagick",
    "java",
    "mariadb",
    "memcached",
    "nginx",
    "numpy",
    "php",
    "poppler",
    "protoc",
    "ruby",
    "rustc",
    "swipl",
    "vim",
    "xsltproc",
]
LIVE = "bytes live at the peak"


def build_recorder(folder: Path) -> Path:
    library = folder / "librecorder.so"
    flags = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-fno-builtin", "-pthread"]
    subprocess.run(["cc", *flags, "-o", library, HERE / "recorder.c"], check=True)
    library.chmod(0o755)
    return library


def run_case(case: Case, recorder: Path, out: Path) -> None:
    arm = Arm("recorder", "", recorder, environment={"HAKMEM_HISTOGRAMS": str(out)})
    with tempfile.TemporaryDirectory(prefix="histogram-") as name:
        folder = Path(name)
        if case.prepare:
            case.prepare(folder)
        subprocess.run(
            case.command,
            cwd=folder,
            env=environment_for(case, arm, os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )


def run_program(program: Program, recorder: Path, out: Path) -> None:
    os.environ["HAKMEM_HISTOGRAMS"] = str(out)
    sandbox = Sandbox(program, recorder)
    try:
        outcome = sandbox.run("recorded", preload=True)
    finally:
        sandbox.remove()
    if outcome.status != 0:
        raise subprocess.CalledProcessError(outcome.status or -1, program.name)


def peak_bytes(text: str) -> int:
    """From the first line of a record: `# NAME: T threads, N bytes live at the peak`."""
    return int(text.splitlines()[0].removesuffix(LIVE).split(", ")[-1])


def keep_largest(name: str, command: str | None, out: Path) -> None:
    paths = list(out.iterdir())
    named = [path for path in paths if command and path.name.startswith(command)]
    texts = [path.read_text() for path in named or paths]
    if not texts:
        print(f"{name}: no process left a record", file=sys.stderr)
        return
    text = max(texts, key=peak_bytes)
    (HERE / f"{name}.csv").write_text(text)
    print(name, text.splitlines()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    names: list[str] = parser.parse_args().names
    cases = {case.name: case for case in workloads(Clone(ROOT))}
    programs = load()
    adopt_orphans()
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="histograms-") as place:
        scratch = Path(place)
        scratch.chmod(0o755)
        recorder = build_recorder(scratch)
        for name in names or [*cases, *MORE]:
            out = scratch / name
            out.mkdir()
            out.chmod(0o1777)  # servers run as users of their own
            try:
                command = None
                if name in cases:
                    run_case(cases[name], recorder, out)
                else:
                    command = programs[name].commands[0]
                    run_program(programs[name], recorder, out)
            except (subprocess.CalledProcessError, FileNotFoundError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            keep_largest(name, command, out)


if __name__ == "__main__":
    main()
