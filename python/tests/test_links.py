"""What the pages of the repository point to is there."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")
# A path of the repository in the running text, by its ending.
NAMED = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:c|h|hpp|def|ld|md|py|rs|toml|txt|cmake|env))`")


def tracked(pattern: str) -> list[str]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:  # there is no git
        return []
    return listed.stdout.split()


PAGES = tracked("*.md") or sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))
TOP = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert [link for link in links if not (folder / link).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if "docs/decisions/" not in page])
def test_files_that_are_named_exist(page: str) -> None:
    """Decisions name what there was when they were made."""
    named = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    own = [name for name in named if Path(name).parts[0] in TOP and "/NAME." not in name]
    assert [name for name in own if not (ROOT / name).exists()] == []
