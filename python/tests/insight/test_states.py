"""The states of heaps are those of the library."""

import re

from conftest import ROOT

from hakmem.insight.states import HeapState, state_name

NAMES = {
    "LIVE": "running",
    "ORPHAN": "ended",
    "LOST": "lost",
    "SHARED": "shared",
    "EXPLICIT": "explicit",
    "VACANT": "vacant",
}


def test_they_are_numbered_as_in_the_library() -> None:
    header = (ROOT / "src" / "heap" / "heap.h").read_text()
    body = re.search(r"enum heap_state \{(.*?)\};", header, re.DOTALL)
    assert body is not None
    names = re.findall(r"HEAP_(\w+)", body[1])
    assert [state_name(number) for number in range(1, len(names) + 1)] == [
        NAMES[name] for name in names
    ]
    assert len(HeapState) == len(names)


def test_another_number_is_unknown() -> None:
    assert state_name(0) == state_name(len(HeapState) + 1) == "unknown"
