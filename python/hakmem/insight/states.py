"""What a heap is, as `enum heap_state` (src/heap/heap.h) numbers it."""

from enum import IntEnum


class HeapState(IntEnum):
    RUNNING = 1  # a thread's
    ENDED = 2  # its thread has ended
    LOST = 3  # torn by a fork: what it says may be anything
    SHARED = 4  # threads take from it that need little
    EXPLICIT = 5  # the program's, made by hak_heap_new
    VACANT = 6  # was one, and has nothing


def state_name(state: int) -> str:
    return HeapState(state).name.lower() if state in set(HeapState) else "unknown"
