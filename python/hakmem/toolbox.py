"""What `setup` found: the tools that building and testing use, with their versions."""

import platform
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from typing import Any

from hakmem.build import cmake_tool

NUMBER = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Tool:
    name: str
    version: str | None
    use: str


def tools() -> list[Tool]:
    build, test, lint = "build", "test", "test --all"
    wanted = [
        *(("gcc", build), ("g++", build), (cmake_tool("cmake"), build), ("ninja", build)),
        *(("valgrind", test), ("pkg-config", test), ("cargo", test)),
        *(("cppcheck", lint), ("clang-format", lint), ("clang-tidy", lint), ("clang", lint)),
        *(("aarch64-linux-gnu-gcc", lint), ("qemu-aarch64", lint)),
    ]
    found = [Tool(name.rpartition("/")[2], version_of(name), use) for name, use in wanted]
    return [Tool("python", platform.python_version(), "everything"), *found]


def version_of(command: str) -> str | None:
    if shutil.which(command) is None:
        return None
    result = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    number = NUMBER.search(result.stdout)
    return number[0] if number else "unknown"


def as_json() -> list[dict[str, Any]]:
    return [asdict(tool) for tool in tools()]
