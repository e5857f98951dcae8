"""Under valgrind with hakmem preloaded valgrind's malloc comes first: it reports a misuse, and
serves each operator new and delete, not some of them.

usage: run_valgrind.py --program MISUSE --operators NEW_DELETE --library LIBRARY

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
# The program mixes forms on purpose, and asks elsewhere whether malloc is hakmem's.
OPERATORS_OPTIONS = ("-q", "--show-mismatched-frees=no")
OPERATORS_ENVIRONMENT = {"HAK_TEST_ANY_MALLOC": "1"}


def run(library: str, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["valgrind", f"--error-exitcode={STATUS}", *command],
        env=os.environ | {"LD_PRELOAD": library} | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def reports_misuse(library: str, program: str) -> bool:
    done = run(library, program, MISUSE)
    missing = [words for words in EXPECTED if words not in done.stderr]
    if done.returncode == int(STATUS) and not missing and "hakmem: " not in done.stderr:
        return True
    print(f"{program} ended with {done.returncode}, without {missing}\n{done.stderr}")
    return False


def serves_operators(library: str, program: str) -> bool:
    done = run(library, *OPERATORS_OPTIONS, program, **OPERATORS_ENVIRONMENT)
    if done.returncode == 0 and not done.stderr:
        return True
    print(f"{program} ended with {done.returncode}\n{done.stderr}")
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--program", "--operators", "--library"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        return SKIPPED
    right = [
        reports_misuse(arguments.library, arguments.program),
        serves_operators(arguments.library, arguments.operators),
    ]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
