"""How long magazines are at this very moment, and what threads have freed of other heaps' blocks
but not sent yet, where the kernel lets one read the process' memory.

The live area knows a magazine's length since its last refill or flush only, and nothing of what is
not sent: the fast paths tell nobody. Reading stops nothing and attaches to nothing, but the kernel
may reserve it to root (Yama).
"""

import os
import struct

from hakmem.insight.area import Area, Row, number, numbers
from hakmem.pids import memory_folder

POINTER = 8
# An outbox; what stands behind the last one (src/live/tables.def).
OUTBOX = struct.Struct("<QQQII")
ASIDE = struct.Struct("<QQ")
# The slots of no magazine take as much as that: such words are being changed.
BYTES_MOST = POINTER << 16

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
        with (memory_folder(pid) / "mem").open("rb", buffering=0) as memory:
            for row in area.table("heaps").rows():
                heap = number(row, "address")
                data = os.pread(memory.fileno(), size, heap + at)
                if len(data) != size:  # it is just being unmapped
                    return None
                found[heap] = lengths_in(data, stride)
    except OSError:
        return None
    return found


def at_this_moment(rows: list[Row], lengths: Lengths | None) -> list[Row]:
    """Rows of heaps with these lengths instead of the area's."""
    return rows if lengths is None else [_with_lengths(row, lengths) for row in rows]


def _with_lengths(row: Row, lengths: Lengths) -> Row:
    words = list(numbers(row, "by_class"))
    words[3::4] = lengths.get(number(row, "address"), words[3::4])
    return row | {"by_class": tuple(words)}


def read_unsent(pid: int, area: Area) -> int:
    """Bytes of blocks in outboxes; 0 if that cannot be known."""
    shown = area.row("process").get("unsent")
    if not isinstance(shown, int) or shown == 0:
        return 0
    at, count = shown & 0xFFFF, shown >> 16 & 0xFFFF
    stride, parcel = shown >> 32 & 0xFFFF, shown >> 48
    size = count * stride + ASIDE.size
    total = 0
    try:
        with (memory_folder(pid) / "mem").open("rb", buffering=0) as memory:
            for row in area.table("heaps").rows():
                data = os.pread(memory.fileno(), size, number(row, "address") + at)
                if len(data) != size:  # as above
                    return 0
                total += unsent_in(data, count, stride, parcel)
    except OSError:
        return 0
    return total


def unsent_in(data: bytes, count: int, stride: int, parcel: int) -> int:
    found = ASIDE.unpack_from(data, count * stride)[1]
    for at in range(0, count * stride, stride):
        _, _, last, room, _ = OUTBOX.unpack_from(data, at)
        if last and room <= parcel:  # else it is being changed
            found += parcel - room
    return int(found)


def lengths_in(data: bytes, stride: int) -> tuple[int, ...]:
    """A magazine's first two words: where its newest block's slot is, and one past the oldest's."""
    # All at once: of a process with hundreds of threads there are many.
    words, apart = memoryview(data).cast("Q"), stride // POINTER
    return tuple(
        (end - top) // POINTER if 0 < end - top < BYTES_MOST else 0
        for top, end in zip(words[0::apart].tolist(), words[1::apart].tolist(), strict=True)
    )
