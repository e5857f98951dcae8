"""How long magazines are at this very moment, where the kernel lets one read the process' memory.

The live area knows a magazine's length since its last refill or flush only: the fast paths tell
nobody. Reading stops nothing and attaches to nothing, but the kernel may reserve it to root (Yama).
"""

import os
import struct

from hakmem.insight.area import Area, number
from hakmem.insight.smaps import proc

POINTER = 8
# Of a magazine: where its newest block's slot is, and one past the oldest one's.
ENDS = struct.Struct("<QQ")
# No magazine is as long as that: such words are being changed.
LENGTH_MOST = 1 << 16

# A heap's address -> blocks in its magazines, by class.
Lengths = dict[int, tuple[int, ...]]


def read_lengths(pid: int, area: Area) -> Lengths | None:
    page = area.row("process")
    if not page.get("magazine_stride"):  # an area that does not say it, or not yet
        return None
    at, stride = number(page, "magazines_at"), number(page, "magazine_stride")
    size = stride * area.table("classes").used
    found: Lengths = {}
    try:
        with (proc(pid) / "mem").open("rb", buffering=0) as memory:
            for row in area.table("heaps").rows():
                heap = number(row, "address")
                data = os.pread(memory.fileno(), size, heap + at)
                found[heap] = lengths_in(data, stride)
    except OSError:
        return None
    return found


def lengths_in(data: bytes, stride: int) -> tuple[int, ...]:
    return tuple(_length(*ENDS.unpack_from(data, at)) for at in range(0, len(data), stride))


def _length(top: int, end: int) -> int:
    length = (end - top) // POINTER
    return length if 0 < length < LENGTH_MOST else 0
