"""Parses a JSON document and dumps it again, and prints what came out as a digest."""

import hashlib
import json
import sys
from pathlib import Path


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    for _ in range(int(sys.argv[2])):
        document = json.loads(text)
        dumped = json.dumps(document, indent=1, sort_keys=True)
        print(len(document), len(dumped), hashlib.sha256(dumped.encode()).hexdigest())


if __name__ == "__main__":
    main()
