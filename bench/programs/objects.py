"""A service's day: reads a JSON document, works on its objects, writes it back, drops it, again.

objects.py DOCUMENT REPETITIONS; prints what must not depend on the allocator.
"""

import hashlib
import json
import sys
from pathlib import Path


class Person:
    """An object with its own dictionary, as classes have without __slots__."""

    def __init__(self, record):
        self.name = record["name"]
        self.tags = set(record["tags"])
        self.notes = [entry["note"] for entry in record["history"]]
        self.position = tuple(record["position"])


def by_tag(people):
    groups = {}
    for person in people:
        for tag in person.tags:
            groups.setdefault(tag, []).append(person)
    return groups


def words(people):
    counts = {}
    for person in people:
        for note in person.notes:
            for word in note.split():
                counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def main():
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    digest = hashlib.sha256()
    for _ in range(int(sys.argv[2])):
        records = json.loads(text)
        people = [Person(record) for record in records]
        groups = by_tag(people)
        digest.update(repr(sorted((tag, len(group)) for tag, group in groups.items())).encode())
        digest.update(repr(words(people)).encode())
        digest.update(json.dumps(records).encode())
    print(len(people), len(groups), digest.hexdigest())


main()
