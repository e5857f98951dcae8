"""The profile by named call stacks, and which of its figures are shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

from hakmem.errors import HakmemError
from hakmem.insight.confidence import Interval
from hakmem.insight.plumbing import is_plumbing, telling
from hakmem.insight.profile import Profile, Site, merged, peak_of, tight_of, total_of
from hakmem.insight.symbols import Frame, Symbols
from hakmem.insight.words import percent_text, size_text

OWN_LIBRARY = "libhakmem"
# Of a view's bytes: if less is in short stacks, the others tell enough.
SHORT_LEAST = 0.5
MS_PER_S = 1000
RATE_MOST = 1_000_000  # that the setting takes


@dataclass(frozen=True)
class View:
    """Which of a site's figures count: `noun` is what they are of."""

    name: str
    noun: str

    def bytes_of(self, site: Site) -> int:
        return {
            "live": site.live_bytes,
            "total": site.total_bytes,
            "peak": site.peak_bytes,
            "tight": site.tight_bytes,
        }[self.name]

    def objects_of(self, site: Site) -> float:
        return {
            "live": site.live_objects,
            "total": site.total_objects,
            "peak": site.peak_objects,
            "tight": site.tight_objects,
        }[self.name]


LIVE = View("live", "live now")
TOTAL = View("total", "allocated since the start")
PEAK = View("peak", "live at the peak")
TIGHT = View("tight", "live when memory was tight")
NEVER_TIGHT = "Memory was never tight: this view has nothing."
VIEWS = {view.name: view for view in (LIVE, TOTAL, PEAK, TIGHT)}


@dataclass(frozen=True)
class Stack:
    """All sites with the same frames by name. Innermost first; one raw address per site."""

    frames: tuple[Frame, ...]
    sites: tuple[Site, ...]
    site: Site = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """From the program's entry inwards."""
        return tuple(frame.function for frame in reversed(self.frames))

    @property
    def culprit(self) -> Frame:
        """The innermost frame that is not a library's way to malloc."""
        return telling(self.frames)[0]

    @property
    def is_short(self) -> bool:
        """It tells who called malloc at best, and not who called that."""
        return len(self.site.stack) <= 1 or all(map(is_plumbing, self.frames))

    def bytes(self, view: View) -> int:
        return view.bytes_of(self.site)

    def objects(self, view: View) -> float:
        return view.objects_of(self.site)

    def interval(self, profile: Profile, view: View) -> Interval:
        return sites_interval(profile, self.sites, view)


def sites_interval(profile: Profile, sites: Sequence[Site], view: View) -> Interval:
    if view is LIVE or not sites:
        return profile.live_of(sites)
    of = {TOTAL.name: total_of, PEAK.name: peak_of, TIGHT.name: tight_of}
    return of[view.name](merged(sites), profile.spacing)


def is_empty(profile: Profile, view: View) -> bool:
    """NEVER_TIGHT is all there is to say."""
    return view is TIGHT and not profile.tight.value


def view_of(name: str | None) -> View:
    """What is live, where none is named."""
    if name is None:
        return LIVE
    if name not in VIEWS:
        raise HakmemError(f"no view '{name}'; there are: {', '.join(VIEWS)}")
    return VIEWS[name]


def frames_of(site: Site, symbols: Symbols) -> tuple[Frame, ...]:
    """Innermost first, without hakmem's own functions."""
    frames = [frame for address in site.stack for frame in symbols.frames(address)]
    while len(frames) > 1 and frames[0].module.startswith(OWN_LIBRARY):
        del frames[0]
    return tuple(frames) or (Frame("[no stack]", "", named=False),)


def stacks_of(profile: Profile, symbols: Symbols) -> list[Stack]:
    """Sites with the same names are one: lines and addresses of a function are put together."""
    symbols.prepare(address for site in profile.sites for address in site.stack)
    groups: dict[tuple[tuple[str, str], ...], tuple[tuple[Frame, ...], list[Site]]] = {}
    for site in profile.sites:
        frames = frames_of(site, symbols)
        key = tuple((frame.function, frame.module) for frame in frames)
        groups.setdefault(key, (frames, []))[1].append(site)
    return [Stack(frames, tuple(sites), merged(sites)) for frames, sites in groups.values()]


# Samples of what is live that tell enough of it.
ENOUGH = 100


def hint(profile: Profile, stacks: Sequence[Stack], view: View) -> str:
    """What to do where the profile tells too little; empty if there is no need."""
    return _of_spacing(profile) or _of_stacks(profile, stacks, view)


def _of_spacing(profile: Profile) -> str:
    if not profile.is_coarse or not profile.known_live:
        return ""
    live, apart = size_text(profile.known_live), size_text(profile.spacing)
    more = ENOUGH * profile.spacing / profile.known_live
    rate = ceil(min(profile.settings.get("profile_rate", 0) * more, _rate_of_all(profile)))
    return (
        f"{live} are live, and samples {apart} apart, because so much is allocated and freed: what "
        f"few of them tell of may be missing here. HAKMEM_PROFILE_RATE={rate} takes more of them."
    )


def _rate_of_all(profile: Profile) -> float:
    """Twice the samples per second that would be taken without a limit.

    A block is one of them at most, so of large ones there are fewer than of their bytes.
    """
    usual = profile.settings.get("profile_interval") or profile.interval
    wanted = sum(min(site.total_objects, site.total_bytes / usual) for site in profile.sites)
    taken = wanted / max(profile.age_ms, 1) * MS_PER_S
    return min(2 * max(taken, profile.settings.get("profile_rate", 0)), RATE_MOST)


def _of_stacks(profile: Profile, stacks: Sequence[Stack], view: View) -> str:
    """Where most is known only as far as malloc's caller."""
    whole = sum(stack.bytes(view) for stack in stacks)
    short = sum(stack.bytes(view) for stack in stacks if stack.is_short)
    if profile.settings.get("profile_unwind") or short <= SHORT_LEAST * whole:
        return ""
    return (
        f"{percent_text(short / whole)} of it has no more than malloc's caller: code without frame "
        "pointers. Start the program with HAKMEM_PROFILE_UNWIND=1 for whole call stacks."
    )


def ranked(stacks: Iterable[Stack], view: View) -> list[Stack]:
    return sorted(
        (stack for stack in stacks if stack.bytes(view) > 0),
        key=lambda stack: -stack.bytes(view),
    )


@dataclass
class Function:
    """What a function allocated itself, and with all that it called."""

    frame: Frame
    self_bytes: int = 0
    cumulative_bytes: int = 0
    sites: list[Site] = field(default_factory=list)


def functions_of(stacks: Sequence[Stack], view: View) -> list[Function]:
    """By bytes of their own; recursion is counted once. Libraries' ways to malloc own nothing."""
    found: dict[tuple[str, str], Function] = {}
    for stack in stacks:
        count = stack.bytes(view)
        if not count:
            continue
        for key, frame in {(f.function, f.module): f for f in stack.frames}.items():
            found.setdefault(key, Function(frame)).cumulative_bytes += count
        own = stack.culprit
        function = found[own.function, own.module]
        function.self_bytes += count
        function.sites.extend(stack.sites)
    return sorted(found.values(), key=lambda one: (-one.self_bytes, -one.cumulative_bytes))
