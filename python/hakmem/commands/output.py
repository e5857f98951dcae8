"""Where the results of a measurement go: terminal, JSON, report page, pictures."""

import itertools
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem.commands.options import check_outputs
from hakmem.lab.model import Results
from hakmem.terminal import say
from hakmem.written import STDOUT, try_file, write_file


@dataclass(frozen=True)
class Targets:
    """The files a user asked for; those without a name go into `folder`, if there is one."""

    json_file: Path | None
    html: Path | None
    png: Path | None
    folder: Path | None
    markdown: Path | None = None

    def check(self, read: Sequence[Path] = (), save_baseline: Path | None = None) -> None:
        """Before minutes are spent: whether all of it can be written, and nothing is lost by it."""
        check_outputs(
            read=[str(path) for path in read],
            json=self.json_file,
            html=self.html,
            markdown=self.markdown,
            save_baseline=save_baseline,
        )
        for path in (self.json_file, self.html, self.markdown):
            if path is not None:
                try_file(path)
        if self.folder is not None and not (self.json_file and self.html):
            try_file(self.folder / "figures", folders=True)
        if self.png is not None:
            # The folder itself is what is asked for, and is made in the end.
            try_file(self.png / "picture.png" if self.png.exists() else self.png)

    def write(self, results: Results, stem: str) -> None:
        name = f"{stem}-{results.when.partition('+')[0].replace(':', '')}"
        kinds = [k for k, given in (("json", self.json_file), ("html", self.html)) if not given]
        own = _own_names(self.folder, name, kinds) if self.folder else {}
        try:
            self._write(results, self.json_file or own.get("json"), self.html or own.get("html"))
        finally:
            _drop_empty(own.values())

    def _write(self, results: Results, figures: Path | None, page: Path | None) -> None:
        if self.json_file == STDOUT:
            print(json.dumps(results.as_json(), indent=1, default=str))
        elif figures is not None:
            # First of all: they are what the measuring was for.
            results.save(figures)
            say(f"figures: {figures}")
        from hakmem.lab.report import write_html, write_pngs

        if page is not None:
            write_html(results, page)
            _tell("report", page)
        if self.png is not None:
            pictures = write_pngs(results, self.png)
            say(f"{len(pictures)} pictures: {self.png}")

    @property
    def take_stdout(self) -> bool:
        """Nothing else is printed there then."""
        return STDOUT in (self.json_file, self.html, self.markdown)


def _tell(what: str, path: Path) -> None:
    if path != STDOUT:
        say(f"{what}: {path}")


def _own_names(folder: Path, name: str, kinds: list[str]) -> dict[str, Path]:
    """A file of each kind that no run beside this one has: they are there, and empty."""
    folder.mkdir(parents=True, exist_ok=True)
    stems = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    for stem in stems:
        own = {kind: folder / f"{stem}.{kind}" for kind in kinds}
        if _taken(list(own.values())):
            break
    return own


def _taken(files: list[Path]) -> bool:
    """Makes these files, or none if there is one of them."""
    for index, file in enumerate(files):
        try:
            file.touch(exist_ok=False)
        except FileExistsError:
            _drop_empty(files[:index])
            return False
    return True


def _drop_empty(files: Iterable[Path]) -> None:
    for file in files:
        if file.exists() and not file.stat().st_size:
            file.unlink()


def finish(results: Results, subject: str, base: str, targets: Targets, stem: str) -> None:
    """The files, the table, and the conclusion in words: whichever fails, the others are there."""
    try:
        _write_files(results, subject, base, targets, stem)
    finally:
        if not targets.take_stdout:
            _print_tables(results, subject, base)


def _write_files(results: Results, subject: str, base: str, targets: Targets, stem: str) -> None:
    targets.write(results, stem)
    if targets.markdown is not None:
        from hakmem.lab.markdown import document

        write_file(targets.markdown, document(results, subject, base))
        _tell("tables", targets.markdown)


def _print_tables(results: Results, subject: str, base: str) -> None:
    from hakmem.lab.terminal import print_results, print_words
    from hakmem.lab.words import conclusion

    print_results(results, subject, base)
    print_words(conclusion(results, subject, base))


def command_line() -> str:
    """What the user typed, for the report."""
    return shlex.join(["hakmem", *sys.argv[1:]])
