"""Runs print_info: malloc_info has to be well-formed XML, malloc_stats has to say something."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

LEAST_BYTES_HELD = 10_000_000  # print_info holds about 18 MB


def largest_number(text: str) -> int:
    return max((int(digits) for digits in re.findall(r"\d+", text)), default=0)


def check_xml(text: str) -> None:
    root = ElementTree.fromstring(text)
    assert root.tag == "malloc", f"root element is <{root.tag}>, glibc's is <malloc>"
    assert root.get("version"), "the root element has no version"
    values = [value for element in root.iter() for value in element.attrib.values()]
    values += [element.text or "" for element in root.iter()]
    largest = max(largest_number(value) for value in values)
    assert largest >= LEAST_BYTES_HELD, f"largest number in malloc_info is {largest}"


def check_stats(text: str) -> None:
    assert text.strip(), "malloc_stats wrote nothing to standard error"
    largest = largest_number(text)
    assert largest >= LEAST_BYTES_HELD, f"largest number in malloc_stats is {largest}"


def main() -> None:
    (program,) = sys.argv[1:]
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program}: status {done.returncode}\n{done.stderr}")
    check_xml(done.stdout)
    check_stats(done.stderr)
    print("malloc_info and malloc_stats: ok")


if __name__ == "__main__":
    main()
