"""A profile kept for later: of a running process the file that it would write at its end.

src/live/format.h says what stands in such a file.
"""

import contextlib
import time
from pathlib import Path

from hakmem.insight.area import DESCRIPTOR, HEADER, TEXT_BEGIN, TEXT_END, Area, Saved, clock_ms
from hakmem.insight.attaching import area_of, mappings_text, program_start
from hakmem.insight.images import first_image, read_image
from hakmem.insight.profile import command_of, modules_of
from hakmem.written import PRIVATE, say_written, write_file


def keep(target: str, path: Path) -> None:
    """Of a process id, or of a file once more."""
    # As the library's own: a command line may hold what is nobody else's business.
    write_file(path, kept(area_of(target)), mode=PRIVATE)
    say_written(path)


def kept(area: Area) -> bytes:
    """The tables as they were copied, and what their addresses mean."""
    content = bytearray(area.size)
    content[: len(area.header)] = area.header
    for at in range(HEADER.size, HEADER.size + len(area.tables) * DESCRIPTOR.size, DESCRIPTOR.size):
        name, offset, stride, rows, _, *rest = DESCRIPTOR.unpack_from(area.header, at)
        table = area.tables[name.partition(b"\0")[0].decode()]
        # As many as were copied: there may be more by now.
        DESCRIPTOR.pack_into(content, at, name, offset, stride, rows, table.used, *rest)
        content[offset : offset + len(table.data)] = table.data
    return bytes(content) + _meaning(area).encode(errors="surrogateescape")


def _meaning(area: Area) -> str:
    """Its mappings, with their sizes if it still runs, the build ids of what is in them, and what
    was saved when."""
    maps = area.maps_text
    if area.seen_as:
        with contextlib.suppress(OSError):
            maps = mappings_text(area.seen_as, "smaps") or maps
    ids = area.build_ids or _build_ids(area)
    lines = [f"program {program_start(area):x}\n"]
    lines += [f"build-id {start:x} {value}\n" for start, value in ids.items()]
    saved = _as_of_now(area.seen_as) if area.seen_as else area.saved
    return "".join([TEXT_BEGIN, maps, *lines, *([saved.line()] if saved else []), TEXT_END])


def _as_of_now(pid: int) -> Saved:
    return Saved(clock_ms(), int(time.time()), command_of(pid))


def _build_ids(area: Area) -> dict[int, str]:
    """By the start of a mapping of each file."""
    found: dict[str, tuple[int, str]] = {}
    for module in modules_of(area.maps_text, {}, area.seen_as):
        if not (module.is_file and module.is_code) or module.path in found:
            continue
        path = first_image((*module.shown, str(module.file)))
        image = read_image(path) if path else None
        if image is not None and image.build_id:
            found[module.path] = (module.start, image.build_id)
    return dict(found.values())
