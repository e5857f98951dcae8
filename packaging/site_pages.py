"""What the documentation site has beyond the files of docs/: a hook of MkDocs, see mkdocs.yml.

Pages of other folders are taken as they are, three more are generated, and links between files of
the repository become links between pages, so that a text reads the same in both places.
"""

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# MkDocs loads a hook by its path alone.
sys.path.insert(0, str(Path(__file__).parent))

from tables import HOW_TO_SET, ROOT, counters, options

DOCS = "docs/"
# By the file in the repository. What is in docs/ has its own path there.
TAKEN = {
    "README.md": "index.md",
    "src/README.md": "internals.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changes.md",
}
SETTINGS_FILE = "src/control/options.def"
COUNTERS_FILE = "src/control/counters.def"
DECISIONS = "docs/decisions"
GENERATED = {
    SETTINGS_FILE: "settings.md",
    COUNTERS_FILE: "counters.md",
    DECISIONS: "decisions/index.md",
}
# A link of Markdown to another file, without what is absolute.
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|/|#)([^)#\s]+)")


def cell(text: str) -> str:
    return text.replace("|", r"\|")


def settings_page() -> str:
    rows = [
        f"| `{row.name}` | {row.kind.lower()} | {row.default} | {row.bounds} | {cell(row.about)} |"
        for row in options()
    ]
    head = ["| setting | kind | default | bounds | what it does |", "|---|---|---|---|---|"]
    words = [
        "# Settings",
        "",
        HOW_TO_SET,
        "",
        '    HAKMEM_CONF="retain:64M,huge_pages:0" CMD',
        "    HAKMEM_RETAIN=64M HAKMEM_HUGE_PAGES=0 CMD",
        "",
        "A switch is 0 or 1, a word one of those before the colon. Which settings hold in a",
        "process, and where they are from, `hakmem doctor PID` says. A program changes them with",
        '`hak_ctl("opt.NAME", ...)`; of those that count at the start alone it answers `EPERM`.',
        "",
    ]
    return "\n".join([*words, *head, *rows, ""])


def counters_page() -> str:
    rows = [f"| `{name}` | {text} |" for name, text in counters().items()]
    words = [
        "# Counters",
        "",
        "What the slow paths count, of each heap. `hakmem run --stats -- CMD` prints the sums when",
        "the program ends, `hakmem stats PID` shows those of a running process; as metrics they",
        "are called `hakmem_NAME_total` ([metrics](insight/metrics.md), with all other figures).",
        "",
        "| counter | what is counted |",
        "|---|---|",
    ]
    return "\n".join([*words, *rows, ""])


def decisions_page() -> str:
    """The titles of the decisions, newest first: a later one may overrule an earlier one."""
    rows = []
    for path in sorted((ROOT / DECISIONS).glob("[0-9]*.md"), reverse=True):
        title = path.read_text(encoding="utf-8").partition("\n")[0]
        number, _, verdict = title.removeprefix("# ").partition(": ")
        rows.append(f"| [{number}]({path.name}) | {cell(verdict)} |")
    words = [
        "# Decisions",
        "",
        "Why things are as they are: question, what was measured, verdict, and the command that",
        "measures it again. Newest first.",
        "",
        "| | |",
        "|---|---|",
    ]
    return "\n".join([*words, *rows, ""])


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for path, page in TAKEN.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    makers = {SETTINGS_FILE: settings_page, COUNTERS_FILE: counters_page, DECISIONS: decisions_page}
    for path, page in GENERATED.items():
        files.append(File.generated(config, page, content=makers[path]()))
    return files


def in_repository(page: str) -> str | None:
    """The file that a page is made of; none of those that are generated."""
    if page in GENERATED.values():
        return None
    return next((path for path, taken in TAKEN.items() if taken == page), DOCS + page)


def in_site(path: str, files: Files, config: MkDocsConfig) -> str:
    """Where the site has a file of the repository; what is no page is taken along as text."""
    page = (TAKEN | GENERATED).get(path)
    if page is not None:
        return page
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    copy = f"files/{path}.txt"
    if (ROOT / path).is_file() and files.get_file_from_path(copy) is None:
        files.append(File.generated(config, copy, abs_src_path=str(ROOT / path)))
    return copy


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    own = page.file.src_uri
    path = in_repository(own)
    if path is None:
        return markdown

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1]))
        return posixpath.relpath(in_site(target, files, config), posixpath.dirname(own) or ".")

    return LINK.sub(moved, markdown)
