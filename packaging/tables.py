"""The tables of settings and counters, as the manual pages and the documentation site show them."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "python"))

from hakmem.insight.numbers import counter_texts  # noqa: E402

OPTIONS = ROOT / "src" / "control" / "options.def"
STRINGS = r'(?:"[^"]*"\s*)+'
ROW = re.compile(
    rf"^OPTION\((\w+), (\w+), (\w+), ([^,]+), ([^,]+), ([^,]+),\s*({STRINGS})\)", re.MULTILINE
)
SECURE_ONLY = re.compile(r"^#if HAK_SECURE$.*?^#endif$", re.MULTILINE | re.DOTALL)
HOW_TO_SET = """\
The library reads its settings from the environment when it is loaded, never in programs that run
with another user's rights. A variable of a setting's own counts more than HAKMEM_CONF. Sizes take
K, M and G, times ms and s. What is not known is ignored with a warning."""


@dataclass(frozen=True)
class Setting:
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
        if self.kind == "TEXT":
            return "none"
        if self.kind == "WORD":
            return self.text.partition(":")[0].split("|")[self.initial]
        return self.written(self.initial)

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
        units = {"SIZE": [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")], "TIME": [(1000, "s")]}
        for size, letter in units.get(self.kind, []):
            if value >= size and value % size == 0:
                return f"{value // size}{letter}"
        return str(value) + ("ms" if self.kind == "TIME" and value else "")


def number(expression: str) -> int:
    """What a C constant of the table is: digits, perhaps shifted and cast."""
    found = re.fullmatch(r"(?:\(\w+\))?(\d+)(?: << (\d+))?", expression.strip())
    if found is None:
        raise ValueError(f"{OPTIONS.name}: '{expression}' is no number that {__file__} can read")
    return int(found[1]) << int(found[2] or 0)


def settings() -> list[Setting]:
    text = OPTIONS.read_text(encoding="utf-8")
    secure = [found.span() for found in SECURE_ONLY.finditer(text)]
    return [
        Setting(
            name=row[1],
            kind=row[2],
            when=row[3],
            initial=number(row[4]),
            least=number(row[5]),
            most=number(row[6]),
            text="".join(re.findall(r'"([^"]*)"', row[7])),
            secure_only=any(begin < row.start() < end for begin, end in secure),
        )
        for row in ROW.finditer(text)
    ]


def counters() -> dict[str, str]:
    return counter_texts()
