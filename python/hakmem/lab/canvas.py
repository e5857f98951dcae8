"""The canvas of all pictures: sizes, letters, axes of ratios, marks, and writing to files."""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl

mpl.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from hakmem.lab.palette import Colours, Mark, slug

PNG_DPI = 200
TIMES = "\N{MULTIPLICATION SIGN}"
# Of words above a picture, in inches.
MARGIN = 0.16
WIDE = 9.6
NARROW = 4.2
# Ratios further away from 1 than this are drawn at the edge, with their number, in any case.
FURTHEST = 20.0
# So many marks allow one at either end to lie outside.
ONE_IN_SPARED = 60
# The rounder ones first: they are taken before their neighbours.
TICKS = (0.5, 2.0, 1.5, 0.7, 3.0, 0.3, 4.0, 0.2, 0.1, 10.0, 6.0, 0.8, 1.2, 0.6, 0.9, 1.1, 0.4, 2.5)
Width = Literal["wide", "narrow"]
WIDTHS: tuple[Width, ...] = ("wide", "narrow")

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.linewidth": 0.8,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True)
class Interval:
    """An estimate and what it may be instead."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class KeyEntry:
    """What a colour and a shape stand for."""

    label: str
    mark: Mark
    ink: str


Key = Sequence[KeyEntry]


@dataclass(frozen=True)
class Drawing:
    figure: Figure
    colours: Colours

    def svg(self, identity: str, description: str) -> str:
        """For embedding in a page: scales with it, in the page's fonts and colours."""
        buffer = io.StringIO()
        # Clip paths and marks are referred to by names, which must differ within one page.
        with mpl.rc_context({**STYLE, "svg.hashsalt": identity}):
            self.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        text = buffer.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
        text = re.sub(r'(id="|url\(#|href="#)', rf"\1{slug(identity)}-", text)
        text = re.sub(r"font(-family)?: ([^;\"]*?)'DejaVu Sans'[^;\"]*", r"font\1: \2inherit", text)
        text = re.sub(r"font: ([\d.]+px) inherit", r"font-size: \1", text)
        label = description.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        size = re.sub(r' (width|height)="[^"]*"', "", text[: text.index(">")])
        rest = text[text.index(">") :]
        return self.colours.as_variables(f'{size} role="img" aria-label="{label}"{rest}')

    def png(self, path: Path) -> Path:
        with mpl.rc_context(STYLE):
            self.figure.savefig(path, dpi=PNG_DPI, facecolor=self.colours.ink("paper"))
        return path


def new_axes(colours: Colours, width: float, height: float) -> tuple[Figure, Axes]:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        axes = figure.add_subplot()
    axes.set_facecolor("none")
    axes.spines["bottom"].set_color(colours.ink("rule"))
    axes.tick_params(colors=colours.ink("soft"), labelsize=8.5)
    return figure, axes


def add_heading(drawing: Drawing, head: str, note: str, key: Key = ()) -> Drawing:
    """Words above a picture that stands alone; the figure grows by their height."""
    figure, colours = drawing.figure, drawing.colours
    width, height = figure.get_size_inches()
    lines = _key_lines(figure, key, width - 2 * MARGIN)
    extra = 0.8 + 0.24 * len(lines)
    grown = height + extra
    figure.set_size_inches(width, grown)
    for axes in figure.axes:
        box = axes.get_position()
        axes.set_position((box.x0, box.y0 * height / grown, box.width, box.height * height / grown))
    for text, drop, size, ink, weight in (
        (head, 0.34, 14, "text", "bold"),
        (note, 0.6, 9, "soft", "normal"),
    ):
        figure.text(
            MARGIN / width,
            1 - drop / grown,
            text,
            fontsize=size,
            color=colours.ink(ink),
            weight=weight,
        )
    for number, line in enumerate(lines):
        _draw_key(figure, colours, line, 1 - (0.86 + 0.24 * number) / grown)
    return drawing


def _key_lines(figure: Figure, key: Key, room: float) -> list[list[tuple[float, KeyEntry]]]:
    """Entries with their places from the left in inches, on as many lines as they need."""
    lines: list[list[tuple[float, KeyEntry]]] = []
    at = math.inf
    for entry in key:
        text = figure.text(0, 0, entry.label, fontsize=8.5)
        wide = text.get_window_extent().width / figure.dpi + 0.38
        text.remove()
        if at + wide > room:
            lines.append([])
            at = 0.0
        lines[-1].append((at, entry))
        at += wide
    return lines


def _draw_key(
    figure: Figure, colours: Colours, line: Sequence[tuple[float, KeyEntry]], y: float
) -> None:
    width = figure.get_size_inches()[0]
    for at, entry in line:
        left = (MARGIN + at + 0.06) / width
        figure.add_artist(
            Line2D([left], [y], linestyle="none", **mark_style(colours, entry.mark, entry.ink, 6))
        )
        figure.text(
            left + 0.11 / width,
            y,
            entry.label,
            fontsize=8.5,
            va="center_baseline",
            color=colours.ink("text"),
        )


def place(figure: Figure, axes: Axes, margins: tuple[float, float, float, float]) -> None:
    """Margins in inches: left, right, top, bottom."""
    left, right, top, bottom = margins
    width, height = figure.get_size_inches()
    axes.set_position(
        (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
    )


def ratio_text(value: float) -> str:
    return f"{value:.3g}{TIMES}"


def ratio_axis(
    axes: Axes, low: float, high: float, along: Literal["x", "y"] = "x", most: int = 9
) -> None:
    """A logarithmic axis with ticks at ratios that people say."""
    axis = axes.xaxis if along == "x" else axes.yaxis
    (axes.set_xscale if along == "x" else axes.set_yscale)("log")
    (axes.set_xlim if along == "x" else axes.set_ylim)(low, high)
    axis.set_major_locator(FixedLocator(ratio_ticks(low, high, most)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: ratio_text(value)))


def ratio_ticks(low: float, high: float, most: int) -> list[float]:
    """1, and outwards from it as many as stand well apart."""
    apart = math.log(high / low) / most
    chosen = [1.0]
    fine = [1 + n * step for step in (0.1, 0.05, 0.02, 0.01) for n in range(-9, 10)]
    candidates = [*TICKS, *fine] if high / low < 1.6 else list(TICKS)
    for tick in candidates:
        near = min(abs(math.log(tick / other)) for other in chosen)
        if low <= tick <= high and near >= apart:
            chosen.append(tick)
    return sorted(chosen)


def bounds(intervals: Sequence[Interval], own: Sequence[Interval] = ()) -> tuple[float, float]:
    """Room for 1, for all of `own`, and for all but the furthest few where there are many."""
    mids = sorted(interval.mid for interval in intervals)
    spared = len(mids) // ONE_IN_SPARED
    kept = [i for i in intervals if mids[spared] <= i.mid <= mids[-1 - spared]]
    low = min([0.95, *(i.low for i in (*kept, *own))])
    high = max([1.05, *(i.high for i in (*kept, *own))])
    margin = (high / low) ** 0.04
    return max(low, 1 / FURTHEST) / margin, min(high, FURTHEST) * margin


def mark_style(colours: Colours, mark: Mark, ink: str, size: float) -> dict[str, Any]:
    colour, paper = colours.ink(ink), colours.ink("paper")
    return {
        "marker": mark.shape,
        "markersize": size,
        "color": colour,
        "markerfacecolor": paper if mark.hollow else colour,
        "markeredgecolor": colour if mark.hollow else paper,
        "markeredgewidth": 1.1 if mark.hollow else 0.6,
    }


def draw_mark(axes: Axes, colours: Colours, name: str, x: float, y: float, size: float) -> None:
    hero = name == colours.hero
    style = mark_style(colours, colours.marks[name], colours.name_of(name), size)
    if hero:
        style["markersize"] = size * 1.5
    axes.plot([x], [y], **style, linestyle="none", zorder=6 if hero else 4, clip_on=False)
