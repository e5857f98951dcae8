"""The settings that a library would have in some environment, asked of the library itself."""

import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem.errors import HakmemError
from hakmem.insight.words import size_text, time_text

TIMEOUT_S = 30
SAID = "hakmem: "  # before whatever the library says
PREFIXES = ("HAKMEM_", "HKM_")
UNITS: dict[str, Callable[[int], str]] = {"SIZE": size_text, "TIME": time_text}
GUESS = re.compile(
    r"unknown setting '(?P<name>[^']*)' is ignored(?P<advice>; did you mean '(?P<guess>\w+)'\?)$"
)
CHILD = Path(__file__).with_name("ask_library.py")


@dataclass(frozen=True)
class Setting:
    name: str
    value: int | str
    source: str
    kind: str  # as in src/control/options.def
    text: str

    @property
    def shown(self) -> str:
        """The value as somebody would write it."""
        if isinstance(self.value, str):
            return self.value
        words = self.text.partition(":")[0].split("|")
        if self.kind == "WORD" and self.value < len(words):
            return words[self.value]
        return UNITS.get(self.kind, str)(self.value)


@dataclass(frozen=True)
class Answer:
    version: str
    settings: tuple[Setting, ...]
    # What the library had to say about the environment.
    warnings: tuple[str, ...]


def ask(library: Path, environment: Mapping[str, str]) -> Answer:
    """In a process of its own: the library reads the environment when it is loaded, once."""
    own = {k: v for k, v in environment.items() if k.startswith(PREFIXES)}
    try:
        answer, errors = _answer(library, own)
    except subprocess.TimeoutExpired:
        raise _unasked(library, f"no answer within {TIMEOUT_S} s") from None
    except json.JSONDecodeError as error:
        raise _unasked(library, f"its answer is not JSON: {error}") from None
    lines = (line for line in errors.splitlines() if line.startswith(SAID))
    said = tuple(map(_without_a_far_guess, lines))
    rows = [_setting(*row, own=own, said=said) for row in answer["settings"]]
    return Answer(answer["version"], tuple(rows), said)


def _answer(library: Path, own: Mapping[str, str]) -> tuple[Any, str]:
    """The child's, and what the library said meanwhile, of whatever bytes the values are."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(CHILD), str(library)],
        env={"PATH": os.defpath, **own},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        raise _unasked(library, last)
    return json.loads(done.stdout), done.stderr


def _unasked(library: Path, why: str) -> HakmemError:
    return HakmemError(f"{library}: cannot be asked for its settings: {why}")


def _without_a_far_guess(line: str) -> str:
    """The library names the nearest setting, however far it is."""
    match = GUESS.search(line)
    if match is None or difflib.get_close_matches(match["name"].lower(), [match["guess"]]):
        return line
    return line[: match.start("advice")]


def _setting(
    name: str,
    kind: str,
    text: str,
    value: int | str | None,
    *,
    own: Mapping[str, str],
    said: tuple[str, ...],
) -> Setting:
    named = _named(name, own)
    refused = any(f" of '{name}' is ignored" in line for line in said)
    source = f"environment ({named[0]})" if named and not refused else "default"
    if value is None:  # a text, which older libraries do not hand out
        return Setting(name, named[1] if named else "", source, kind, text)
    return Setting(name, value, source, kind, text)


def _named(name: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """The variable that sets it, by the library's own order, and the text."""
    found = None
    for item in environment.get("HAKMEM_CONF", "").split(","):
        key, colon, value = item.partition(":")
        if colon and key.lower() == name:
            found = "HAKMEM_CONF", value
    for variable, value in environment.items():
        if variable.startswith("HAKMEM_") and variable[7:].lower() == name:
            found = variable, value
    if found is None and name == "whale_capacity" and "HKM_WHALE_CAPACITY" in environment:
        found = "HKM_WHALE_CAPACITY", environment["HKM_WHALE_CAPACITY"]
    return found
