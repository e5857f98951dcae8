"""Does the recorder count what a program does, and does the judge add up?

Exits with 77 (skipped) where there is no C compiler.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import judge

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-pthread"]
PROGRAM = """
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
static void *work(void *unused) {
    void *kept[100];
    for (int i = 0; i < 100; i++) kept[i] = malloc(5001);
    for (int i = 0; i < 100; i++) free(kept[i]);
    return unused;
}
int main(void) {
    pthread_t thread;
    void *p, *grown = realloc(malloc(777), 70000);
    if (posix_memalign(&p, 64, 333) != 0 || malloc_usable_size(grown) != 70000) return 1;
    if (calloc(10, 33) == NULL || malloc(1UL << 62) != NULL) return 1;
    if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
    free(grown);
    free(p);
    return 0;
}
"""


def record() -> dict[tuple[int, int], tuple[int, int]]:
    """What the recorder says of the program: by size and alignment, allocated and at the peak."""
    with tempfile.TemporaryDirectory(prefix="histograms-") as name:
        folder = Path(name)
        out = folder / "out"
        out.mkdir()
        source = folder / "program.c"
        source.write_text(PROGRAM)
        library, program = folder / "recorder.so", folder / "program"
        shared: list[str | Path] = ["-fPIC", "-shared", HERE / "recorder.c", "-o", library]
        subprocess.run(["cc", *FLAGS, *shared], check=True)
        subprocess.run(["cc", *FLAGS, source, "-o", program], check=True)
        environment = os.environ | {"LD_PRELOAD": str(library), "HAKMEM_HISTOGRAMS": str(out)}
        subprocess.run([program], env=environment, check=True)
        (written,) = out.iterdir()
        head, names, *rows = written.read_text().splitlines()
    assert head.startswith("# program: 2 threads, "), head
    assert names == "size,alignment,allocations,peak_blocks", names
    table = [tuple(map(int, row.split(","))) for row in rows]
    return {(row[0], row[1]): (row[2], row[3]) for row in table}


def test_recorder() -> None:
    counts = record()
    assert counts[5024, 16] == (100, 100), counts  # 1/128 of 4096 .. 8192: steps of 32
    assert counts[784, 16] == (1, 0), counts  # resized away before the peak
    assert counts[70144, 16] == (1, 1), counts
    assert counts[336, 64] == (1, 1), counts
    assert counts[336, 16] == (1, 1), counts


def test_touched() -> None:
    assert judge.touched(16, 1) == 4096
    assert judge.touched(16, 257) == 8192
    assert judge.touched(4608, 14) == 65536  # 14 x 4608 leaves 1024 bytes
    assert judge.touched(24576, 11) == 262144 - 16384 + 24576  # whole pages remain untouched


def test_judge() -> None:
    program = judge.Program("two sizes", Counter({24: 10, 5000: 1}), Counter({24: 128}))
    verdict = judge.judge((8, 16, 32, 8192), program)
    assert verdict.used == 2
    assert verdict.live == 32 / 24
    assert verdict.pages == 4096 / (24 * 128)
    assert verdict.allocated == (320 + 8192) / (240 + 5000)


def test_tables() -> None:
    programs = [judge.read(path) for path in sorted(HERE.glob("*.csv"))]
    assert len(programs) >= 20
    for name, (table, judged) in judge.tables(programs).items():
        assert list(table) == sorted(set(table)), name
        assert table[-1] == judge.JUDGED_MAX, name
        assert judged, name
        if "fitted" in name:
            continue
        for smaller, size in pairwise(table):
            assert size <= 64 or size - smaller - 1 <= judge.MOST_LOST * size, (name, size)


def main() -> None:
    if shutil.which("cc") is None:
        print("skipped: there is no cc")
        sys.exit(77)
    for name, check in list(globals().items()):
        if name.startswith("test_"):
            check()
            print(name)


if __name__ == "__main__":
    main()
