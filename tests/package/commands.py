"""What the drivers of this folder share."""

import os
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
TIMEOUT_S = 300


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        words = " ".join(str(word) for word in command)
        sys.exit(f"FAILED with {done.returncode}: {words}\n{done.stdout}{done.stderr}")
    return done.stdout
