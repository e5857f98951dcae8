"""A set-user-ID program ignores hakmem's settings in the environment.

usage: run_setuid.py PROGRAM

Runs a copy of PROGRAM (show_settings, linked with hakmem) as nobody: without the set-user-ID bit
the settings must arrive, with it they must not, and nothing may be said or written.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

SKIPPED = 77
NOBODY = 65534
PLAIN_MODE, SETUID_MODE = 0o755, 0o4755
DEFAULTS = {"stats": "0", "whale_capacity": "512"}


def skip(reason: str) -> NoReturn:
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def settings(output: Path) -> dict[str, str]:
    return {
        "HAKMEM_CONF": "whale_capacity:3,no_such_setting:1",
        "HAKMEM_STATS": "1",
        "HAKMEM_OUTPUT": str(output),
    }


def run(program: Path, mode: int, output: Path) -> tuple[dict[str, str], str]:
    """What the program printed, and what was said on standard error."""
    program.chmod(mode)
    done = subprocess.run(
        [program],
        env=settings(output),
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=240,
    )
    if done.returncode != 0:
        sys.exit(f"FAILED: status {done.returncode}, {done.stderr}")
    return dict(line.split() for line in done.stdout.splitlines()), done.stderr


def check(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        sys.exit(f"FAILED: {what}: {found}, not {wanted}")


def main() -> None:
    if os.geteuid() != 0:
        skip("only root can make a program set-user-ID root")
    with tempfile.TemporaryDirectory(prefix="hakmem-setuid-") as folder:
        program, output = Path(folder, "program"), Path(folder, "output")
        # The program may write there whoever it runs as.
        Path(folder).chmod(0o777)
        shutil.copy(sys.argv[1], program)

        shown, said = run(program, PLAIN_MODE, output)
        check("without the bit", shown, {"secure": "0", "stats": "1", "whale_capacity": "3"})
        check("without the bit, warned of the unknown", "no_such_setting" in said, True)
        check("without the bit, output written", output.exists(), True)
        output.unlink()

        shown, said = run(program, SETUID_MODE, output)
        if shown.pop("secure") == "0":
            skip("set-user-ID programs have no effect in the folder for temporary files")
        check("set-user-ID", shown, DEFAULTS)
        check("set-user-ID, said", said, "")
        check("set-user-ID, output written", output.exists(), False)
    print("a set-user-ID program ignores the environment")


if __name__ == "__main__":
    main()
