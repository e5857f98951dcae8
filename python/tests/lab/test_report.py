"""The page: everything measured is on it, and nothing from elsewhere is needed."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic_results import command_results, layer_entry, suite_results

from hakmem.errors import HakmemError
from hakmem.lab.model import Results
from hakmem.lab.report import page, write_html, write_pngs
from hakmem.lab.story import Story

VOID = {"meta", "br", "path", "use", "rect", "link"}


class Page(HTMLParser):
    """Collects words, and checks that elements close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [v or "" for k, v in attrs if k in ("href", "xlink:href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def suite() -> Results:
    return suite_results()


@pytest.fixture(scope="module")
def suite_page(suite: Results) -> str:
    return page(suite)


def test_the_page_is_whole(suite_page: str) -> None:
    found = Page(suite_page)
    assert found.open == []
    assert len(set(found.ids)) == len(found.ids)


def test_the_page_needs_nothing_else(suite_page: str) -> None:
    assert "<script" not in suite_page
    assert "@import" not in suite_page
    assert all(link.startswith("#") for link in Page(suite_page).links)
    assert re.findall(r"url\((?!#)", suite_page) == []


def test_links_inside_the_page_lead_somewhere(suite_page: str) -> None:
    found = Page(suite_page)
    assert {link[1:] for link in found.links} <= set(found.ids)


def test_everything_measured_is_on_the_page(suite: Results, suite_page: str) -> None:
    text = Page(suite_page).text
    for name in (*suite.benchmark_names(), *suite.allocator_names()):
        assert name in text
    for about in suite.benchmarks.values():
        assert about["models"] in text
        assert about["cannot_show"] in text
    assert suite.host["processor"] in text
    assert suite.when in text


def test_failures_are_said(suite_page: str) -> None:
    assert "killed by signal 11" in Page(suite_page).text


def test_both_themes_are_there(suite_page: str) -> None:
    assert "prefers-color-scheme: dark" in suite_page
    used = set(re.findall(r"var\(--([\w-]+)\)", suite_page))
    defined = set(re.findall(r"--([\w-]+):", suite_page))
    assert used <= defined


def test_names_cannot_become_markup() -> None:
    results = command_results()
    text = page(results)
    evil = "<b>x</b>&\"'"
    for row in results.rows:
        row.benchmark = evil
    results.benchmarks = {evil: next(iter(results.benchmarks.values()))}
    results.sections["rss_over_time"] = {
        evil: next(iter(results.sections["rss_over_time"].values()))
    }
    found = Page(page(results))
    assert found.open == []
    assert "<b>x</b>" not in page(results)
    assert len(found.ids) == len(Page(text).ids)


def test_a_single_command_has_its_own_form() -> None:
    results = command_results()
    text = Page(page(results)).text
    for heading in ("Page faults", "Memory over time", "Where the time goes"):
        assert heading in text
    assert "Geometric means" not in text
    assert [row.label for row in Story(results).dot_rows("time_s")] == sorted(
        results.allocator_names(),
        key=lambda name: results.row(*_time(results, name)).median,  # type: ignore[union-attr,arg-type,return-value]
    )


def _time(results: Results, name: str) -> tuple[str, str, str]:
    return results.benchmark_names()[0], name, "time_s"


def test_a_saved_file_gives_the_same_page(tmp_path: Path) -> None:
    results = command_results()
    results.save(tmp_path / "r.json")
    assert page(Results.load(tmp_path / "r.json")) == page(results)


def test_a_layer_profile_alone_is_a_page() -> None:
    results = Results({}, "2026-01-01T00:00:00+00:00", "hakmem bench --layers x")
    results.sections["layers"] = [layer_entry("hakmem", 1.0)]
    found = Page(page(results))
    assert "purge: giving memory back" in found.text
    assert {link[1:] for link in found.links} <= set(found.ids)


def test_what_was_counted_of_layers_stands_beside_their_shares() -> None:
    results = Results({}, "2026-01-01T00:00:00+00:00", "hakmem bench --layers x")
    entry, other = layer_entry("hakmem", 1.0), layer_entry("glibc", 1.4)
    entry["layers"][4] |= {"instructions_per_op": 34.25, "d1_misses_per_op": 0.0125}
    results.sections["layers"] = [entry, other]
    story = Story(results)
    counted = ["instructions per op", "L1 misses per op"]
    expected = [f"{name}, {title}" for title in counted for name in ("hakmem", "glibc")]
    assert story.layer_headings() == ["hakmem", "glibc", *expected]
    rows = {key: cells for key, _, cells in story.layer_rows()}
    assert rows["entry"] == ["12.0 %", "", "34.2", "", "0.013", ""]
    assert rows["program"] == ["55.0 %", "55.0 %", "", "", "", ""]
    assert "34.2" in Page(page(results)).text


def test_two_builds_are_a_page_too() -> None:
    results = suite_results(broken=False)
    results.rows = [r for r in results.rows if r.allocator in ("hakmem", "mimalloc2")]
    for row in results.rows:
        row.allocator = {"hakmem": "after", "mimalloc2": "before"}[row.allocator]
    kind = {"version": "1", "kind": "hakmem", "environment": {}}
    results.arms = {"before": kind, "after": kind}
    story = Story(results)
    assert (story.base, story.subject) == ("before", "after")
    assert "after" in Page(page(results)).text


def test_everything_failed_and_single_rounds_are_shown() -> None:
    results = suite_results(rounds=1)
    assert Page(page(results)).open == []
    for row in results.rows:
        row.samples, row.median, row.failed = [None], None, "no luck"
    assert "no luck" in Page(page(results)).text


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(HakmemError, match="no measurement"):
        page(Results({}, "", ""))


def test_the_summary_has_the_subject_first_then_the_hardest_to_beat(suite: Results) -> None:
    names = [row.name for row in Story(suite).summary]
    assert names[0] == "hakmem"
    assert sorted(names) == sorted(suite.allocator_names())


def test_pictures_are_written(tmp_path: Path) -> None:
    written = write_pngs(command_results(), tmp_path / "pictures")
    assert {path.name for path in written} >= {"overview.png", "time.png", "layers.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_a_page_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HakmemError, match=r"cannot write .*file"):
        write_html(command_results(), tmp_path / "file" / "report.html")
