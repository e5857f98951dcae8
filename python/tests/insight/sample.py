"""A process with a thread, the heap of one that ended and one torn by a fork, in round figures."""

from functools import cache

from synthetic_area import CLASSES, Built, build, class_rows, heap

CLASS_64 = [size for size, _ in CLASSES].index(64)
CLASS_72K = [size for size, _ in CLASSES].index(73728)
WRAP = 1 << 64
MIB = 1 << 20

PROCESS = {
    "page_size": 4096,
    "shown_ms": 1000,
    "changed_ms": 61000,
    "super_bytes": 8 * MIB,
    "units_dirty": 3,
    "pages_dirty": 5 * 4096,
    # A thread without a heap freed a run that a heap allocated.
    "run_bytes": WRAP - 300 * 1024,
    "run_blocks": WRAP - 1,
    "big_bytes": 8 * MIB,
    "big_blocks": 2,
    "big_cached": 2 * MIB,
    "purged_bytes": 7 * MIB,
    "interval": 512 * 1024,
    "samples": 40,
    "sampled_live": 10 * MIB,
    "apart_blocks": 1,
    "apart_bytes": 64,
    "sampled_peak": 12 * MIB,
}

HEAPS = [
    heap(
        0x1000,
        11,
        by_class={CLASS_64: (1000, 1, 16, 100), CLASS_72K: (2, 2, 36, 0)},
        run_bytes=1000 * 1024,
        run_blocks=2,
        refill=7,
        ss_taken=1200,
        inbox_bytes=3000,
        flush=2,
    ),
    # Its magazine holds more than it handed out: blocks of the first.
    heap(
        0x2000,
        12,
        2,
        by_class={CLASS_64: (10, 1, 4, 50)},
        run_bytes=WRAP - 4096,
        refill=5,
        remote_to_magazine=300,
    ),
    heap(0x3000, 13, 3, by_class={CLASS_64: (9999, 99, 9999, 9999)}),
]

# What that amounts to, by hand.
SMALL_BYTES = (1010 - 150) * 64 + 2 * 73728 + 64
RUN_BYTES = 700 * 1024 - 4096
EXPECTED = {
    "small_bytes": SMALL_BYTES,
    "small_blocks": 863,
    "run_bytes": RUN_BYTES,
    "run_blocks": 1,
    "big_bytes": 8 * MIB,
    "big_blocks": 2,
    "live_bytes": SMALL_BYTES + RUN_BYTES + 8 * MIB,
    "live_blocks": 866,
    "magazine_bytes": 150 * 64,
    "magazine_blocks": 150,
    "inbox_bytes": 3000,
    "slab_free_bytes": 20 * 4096 - 1010 * 64,
    "slab_bytes": 2 * 65536 + 2 * 73728,
    "slab_touched_bytes": 56 * 4096,
    "mapped_bytes": 8 * MIB,
    "dirty_bytes": 3 * 65536 + 5 * 4096,
    "big_cached_bytes": 2 * MIB,
    "purged_bytes": 7 * MIB,
    "heaps": 3,
    "threads": 1,
    "sample_interval_bytes": 512 * 1024,
    "sampled_live_bytes": 10 * MIB,
    "sampled_peak_bytes": 12 * MIB,
    "sampled_blocks": 2,
    "samples": 40,
    "sites": 1,
    "allocated_blocks": 50000,
    "reused_blocks": 50000 - 1200 - 300,
    "ss_local": 1200 - 1012,
    "refill": 12,
    "flush": 2,
    "sweep": 0,
    "hollow": 0,
}

# Sampled too, but where all big blocks are.
BIG = {"address": 0x9000, "size": 2 * MIB, "usable": 2 * MIB}

MAPS = "55d000000000-55d000001000 r--p 00000000 fe:00 12      /usr/bin/a-server\n"


@cache
def sample(**words: int) -> Built:
    """With these words in the process' row."""
    return build(
        {
            "process": [{"pid": 77, **PROCESS, **words}],
            "settings": [{"retain": 1 << 21, "from_retain": 1, "retain_max": 1 << 25}],
            "classes": class_rows(),
            "heaps": HEAPS,
            "sites": [
                {
                    "depth": 2,
                    "live_bytes": 5 * MIB,
                    "live_samples": 1,
                    "samples": 3,
                    "total_objects": 50000 * 1024,
                }
            ],
            "stacks": [{"address": 0x55D000000010}, {"address": 0x55D000000020}],
            "blocks": [{"address": 0}, {"address": 0x7000, "size": 50, "usable": 64}, BIG],
            "timeline": [
                {"ms": 1000 * i, "live_bytes": i * MIB, "held_bytes": 2 * i * MIB}
                for i in range(1, 11)
            ],
        }
    )
