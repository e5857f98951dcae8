"""Colours and marks: one per allocator in every picture, told apart by shape as well as by hue.

Pictures for a web page are drawn in placeholder colours that become CSS variables, so that the page
can be light or dark; those for files are drawn in the light colours themselves.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ink:
    """One colour in both themes."""

    light: str
    dark: str


@dataclass(frozen=True)
class Mark:
    """How an allocator looks. Hollow: the distribution's build of one that is also there newer."""

    ink: Ink
    shape: str
    hollow: bool = False


INKS = {
    "text": Ink("#1f2328", "#e8e6e1"),
    "soft": Ink("#5d646d", "#a3a8ae"),
    "rule": Ink("#d9d9d4", "#3a3d42"),
    "band": Ink("#f4f3ef", "#1f2226"),
    "paper": Ink("#fdfdfb", "#15171a"),
    "good": Ink("#2f6f4f", "#6fcf9f"),
    "bad": Ink("#a8321a", "#ff8a70"),
}

HAKMEM = Mark(Ink("#d1440c", "#ff8146"), "o")
JEMALLOC = Ink("#0b6bb0", "#62b6f7")
MIMALLOC = Ink("#0a7d5f", "#3fcf9f")

MARKS = {
    "hakmem": HAKMEM,
    "glibc": Mark(Ink("#626973", "#b4bbc4"), "s"),
    "jemalloc": Mark(JEMALLOC, "^"),
    "jemalloc-debian": Mark(JEMALLOC, "^", hollow=True),
    "mimalloc2": Mark(MIMALLOC, "D"),
    "mimalloc-debian": Mark(MIMALLOC, "D", hollow=True),
    "mimalloc3": Mark(Ink("#7b7f00", "#c9cc3f"), "d"),
    "snmalloc": Mark(Ink("#a53a8d", "#ea8fd8"), "v"),
    "rpmalloc": Mark(Ink("#a87400", "#efbf55"), "P"),
    "tcmalloc": Mark(Ink("#5b4fc7", "#aaa2ff"), "X"),
}
# For arms that are not in the table, such as two builds of hakmem.
OTHERS = (
    Mark(Ink("#1f6f8b", "#6cc5e0"), "h"),
    Mark(Ink("#8a4b9c", "#d49ae4"), "p"),
    Mark(Ink("#4d7c0f", "#a3d95b"), "<"),
    Mark(Ink("#8b5e3c", "#d9a883"), ">"),
)

LAYER_INKS = {
    "program": Ink("#c9cbc8", "#4b5057"),
    "entry": Ink("#8f2d06", "#ffb48f"),
    "magazine": Ink("#c2410c", "#ff8f5a"),
    "refill": Ink("#e2762f", "#f0702f"),
    "remote": Ink("#f0a04b", "#d4561a"),
    "pool": Ink("#f6c26b", "#b5460f"),
    "insight": Ink("#7a9e5b", "#a7cc83"),
    "purge": Ink("#fae0a8", "#8f390d"),
    "allocator": Ink("#a5765a", "#c09072"),
    "faults": Ink("#1d4e89", "#8fc1ff"),
    "memory_calls": Ink("#4f86c6", "#5d95dd"),
    "kernel": Ink("#a5c3e6", "#3b6296"),
}


def marks_for(names: Iterable[str], hero: str) -> dict[str, Mark]:
    """A mark for each allocator; unknown ones get those that are left, in order."""
    spare = itertools.cycle(OTHERS)
    chosen = {name: MARKS.get(name) or next(spare) for name in names}
    # Whoever the page is about looks like that, whatever its name.
    chosen[hero] = HAKMEM
    if hero != "hakmem" and "hakmem" in chosen:
        chosen["hakmem"] = next(spare)
    # Hollow tells the older build from the newer one; alone it needs no telling.
    return {name: _alone(name, mark, chosen) for name, mark in chosen.items()}


def _alone(name: str, mark: Mark, chosen: dict[str, Mark]) -> Mark:
    siblings = [other for key, other in chosen.items() if key != name and other.ink == mark.ink]
    return mark if siblings else Mark(mark.ink, mark.shape)


class Colours:
    """The colours of drawings about one `hero`: light ones, or placeholders for CSS variables."""

    def __init__(self, marks: dict[str, Mark], hero: str, for_page: bool) -> None:
        self.marks = marks
        self.hero = hero
        self._for_page = for_page
        self._inks = page_inks(marks)
        self._placeholder = {
            name: f"#fe{number:04x}" for number, name in enumerate(self._inks, start=0x1001)
        }

    def ink(self, name: str) -> str:
        return self._placeholder[name] if self._for_page else self._inks[name].light

    def name_of(self, allocator: str) -> str:
        return f"a-{slug(allocator)}"

    def of(self, allocator: str) -> str:
        return self.ink(self.name_of(allocator))

    def layer(self, key: str) -> str:
        return self.ink(f"l-{key}")

    def as_variables(self, svg: str) -> str:
        for name, placeholder in self._placeholder.items():
            svg = svg.replace(placeholder, f"var(--{name})")
        return svg


def page_inks(marks: dict[str, Mark]) -> dict[str, Ink]:
    """Every colour of a page by the name of its CSS variable, without the dashes."""
    return {
        **INKS,
        **{f"a-{slug(name)}": mark.ink for name, mark in marks.items()},
        **{f"l-{key}": ink for key, ink in LAYER_INKS.items()},
    }


def slug(name: str) -> str:
    """A name as part of an identifier."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
