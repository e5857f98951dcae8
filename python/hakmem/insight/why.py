"""Where a process' memory is: rows that add up to its RSS, for `hakmem why`.

What the kernel says is exact: mappings, and the pages that are there. What lies in each page of
hakmem's window is the live area's word per unit of 64 KiB. Only what happens inside of slabs is
counted, not seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hakmem.insight import elsewhere
from hakmem.insight.area import Area
from hakmem.insight.attaching import area_of, attach, program_of
from hakmem.insight.elsewhere import Parts
from hakmem.insight.holdings import Holdings
from hakmem.insight.inside import (
    ClassMemory,
    Inside,
    ThreadMemory,
    Window,
    free_memory,
    model,
    window_of,
)
from hakmem.insight.magazines import Lengths, read_lengths, read_unsent
from hakmem.insight.outside import not_ours, unknown_stacks
from hakmem.insight.rows import Row, clamped
from hakmem.insight.smaps import Mappings, Process, parse, read_pages, read_process
from hakmem.insight.window import Presence, untouched_by_site
from hakmem.pids import pid_of
from hakmem.terminal import legible

ATTEMPTS = 4
GOOD_ENOUGH = 0.002  # of RSS unexplained: the process moved little while it was looked at


@dataclass(frozen=True)
class Explanation:
    source: str
    target: str  # as commands are given it
    pid: int
    version: str
    rss: int
    rows: tuple[Row, ...]
    unexplained: int  # bytes; below zero: more was found than there is
    swap: int
    untouched: int
    whole: bool  # a process' RSS, not only what hakmem holds
    unknown: tuple[str, ...]
    classes: tuple[ClassMemory, ...]
    threads: tuple[ThreadMemory, ...]
    holdings: Holdings
    parts: Parts
    mappings: Mappings
    huge: int  # bytes of the window in huge pages
    filled: int  # at most by these, in the past as well
    untouched_by_site: Mapping[int, int] = field(default_factory=dict)  # of its live bytes

    def row(self, key: str) -> Row:
        for top in self.rows:
            for _, row in top.walk():
                if row.key == key:
                    return row
        return Row(key, key, 0)

    def bytes(self, key: str) -> int:
        return self.row(key).bytes

    def share(self, size: int) -> float:
        return size / self.rss if self.rss else 0.0


# Looking.


def why(target: str) -> Explanation:
    pid = pid_of(target)
    if pid is None:
        return explain_profile(area_of(target))
    best: Explanation | None = None
    for _ in range(ATTEMPTS):
        seen = look(pid)
        if best is None or abs(seen.unexplained) < abs(best.unexplained):
            best = seen
        if abs(best.unexplained) <= GOOD_ENOUGH * best.rss:
            break
    assert best is not None
    return best


def look(pid: int) -> Explanation:
    """Once; a process that works moves on between what is read first and last."""
    process = read_process(pid)
    area = attach(pid)
    page_size = Holdings(area).page_size
    wanted = [m for m in elsewhere.window_mappings(area, process.mappings) if m.rss or m.swap]
    pages = read_pages(pid, wanted, page_size)
    there = Presence(pages) if pages is not None else None
    return explain(area, process, there, read_lengths(pid, area), read_unsent(pid, area))


# Putting it together.


def explain(
    area: Area,
    process: Process,
    there: Presence | None,
    lengths: Lengths | None = None,
    unsent: int = 0,
) -> Explanation:
    holdings = Holdings(area, lengths, unsent)
    parts = elsewhere.attribute(area, process)
    window = window_of(area, holdings, process, there)
    free = free_memory(holdings, window.resident, window.filled)
    inside = Inside(holdings, window, free, process.mappings.rss, process.threads)
    rows = inside.rows(parts)
    rows.append(not_ours(process, parts))
    rss = process.mappings.rss
    unexplained = rss - sum(row.bytes for row in rows)
    if unexplained < 0:
        rows = clamped(rows, -unexplained)
    rows.append(_unexplained(unexplained, rss))
    return Explanation(
        source=f"process {process.pid}",
        target=str(process.pid),
        pid=process.pid,
        version=area.version,
        rss=rss,
        rows=tuple(rows),
        unexplained=unexplained,
        swap=process.mappings.swap,
        untouched=inside.untouched,
        whole=True,
        unknown=tuple([*window.notes, *inside.unknown(), *unknown_stacks(process, parts)]),
        classes=tuple(inside.classes),
        threads=tuple(inside.threads(parts)),
        holdings=holdings,
        parts=parts,
        mappings=process.mappings,
        huge=window.huge,
        filled=window.filled,
        untouched_by_site=untouched_by_site(area, there),
    )


def explain_profile(area: Area) -> Explanation:
    """As the process was when it wrote the file, if that has the kernel's word on its mappings."""
    mappings = parse(area.maps_text)
    if mappings.rss == 0:
        return explain_file(area)
    pid = Holdings(area).count("pid")
    explained = explain(area, Process(pid, legible(program_of(area)), mappings, ()), None)
    return replace(explained, source=area.source, target=area.source)


def explain_file(area: Area) -> Explanation:
    """A profile without that: what hakmem held, resident or not."""
    holdings = Holdings(area)
    seen = model(holdings)
    free = free_memory(holdings, seen, 0)
    inside = Inside(holdings, Window(seen, seen.total, estimated=True), free, seen.total, ())
    rows = inside.rows(Parts())
    held = sum(row.bytes for row in rows)
    return Explanation(
        source=area.source,
        target=area.source,
        pid=holdings.count("pid"),
        version=area.version,
        rss=held,
        rows=tuple(rows),
        unexplained=0,
        swap=0,
        untouched=0,
        whole=False,
        unknown=(
            "a file has no word of the kernel's: these are the bytes that hakmem held, of which "
            "any may have been without pages, and nothing that is not hakmem's",
            *inside.unknown(),
        ),
        classes=tuple(inside.classes),
        threads=tuple(inside.threads(Parts())),
        holdings=holdings,
        parts=Parts(),
        mappings=parse(area.maps_text),
        huge=0,
        filled=0,
    )


def _unexplained(size: int, rss: int) -> Row:
    share = abs(size) / rss * 100 if rss else 0.0
    note = f"{share:.2f} % of RSS"
    if size < 0:
        note += f": {-size} bytes more were counted than there are"
    return Row("unexplained", "unexplained", max(0, size), True, note)
