"""A set-user-ID program ignores hakmem's settings in the environment, and shows nothing.

usage: run_setuid.py PROGRAM

Runs a copy of PROGRAM (show_settings, linked with hakmem) as nobody: without the set-user-ID bit
the settings must arrive, with it, or with the set-group-ID bit, they must not, and nothing may be
said, written or shown.
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
PLAIN_MODE, SETUID_MODE, SETGID_MODE = 0o755, 0o4755, 0o2755
DEFAULTS = {"stats": "0", "whale_capacity": "512", "live": "0"}
SET = {"secure": "0", "stats": "1", "whale_capacity": "3", "live": "1"}


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
        check("without the bit", shown, SET)
        check("without the bit, warned of the unknown", "no_such_setting" in said, True)
        check("without the bit, output written", output.exists(), True)
        output.unlink()

        for what, mode in (("set-user-ID", SETUID_MODE), ("set-group-ID", SETGID_MODE)):
            shown, said = run(program, mode, output)
            if shown.pop("secure") == "0":
                skip(f"{what} programs have no effect in the folder for temporary files")
            check(what, shown, DEFAULTS)
            check(f"{what}, said", said, "")
            check(f"{what}, output written", output.exists(), False)
    print("set-user-ID and set-group-ID programs ignore the environment and show nothing")


if __name__ == "__main__":
    main()
