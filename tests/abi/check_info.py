"""Runs print_info, which says what it holds: malloc_info has to be well-formed XML that says the
same, and malloc_stats as well.

usage: check_info.py [--at-least] PROGRAM

--at-least: freed blocks count while they wait, as in the build `secure`.
"""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

AT_LEAST = "--at-least"
OFF_BY = 0.02  # what the program and the C library hold besides, and blocks that are samples
HELD_LEAST = 5_000_000  # so that this is less than what print_info holds by itself


def check_close(what: str, said: int, usable: int) -> None:
    assert usable >= HELD_LEAST, f"print_info holds {usable} bytes only"
    off = said / usable - 1
    most = float("inf") if AT_LEAST in sys.argv else OFF_BY
    assert -OFF_BY <= off <= most, f"{what} says {said} of {usable} bytes"


def number_of(element: ElementTree.Element | None, name: str) -> int:
    assert element is not None, f"malloc_info has no element with '{name}'"
    return int(element.get(name, ""))


def check_xml(text: str, usable: int) -> None:
    root = ElementTree.fromstring(text)
    assert root.tag == "malloc", f"root element is <{root.tag}>, glibc's is <malloc>"
    assert root.get("version"), "the root element has no version"
    live = number_of(root.find("total[@type='live']"), "size")
    by_class = sum(number_of(size, "total") for size in root.iterfind("heap/sizes/size"))
    assert by_class <= live, f"blocks of size classes have {by_class} bytes, all have {live}"
    current = number_of(root.find("system[@type='current']"), "size")
    assert current >= live, f"{current} bytes are taken from the system, {live} live"
    check_close("malloc_info", live, usable)


def check_stats(text: str, usable: int) -> None:
    said = re.search(r"^live_bytes (\d+)$", text, re.MULTILINE)
    assert said, f"malloc_stats says: {text[:200]!r}"
    check_close("malloc_stats", int(said[1]), usable)


def main() -> None:
    program = sys.argv[-1]
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program}: status {done.returncode}\n{done.stderr}")
    held = re.findall(r"^usable (\d+)\n(.*?</malloc>\n)", done.stdout, re.MULTILINE | re.DOTALL)
    said = done.stderr.split("end\n")[:-1]
    assert len(held) == len(said) == 2, f"print_info has printed {len(held)} and {len(said)} times"
    for (usable, xml), stats in zip(held, said, strict=True):
        check_xml(xml, int(usable))
        check_stats(stats, int(usable))
    for (more, _), (less, _) in pairwise(held):
        assert int(more) > 1.5 * int(less), "what it holds has to differ"
    print("malloc_info and malloc_stats: ok")


if __name__ == "__main__":
    main()
