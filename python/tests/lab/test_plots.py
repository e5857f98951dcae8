"""The pictures: what is drawn where, whatever the numbers."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from hakmem.lab import plots
from hakmem.lab.canvas import WIDTHS, Interval, add_heading, bounds, ratio_ticks
from hakmem.lab.palette import HAKMEM, INKS, LAYER_INKS, MARKS, Colours, marks_for
from hakmem.lab.plots import DotRow, Line, Point, Stack

NAMES = ["glibc", "hakmem", "jemalloc", "jemalloc-debian", "new<one>"]


def colours(for_page: bool = True) -> Colours:
    return Colours(marks_for(NAMES, "hakmem"), "hakmem", for_page)


def sure(ratio: float) -> Interval:
    return Interval(ratio * 0.98, ratio, ratio * 1.02)


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("text")]


def drawings() -> list[plots.Drawing]:
    rows = [DotRow("json <1>", {n: sure(1 + i / 9) for i, n in enumerate(NAMES)}, "0.9 glibc")]
    points = [Point(name, sure(1 + n / 10), sure(1 + n / 20)) for n, name in enumerate(NAMES)]
    lines = [Line(name, [0.0, 1.0], [1.0, 50.0 + n]) for n, name in enumerate(NAMES)]
    bars = [Stack("hakmem", [("program", 2.0), ("entry", 1.0)]), Stack("glibc", [("faults", 4.0)])]
    found = []
    for width in WIDTHS:
        found += [
            plots.dots(rows, colours(), width),
            plots.scatter(points, colours(), "glibc", width),
            plots.timelines(lines, colours(), width),
            plots.stacks(bars, colours(), "seconds", width),
        ]
    return found


def test_pages_get_variables_and_no_fixed_colour() -> None:
    for number, drawing in enumerate(drawings()):
        svg = drawing.svg(f"picture-{number}", 'what "it" shows')
        ElementTree.fromstring(svg)
        assert "var(--text)" in svg or "var(--soft)" in svg
        assert "#fe1" not in svg
        # What matplotlib draws by default is black or blue: nothing may be left at that.
        assert "#1f77b4" not in svg


def test_names_are_read_as_words() -> None:
    svg = drawings()[1].svg("scatter", "points")
    assert {"hakmem", "glibc", "jemalloc"} <= set(texts(svg))
    assert "new<one>" in texts(svg)


def test_identifiers_do_not_collide_on_one_page() -> None:
    first, second = (
        set(re.findall(r'id="([^"]+)"', drawing.svg(name, "")))
        for name, drawing in zip("ab", drawings(), strict=False)
    )
    assert first and second and not first & second


def test_every_reference_of_a_picture_is_its_own() -> None:
    for drawing in drawings():
        svg = drawing.svg("one", "")
        known = set(re.findall(r'id="([^"]+)"', svg))
        used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
        assert used <= known


def test_a_png_is_written_with_its_heading(tmp_path: Path) -> None:
    drawing = plots.timelines([Line("hakmem", [0, 1], [1, 2])], colours(for_page=False))
    before = drawing.figure.get_size_inches()[1]
    add_heading(drawing, "Memory", "of one", plots.key_of_allocators(drawing.colours))
    path = drawing.png(tmp_path / "one.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert drawing.figure.get_size_inches()[1] > before


@pytest.mark.parametrize(("low", "high"), [(0.97, 1.03), (0.7, 1.4), (0.2, 3.0), (0.05, 20.0)])
def test_ticks_are_few_and_include_one(low: float, high: float) -> None:
    ticks = ratio_ticks(low, high, 9)
    assert 1.0 in ticks
    assert 2 <= len(ticks) <= 10
    assert all(low <= tick <= high for tick in ticks)


def test_one_far_away_does_not_flatten_the_rest_and_the_own_always_fits() -> None:
    many = [sure(1 + n / 1000) for n in range(200)]
    low, high = bounds([*many, sure(15.0)])
    assert high < 2
    assert bounds([*many, sure(15.0)], [sure(15.0)])[1] > 15
    assert low < 1 < high


def test_marks_are_told_apart_without_colour() -> None:
    looks = [(mark.shape, mark.hollow) for mark in MARKS.values()]
    assert len(set(looks)) == len(looks)


def test_the_page_is_about_the_hero() -> None:
    marks = marks_for(["glibc", "before", "after"], "after")
    assert marks["after"] == HAKMEM
    assert marks["before"].shape != marks["after"].shape


def test_a_distributions_build_alone_is_drawn_full() -> None:
    assert not marks_for(["jemalloc-debian", "hakmem"], "hakmem")["jemalloc-debian"].hollow
    both = marks_for(["jemalloc", "jemalloc-debian", "hakmem"], "hakmem")
    assert both["jemalloc-debian"].hollow


def brightness(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_marks_stand_out_from_the_paper(theme: str) -> None:
    paper = getattr(INKS["paper"], theme)
    for name in ("text", "soft", "good", "bad"):
        assert contrast(getattr(INKS[name], theme), paper) >= 4.5
    # Marks carry names in their colour too.
    for mark in MARKS.values():
        assert contrast(getattr(mark.ink, theme), paper) >= 3.0


def test_every_layer_has_a_colour() -> None:
    from hakmem.lab.layermap import LAYERS

    assert {layer.key for layer in LAYERS} == set(LAYER_INKS)
