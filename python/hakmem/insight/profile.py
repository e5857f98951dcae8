"""The heap profile of a process: where its live memory was allocated, as far as sampling tells."""

import re
import shlex
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from hakmem.insight.area import OBJECT, Area, Row, Saved, clock_ms, number, numbers
from hakmem.insight.attaching import area_of, mapped_name, program_of
from hakmem.insight.confidence import FEW, Interval, Sampled, of_samples, of_total
from hakmem.insight.metric_table import is_peak_now
from hakmem.insight.numbers import numbers_of
from hakmem.insight.option_table import written
from hakmem.insight.processes import status
from hakmem.insight.roots import as_named_inside, inside, is_elsewhere
from hakmem.insight.smaps import parse
from hakmem.pids import memory_folder, pid_of
from hakmem.terminal import in_one_line, legible

# Freed samples by age: the upper ends of all bins but the last.
LIFETIME_MS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
LIFETIME_NAMES = ("< 1 ms", "< 10 ms", "< 100 ms", "< 1 s", "< 10 s", "< 100 s", "< 1000 s", "more")
MAPS_LINE = re.compile(
    r"([0-9a-f]+)-([0-9a-f]+) ([-rwxsp]{4}) ([0-9a-f]+) [0-9a-f]+:[0-9a-f]+ \d+\s*(.*)"
)


@dataclass(frozen=True)
class Site:
    """A call stack that allocated sampled blocks, innermost return address first."""

    index: int
    stack: tuple[int, ...]
    live_bytes: int
    live_objects: float
    live_rounding: int
    total_bytes: int
    total_objects: float
    peak_bytes: int
    peak_objects: float
    peak_samples: int
    tight_bytes: int
    tight_objects: float
    tight_samples: int
    first_ms: int
    last_ms: int
    samples: int
    live_samples: int
    lifetimes: tuple[int, ...]


@dataclass(frozen=True)
class Block:
    address: int
    size: int
    usable: int
    weight_bytes: int
    weight_objects: float
    born_ms: int
    site: int
    tid: int

    @property
    def sampled(self) -> Sampled:
        return Sampled(self.size, self.weight_bytes)


@dataclass(frozen=True)
class TimePoint:
    ms: int
    live_bytes: int
    dirty_bytes: int
    held_bytes: int


@dataclass(frozen=True)
class Module:
    """A mapping that can be executed, or a file's: `offset` is where in the file it begins."""

    start: int
    end: int
    offset: int
    path: str
    build_id: str = ""
    # Where the kernel shows the file itself, whatever its name leads to by now, or from here.
    shown: tuple[str, ...] = ()
    # Where its name leads for the process, if that may be another file here.
    place: str = ""
    is_code: bool = True

    @property
    def name(self) -> str:
        return legible(Path(self.path).name) or "[anonymous]"

    @property
    def is_file(self) -> bool:
        return self.path.startswith("/")

    @property
    def file(self) -> Path:
        """Which its name leads to."""
        return Path(self.place or self.path)


@dataclass(frozen=True)
class Profile:
    pid: int
    command: str
    version: str
    interval: int
    shown_ms: int
    now_ms: int
    settings: Mapping[str, int]
    sites: tuple[Site, ...]
    blocks: tuple[Block, ...]
    timeline: tuple[TimePoint, ...]
    modules: tuple[Module, ...]
    page: Mapping[str, int]
    taken_at: float = 0.0
    source: str = ""
    program: str = ""  # its file, as `modules` have it
    rss: tuple[tuple[int, int], ...] = ()  # (milliseconds, bytes), as far as somebody looked
    rss_most: int = 0  # ever, where the kernel could be asked
    has_ended: bool = False
    known_live: int = 0  # bytes of live blocks, which hakmem counts whatever is sampled

    @cached_property
    def blocks_of(self) -> Mapping[int, Sequence[Block]]:
        found: dict[int, list[Block]] = defaultdict(list)
        for block in self.blocks:
            found[block.site].append(block)
        return found

    @property
    def rss_peak(self) -> int:
        return max(self.rss_most, *(count for _, count in self.rss), 0)

    @property
    def age_ms(self) -> int:
        return max(0, self.now_ms - self.shown_ms)

    def live_of(self, sites: Iterable[Site]) -> Interval:
        """What those sites hold, with its interval."""
        blocks = (b.sampled for site in sites for b in self.blocks_of.get(site.index, ()))
        return of_samples(blocks, self.spacing)

    @property
    def live(self) -> Interval:
        return of_samples((block.sampled for block in self.blocks), self.spacing)

    @property
    def spacing(self) -> float:
        """Bytes between samples: now, or over its life if it was more.

        A program that allocates much has them far apart, and keeps what few of them tell of.
        """
        samples = self.page.get("samples", 0)
        mean = self.page.get("intervals", 0) / samples if samples else 0.0
        return max(float(self.interval), mean)

    @property
    def is_coarse(self) -> bool:
        """Whether samples are too far apart, for want of a higher rate, to tell what is live."""
        usual = self.settings.get("profile_interval") or self.interval
        return FEW * usual <= self.known_live < FEW * self.spacing

    @property
    def blind_below(self) -> float:
        """Bytes of which samples as far apart as these tell too little; 0: as many as are usual."""
        usual = self.settings.get("profile_interval") or self.interval
        return FEW * self.spacing if self.spacing >= 2 * usual else 0.0

    @property
    def total(self) -> Interval:
        return _sum([total_of(site) for site in self.sites])

    @property
    def peak(self) -> Interval:
        return _sum([peak_of(site) for site in self.sites])

    @property
    def tight(self) -> Interval:
        return _sum([tight_of(site) for site in self.sites])


def total_of(site: Site, spacing: float = 0.0) -> Interval:
    return _of_sum(site.total_bytes, site.total_objects, site.samples, spacing)


def peak_of(site: Site, spacing: float = 0.0) -> Interval:
    return _of_sum(site.peak_bytes, site.peak_objects, site.peak_samples, spacing)


def tight_of(site: Site, spacing: float = 0.0) -> Interval:
    return _of_sum(site.tight_bytes, site.tight_objects, site.tight_samples, spacing)


def _of_sum(value: int, objects: float, samples: int, spacing: float) -> Interval:
    return of_total(value, samples, value / objects if objects else 0.0, spacing)


def _sum(parts: Sequence[Interval]) -> Interval:
    """Of independent estimates: their distances to the ends add up as squares."""
    value = sum(part.value for part in parts)
    low = sum((part.value - part.low) ** 2 for part in parts) ** 0.5
    high = sum((part.high - part.value) ** 2 for part in parts) ** 0.5
    samples = sum(part.samples for part in parts)
    return Interval(value, max(0.0, value - low), value + high, samples)


def merged(sites: Sequence[Site]) -> Site:
    """Several call stacks as one; index and stack are the first's."""
    if len(sites) == 1:
        return sites[0]
    return replace(
        sites[0],
        live_bytes=sum(site.live_bytes for site in sites),
        live_objects=sum(site.live_objects for site in sites),
        live_rounding=sum(site.live_rounding for site in sites),
        total_bytes=sum(site.total_bytes for site in sites),
        total_objects=sum(site.total_objects for site in sites),
        peak_bytes=sum(site.peak_bytes for site in sites),
        peak_objects=sum(site.peak_objects for site in sites),
        peak_samples=sum(site.peak_samples for site in sites),
        tight_bytes=sum(site.tight_bytes for site in sites),
        tight_objects=sum(site.tight_objects for site in sites),
        tight_samples=sum(site.tight_samples for site in sites),
        first_ms=min(site.first_ms for site in sites),
        last_ms=max(site.last_ms for site in sites),
        samples=sum(site.samples for site in sites),
        live_samples=sum(site.live_samples for site in sites),
        lifetimes=tuple(map(sum, zip(*(site.lifetimes for site in sites), strict=True))),
    )


def modules_of(maps_text: str, build_ids: Mapping[int, str], pid: int = 0) -> tuple[Module, ...]:
    """Code, and what else of files is mapped: there is what hak_alloc_at calls a site.

    A build id belongs to the file mapped at its address.

    `pid`: of the process, if it runs.
    """
    found = []
    file_ids: dict[str, str] = {}
    folder = memory_folder(pid)
    other = bool(pid) and is_elsewhere(folder)
    for line in maps_text.split("\n"):
        match = MAPS_LINE.fullmatch(line)
        if match is None:
            continue
        start, end, offset = (int(match[i], 16) for i in (1, 2, 4))
        path = mapped_name(match[5])
        for address, build_id in build_ids.items():
            if path and start <= address < end:
                file_ids[path] = build_id
        is_code = "x" in match[3]
        if is_code or path.startswith("/"):
            shown = _shown(pid, f"{match[1]}-{match[2]}", path) if pid and path else ()
            place = str(inside(folder, as_named_inside(folder, path))) if other else ""
            found.append(
                Module(start, end, offset, path, shown=shown, place=place, is_code=is_code)
            )
    return tuple(replace(module, build_id=file_ids.get(module.path, "")) for module in found)


def _shown(pid: int, stretch: str, path: str) -> tuple[str, ...]:
    """To root, and of the program itself to its user as well."""
    program = Path(f"/proc/{pid}/exe")
    try:
        is_program = str(program.readlink()) == path
    except OSError:
        is_program = False
    return (f"/proc/{pid}/map_files/{stretch}", *([str(program)] if is_program else []))


def profile_of(target: str) -> Profile:
    """Of a process id or a profile's file."""
    pid = pid_of(target)
    area = area_of(target)
    if pid is None:
        at = area.saved.at if area.saved else Path(target).stat().st_mtime
        return _with_rss(from_area(area, taken_at=at), parse(area.maps_text).rss)
    profile = from_area(area, command=command_of(pid), now_ms=clock_ms())
    now = status(pid)
    if now is None:
        return profile
    return replace(_with_rss(profile, now.resident), rss_most=now.resident_peak)


def _with_rss(profile: Profile, count: int) -> Profile:
    """At the moment of the profile; 0: not known."""
    return replace(profile, rss=((profile.now_ms, count),)) if count else profile


def command_of(pid: int) -> str:
    """What a running process was started as."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return shlex.join(word.decode(errors="replace") for word in words if word)


def from_area(
    area: Area, command: str = "", taken_at: float | None = None, now_ms: int = 0
) -> Profile:
    """The profile in an area; without `now_ms` its moment is that when it was saved, and of a file
    that does not say it that of the last change in it."""
    row = area.row("process")
    saved = area.saved or Saved(0, 0, "")
    page = {name: word for name, word in row.items() if isinstance(word, int)}
    settings = area.row("settings")
    words = [number(word, "address") for word in area.table("stacks").rows()]
    sites = [_site(index, site, words) for index, site in enumerate(area.table("sites").rows())]
    points = [_point(point) for point in area.table("timeline").rows()]
    known_live = numbers_of(area, None)["live_bytes"]
    program = program_of(area)
    return Profile(
        pid=area.seen_as or number(row, "pid"),
        command=in_one_line(command or saved.command) or legible(program) or "?",
        program=program,
        version=area.version,
        interval=number(row, "interval"),
        shown_ms=number(row, "shown_ms"),
        now_ms=now_ms
        or saved.ms
        or max([number(row, "changed_ms"), *(site.last_ms for site in sites)]),
        settings={name: number(settings, name) for name in settings},
        sites=_with_peak([site for site in sites if site.samples], known_live),
        blocks=tuple(_block(row) for row in area.table("blocks").rows() if number(row, "address")),
        timeline=tuple(point for point in points if point.ms),
        modules=modules_of(area.maps_text, area.build_ids, area.seen_as),
        page=page,
        taken_at=time.time() if taken_at is None else taken_at,
        source=area.source,
        known_live=known_live,
    )


def _with_peak(sites: Sequence[Site], known_live: int) -> tuple[Site, ...]:
    """Where the peak is now, what is live is what each had then."""
    live = sum(site.live_bytes for site in sites)
    if not is_peak_now(live, sum(site.peak_bytes for site in sites), known_live):
        return tuple(sites)
    return tuple(
        replace(
            site,
            peak_bytes=site.live_bytes,
            peak_objects=site.live_objects,
            peak_samples=site.live_samples,
        )
        for site in sites
    )


def _samples_then(row: Row, name: str) -> int:
    """Where an earlier version did not write it, the fewest that there can have been."""
    return number(row, name) if name in row else 1


def _site(index: int, row: Row, words: Sequence[int]) -> Site:
    first = number(row, "stack")
    return Site(
        index=index,
        stack=tuple(words[first : first + number(row, "depth")]),
        live_bytes=number(row, "live_bytes"),
        live_objects=number(row, "live_objects") / OBJECT,
        live_rounding=number(row, "live_rounding"),
        total_bytes=number(row, "total_bytes"),
        total_objects=number(row, "total_objects") / OBJECT,
        peak_bytes=number(row, "peak_bytes"),
        peak_objects=number(row, "peak_objects") / OBJECT,
        peak_samples=_samples_then(row, "peak_samples"),
        tight_bytes=number(row, "tight_bytes") if "tight_bytes" in row else 0,
        tight_objects=number(row, "tight_objects") / OBJECT if "tight_objects" in row else 0.0,
        tight_samples=_samples_then(row, "tight_samples"),
        first_ms=number(row, "first_ms"),
        last_ms=number(row, "last_ms"),
        samples=number(row, "samples"),
        live_samples=number(row, "live_samples"),
        lifetimes=numbers(row, "lifetimes"),
    )


def _block(row: Row) -> Block:
    return Block(
        address=number(row, "address"),
        size=number(row, "size"),
        usable=number(row, "usable"),
        weight_bytes=number(row, "weight_bytes"),
        weight_objects=number(row, "weight_objects") / OBJECT,
        born_ms=number(row, "born_ms"),
        site=number(row, "site"),
        tid=number(row, "tid"),
    )


def _point(row: Row) -> TimePoint:
    return TimePoint(
        ms=number(row, "ms"),
        live_bytes=number(row, "live_bytes"),
        dirty_bytes=number(row, "dirty_bytes"),
        held_bytes=number(row, "held_bytes"),
    )


def chosen_settings(profile: Profile) -> str:
    """Those that somebody set, as in HAKMEM_CONF."""
    chosen = [name for name in profile.settings if profile.settings.get(f"from_{name}")]
    return ",".join(f"{name}:{written(name, profile.settings[name])}" for name in chosen)
