"""The pictures; what they show is worked out in story.py, where they stand in report.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import blended_transform_factory

from hakmem.lab.canvas import (
    NARROW,
    WIDE,
    Drawing,
    Interval,
    Key,
    KeyEntry,
    Width,
    bounds,
    draw_mark,
    new_axes,
    place,
    ratio_axis,
    ratio_text,
)
from hakmem.lab.palette import LAYER_INKS, Colours, Mark

# How wide a letter of a benchmark's name is, in inches, at most on average.
LETTER = 0.073


@dataclass(frozen=True)
class DotRow:
    """One benchmark: the ratio of each allocator, and what to say at its end.

    Without marks it is a heading for the rows below it.
    """

    label: str
    marks: Mapping[str, Interval]
    note: str = ""
    note_ink: str = "soft"


@dataclass(frozen=True)
class Point:
    """One allocator's ratios in two metrics."""

    name: str
    x: Interval
    y: Interval


@dataclass(frozen=True)
class Line:
    """One allocator's memory over time."""

    name: str
    seconds: Sequence[float]
    mebibytes: Sequence[float]


@dataclass(frozen=True)
class Stack:
    """One allocator's bar: the layers' keys with their lengths."""

    name: str
    parts: Sequence[tuple[str, float]]


def key_of_allocators(colours: Colours) -> Key:
    return [KeyEntry(name, mark, colours.name_of(name)) for name, mark in colours.marks.items()]


def key_of_layers(labels: Mapping[str, str]) -> Key:
    """From layers' keys and labels."""
    return [
        KeyEntry(label, Mark(LAYER_INKS[key], "s"), f"l-{key}") for key, label in labels.items()
    ]


def _soft(colours: Colours, size: float = 8.5) -> dict[str, Any]:
    return {"color": colours.ink("soft"), "fontsize": size}


# ---- a line per benchmark, a mark per allocator ----


def dots(
    rows: Sequence[DotRow], colours: Colours, width: Width = "wide", note_head: str = ""
) -> Drawing:
    """Each allocator at its ratio to the base, with its interval."""
    narrow = width == "narrow"
    high = 0.44 if narrow else 0.29
    margins = (0.15, 0.15, 0.34, 0.12)
    if not narrow:
        words = max(len(row.label) for row in rows)
        margins = (min(0.25 + LETTER * words, 3.8), 1.8, 0.42, 0.12)
    total = margins[2] + margins[3] + high * len(rows)
    figure, axes = new_axes(colours, NARROW if narrow else WIDE, total)
    place(figure, axes, margins)
    everything = [interval for row in rows for interval in row.marks.values()]
    own = [row.marks[colours.hero] for row in rows if colours.hero in row.marks]
    edges = bounds(everything, own)
    ratio_axis(axes, *edges, most=7 if narrow else 11)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.xaxis.tick_top()
    axes.spines["bottom"].set_visible(False)
    axes.set_yticks([])
    axes.xaxis.grid(True, color=colours.ink("rule"), linewidth=0.7, zorder=0)
    axes.axvline(1.0, color=colours.ink("soft"), linewidth=1.0, zorder=1)
    for number, row in enumerate(rows):
        if row.marks and number % 2 == 0:
            axes.axhspan(
                number - 0.5, number + 0.5, color=colours.ink("band"), zorder=-1, linewidth=0
            )
        _dot_words(axes, colours, row, number, narrow)
        _dot_marks(axes, colours, row, number + 0.16 if narrow else number, edges)
    if note_head and not narrow:
        at = blended_transform_factory(axes.transAxes, axes.transData)
        axes.text(1.03, -0.72, note_head, transform=at, va="bottom", **_soft(colours, 8))
    return Drawing(figure, colours)


def _dot_words(axes: Axes, colours: Colours, row: DotRow, number: int, narrow: bool) -> None:
    at = blended_transform_factory(axes.transAxes, axes.transData)
    text: dict[str, Any] = {"transform": at, "va": "center", "color": colours.ink("text")}
    if not row.marks:
        left = 0.0 if narrow else -0.02
        side = "left" if narrow else "right"
        axes.text(left, number, row.label, **text, ha=side, weight="bold")
        return
    if narrow:
        axes.text(0, number - 0.3, row.label, **text)
    else:
        axes.text(-0.02, number, row.label, **text, ha="right")
    text |= {"color": colours.ink(row.note_ink), "fontsize": 8.5}
    if narrow:
        axes.text(1, number - 0.3, row.note, **text, ha="right")
    else:
        axes.text(1.03, number, row.note, **text)


def _dot_marks(
    axes: Axes, colours: Colours, row: DotRow, y: float, edges: tuple[float, float]
) -> None:
    others = [name for name in row.marks if name != colours.hero]
    for number, name in enumerate(others):
        # A little apart, so that equal ones do not hide each other.
        shift = (number % 3 - 1) * 0.13 if len(others) > 1 else 0.0
        _dot(axes, colours, name, row.marks[name], y + shift, edges)
    if colours.hero in row.marks:
        _dot(axes, colours, colours.hero, row.marks[colours.hero], y, edges)


def _dot(
    axes: Axes,
    colours: Colours,
    name: str,
    interval: Interval,
    y: float,
    edges: tuple[float, float],
) -> None:
    low, high = edges
    hero = name == colours.hero
    start, end = max(interval.low, low), min(interval.high, high)
    if start < end:
        axes.plot(
            [start, end],
            [y, y],
            color=colours.of(name),
            linewidth=2.4 if hero else 1.1,
            alpha=0.9 if hero else 0.6,
            zorder=5 if hero else 3,
        )
    inside = min(max(interval.mid, low), high)
    draw_mark(axes, colours, name, inside, y, 5.2)
    if inside == interval.mid:
        return
    # Beyond the edge: the mark stands there, its number beside it.
    right = interval.mid > high
    number = ratio_text(interval.mid)
    axes.annotate(
        f"{number} →" if right else f"← {number}",
        (inside, y),
        xytext=(-7 if right else 7, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        fontsize=7,
        color=colours.of(name),
    )


# ---- time against memory ----


def scatter(points: Sequence[Point], colours: Colours, base: str, width: Width = "wide") -> Drawing:
    """Both as ratios to `base`: to the lower left is better."""
    narrow = width == "narrow"
    figure, axes = new_axes(colours, NARROW if narrow else 7.0, 3.9 if narrow else 4.5)
    place(figure, axes, (0.68, 0.3, 0.25, 0.62))
    for along, intervals in (("x", [p.x for p in points]), ("y", [p.y for p in points])):
        low, high = bounds(intervals)
        margin = (high / low) ** 0.07
        ratio_axis(axes, low / margin, high * margin, "x" if along == "x" else "y", most=7)
    axes.grid(True, color=colours.ink("rule"), linewidth=0.7, zorder=0)
    for line in (axes.axvline, axes.axhline):
        line(1.0, color=colours.ink("soft"), linewidth=0.9, zorder=1)
    axes.set_xlabel(f"time, as a multiple of {base}'s", labelpad=7, **_soft(colours))
    axes.set_ylabel(f"peak memory, as a multiple of {base}'s", labelpad=6, **_soft(colours))
    axes.text(0.012, 0.015, "↙ faster and leaner", transform=axes.transAxes, **_soft(colours))
    for point in points:
        hero = point.name == colours.hero
        style: dict[str, Any] = {
            "color": colours.of(point.name),
            "linewidth": 1.8 if hero else 0.9,
            "alpha": 0.6,
            "zorder": 3,
        }
        axes.plot([point.x.low, point.x.high], [point.y.mid] * 2, **style)
        axes.plot([point.x.mid] * 2, [point.y.low, point.y.high], **style)
        draw_mark(axes, colours, point.name, point.x.mid, point.y.mid, 7)
    _name_points(figure, axes, colours, points)
    return Drawing(figure, colours)


# Where a name may stand beside its mark: offset in points, alignment.
SIDES = (
    (9, 0, "left", "center"),
    (-9, 0, "right", "center"),
    (0, 9, "center", "bottom"),
    (0, -9, "center", "top"),
    (8, 6, "left", "bottom"),
    (8, -6, "left", "top"),
    (-8, 6, "right", "bottom"),
    (-8, -6, "right", "top"),
    (11, 16, "left", "bottom"),
    (11, -16, "left", "top"),
    (-11, 16, "right", "bottom"),
    (-11, -16, "right", "top"),
)
Side = tuple[float, float, str, str]
Box = tuple[float, float, float, float]


def _name_points(figure: Figure, axes: Axes, colours: Colours, points: Sequence[Point]) -> None:
    """Each name goes where it covers the least of what is there already."""
    figure.draw_without_rendering()
    scale = figure.dpi / 72
    frame = axes.get_window_extent()
    taken = [box for point in points for box in _occupied(axes, point, scale)]
    for x, y in ((1.0, None), (None, 1.0)):
        taken.append(_guide(axes, x, y))
    for point in sorted(points, key=lambda one: one.name != colours.hero):
        costs: list[tuple[float, int, Box]] = []
        for number, side in enumerate(SIDES):
            label = _name_point(axes, colours, point, side)
            found = label.get_window_extent()
            box = (found.x0, found.y0, found.x1, found.y1)
            outside = max(0.0, frame.x0 - box[0]) + max(0.0, box[2] - frame.x1 - 20 * scale)
            cost = sum(_overlap(box, other) for other in taken) + 50 * outside
            costs.append((cost, number, box))
            label.remove()
        _, number, box = min(costs)
        _name_point(axes, colours, point, SIDES[number])
        taken.append(box)


def _occupied(axes: Axes, point: Point, scale: float) -> list[Box]:
    """A mark and its two bars, in pixels."""
    left, low = axes.transData.transform((point.x.low, point.y.low))
    x, y = axes.transData.transform((point.x.mid, point.y.mid))
    right, high = axes.transData.transform((point.x.high, point.y.high))
    size = 5 * scale
    return [
        (x - size, y - size, x + size, y + size),
        (left, y - 1, right, y + 1),
        (x - 1, low, x + 1, high),
    ]


def _guide(axes: Axes, x: float | None, y: float | None) -> Box:
    """The line at 1, in pixels."""
    frame = axes.get_window_extent()
    at = axes.transData.transform((x or 1.0, y or 1.0))
    if x is not None:
        return (at[0] - 1, frame.y0, at[0] + 1, frame.y1)
    return (frame.x0, at[1] - 1, frame.x1, at[1] + 1)


def _name_point(axes: Axes, colours: Colours, point: Point, side: Side) -> Annotation:
    dx, dy, horizontal, vertical = side
    hero = point.name == colours.hero
    style: dict[str, Any] = {"ha": horizontal, "va": vertical, "zorder": 7}
    return axes.annotate(
        point.name,
        (point.x.mid, point.y.mid),
        xytext=(dx * 1.3 if hero else dx, dy * 1.3 if hero else dy),
        textcoords="offset points",
        color=colours.of(point.name),
        fontsize=11 if hero else 9,
        weight="bold" if hero else "normal",
        annotation_clip=False,
        **style,
    )


def _overlap(a: Box, b: Box) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 0 and high > 0 else 0.0


# ---- memory over time ----


def timelines(lines: Sequence[Line], colours: Colours, width: Width = "wide") -> Drawing:
    """Resident memory while the program runs, a line per allocator, named at the side."""
    narrow = width == "narrow"
    figure, axes = new_axes(colours, NARROW if narrow else WIDE, 2.9 if narrow else 3.3)
    place(figure, axes, (0.62, 1.3 if narrow else 1.5, 0.2, 0.5))
    axes.yaxis.grid(True, color=colours.ink("rule"), linewidth=0.7)
    axes.set_xlabel("seconds since the start", **_soft(colours))
    axes.set_ylabel("resident memory, MiB", **_soft(colours))
    for line in lines:
        hero = line.name == colours.hero
        axes.plot(
            line.seconds,
            line.mebibytes,
            color=colours.of(line.name),
            linewidth=2.6 if hero else 1.3,
            linestyle="--" if colours.marks[line.name].hollow else "-",
            zorder=5 if hero else 3,
        )
    axes.set_xlim(0, max(line.seconds[-1] for line in lines) or 1.0)
    axes.set_ylim(0, max(max(line.mebibytes) for line in lines) * 1.06 or 1.0)
    _name_lines(figure, axes, colours, lines)
    return Drawing(figure, colours)


def _name_lines(figure: Figure, axes: Axes, colours: Colours, lines: Sequence[Line]) -> None:
    """Names to the right with the peaks, at the peaks' heights where no other name is."""
    top = axes.get_ylim()[1]
    height = axes.get_position().height * figure.get_size_inches()[1]
    apart = 0.165 / height
    peaks = sorted(((max(line.mebibytes), line.name) for line in lines), reverse=True)
    spot = 1.0
    for number, (peak, name) in enumerate(peaks):
        # Never so low that the names still to come have no room.
        spot = max(min(peak / top, spot - apart), apart * (len(peaks) - number - 1))
        axes.text(
            1.015,
            spot,
            f"{name}  {peak:.3g}",
            transform=axes.transAxes,
            va="center",
            color=colours.of(name),
            weight="bold" if name == colours.hero else "normal",
            fontsize=8.5,
        )


# ---- where the time goes ----


def stacks(bars: Sequence[Stack], colours: Colours, unit: str, width: Width = "wide") -> Drawing:
    """A bar per allocator, a part per layer, all to one scale."""
    narrow = width == "narrow"
    row = 0.66 if narrow else 0.5
    figure, axes = new_axes(colours, NARROW if narrow else WIDE, row * len(bars) + 0.62)
    place(figure, axes, (0.15 if narrow else 1.45, 0.3, 0.1, 0.5))
    axes.set_xlim(0, max(sum(length for _, length in bar.parts) for bar in bars) or 1.0)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel(unit, **_soft(colours))
    at = blended_transform_factory(axes.transAxes, axes.transData)
    for number, bar in enumerate(bars):
        side = "left" if narrow else "right"
        axes.text(
            0 if narrow else -0.015,
            number - 0.36 if narrow else number,
            bar.name,
            ha=side,
            va="center",
            transform=at,
            color=colours.of(bar.name),
            weight="bold" if bar.name == colours.hero else "normal",
        )
        _stack(axes, colours, bar, number + (0.13 if narrow else 0.0))
    return Drawing(figure, colours)


def _stack(axes: Axes, colours: Colours, bar: Stack, y: float) -> None:
    start = 0.0
    for key, length in bar.parts:
        axes.barh(
            [y],
            [length],
            left=start,
            height=0.52,
            color=colours.layer(key),
            edgecolor=colours.ink("paper"),
            linewidth=0.8,
        )
        start += length
