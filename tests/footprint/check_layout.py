"""The library's pages that every process may have: what it is loaded with and cannot write to.

    check_layout.py LIBRARY PAGES

A page that is touched brings those beside it along (cmake/layout.ld), so a part that grows over
its boundary costs up to 64 KiB in each process, but only in some runs: the loader places the
library at any page. Hence it is counted here. Space that is left between parts is not.
"""

import re
import subprocess
import sys
from pathlib import Path

PAGE = 4096
SEGMENT = re.compile(r"^  LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x\w+ (.{3}) 0x")


def pages(library: str) -> int:
    table = subprocess.run(
        ["readelf", "-lW", library], capture_output=True, text=True, check=True
    ).stdout
    content = Path(library).read_bytes()
    parts = [
        content[int(found[1], 16) // PAGE * PAGE : int(found[1], 16) + int(found[3], 16)]
        for found in map(SEGMENT.match, table.splitlines())
        if found and "W" not in found[4]
    ]
    if not parts:
        sys.exit(f"{library}: no segments in\n{table}")
    return sum(any(part[at : at + PAGE]) for part in parts for at in range(0, len(part), PAGE))


library, most = sys.argv[1], int(sys.argv[2])
now = pages(library)
print(f"{now} pages, at most {most}")
sys.exit(now > most)
