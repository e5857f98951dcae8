"""The profile on a terminal, and as JSON."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem.insight.confidence import Interval
from hakmem.insight.leaks import Suspect
from hakmem.insight.narrow import Fitted
from hakmem.insight.plumbing import telling
from hakmem.insight.printing import printing
from hakmem.insight.profile import Profile, chosen_settings
from hakmem.insight.symbols import Frame
from hakmem.insight.views import (
    LIVE,
    NEVER_TIGHT,
    PEAK,
    TIGHT,
    TOTAL,
    Stack,
    View,
    hint,
    is_empty,
    ranked,
)
from hakmem.insight.words import count_text, many_text, percent_text, size_text, time_text

SITES_SHOWN = 20
# The interval goes first where there is too little room, then samples, objects and share.
SPARE = (1, 4, 3, 2)
SUSPECTS_SHOWN = 5
CALLERS_SHOWN = 3


def totals(profile: Profile) -> dict[str, Interval]:
    return {
        LIVE.name: profile.live,
        TOTAL.name: profile.total,
        PEAK.name: profile.peak,
        TIGHT.name: profile.tight,
    }


def print_report(
    profile: Profile, stacks: Sequence[Stack], suspects: Sequence[Suspect], view: View
) -> None:
    with printing() as console:
        _print_report(console, profile, stacks, suspects, view)


def _print_report(
    console: Console,
    profile: Profile,
    stacks: Sequence[Stack],
    suspects: Sequence[Suspect],
    view: View,
) -> None:
    whole = totals(profile)[view.name]
    about = (
        f" (process {profile.pid}), {time_text(profile.age_ms)} after its start: "
        f"{size_text(whole.value)} {view.noun} ({_range(whole)}, 95 %), "
        f"from {many_text(whole.samples, 'sample')}"
    )
    console.print(Text(profile.command, style="bold").append(about, style="not bold"))
    if is_empty(profile, view):
        console.print(NEVER_TIGHT)
    else:
        console.print(sites_table(profile, stacks, view, whole))
    rest = len(ranked(stacks, view)) - SITES_SHOWN
    if rest > 0:
        console.print(f"and {count_text(rest)} smaller ones: --html FILE shows all")
    _print_suspects(console, suspects, profile)
    if advice := hint(profile, stacks, view):
        console.print(advice)


def sites_table(profile: Profile, stacks: Sequence[Stack], view: View, whole: Interval) -> Fitted:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for heading in (view.noun, "95 % interval", "share", "objects", "samples"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("allocated by", overflow="fold")
    for stack in ranked(stacks, view)[:SITES_SHOWN]:
        interval = stack.interval(profile, view)
        table.add_row(
            size_text(stack.bytes(view)),
            Text(_range(interval), style="dim italic" if interval.is_rough else ""),
            percent_text(stack.bytes(view) / max(1.0, whole.value)),
            count_text(stack.objects(view)),
            count_text(interval.samples),
            callers(stack.frames),
        )
    return Fitted(table, SPARE)


def callers(frames: Sequence[Frame], most: int | None = CALLERS_SHOWN) -> Text:
    """The first functions on the way out that are the program's own."""
    own = telling(frames)
    text = Text(own[0].function, style="bold")
    text.append(_place(own[0]), style="dim")
    for frame in own[1:most]:
        text.append(f" < {frame.function}", style="dim")
    return text


def _place(frame: Frame) -> str:
    if not frame.file:
        return f" {frame.module}" if frame.named and frame.module else ""
    return f" {frame.file.rpartition('/')[2]}:{frame.line}"


def _range(interval: Interval) -> str:
    return f"{size_text(interval.low)} to {size_text(interval.high)}"


def _print_suspects(console: Console, suspects: Sequence[Suspect], profile: Profile) -> None:
    if not suspects and profile.is_coarse:
        console.print("No telling leak suspects by so few samples.")
        return
    if not suspects and profile.blind_below:
        apart, least = size_text(profile.spacing), size_text(profile.blind_below)
        console.print(
            f"No leak suspects among samples that are {apart} apart: what has grown by less than "
            f"{least} is not seen."
        )
        return
    if not suspects:
        console.print("No leak suspects: nothing survives from every quarter of its time.")
        return
    console.print("Leak suspects:", style="bold")
    for one in suspects[:SUSPECTS_SHOWN]:
        console.print(Text("  ").append(callers(one.stack.frames)))
        console.print(f"    {one.sentence()}")


def as_json(
    profile: Profile, stacks: Sequence[Stack], suspects: Sequence[Suspect], view: View
) -> dict[str, object]:
    return {
        "pid": profile.pid,
        "command": profile.command,
        "version": profile.version,
        "interval": profile.interval,
        "age_ms": profile.age_ms,
        "settings": chosen_settings(profile),
        "view": view.name,
        "hint": hint(profile, stacks, view),
        "totals": {name: _interval(one) for name, one in totals(profile).items()},
        "sites": [
            {
                "bytes": stack.bytes(view),
                "objects": round(stack.objects(view), 1),
                "interval": _interval(stack.interval(profile, view)),
                "lifetimes": list(stack.site.lifetimes),
                "stack": [_frame(frame) for frame in stack.frames],
            }
            for stack in ranked(stacks, view)
        ],
        "suspects": [
            {
                "function": one.stack.culprit.function,
                "bytes_per_hour": _interval(one.growth),
                "since_ms": one.since_ms,
                "survival": one.survival,
                "sentence": one.sentence(),
                "stack": [_frame(frame) for frame in one.stack.frames],
            }
            for one in suspects
        ],
    }


def _interval(one: Interval) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high, "samples": one.samples}


def _frame(frame: Frame) -> dict[str, str | int | bool]:
    return {
        "function": frame.function,
        "module": frame.module,
        "file": frame.file,
        "line": frame.line,
        "inlined": frame.inlined,
    }
