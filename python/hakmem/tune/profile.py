"""The profile that a search ends with: the settings, and as comments what speaks for them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hakmem.tune.report import Z95, conclusion, ratio
from hakmem.tune.session import DEFAULT, Search
from hakmem.written import write_file


def chosen(search: Search) -> int:
    """The leader if it is proven to be better, else the default."""
    return search.leader if search.proven else DEFAULT


def write_profile(
    search: Search, path: Path, command: str, when: str, host: Mapping[str, Any]
) -> None:
    write_file(path, profile_text(search, command, when, host))


def profile_text(search: Search, command: str, when: str, host: Mapping[str, Any]) -> str:
    settings = search.arms[chosen(search)].environment
    comments = [
        *conclusion(search),
        "" if settings else "So nothing is set.",
        command,
        f"{when}, {host['processor']}, {host['processors']} processors, "
        f"{host['system']}, Linux {host['release']}",
        "",
        f"{'arm':<26}{'duels':>6}  {'rating':<14}{search.goal} by the default's (95 % for all)",
        *(_line(search, number) for number in search.known),
    ]
    # What a user typed may hold line breaks, and only comments are to be read.
    said = [line for comment in comments if comment for line in comment.splitlines()]
    lines = [f"# {line}".rstrip() for line in said]
    return "\n".join([*lines, *(f"{key}={value}" for key, value in settings.items()), ""])


def _line(search: Search, number: int) -> str:
    value, low, high = ratio(search, number)
    elo = search.ratings.elo(number)
    interval = "" if number == DEFAULT else f" ({low:.3f} to {high:.3f})"
    rating = f"{elo.value:.0f} +-{Z95 * elo.error:.0f}"
    name = search.arms[number].name
    return f"{name:<26}{search.duels_of(number):>6}  {rating:<14}{value:.3f}{interval}"
