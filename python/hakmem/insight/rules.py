"""What the mind has learnt, as a file that a program's next run begins with: src/mind/rules.h."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from hakmem.errors import HakmemError
from hakmem.insight.area import MAGIC, Area, content_of, named, of_content
from hakmem.insight.attaching import area_of
from hakmem.insight.mind import ANY_SIZE, KIB, LEAST, mind_of, name_of
from hakmem.insight.narrow import Fitted
from hakmem.insight.words import percent_text, size_text, time_text
from hakmem.pids import pid_of
from hakmem.terminal import in_one_line, legible, say, shortened

TITLE = "# hakmem rules"
HEAD = f"""{TITLE}
#
# The setting rules:FILE begins a run of the program with these. A line says how long blocks keep
# their pages once they are free, until the program shows that another time is better, and how many
# KiB were used again: too late for any time to have been worth it, and within
# 250ms 500ms 1s 1500ms 2s 3s 4s 6s 8s 12s 16s.
#
# size     call site         keep    KiB
"""
CLASSES = "classes"
ANY = "any"
NO_SITE = "-"
SITE_DIGITS = 16
TIMES = 12
# The library reads no longer file: TEXT_ROOM in src/mind/rules.c.
MOST_BYTES = (32 << 10) - 2
WORDS = 3 + TIMES
SIZE_UNITS = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
TIME_UNITS = {"MS": 1, "S": 1000}
# The library's: SIZE_MAX, and KEEP_KIB_MOST in src/mind/keep.h.
NUMBER_MOST = (1 << 64) - 1
KIB_MOST = 1 << 40
# Wrong lines named one by one: a text that is something else has nothing but them.
NAMED_MOST = 10
# Columns that go first where there is too little room: the evidence.
SPARE = (2, 3)


@dataclass(frozen=True)
class Known:
    """How long one kind of freed memory is kept, and the evidence."""

    least_bytes: int  # as in Rule
    signature: int
    keep_ms: int
    kib: tuple[int, ...]
    site: str = ""

    @property
    def seen_kib(self) -> int:
        return sum(self.kib)

    @property
    def signature_text(self) -> str:
        return f"{self.signature:0{SITE_DIGITS}x}" if self.signature else ""

    def line(self) -> str:
        size = {0: CLASSES, ANY_SIZE: ANY}.get(self.least_bytes) or _size(self.least_bytes)
        counts = " ".join(map(str, self.kib))
        site = f"  # {self.site}" if self.site else ""
        signature = self.signature_text or NO_SITE
        return f"{size:<8} {signature:<17} {_time(self.keep_ms):<7} {counts}{site}\n"


def rules_of(source: str) -> list[Known]:
    return learnt_by(source)[0]


def learnt_by(source: str) -> tuple[list[Known], bool]:
    """What a process, a profile's file, or a file of rules knows, and whether it may learn.

    Either file may come by a pipe, which can be read only once.
    """
    if pid_of(source) is not None or not source:
        return _of_area(area_of(source), is_running=True)
    content = content_of(Path(source))
    if not content:
        raise HakmemError(f"{named(source)} is empty: it holds no rules")
    # Nothing but a text of rules is without zeros, whatever its first line.
    if content.startswith(MAGIC) or b"\0" in content:
        return _of_area(of_content(content, named(source)), is_running=False)
    return _of_text(content, legible(source)), True


def _of_area(area: Area, is_running: bool) -> tuple[list[Known], bool]:
    mind = mind_of(area, is_running)
    known = [
        Known(rule.least_bytes, rule.signature, rule.keep_ms, rule.kib, rule.site)
        for rule in mind.rules
    ]
    return known, mind.learns


def merged(parts: Iterable[Sequence[Known]]) -> list[Known]:
    """The evidence of all; how long is what the most evidence says."""
    groups: dict[tuple[int, int], list[Known]] = {}
    for known in (known for part in parts for known in part):
        groups.setdefault((known.least_bytes, known.signature), []).append(known)
    return [_together(groups[key]) for key in sorted(groups)]


def _together(group: Sequence[Known]) -> Known:
    strongest = max(group, key=lambda known: known.seen_kib)
    counts = tuple(map(sum, zip(*(known.kib for known in group), strict=True)))
    site = next((known.site for known in group if known.site), "")
    return replace(strongest, kib=counts, site=site)


def rules_text(rules: Sequence[Known]) -> str:
    return HEAD + "".join(known.line() for known in rules)


def fitting(rules: Sequence[Known]) -> list[Known]:
    """Those with the most evidence, as many as a file may hold."""
    room = MOST_BYTES - len(HEAD.encode())
    kept = set()
    for known in sorted(rules, key=lambda known: known.seen_kib, reverse=True):
        room -= len(known.line().encode())
        if room < 0:
            break
        kept.add(known)
    return [known for known in rules if known in kept]


def rules_table(rules: Sequence[Known]) -> Fitted:
    table = Table(box=None, pad_edge=False)
    table.add_column("what", no_wrap=True)
    for title in ("kept for", "seen", "used again in time"):
        table.add_column(title, justify="right", no_wrap=True)
    for known in rules:
        seen = known.seen_kib
        share = percent_text((seen - known.kib[0]) / seen) if seen else ""
        name = name_of(known.least_bytes, known.site or known.signature_text)
        table.add_row(name, time_text(known.keep_ms), size_text(seen * KIB), share)
    return Fitted(table, SPARE)


def read(path: Path) -> list[Known]:
    return _of_text(content_of(path), legible(str(path)))


def _of_text(content: bytes, source: str) -> list[Known]:
    """As the library reads it: what is no rule is named, and ignored."""
    found, wrong = [], []
    lines = content.decode(errors="replace").split("\n")
    for number, line in enumerate(lines, start=1):
        words, _, comment = line.partition("#")
        if not words.strip():
            continue
        try:
            found.append(_known(words.split(), in_one_line(comment)))
        except ValueError as error:
            wrong.append(f"{source}:{number}: {error}; ignored")
    for text in wrong[:NAMED_MOST]:
        say(text)
    if len(wrong) > NAMED_MOST:
        say(f"{source}: {len(wrong) - NAMED_MOST} more lines are no rules; ignored")
    if wrong and not found:
        raise HakmemError(f"'{source}' is neither a profile nor a file of rules")
    return found


def _known(words: Sequence[str], site: str) -> Known:
    if len(words) != WORDS:
        raise ValueError(f"a rule has {WORDS} words, not {len(words)}")
    size, signature, keep, *counts = words
    kib = tuple(map(_read_count, counts))
    return Known(_read_size(size), _read_site(signature), _read_time(keep), kib, site)


def _number(word: str, units: Mapping[str, int]) -> int | None:
    """As `parse_number` in src/control/options.c: digits, and perhaps a unit."""
    match = re.fullmatch(r"(\d+)([a-z]*)", word, re.ASCII | re.IGNORECASE)
    factor = units.get(match[2].upper(), 0 if match[2] else 1) if match else 0
    number = int(match[1]) * factor if match else 0
    return number if factor and number <= NUMBER_MOST else None


def _read_size(word: str) -> int:
    if word in (CLASSES, ANY):
        return 0 if word == CLASSES else ANY_SIZE
    size = _number(word, SIZE_UNITS)
    if size is None or size < LEAST:
        raise ValueError(
            f"'{shortened(word)}' is neither '{CLASSES}', '{ANY}' nor a size from 256K on"
        )
    return 1 << size.bit_length() - 1


def _read_site(word: str) -> int:
    if word == NO_SITE:
        return 0
    if len(word) != SITE_DIGITS or set(word) - set("0123456789abcdef"):
        raise ValueError(
            f"'{shortened(word)}' is neither '{NO_SITE}' nor a call site of {SITE_DIGITS} "
            "hexadecimal digits"
        )
    return int(word, 16)


def _read_time(word: str) -> int:
    time = _number(word, TIME_UNITS)
    if time is None:
        raise ValueError(f"'{shortened(word)}' is not a time such as 500ms or 2s")
    return time


def _read_count(word: str) -> int:
    count = _number(word, SIZE_UNITS)
    if count is None or count > KIB_MOST:
        raise ValueError(f"'{shortened(word)}' is not a number of KiB")
    return count


def _size(count: int) -> str:
    for unit, factor in SIZE_UNITS.items():
        if count % factor == 0:
            return f"{count // factor}{unit}"
    return str(count)


def _time(ms: int) -> str:
    return f"{ms // 1000}s" if ms % 1000 == 0 and ms else f"{ms}ms"
