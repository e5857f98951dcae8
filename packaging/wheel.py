"""Puts the built library into the wheel, which thereby is one for this machine."""

import os
import platform
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DEFAULT = Path("build", "release", "libhakmem.so")


class LibraryHook(BuildHookInterface):
    """The library is the release build's, or the one that LIBHAKMEM names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        library = Path(os.environ.get("LIBHAKMEM", Path(self.root, DEFAULT))).resolve()
        if not library.is_file():
            raise FileNotFoundError(f"{library}: build it first with ./hakmem build")
        build_data["force_include"][str(library)] = "hakmem/libhakmem.so"
        build_data["pure_python"] = False
        libc = platform.libc_ver()[1].replace(".", "_")
        build_data["tag"] = f"py3-none-manylinux_{libc}_{platform.machine()}"
