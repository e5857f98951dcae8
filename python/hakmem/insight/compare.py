"""Two profiles side by side: call stacks match by their names, so runs and builds may differ."""

from collections.abc import Sequence
from dataclasses import dataclass

from hakmem.insight.confidence import Interval, of_samples
from hakmem.insight.folded import folded_name
from hakmem.insight.page import render_data
from hakmem.insight.profile import Profile
from hakmem.insight.symbols import Frame
from hakmem.insight.tree import as_columns, grow
from hakmem.insight.views import Stack, View

CHANGES_SHOWN = 200


@dataclass(frozen=True)
class Change:
    """A call stack in both; `frames` innermost first."""

    frames: tuple[Frame, ...]
    culprit: Frame
    before: Interval
    after: Interval

    @property
    def bytes(self) -> float:
        return self.after.value - self.before.value

    @property
    def is_sure(self) -> bool:
        """The intervals do not meet: more than chance."""
        return self.after.low > self.before.high or self.after.high < self.before.low


@dataclass(frozen=True)
class Side:
    profile: Profile
    stacks: Sequence[Stack]


def changes(before: Side, after: Side, view: View) -> list[Change]:
    """The largest change first, of whatever direction."""
    sides = [{_key(stack): stack for stack in side.stacks} for side in (before, after)]
    found = []
    for key in {**sides[0], **sides[1]}:
        old, new = sides[0].get(key), sides[1].get(key)
        stack = new or old
        assert stack is not None
        one = Change(
            stack.frames,
            stack.culprit,
            _held(old, before.profile, view),
            _held(new, after.profile, view),
        )
        if one.before.value or one.after.value:
            found.append(one)
    return sorted(found, key=lambda one: (-abs(one.bytes), _names(one)))


def _held(stack: Stack | None, profile: Profile, view: View) -> Interval:
    """A call stack that no sample tells of may be there all the same, and small."""
    return stack.interval(profile, view) if stack else of_samples((), profile.spacing)


def _key(stack: Stack) -> tuple[tuple[str, str], ...]:
    return tuple((frame.function, frame.module) for frame in stack.frames)


def _names(change: Change) -> tuple[str, ...]:
    return tuple(frame.function for frame in reversed(change.frames))


def folded(found: Sequence[Change]) -> str:
    """`outer;inner before after`, as programs for differential flame graphs take it."""
    return "".join(
        f"{';'.join(map(folded_name, _names(one)))} {one.before.value:.0f} {one.after.value:.0f}\n"
        for one in found
    )


def diff_page(before: Side, after: Side, view: View, found: Sequence[Change]) -> str:
    root = grow(
        ((one.frames, (one.after.value, one.before.value), one.after.samples) for one in found),
        2,
    )
    data = {
        "flame": {
            "nodes": as_columns(root),
            "views": [
                {"name": "after", "label": "widths: after", "unit": "bytes", "value": 0},
                {"name": "before", "label": "widths: before", "unit": "bytes", "value": 1},
            ],
            "change": [1, 0],
        }
    }
    return render_data(
        "diff.html",
        data,
        before=before.profile,
        after=after.profile,
        view=view,
        changes=found[:CHANGES_SHOWN],
        old=sum(one.before.value for one in found),
        new=sum(one.after.value for one in found),
        headline=headline(found, view),
    )


def headline(found: Sequence[Change], view: View) -> str:
    from hakmem.insight.words import size_text

    if not any(one.bytes for one in found):
        return "nothing has changed"
    change = sum(one.bytes for one in found)
    sign = "more" if change >= 0 else "less"
    text = f"{size_text(abs(change))} {sign} {view.noun}"
    sure = [one for one in found if one.is_sure]
    if not sure:
        return f"{text}; no call stack has changed for sure"
    first = sure[0]
    direction = "up" if first.bytes > 0 else "down"
    return (
        f"{text}; most of all {first.culprit.function}, {direction} {size_text(abs(first.bytes))}"
    )
