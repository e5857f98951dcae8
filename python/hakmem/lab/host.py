"""The machine a measurement was made on, as far as it matters to allocators."""

import os
import platform
import re
from pathlib import Path
from typing import Any


def describe_host() -> dict[str, Any]:
    return {
        "system": _first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)') or platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processor": _first_match("/proc/cpuinfo", r"^model name\s*:(.*)$"),
        "processors": len(os.sched_getaffinity(0)),
        "memory_kib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024,
        "page_size": os.sysconf("SC_PAGE_SIZE"),
        "huge_pages": _first_match("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"),
        "virtual": bool(_first_match("/proc/cpuinfo", r"^flags\s*:.*\b(hypervisor)\b")),
        "libc": " ".join(platform.libc_ver()),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _first_match(path: str, pattern: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return found[1].strip() if found else None
