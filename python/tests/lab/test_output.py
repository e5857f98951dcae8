"""Where figures and pages of measurements go: no run takes the files of another."""

from pathlib import Path

import pytest
from synthetic_results import suite_results

from hakmem.commands.output import Targets, finish
from hakmem.errors import HakmemError
from hakmem.lab import report, terminal

NAME = "compare-2026-11-21T133000"


@pytest.fixture(autouse=True)
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page itself is not what this is about."""
    monkeypatch.setattr(report, "write_html", lambda _, path: path.write_text("page"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_runs_of_one_second_keep_their_files_apart(tmp_path: Path) -> None:
    for _ in range(3):
        Targets(None, None, None, tmp_path / "results").write(suite_results(), "compare")
    expected = [f"{NAME}{end}.{kind}" for end in ("", "-2", "-3") for kind in ("html", "json")]
    assert names(tmp_path / "results") == sorted(expected)


def test_pair_has_one_name(tmp_path: Path) -> None:
    """Also where only the page of another run is there."""
    Targets(tmp_path / "own.json", None, None, tmp_path / "results").write(
        suite_results(), "compare"
    )
    Targets(None, None, None, tmp_path / "results").write(suite_results(), "compare")
    expected = [f"{NAME}.html", f"{NAME}-2.html", f"{NAME}-2.json"]
    assert names(tmp_path / "results") == sorted(expected)


def test_what_could_not_be_written_leaves_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise HakmemError("no")

    monkeypatch.setattr(report, "write_html", refuse)
    with pytest.raises(HakmemError):
        Targets(tmp_path / "own.json", None, None, tmp_path).write(suite_results(), "compare")
    assert names(tmp_path) == ["own.json"]


def test_table_that_cannot_be_printed_leaves_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are what minutes were spent for, and a pager may be closed."""

    def refuse(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(terminal, "print_results", refuse)
    tables = tmp_path / "tables.md"
    targets = Targets(tmp_path / "own.json", tmp_path / "own.html", None, None, tables)
    with pytest.raises(BrokenPipeError):
        finish(suite_results(), "hakmem", "glibc", targets, "compare")
    assert names(tmp_path) == ["own.html", "own.json", "tables.md"]


def test_file_that_cannot_be_written_leaves_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise HakmemError("no")

    monkeypatch.setattr(report, "write_html", refuse)
    targets = Targets(tmp_path / "own.json", tmp_path / "own.html", None, None)
    with pytest.raises(HakmemError):
        finish(suite_results(), "hakmem", "glibc", targets, "compare")
    assert "hakmem" in capsys.readouterr().out


@pytest.mark.parametrize("place", range(4))
def test_typo_makes_no_folder(tmp_path: Path, place: int) -> None:
    """And is told before anything is measured."""
    files: list[Path | None] = [None] * 4
    files[place] = tmp_path / "typo" / "file"
    figures, page, pictures, tables = files
    with pytest.raises(HakmemError, match=r"cannot write '.*typo/file': No such file"):
        Targets(figures, page, pictures, None, tables).check()
    assert not names(tmp_path)


def test_folders_of_hakmem_and_that_of_the_pictures_are_made(tmp_path: Path) -> None:
    Targets(None, None, tmp_path / "pictures", tmp_path / "lab" / "results").check()
    assert names(tmp_path) == ["lab"]
    report.write_pngs(suite_results(), tmp_path / "pictures")
    assert (tmp_path / "pictures" / "overview.png").exists()
