"""The report: one page that needs nothing else, and pictures as files, from results alone."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from hakmem.errors import HakmemError
from hakmem.lab import plots, words
from hakmem.lab.canvas import WIDTHS, Drawing, Key, Width, add_heading
from hakmem.lab.model import Results
from hakmem.lab.palette import Colours, Ink, marks_for, page_inks, slug
from hakmem.lab.story import FAULTS, MEMORY, TIME, Story
from hakmem.lab.tables import GOAL_COLUMNS, goal_cells, goal_entries, goal_ink
from hakmem.written import write_file

Painter = Callable[[Colours, Width], Drawing]
DOTS = (
    (TIME, "time", "Time"),
    (MEMORY, "memory", "Peak memory"),
    (FAULTS, "faults", "Page faults"),
)
SHAPES = {  # of matplotlib's marks, as paths in a square from -1 to 1, for the page's own key
    "o": "M-1 0A1 1 0 1 0 1 0A1 1 0 1 0-1 0Z",
    "s": "M-.85-.85H.85V.85H-.85Z",
    "^": "M0-1L.95.85H-.95Z",
    "v": "M0 1L.95-.85H-.95Z",
    "<": "M-1 0L.85-.95V.95Z",
    ">": "M1 0L-.85-.95V.95Z",
    "D": "M0-1L1 0L0 1L-1 0Z",
    "d": "M0-1L.62 0L0 1L-.62 0Z",
    "P": "M-.35-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z",
    "X": "M-1-.5L-.5-1L0-.5L.5-1L1-.5L.5 0L1 .5L.5 1L0 .5L-.5 1L-1 .5L-.5 0Z",
    "p": "M0-1L.95-.31L.59.81H-.59L-.95-.31Z",
    "h": "M0-1L.87-.5V.5L0 1L-.87.5V-.5Z",
}


@dataclass(frozen=True)
class Picture:
    """One picture: its name in identifiers and file names, its words, and how it is drawn."""

    name: str
    heading: str
    note: str
    paint: Painter
    # What explains its colours, where the picture itself does not.
    key: Callable[[Colours], Key] | None = None
    # What a picture that is one of several of its kind is of.
    subject: str = ""

    @property
    def is_timeline(self) -> bool:
        return bool(self.subject)


def pictures(story: Story) -> dict[str, Picture]:
    """Those that the results have something to show in."""
    found: list[Picture] = []
    if story.points:
        found.append(_overview(story))
    found += [
        _dots(story, metric, name, heading)
        for metric, name, heading in DOTS
        if story.dot_rows(metric) and (metric != FAULTS or not story.is_suite)
    ]
    found += [_timeline(story, benchmark) for benchmark in story.timeline_names()]
    if story.layer_profiles:
        found.append(_layers(story))
    return {picture.name: picture for picture in found}


def _overview(story: Story) -> Picture:
    over = (
        f"geometric mean of {len(story.benchmarks)} benchmarks" if story.is_suite else "one command"
    )
    return Picture(
        "overview",
        "Time against memory",
        f"Each allocator's time and peak memory as a multiple of {story.base}'s, {over}.",
        lambda colours, width: plots.scatter(story.points, colours, story.base, width),
    )


def _dots(story: Story, metric: str, name: str, heading: str) -> Picture:
    if story.is_suite:
        heading = f"{heading}, benchmark by benchmark"
    note = f"As a multiple of {story.base}'s, with intervals; further left is better."
    head = f"{story.subject} by best other" if story.is_suite else "median"
    return Picture(
        name,
        heading,
        note,
        lambda colours, width: plots.dots(story.dot_rows(metric), colours, width, head),
        plots.key_of_allocators if story.is_suite else None,
    )


def _timeline(story: Story, benchmark: str) -> Picture:
    return Picture(
        f"rss-{slug(benchmark)}"[:60],
        f"Memory over time: {benchmark}",
        "Resident memory during one run each, with the peak beside the name.",
        lambda colours, width: plots.timelines(story.lines(benchmark), colours, width),
        subject=benchmark,
    )


def _layers(story: Story) -> Picture:
    return Picture(
        "layers",
        "Where the time goes",
        f"{_shortened(story.layer_command)}, sampled; a bar per allocator, all to one scale.",
        lambda colours, width: plots.stacks(story.layer_bars(), colours, story.layer_unit(), width),
        lambda _: plots.key_of_layers({key: label for key, label, _ in story.layer_rows()}),
    )


def _shortened(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def write_html(results: Results, path: Path) -> Path:
    """The page, in one file."""
    write_file(path, page(results))
    return path


def write_pngs(results: Results, folder: Path) -> list[Path]:
    """Every picture of the page as a file of its own, with its heading in it."""
    story = Story(results)
    colours = Colours(marks_for(story.names, story.subject), story.subject, for_page=False)
    try:
        folder.mkdir(exist_ok=True)
        written = []
        for picture in pictures(story).values():
            drawing = picture.paint(colours, "wide")
            key = picture.key(colours) if picture.key else ()
            add_heading(drawing, picture.heading, picture.note, key)
            written.append(drawing.png(folder / f"{picture.name}.png"))
    except OSError as error:
        raise HakmemError(f"cannot write pictures to {folder}: {error.strerror}") from error
    return written


def page(results: Results) -> str:
    """The page as text."""
    story = Story(results)
    marks = marks_for(story.names, story.subject)
    colours = Colours(marks, story.subject, for_page=True)
    headline, *sentences = _words(story)
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("hakmem.lab"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return templates.get_template("report.html").render(
        story=story,
        results=results,
        goals=[(goal_cells(entry), goal_ink(entry)) for entry in goal_entries(results)],
        goal_columns=GOAL_COLUMNS,
        method=results.sections.get("method") or {},
        headline=headline,
        sentences=sentences,
        pictures=pictures(story),
        draw=partial(_draw, colours),
        glyph=partial(_glyph, colours),
        themes=_themes(page_inks(marks)),
        slug=slug,
        typeset=_typeset,
        with_code=_with_code,
    )


def _words(story: Story) -> list[str]:
    """The headline first."""
    if story.benchmarks:
        return words.conclusion(story.results, story.subject, story.base)
    if story.layer_profiles:
        return [f"Where the time of {_shortened(story.layer_command)} goes"]
    raise HakmemError("these results hold no measurement to report on")


def _typeset(text: str) -> str:
    """Ranges and percentages in the letters of print, and not to be torn apart."""
    # Not within names such as larson-8-128-1t.
    number = r"(\d[\d.]*)"
    dash = "\N{WORD JOINER}\N{EN DASH}\N{WORD JOINER}"
    ranges = re.sub(rf"(?<![\w.-]){number}-{number}(?![\w-])", rf"\1{dash}\2", text)
    return ranges.replace(" %", "\N{NO-BREAK SPACE}%").replace(
        "'", "\N{RIGHT SINGLE QUOTATION MARK}"
    )


def _with_code(text: str) -> Markup:
    """Words between backquotes as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _draw(colours: Colours, picture: Picture) -> Markup:
    """The picture in two widths; the page shows the one that fits."""
    drawn = []
    for width in WIDTHS:
        svg = picture.paint(colours, width).svg(f"{picture.name}-{width}", picture.heading)
        drawn.append(f'<div class="{width}">{svg}</div>')
    # Made here from numbers and escaped names, so it is markup.
    return Markup("".join(drawn))


def _glyph(colours: Colours, name: str) -> Markup:
    """An allocator's mark, small, to stand before its name."""
    mark = colours.marks[name]
    inside = "none" if mark.hollow else "currentColor"
    return Markup(
        f'<svg class="glyph" viewBox="-1.3 -1.3 2.6 2.6" style="color:var(--a-{slug(name)})" '
        f'aria-hidden="true"><path d="{SHAPES[mark.shape]}" fill="{inside}" '
        'stroke="currentColor" stroke-width=".3"/></svg>'
    )


def _themes(inks: dict[str, Ink]) -> dict[str, Markup]:
    return {
        theme: Markup("".join(f"--{name}:{getattr(ink, theme)};" for name, ink in inks.items()))
        for theme in ("light", "dark")
    }
