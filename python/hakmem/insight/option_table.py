"""The table of settings, src/control/options.def: what numbers of an area mean."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

STRINGS = r'(?:"[^"]*"\s*)+'
ROW = re.compile(
    rf"^OPTION\((\w+), (\w+), (\w+), ([^,]+), ([^,]+), ([^,]+),\s*({STRINGS})\)", re.MULTILINE
)
SECURE_ONLY = re.compile(r"^#if HAK_SECURE$.*?^#endif$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Option:
    name: str
    kind: str  # SIZE, TIME, COUNT, SWITCH, WORD or TEXT
    when: str  # START or LATER
    initial: int
    least: int
    most: int
    text: str
    secure_only: bool

    @property
    def default(self) -> str:
        """As one would write it."""
        return "none" if self.kind == "TEXT" else self.written(self.initial)

    @property
    def words(self) -> list[str]:
        """By number, of a WORD."""
        return self.text.partition(":")[0].split("|") if self.kind == "WORD" else []

    @property
    def bounds(self) -> str:
        if self.kind in ("TEXT", "WORD"):
            return ""
        return f"{self.written(self.least)} to {self.written(self.most)}"

    @property
    def about(self) -> str:
        remarks = [
            "cannot be changed later" if self.when == "START" else "",
            "the build secure only" if self.secure_only else "",
        ]
        return " ".join([self.text, *(f"({remark})" for remark in remarks if remark)])

    def written(self, value: int) -> str:
        """As one would write it; of a text nobody knows more than that there is one."""
        if self.kind == "TEXT":
            return "(set)" if value else ""
        if value < len(self.words):
            return self.words[value]
        units = {"SIZE": [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")], "TIME": [(1000, "s")]}
        for size, letter in units.get(self.kind, []):
            if value >= size and value % size == 0:
                return f"{value // size}{letter}"
        return str(value) + ("ms" if self.kind == "TIME" and value else "")


def _number(expression: str) -> int:
    """What a C constant of the table is: digits, perhaps shifted and cast."""
    found = re.fullmatch(r"(?:\(\w+\))?(\d+)(?: << (\d+))?", expression.strip())
    if found is None:
        raise ValueError(f"'{expression}' is no number of the table of settings")
    return int(found[1]) << int(found[2] or 0)


@cache
def options() -> tuple[Option, ...]:
    """All that there are, those of the build `secure` as well."""
    text = _table().read_text(encoding="utf-8")
    secure = [found.span() for found in SECURE_ONLY.finditer(text)]
    return tuple(
        Option(
            name=row[1],
            kind=row[2],
            when=row[3],
            initial=_number(row[4]),
            least=_number(row[5]),
            most=_number(row[6]),
            text="".join(re.findall(r'"([^"]*)"', row[7])),
            secure_only=any(begin < row.start() < end for begin, end in secure),
        )
        for row in ROW.finditer(text)
    )


def _table() -> Path:
    """A wheel has it beside this file."""
    folder = Path(__file__).parent
    path = folder / "options.def"
    return path if path.exists() else folder.parents[2] / "src" / "control" / "options.def"


def written(name: str, value: int) -> str:
    """The value of a setting; of one that only another version knows, its number."""
    found = [option for option in options() if option.name == name]
    return found[0].written(value) if found else str(value)
