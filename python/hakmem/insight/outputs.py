"""A profile's way to the terminal and into files; what only one of them needs is loaded for it."""

import json
from dataclasses import dataclass
from pathlib import Path

from hakmem.errors import NoSamplesError
from hakmem.insight.leaks import suspects
from hakmem.insight.profile import Profile
from hakmem.insight.symbols import Symbols
from hakmem.insight.views import stacks_of, view_of
from hakmem.written import say_written, write_file


@dataclass(frozen=True)
class Files:
    """What is to be written, and where."""

    html: Path | None = None
    pprof: Path | None = None
    collapsed: Path | None = None
    speedscope: Path | None = None

    @property
    def is_empty(self) -> bool:
        return not any((self.html, self.pprof, self.collapsed, self.speedscope))


def present(
    profile: Profile,
    files: Files,
    view_name: str | None = None,
    as_json: bool = False,
    shown: bool = False,
) -> None:
    """Writes the files, and prints the profile if it is to be shown.

    Without a name the view is what is live now, and on a page the most telling one.
    """
    if not profile.sites:
        raise NoSamplesError(_why_empty(profile))
    view = view_of(view_name)
    symbols = Symbols(profile.modules)
    stacks = stacks_of(profile, symbols)
    leaks = suspects(profile, stacks)
    if files.html:
        from hakmem.insight.page import page

        _write(files.html, page(profile, stacks, leaks, view if view_name else None))
    if files.pprof:
        from hakmem.insight.pprof import pprof

        _write(files.pprof, pprof(profile, symbols, view))
    if files.collapsed:
        from hakmem.insight.folded import collapsed

        _write(files.collapsed, collapsed(stacks, view))
    if files.speedscope:
        from hakmem.insight.folded import speedscope

        _write(files.speedscope, speedscope(profile, stacks, view))
    if shown:
        from hakmem.insight import terminal

        if as_json:
            print(json.dumps(terminal.as_json(profile, stacks, leaks, view), indent=1))
        else:
            terminal.print_report(profile, stacks, leaks, view)


def _why_empty(profile: Profile) -> str:
    if not profile.interval:
        return f"{profile.source} runs without a heap profile: start it with HAKMEM_PROFILE=1"
    return (
        f"{profile.source} has no samples: about one block per {profile.interval} bytes is "
        "sampled; there are more with a smaller HAKMEM_PROFILE_INTERVAL"
    )


def _write(path: Path, content: str | bytes) -> None:
    write_file(path, content)
    say_written(path)
