"""Magazines' lengths, in words made by hand and read out of a process."""

import ctypes
import os
import struct
from pathlib import Path

import pytest
from synthetic_process import CLASSES, SMALL, World, table

from hakmem.insight import magazines
from hakmem.insight.area import Area, Row
from hakmem.insight.magazines import (
    at_this_moment,
    lengths_in,
    read_lengths,
    read_unsent,
    unsent_in,
)
from hakmem.insight.why import explain

STRIDE = 32


def words(top: int, end: int) -> bytes:
    return struct.pack("<QQQQ", top, end, 0, 0)


def test_a_length_is_what_lies_between_top_and_end() -> None:
    data = words(0x1000, 0x1040) + words(0x2000, 0x2000) + words(0x3008, 0x3000) + words(0, 0)
    assert lengths_in(data, STRIDE) == (8, 0, 0, 0)


def test_words_that_are_being_changed_are_no_length() -> None:
    assert lengths_in(words(0, 0x7FFF_0000_0000), STRIDE) == (0,)


def with_places(area: Area, heap: int, at: int) -> Area:
    page = area.row("process") | {"magazines_at": at, "magazine_stride": STRIDE}
    row = area.table("heaps").rows()[0] | {"address": heap}
    listed = {k: list(v) if isinstance(v, tuple) else v for k, v in row.items()}
    plain = {k: v for k, v in page.items() if isinstance(v, int)}
    tables = area.tables | {
        "process": table("process", [dict(plain)]),
        "heaps": table("heaps", [listed]),
    }
    return Area(area.version, tables, area.maps_text)


def test_lengths_are_read_out_of_the_process() -> None:
    counts = [3, 0, 17, 2048, 1]
    data = b"".join(words(0x1000, 0x1000 + 8 * n) for n in counts)
    memory = ctypes.create_string_buffer(bytes(128) + data)
    heap = ctypes.addressof(memory)
    world = World()
    world.heap(1)
    area = with_places(world.area(), heap, 128)
    assert read_lengths(os.getpid(), area) == {heap: tuple(counts)}


def test_rows_of_heaps_get_the_lengths_that_are_known() -> None:
    known: Row = {"address": 1, "by_class": (7, 1, 2, 5, 9, 1, 2, 4)}
    unknown: Row = {"address": 2, "by_class": (7, 1, 2, 5, 9, 1, 2, 4)}
    first, second = at_this_moment([known, unknown], {1: (0, 3)})
    assert first == {"address": 1, "by_class": (7, 1, 2, 0, 9, 1, 2, 3)}
    assert second == unknown
    assert at_this_moment([known], None) == [known]


def test_what_may_not_be_read_is_not_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World()
    world.heap(1)
    assert read_lengths(os.getpid(), world.area()) is None
    monkeypatch.setattr(magazines, "memory_folder", lambda pid: tmp_path)
    assert read_lengths(1, with_places(world.area(), 4096, 128)) is None


def test_lengths_of_this_moment_replace_those_of_the_area() -> None:
    world = World()
    heap = world.heap(1)
    world.slab(SMALL, 16)
    heap.count(SMALL, used=1024, slabs=1, touched=16, magazine=10)
    area = world.area()
    address = next(iter(area.table("heaps").rows()))["address"]
    assert isinstance(address, int)
    blocks = tuple(500 if index == SMALL else 0 for index in range(len(CLASSES)))
    old = world.explain()
    new = explain(area, world.process(), world.presence(), {address: blocks})
    assert old.bytes("magazines") == 10 * 64
    assert new.bytes("magazines") == 500 * 64
    assert sum(row.bytes for row in new.rows) == new.rss
    told = "magazines change with every allocation"
    assert any(told in text for text in old.unknown)
    assert not any(told in text for text in new.unknown)


PARCEL = 32 << 10


def outboxes(*boxes: tuple[int, int], aside: int = 0) -> bytes:
    return b"".join(struct.pack("<QQQII", 7, 1, *box, 126) for box in boxes) + struct.pack(
        "<QQ", 1, aside
    )


def test_what_is_not_sent_is_what_parcels_lack_of_their_room() -> None:
    data = outboxes((0x1000, PARCEL - 500), (0, 0), (0x2000, PARCEL), aside=70)
    assert unsent_in(data, 3, 32, PARCEL) == 570
    assert unsent_in(outboxes((0x1000, PARCEL + 1)), 1, 32, PARCEL) == 0


def test_what_is_not_sent_is_read_out_of_the_process() -> None:
    memory = ctypes.create_string_buffer(bytes(64) + outboxes((1, PARCEL - 9), (1, PARCEL - 3)))
    world = World()
    world.heap(1)
    area = with_places(world.area(), ctypes.addressof(memory), 0)
    assert read_unsent(os.getpid(), area) == 0
    shown = 64 | 2 << 16 | 32 << 32 | PARCEL << 48
    page = area.row("process") | {"unsent": shown}
    plain = {k: v for k, v in page.items() if isinstance(v, int)}
    tables = area.tables | {"process": table("process", [dict(plain)])}
    assert read_unsent(os.getpid(), Area(area.version, tables, area.maps_text)) == 12


def test_a_process_that_ends_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory reads as nothing then."""
    world = World()
    world.heap(1)
    world.page["unsent"] = PARCEL << 48 | 32 << 32 | 3 << 16 | 64
    monkeypatch.setattr(magazines.os, "pread", lambda *_: b"")
    assert read_unsent(os.getpid(), world.area()) == 0
