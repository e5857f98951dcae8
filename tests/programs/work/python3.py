"""Builds, writes and reads a large JSON document; then modules of Python's own test suite."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

MODULES = ["test_json", "test_dict", "test_list", "test_set", "test_bytes", "test_struct"]


def document() -> list[dict]:
    rng = random.Random(7)
    return [
        {
            "id": i,
            "name": f"n{rng.random()}",
            "tags": [f"t{rng.randrange(99)}" for _ in range(9)],
            "nested": {str(k): rng.random() for k in range(6)},
        }
        for i in range(12000)
    ]


def as_xml(items: list[dict]) -> bytes:
    root = ElementTree.Element("items")
    for item in items:
        node = ElementTree.SubElement(root, "item", id=str(item["id"]))
        node.text = item["name"]
    return ElementTree.tostring(root)


def main() -> None:
    items = document()
    text = json.dumps(items, indent=1)
    Path("out/items.json").write_text(text, encoding="utf-8")
    assert json.loads(text) == items
    tree = ElementTree.fromstring(as_xml(items))
    print(len(text), len(tree), sum(len(node.text or "") for node in tree))
    shutil.copyfile("/proc/self/maps", "mapped/python3")
    suite = [sys.executable, f"{os.environ['WORK']}/lib/suite.py", *MODULES]
    sys.exit(subprocess.run(suite, check=False).returncode)


main()
