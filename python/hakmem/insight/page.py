"""The report as one page that needs nothing but itself."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import jinja2
from markupsafe import Markup

from hakmem.insight import words
from hakmem.insight.confidence import Interval, of_samples
from hakmem.insight.leaks import Suspect
from hakmem.insight.pprof import provenance
from hakmem.insight.profile import LIFETIME_NAMES, Block, Profile, TimePoint
from hakmem.insight.symbols import Frame
from hakmem.insight.tree import as_columns, grow
from hakmem.insight.views import (
    LIVE,
    NEVER_TIGHT,
    PEAK,
    TIGHT,
    TOTAL,
    Stack,
    View,
    functions_of,
    hint,
    is_empty,
    ranked,
    sites_interval,
)
from hakmem.lab.palette import INKS, Ink

STACKS_SHOWN = 30
FUNCTIONS_SHOWN = 200
OWN_INKS = {
    "live": Ink("#d1440c", "#ff8146"),
    "held": Ink("#0b6bb0", "#62b6f7"),
    "dirty": Ink("#a87400", "#efbf55"),
    "rss": Ink("#626973", "#b4bbc4"),
}


@dataclass(frozen=True)
class Flames:
    """What the widths of the flame graph are: bytes or objects of a view."""

    view: View
    name: str
    label: str
    unit: str = "bytes"

    def width(self, stack: Stack) -> float:
        return stack.bytes(self.view) if self.unit == "bytes" else stack.objects(self.view)


FLAMES = (
    Flames(LIVE, LIVE.name, LIVE.noun),
    Flames(PEAK, PEAK.name, PEAK.noun),
    Flames(TOTAL, TOTAL.name, "allocated"),
    Flames(TOTAL, "count", "allocated, by number", "objects"),
    Flames(TIGHT, TIGHT.name, TIGHT.noun),
)


@dataclass(frozen=True)
class Bin:
    """Live blocks of a range of sizes."""

    label: str
    bytes: float
    objects: float
    samples: int


@dataclass(frozen=True)
class Thread:
    tid: int
    live: Interval
    objects: float


def page(
    profile: Profile,
    stacks: Sequence[Stack],
    suspects: Sequence[Suspect],
    view: View | None = None,
) -> str:
    """`view`: which figures the tables have, and the flame graph at first; None: the most telling.

    What a program has left when it ends is hardly what it needed.
    """
    if view is None:
        view = PEAK if profile.has_ended and profile.peak.value else LIVE
    largest = ranked(stacks, view)
    functions = functions_of(stacks, view)[:FUNCTIONS_SHOWN]
    allocated = {_key(one.frame): one.self_bytes for one in functions_of(stacks, TOTAL)}
    return render_data(
        "report.html",
        _data(profile, stacks, view),
        profile=profile,
        view=view,
        whole=max(1.0, sum(stack.bytes(view) for stack in stacks)),
        date=_date(profile),
        headline=headline(profile, suspects, view),
        hint=NEVER_TIGHT if is_empty(profile, view) else hint(profile, stacks, view),
        live=profile.live,
        total=profile.total,
        peak=profile.peak,
        tight=profile.tight,
        suspects=suspects,
        functions=[(one, sites_interval(profile, one.sites, view)) for one in functions],
        allocated={key: allocated.get(key, 0) for key in map(_key, (f.frame for f in functions))},
        key_of=_key,
        stacks=[(stack, stack.interval(profile, view)) for stack in largest[:STACKS_SHOWN]],
        stacks_left=len(largest) - STACKS_SHOWN,
        lifetime_names=LIFETIME_NAMES,
        threads=threads(profile),
        provenance=[line.partition(": ") for line in provenance(profile)],
    )


def render_data(template: str, data: object, **facts: object) -> str:
    """A template with the page's style, script and plotly in it; `data` is what is drawn."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hakmem.insight"), autoescape=True, trim_blocks=True
    )
    environment.filters |= {
        "size": words.size_text,
        "count": words.count_text,
        "percent": words.percent_text,
        "time": words.time_text,
        "growth": words.growth_text,
    }
    folder = Path(__file__).parent / "templates"
    return environment.get_template(template).render(
        themes=_themes(),
        css=Markup((folder / "page.css").read_text(encoding="utf-8")),
        script=Markup((folder / "page.js").read_text(encoding="utf-8")),
        plotly=Markup(get_plotlyjs()),
        data=_as_script(data),
        **facts,
    )


def headline(profile: Profile, suspects: Sequence[Suspect], view: View = LIVE) -> str:
    live, age = words.size_text(profile.live.value), words.time_text(profile.age_ms)
    text = f"{live} live after {age}"
    if view is TIGHT and profile.tight.value:
        text = f"{words.size_text(profile.tight.value)} live when memory became tight"
    elif profile.has_ended:
        text = f"{words.size_text(profile.peak.value)} at the peak, {live} left after {age}"
    if not suspects:
        telling = "telling " if profile.is_coarse or profile.blind_below else ""
        return f"{text}; no {telling}leak suspects"
    first = suspects[0]
    name = first.stack.culprit.function
    more = f", and {len(suspects) - 1} more" if len(suspects) > 1 else ""
    return f"{text}; {name} grows {words.growth_text(first.growth.value)}{more}"


def threads(profile: Profile) -> list[Thread]:
    """By what they allocated that is still there, whoever frees it later."""
    found: dict[int, list[Block]] = defaultdict(list)
    for block in profile.blocks:
        found[block.tid].append(block)
    rows = [
        Thread(tid, of_samples(b.sampled for b in blocks), sum(b.weight_objects for b in blocks))
        for tid, blocks in found.items()
    ]
    return sorted(rows, key=lambda row: -row.live.value)


def size_bins(blocks: Sequence[Block]) -> list[Bin]:
    """Powers of two, without gaps."""
    found: dict[int, list[Block]] = defaultdict(list)
    for block in blocks:
        found[max(3, math.ceil(math.log2(max(1, block.size))))].append(block)
    if not found:
        return []
    return [
        Bin(
            label=f"≤ {words.power_text(power)}",
            bytes=sum(block.weight_bytes for block in found[power]),
            objects=sum(block.weight_objects for block in found[power]),
            samples=len(found[power]),
        )
        for power in range(min(found), max(found) + 1)
    ]


def _key(frame: Frame) -> tuple[str, str]:
    return (frame.function, frame.module)


def _date(profile: Profile) -> str:
    return datetime.fromtimestamp(profile.taken_at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _data(profile: Profile, stacks: Sequence[Stack], view: View) -> dict[str, object]:
    has_tight = view is TIGHT or profile.tight.value
    flames = [one for one in FLAMES if one.view is not TIGHT or has_tight]
    root = grow(
        (
            (
                stack.frames,
                # Objects are shown beside the widths.
                (
                    *(one.width(stack) for one in flames),
                    *(stack.objects(one.view) for one in flames),
                ),
                stack.site.samples,
            )
            for stack in stacks
        ),
        2 * len(flames),
    )
    points = _until_now(profile)
    bins = size_bins(profile.blocks)
    return {
        "flame": {
            "nodes": as_columns(root),
            "views": [
                {"name": one.name, "label": one.label, "unit": one.unit, "value": index}
                for index, one in enumerate(flames)
            ],
            "objects": list(range(len(flames), 2 * len(flames))),
            "first": [one.name for one in flames].index(view.name),
        },
        "timeline": {
            "seconds": [(point.ms - profile.shown_ms) / 1000 for point in points],
            "live": [point.live_bytes for point in points],
            "held": [point.held_bytes for point in points],
            "dirty": [point.dirty_bytes for point in points],
            "rss_seconds": [(ms - profile.shown_ms) / 1000 for ms, _ in profile.rss],
            "rss": [count for _, count in profile.rss],
        },
        "sizes": {
            "label": [one.label for one in bins],
            "bytes": [one.bytes for one in bins],
            "objects": [round(one.objects, 1) for one in bins],
            "samples": [one.samples for one in bins],
        },
    }


def _until_now(profile: Profile) -> tuple[TimePoint, ...]:
    """The time line has a row where something is sampled: what nothing happened to is as it was."""
    points = profile.timeline
    if not points or points[-1].ms >= profile.now_ms:
        return points
    return (*points, replace(points[-1], ms=profile.now_ms))


def _as_script(data: object) -> Markup:
    """JSON that cannot end the element it stands in."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _themes() -> dict[str, Markup]:
    inks = INKS | OWN_INKS
    return {
        "light": Markup("".join(f"--{name}:{ink.light};" for name, ink in inks.items())),
        "dark": Markup("".join(f"--{name}:{ink.dark};" for name, ink in inks.items())),
    }
