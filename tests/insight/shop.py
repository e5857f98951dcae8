"""A program that works with JSON, dicts, a bounded cache and tables, and asks `pages` for pages.

Says a line per round of work, and ends when its standard input does.
"""

import json
import select
import sys
import time
from collections import OrderedDict

import pages

PAGES = 200
PAGE_BYTES = 2000
GETS = 64
CACHED = 3000
PAUSE_S = 0.004

tables = {n: {"name": f"article {n}", "tags": [str(n * k) for k in range(6)]} for n in range(8000)}
cache: OrderedDict[int, str] = OrderedDict()
orders: dict[int, object] = {}
number = 0

while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
    for _ in range(GETS):
        number += 1
        if number <= PAGES:
            pages.put(number, bytes([number % 256]) * PAGE_BYTES)
        assert len(pages.get(1 + number % min(number, PAGES))) == PAGE_BYTES
        cache[number * 7919 % 10007] = str(number) * 20
        if len(cache) > CACHED:
            cache.popitem(last=False)
    order = json.loads(json.dumps({"id": number, "lines": [tables[k] for k in range(60)]}))
    orders[number // GETS % 50] = order
    print(time.monotonic(), flush=True)
