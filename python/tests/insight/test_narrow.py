"""Tables where there is little room: figures are whole, and what matters most is there."""

import io
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from rich.table import Table
from sample import MAPS, sample

from hakmem.insight.attaching import area_of
from hakmem.insight.narrow import TEXT_LEAST, USUAL_WIDTH, Fitted
from hakmem.insight.numbers import numbers_of
from hakmem.insight.text import report

WIDTHS = (36, 40, 60, USUAL_WIDTH - 1)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "heap.77"
    path.write_bytes(sample().data + MAPS.encode())
    return str(path)


def lines(shown: RenderableType, width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width).print(shown)
    found = text.getvalue().split("\n")
    assert all(len(line) <= width for line in found)
    return [line.rstrip() for line in found]


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_of_a_process_are_whole(file: str, width: int) -> None:
    shown = lines(report(numbers_of(area_of(file), None)), width)
    assert not [line for line in shown if "…" in line]


def table() -> Table:
    made = Table(box=None, pad_edge=False)
    made.add_column("what is so much", justify="right", no_wrap=True)
    made.add_column("its interval", justify="right", no_wrap=True)
    made.add_column("who", overflow="fold")
    made.add_row("1,234,567", "1,000,000 to 2,000,000", "somebody with a name of several words")
    return made


def test_the_spare_go_first_and_words_stay_whole() -> None:
    shown = lines(Fitted(table(), (1,)), 40)
    assert shown[:5] == [
        "  what is",
        "  so much  who",
        "1,234,567  somebody with a name of",
        "           several words",
        "",
    ]


def test_nothing_goes_while_there_is_room() -> None:
    needed = len("1,234,567  1,000,000 to 2,000,000  ") + TEXT_LEAST
    for width, there in ((needed - 1, False), (needed, True)):
        text = " ".join(lines(Fitted(table(), (1,)), width))
        assert ("1,000,000 to 2,000,000" in text) == there


def test_where_there_is_room_nothing_changes() -> None:
    assert lines(Fitted(table(), (1,)), USUAL_WIDTH) == lines(table(), USUAL_WIDTH)
