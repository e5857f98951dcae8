"""Tables as Markdown."""

import re

from rich.table import Table
from rich.text import Text
from synthetic_results import suite_results

from hakmem.lab.markdown import document, table_text


def test_a_table_keeps_cells_and_sides() -> None:
    table = Table(title=Text("Time"))
    table.add_column("")
    table.add_column("glibc", justify="right")
    table.add_row("a|b", Text("1.00+*"))
    assert table_text(table).splitlines() == [
        "**Time**",
        "",
        "|  | glibc |",
        "| :-- | --: |",
        "| a\\|b | 1.00+\\* |",
    ]


def test_a_document_names_command_every_benchmark_and_every_failure() -> None:
    results = suite_results(rounds=3)
    text = document(results, "hakmem", "glibc")
    assert f"`{results.command}`" in text and results.when[:10] in text
    assert all(f"| {name} |" in text for name in results.benchmark_names())
    assert "- larson_8_128_t4 on rpmalloc: killed by signal 11" in text
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line[:1] == "|"}
    # The summary and the matrices; within a table all lines are equally wide.
    assert len(widths) == 2


def test_a_document_can_be_made_anywhere_and_says_so() -> None:
    results = suite_results(rounds=3)
    results.command = "hakmem bench --json /somewhere/r.json --budget 28m --html=/elsewhere.html"
    text = document(results, "hakmem", "glibc")
    assert "`hakmem bench --budget 28m`" in text
    assert "where" not in text.partition("\n\n")[2].partition("\n\n")[0]
    assert text.startswith("# 21 benchmarks")
    assert "Interleaved rounds: 3." in text
    assert "## Time: hakmem by each other" in text and "## Page faults" in text


def test_a_document_keeps_what_the_measured_command_was_given() -> None:
    results = suite_results(rounds=3)
    results.command = "hakmem compare --json r.json --rounds 3 -- sort --json --png=x file"
    text = document(results, "hakmem", "glibc")
    assert "`hakmem compare --rounds 3 -- sort --json --png=x file`" in text
    results.command = "hakmem bench 'of somebody"
    assert "`hakmem bench 'of somebody`" in document(results, "hakmem", "glibc")
