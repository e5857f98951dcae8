"""Tests of the runner itself: every way in which a program can fail must be seen to fail.

test_runner.py LIBRARY
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import catalogue
import runner
import sandbox

library: Path

EQUAL = "echo equal; cat /proc/$$/maps >mapped/shell"


class Workload(catalogue.Program):
    """A program whose workload is given as text instead of lying in the folder `work`."""

    def __init__(self, directory: str, text: str, **row: Any) -> None:
        super().__init__(name=directory, packages=["dash"], commands=["sh"], **row)
        self.script().write_text(text)

    def script(self) -> Path:
        return Path(self.name) / "example.sh"


class RunnerTest(unittest.TestCase):
    def examine(self, text: str, used: Path | None = None, **row: Any) -> tuple[int, str]:
        """The runner's exit status for a workload, and what it printed."""
        with tempfile.TemporaryDirectory() as directory:
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                program = Workload(directory, text, **row)
                status = runner.try_program(program, used or library, keep=False)
            return status, said.getvalue()

    def fails(self, text: str, because: str, used: Path | None = None, **row: Any) -> None:
        status, said = self.examine(text, used, **row)
        self.assertEqual(status, 1, said)
        self.assertIn(because, said)

    def test_equal(self) -> None:
        status, said = self.examine(EQUAL, mapped=["shell"])
        self.assertEqual(status, 0, said)

    def test_stdout_differs(self) -> None:
        self.fails('echo "with: $LD_PRELOAD"', "+with: /")

    def test_stderr_differs(self) -> None:
        self.fails('echo a; echo "with: $LD_PRELOAD" >&2', "stderr with")

    def test_file_differs(self) -> None:
        self.fails('echo "with: $LD_PRELOAD" >out/file', "out/file: ")

    def test_binary_file_differs(self) -> None:
        self.fails(r'printf "\0${LD_PRELOAD:+more}" >out/file', "out/file: ")

    def test_file_only_with(self) -> None:
        self.fails('echo a; [ -z "$LD_PRELOAD" ] || : >out/file', "only with the library")

    def test_file_only_without(self) -> None:
        self.fails('echo a; [ -n "$LD_PRELOAD" ] || : >out/file', "only without the library")

    def test_normalised_difference(self) -> None:
        status, said = self.examine('echo "took: 1$LD_PRELOAD"', normalise=[["took: .*", "took"]])
        self.assertEqual(status, 0, said)

    def test_unordered_lines(self) -> None:
        text = 'if [ "$LD_PRELOAD" ]; then echo a; echo b; else echo b; echo a; fi'
        self.fails(text, "+++ stdout with")
        self.assertEqual(self.examine(text, unordered=True)[0], 0)

    def test_fails_without(self) -> None:
        self.fails("echo a; exit 3", "run without ended with status 3")

    def test_fails_with(self) -> None:
        self.fails('echo a; [ -z "$LD_PRELOAD" ]', "run with ended with status 1")

    def test_dies_by_signal(self) -> None:
        text = 'echo a; [ -z "$LD_PRELOAD" ] || kill -SEGV $$'
        self.fails(text, "run with ended with status -11")

    def test_time_out(self) -> None:
        self.fails("echo a; sleep 600", "run without timed out", timeout=1)

    def test_writes_nothing(self) -> None:
        self.fails(":", "wrote nothing")

    def test_allocator_speaks(self) -> None:
        self.fails('echo a; echo "hakmem: free of a bad pointer" >&2', "stderr: hakmem: free")

    def test_allocator_speaks_in_log(self) -> None:
        self.fails('echo a; echo "hakmem: note" >server.log', "server.log: hakmem: note")

    def test_not_mapped(self) -> None:
        text = "echo a; env -u LD_PRELOAD cat /proc/self/maps >mapped/other"
        self.fails(text, "library not mapped in other", mapped=["other"])

    def test_no_maps_kept(self) -> None:
        self.fails("echo a", "kept no maps of shell", mapped=["shell"])

    def test_not_a_library(self) -> None:
        self.fails(EQUAL, "is not mapped in a child", used=Path(__file__))

    def test_binary_that_cannot_load_it(self) -> None:
        self.fails(EQUAL, "/ldd would not load", loads=["ldd"])

    def test_missing_program(self) -> None:
        status, said = self.examine(EQUAL, needs=["/nonexistent/*"])
        self.assertEqual(status, runner.MISSING)
        self.assertIn("lacks /nonexistent/*", said)

    def test_ends_daemons(self) -> None:
        status, said = self.examine("echo a; setsid sleep 600 & :")
        self.assertEqual((status, sandbox.children()), (0, []), said)


if __name__ == "__main__":
    library = Path(sys.argv.pop(1)).resolve()
    sandbox.adopt_orphans()
    unittest.main()
