"""A misuse under valgrind with hakmem preloaded: valgrind's malloc comes first and reports it.

usage: run_valgrind.py --program MISUSE --library LIBRARY

Skipped where valgrind is missing.
"""

import argparse
import os
import shutil
import subprocess
import sys

SKIPPED = 77
TIMEOUT_S = 300
MISUSE = "double_free_newest_48"
STATUS = "9"
# Valgrind's own words, with both places.
EXPECTED = ("Invalid free()", "free'd", "Block was alloc'd at")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        return SKIPPED
    done = subprocess.run(
        ["valgrind", f"--error-exitcode={STATUS}", arguments.program, MISUSE],
        env=os.environ | {"LD_PRELOAD": arguments.library},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    missing = [words for words in EXPECTED if words not in done.stderr]
    if done.returncode == int(STATUS) and not missing and "hakmem: " not in done.stderr:
        return 0
    print(f"ended with {done.returncode}, without {missing}\n{done.stderr}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
