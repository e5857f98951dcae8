"""Compares what two runs of a workload wrote."""

from __future__ import annotations

import difflib
import hashlib
import re
from pathlib import Path

from sandbox import Outcome

MAX_DIFF_LINES = 60
OWN_LINE = re.compile(rb"^hakmem:.*", re.MULTILINE)

Rules = list[tuple[re.Pattern[str], str]]


def rules_of(normalise: list[list[str]]) -> Rules:
    return [(re.compile(pattern, re.MULTILINE), text) for pattern, text in normalise]


def normalised(data: bytes, rules: Rules) -> str:
    """Text with what may differ between any two runs (times, process numbers) taken out."""
    text = data.decode("utf-8", errors="backslashreplace")
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def diff(what: str, plain: str, preloaded: str) -> list[str]:
    """A unified diff, at most MAX_DIFF_LINES long."""
    lines = list(
        difflib.unified_diff(
            plain.splitlines(),
            preloaded.splitlines(),
            f"{what} without",
            f"{what} with",
            lineterm="",
        )
    )
    if not lines and plain != preloaded:
        return [f"{what}: line endings differ"]
    if len(lines) > MAX_DIFF_LINES:
        lines[MAX_DIFF_LINES:] = [f"... {len(lines) - MAX_DIFF_LINES} more lines"]
    return lines


def results(outcome: Outcome, rules: Rules) -> dict[str, tuple[str, str]]:
    """Every file under `out`, as its hash and its normalised text."""
    root = outcome.directory / "out"
    found = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        data = path.read_bytes()
        text = normalised(data, rules) if rules or b"\0" not in data else ""
        digest = hashlib.sha256(text.encode() if text else data).hexdigest()
        found[str(path.relative_to(root))] = (digest, text)
    return found


def compare_files(plain: Outcome, preloaded: Outcome, rules: Rules) -> list[str]:
    before, after = results(plain, rules), results(preloaded, rules)
    complaints = [f"out/{name}: only without the library" for name in before.keys() - after.keys()]
    complaints += [f"out/{name}: only with the library" for name in after.keys() - before.keys()]
    for name in sorted(before.keys() & after.keys()):
        if before[name][0] != after[name][0]:
            complaints.append(f"out/{name}: {before[name][0]} != {after[name][0]}")
            complaints += diff(f"out/{name}", before[name][1], after[name][1])
    return complaints


def compare_streams(plain: Outcome, preloaded: Outcome, rules: Rules, unordered: bool) -> list[str]:
    complaints = []
    for stream in ("stdout", "stderr"):
        texts = [normalised(getattr(run, stream), rules) for run in (plain, preloaded)]
        if unordered:
            texts = ["\n".join(sorted(text.splitlines())) for text in texts]
        complaints += diff(stream, *texts)
    return complaints


def own_lines(outcome: Outcome) -> list[str]:
    """Lines of the allocator's own, wherever the workload sent its output."""
    sources = {"stdout": outcome.stdout, "stderr": outcome.stderr}
    for path in sorted(outcome.directory.rglob("*.log")):
        sources[str(path.relative_to(outcome.directory))] = path.read_bytes()
    return [
        f"{name}: {line.decode(errors='backslashreplace')}"
        for name, data in sources.items()
        for line in OWN_LINE.findall(data)
    ]


def wrote_something(outcome: Outcome) -> bool:
    return bool(outcome.stdout.strip()) or any((outcome.directory / "out").iterdir())


def tail_of_logs(directory: Path, lines: int = 20) -> list[str]:
    """The ends of the logs, for a run that failed."""
    shown = []
    for path in sorted(directory.rglob("*.log")):
        text = path.read_text(errors="replace").splitlines()[-lines:]
        shown += [f"--- {path.relative_to(directory)}", *text]
    return shown
