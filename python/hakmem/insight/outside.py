"""What is not hakmem's, as rows."""

import os
from collections import Counter
from dataclasses import replace

from hakmem.insight import elsewhere
from hakmem.insight.elsewhere import Parts
from hakmem.insight.rows import Row, few, sum_of
from hakmem.insight.smaps import Process
from hakmem.insight.words import size_text


def not_ours(process: Process, parts: Parts) -> Row:
    whole = process.mappings.rss
    stacks = parts.of(elsewhere.STACKS)
    known = bool(stacks) and all(part.tid for part in stacks)
    children = (
        _one(parts, elsewhere.PROGRAM, "the program itself"),
        _named(parts, elsewhere.LIBRARIES, "shared libraries", whole),
        _named(parts, elsewhere.FILES, "mapped files", whole),
        _one(parts, elsewhere.MAIN_STACK, "main thread's stack"),
        _stacks(process, parts, known, whole),
        _one(parts, elsewhere.BREAK, "the break (brk)"),
        _named(parts, elsewhere.SHARED, "shared memory", whole),
        _named(parts, elsewhere.ANONYMOUS, "other anonymous mappings", whole),
        _one(parts, elsewhere.KERNEL, "the kernel's pages"),
    )
    return sum_of("not_ours", "not hakmem's", children)


def _one(parts: Parts, kind: str, label: str) -> Row:
    return Row(kind, label, parts.bytes_of(kind))


def _named(parts: Parts, kind: str, label: str, whole: int) -> Row:
    sizes: Counter[str] = Counter()
    for part in parts.of(kind):
        sizes[part.name or f"at {part.mapping.start:x}, {size_text(part.mapping.size)}"] += (
            part.bytes
        )
    rows = [Row(f"{kind}:{name}", name, size) for name, size in sizes.items() if size]
    return sum_of(kind, label, few(rows, kind, "others", whole))


def _stacks(process: Process, parts: Parts, known: bool, whole: int) -> Row:
    names = {thread.tid: thread.name for thread in process.threads}
    rows = [
        Row(f"stack_{part.tid}", f"thread {part.tid} {names[part.tid]}", part.bytes)
        for part in parts.of(elsewhere.STACKS)
        if part.tid
    ]
    total = parts.bytes_of(elsewhere.STACKS)
    rest = Row("stacks_unnamed", "of threads not known by name", 0, False)
    rest = replace(rest, bytes=total - sum(row.bytes for row in rows))
    children = [*few(rows, "stack", "other threads", whole), rest]
    return replace(sum_of(elsewhere.STACKS, "threads' stacks", children), exact=known)


def unknown_stacks(process: Process, parts: Parts) -> list[str]:
    unnamed = sum(1 for part in parts.of(elsewhere.STACKS) if not part.tid)
    if not unnamed:
        return []
    # Where a container keeps it from root too, there is no use in saying who could ask.
    teller = "" if os.geteuid() == 0 else " (the kernel tells it to root)"
    return [
        f"{unnamed} mappings are taken for threads' stacks because of a guard page before them or "
        f"their mark; which thread has which is not known{teller}"
    ]
