"""Tables on narrow terminals: what matters least goes before a figure is cut or a name torn up."""

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

# From there on there is room enough for rich's own way.
USUAL_WIDTH = 80
# Narrower columns of names and explanations are hard to read.
TEXT_LEAST = 20


@dataclass(frozen=True)
class Fitted:
    """Does without the columns `spare`, the first of them first, where there is too little room."""

    table: Table
    spare: tuple[int, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        yield self.table if width >= USUAL_WIDTH else _narrowed(self.table, self.spare, width)


def _narrowed(table: Table, spare: Sequence[int], width: int) -> Table:
    kept = dict(enumerate(table.columns))
    for index in spare:
        if _room(table, kept.values(), width) >= 0:
            break
        del kept[index]
    room = _room(table, kept.values(), width)
    narrow = copy(table)
    narrow.columns = []
    for column in kept.values():
        least = _least(column)
        wide = least if _is_figures(column) else max(1, min(least + room, _widest(column, least)))
        room -= wide - least
        narrow.columns.append(_of_width(column, wide, len(narrow.columns)))
    return narrow


def _room(table: Table, columns: Collection[Column], width: int) -> int:
    """What is left beside the least widths; negative if that is too little."""
    _, right, _, left = table.padding
    return width - sum(map(_least, columns)) - (left + right) * (len(columns) - 1)


def _least(column: Column) -> int:
    if _is_figures(column):
        return _widest(column, column.min_width or 0)
    return column.min_width or min(_widest(column), TEXT_LEAST)


def _widest(column: Column, least: int = 0) -> int:
    """Of a heading over figures one word counts: the others have lines of their own."""
    header = _plain(column.header)
    texts = [*(header.split() if _is_figures(column) else [header]), *map(_plain, column.cells)]
    return max([least, *map(cell_len, texts)])


def _of_width(column: Column, width: int, index: int) -> Column:
    header = Text(_plain(column.header), no_wrap=False)
    wraps = not _is_figures(column)
    return replace(
        column,
        header=header,
        width=width,
        no_wrap=not wraps,
        overflow="fold" if wraps else column.overflow,
        _index=index,
    )


def _is_figures(column: Column) -> bool:
    return column.justify == "right"


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
