"""Puts the built library, which makes the wheel one for this machine, and manual pages into it."""

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DEFAULT = Path("build", "release", "libhakmem.so")


class LibraryHook(BuildHookInterface):
    """The library is the release build's, or the one that LIBHAKMEM names."""

    def dependencies(self) -> list[str]:
        """What the pages are made with: the commands themselves, and click-man."""
        core = self.metadata.core
        tests = core.optional_dependencies["test"]
        return [*core.dependencies, *(name for name in tests if name.startswith("click-man"))]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        library = Path(os.environ.get("LIBHAKMEM", Path(self.root, DEFAULT))).resolve()
        if not library.is_file():
            raise FileNotFoundError(f"{library}: build it first with ./hakmem build")
        build_data["force_include"][str(library)] = "hakmem/libhakmem.so"
        build_data["pure_python"] = False
        libc = platform.libc_ver()[1].replace(".", "_")
        build_data["tag"] = f"py3-none-manylinux_{libc}_{platform.machine()}"
        self.pages = tempfile.TemporaryDirectory(prefix="hakmem-man-")
        writer = Path(self.root, "packaging", "manpages.py")
        subprocess.run([sys.executable, "-B", writer, self.pages.name], check=True)
        build_data["shared_data"][self.pages.name] = "share/man"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.pages.cleanup()
