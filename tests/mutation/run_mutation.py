#!/usr/bin/env python3
"""Do the tests notice when a slow path is wrong? Small mistakes, one at a time, and who finds them.

Each mutant is a copy of src/ with one operator, constant or statement changed at a place drawn by
the seed. It is killed if a test fails or hangs, it survives if all pass; what does not compile is
drawn again. Tests: the fuzzers' corpora, units, interface, misuse, short stress, in that order.

    tests/mutation/run_mutation.py --mutants 100 --seed 1
    tests/mutation/run_mutation.py --folder heap --mutants 20 --json mutants.json
    tests/mutation/run_mutation.py --only 'heap/(lease|explicit)' --mutants 40
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("heap", "slab", "super", "purge", "pages", "big")
COPIED = ("src", "include", "cmake", "tests", "bench", "CMakeLists.txt", "CMakePresets.json")
COPIED += ("LICENSE", "docs")
PRESET = "release"
DATA_MOST = 16 << 30  # unit.test_region maps more than 12 GiB, and touches little of that
# ctest arguments, cheapest first. What takes long by the clock is left out.
TESTS = (
    ("-L", "^fuzz$", "-E", "profiles"),
    ("-L", "^unit$"),
    ("-L", "^abi$", "-E", "symbols|probes|static_tls"),
    ("-L", "^misuse$", "-E", "valgrind"),
    ("-R", "^stress.(ping_pong|thread_churn|free_only|exhaustion|fork_storm|fork_signal|heaps)$"),
)
# What a mistake looks like: a pattern, what it becomes, and what to call it.
MISTAKES = (
    (re.compile(r"(?<![-<>=!&|])<=(?!=)"), "<", "<= to <"),
    (re.compile(r"(?<![-<>=!&|])>=(?!=)"), ">", ">= to >"),
    (re.compile(r"(?<= )<(?= )"), "<=", "< to <="),
    (re.compile(r"(?<= )>(?= )"), ">=", "> to >="),
    (re.compile(r"(?<= )==(?= )"), "!=", "== to !="),
    (re.compile(r"(?<= )!=(?= )"), "==", "!= to =="),
    (re.compile(r"(?<= )&&(?= )"), "||", "&& to ||"),
    (re.compile(r"(?<= )\|\|(?= )"), "&&", "|| to &&"),
    (re.compile(r"(?<= )\+(?= )"), "-", "+ to -"),
    (re.compile(r"(?<= )-(?= )"), "+", "- to +"),
    (re.compile(r"(?<= )\+=(?= )"), "-=", "+= to -="),
    (re.compile(r"(?<= )-=(?= )"), "+=", "-= to +="),
    (re.compile(r"\btrue\b"), "false", "true to false"),
    (re.compile(r"\bfalse\b"), "true", "false to true"),
    (re.compile(r"\breturn (?!false|true|NULL|0;)([^;]+);"), "return 0;", "return 0"),
    (re.compile(r"\bif \((?!HAK_)"), "if (!", "condition negated"),
    (re.compile(r"^( +)[a-z_]+(->|\.)?[a-z_\[\]>.-]*( [-+|&]?= .*|\(.*\));$"), r"\1;", "left out"),
)
# Tests that have a time-out of their own: one that hangs is not waited for so long.
OWN_TIMEOUT = re.compile(r"(\b(?:arg_)?TIMEOUT )\d+")
COMMENT = re.compile(r"^\s*(/\*|\*|//|#)|\b(_Static_assert|probe_)")


@dataclass
class Mutant:
    file: str
    line: int
    mistake: str
    before: str
    after: str
    outcome: str = ""
    killer: str = ""
    seconds: float = 0.0


def candidates(root: Path, folders: tuple[str, ...]) -> list[Mutant]:
    found = []
    for path in sorted(p for f in folders for p in (root / "src" / f).glob("*.c")):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            if COMMENT.search(line) or not line.startswith(" "):
                continue
            code = line.partition("/*")[0].rstrip()
            for pattern, becomes, name in MISTAKES:
                for match in pattern.finditer(code):
                    after = code[: match.start()] + match.expand(becomes) + code[match.end() :]
                    if name == "condition negated":
                        after = negated(code)
                    if after and after != code:
                        place = str(path.relative_to(root))
                        found.append(Mutant(place, number, name, code.strip(), after.strip()))
    return found


def negated(code: str) -> str:
    """Of a condition that ends on its line."""
    match = re.fullmatch(r"(.*\bif )\((.*)\)( \{)?", code)
    return f"{match[1]}(!({match[2]})){match[3] or ''}" if match else ""


def limit_memory() -> None:
    """A mistake may well be one that takes all there is."""
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_MOST, DATA_MOST))


class Clone:
    """A copy of the sources with a build of its own."""

    def __init__(self, folder: Path, seconds_per_test: int) -> None:
        self.root = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, dirs_exist_ok=True)
            else:
                shutil.copy2(source, folder / name)
        for path in (folder / "src").rglob("*.c"):
            path.touch()  # a run that was stopped left a mistake in what is built there
        for path in (folder / "tests").rglob("CMakeLists.txt"):
            path.write_text(OWN_TIMEOUT.sub(rf"\g<1>{seconds_per_test}", path.read_text()))
        if not self._call("cmake", "--preset", PRESET) or not self.build():
            sys.exit("FAILED: the sources as they are do not build")
        killer = self.killer()
        if killer:
            sys.exit(f"FAILED: without a mistake, too: {killer}")

    def _call(self, *command: str) -> bool:
        return (
            subprocess.run(
                command, cwd=self.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ).returncode
            == 0
        )

    def build(self, *targets: str) -> bool:
        chosen = ["--target", *targets] if targets else []
        return self._call("cmake", "--build", "--preset", PRESET, "-j", "2", *chosen)

    def rebuild(self) -> bool:
        """What contains the library: the other tests are started with it in front."""
        tests = self.root / "build" / PRESET / "tests"
        linked = [*(tests / "unit").glob("unit_*"), *(tests / "fuzz").glob("fuzz_*")]
        return self.build("hakmem_shared", *(path.name for path in linked if path.is_file()))

    def killer(self) -> str:
        """The first test that fails; empty: there is none."""
        for chosen in TESTS:
            done = subprocess.run(
                [
                    *("ctest", "--test-dir", f"build/{PRESET}", "--stop-on-failure", "-j", "2"),
                    *("-LE", "^(long|programs)$", "--no-tests=error", *chosen),
                ],
                cwd=self.root,
                capture_output=True,
                text=True,
                errors="replace",
                preexec_fn=limit_memory,
            )
            if done.returncode != 0:
                failed = re.findall(r"^\s*\d+ - (\S+) \((.+)\)$", done.stdout, re.MULTILINE)
                return " ".join(failed[0]) if failed else f"ctest {' '.join(chosen)}"
        return ""

    def tried(self, mutant: Mutant) -> Mutant:
        began = time.monotonic()
        path = self.root / mutant.file
        original = path.read_text()
        lines = original.splitlines(keepends=True)
        lines[mutant.line - 1] = lines[mutant.line - 1].replace(mutant.before, mutant.after)
        path.write_text("".join(lines))
        try:
            if not self.rebuild():
                mutant.outcome = "invalid"
            else:
                mutant.killer = self.killer()
                mutant.outcome = "killed" if mutant.killer else "survived"
        finally:
            path.write_text(original)
        mutant.seconds = time.monotonic() - began
        return mutant


def report(mutants: list[Mutant]) -> None:
    valid = [m for m in mutants if m.outcome != "invalid"]
    killed = sum(m.outcome == "killed" for m in valid)
    share = 100 * killed / len(valid) if valid else 0.0
    print(f"{killed} of {len(valid)} mutants killed: {share:.0f} %")
    for mutant in valid:
        if mutant.outcome == "survived":
            print(f"survived: {mutant.file}:{mutant.line}: {mutant.mistake}")
            print(f"    {mutant.before}\n    {mutant.after}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=100, help="that compile (100)")
    parser.add_argument("--seed", type=int, default=1, help="of the places (1)")
    parser.add_argument("--folder", action="append", choices=FOLDERS, help="of src/, only this")
    parser.add_argument("--only", default="", metavar="REGEX", help="files of src/ like that")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin none after these")
    parser.add_argument("--seconds", type=int, default=60, help="a test may take (60)")
    parser.add_argument("--scratch", type=Path, help="a folder for the copy, which is kept")
    parser.add_argument("--json", type=Path, help="also write the mutants there")
    chosen = parser.parse_args()
    places = candidates(ROOT, tuple(chosen.folder or FOLDERS))
    places = [place for place in places if re.search(chosen.only, place.file)]
    if not places:
        parser.error(f"--only {chosen.only!r}: no file of {', '.join(FOLDERS)} is like that")
    random.Random(chosen.seed).shuffle(places)
    end = time.monotonic() + chosen.minutes * 60
    done: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="hakmem-mutants-") as scratch:
        clone = Clone(chosen.scratch or Path(scratch), chosen.seconds)
        for place in places:
            valid = sum(m.outcome != "invalid" for m in done)
            if valid >= chosen.mutants or time.monotonic() > end:
                break
            done.append(clone.tried(place))
            m = done[-1]
            print(f"{m.outcome} {m.file}:{m.line} {m.mistake} {m.killer}", file=sys.stderr)
            if chosen.json:
                chosen.json.write_text(json.dumps([asdict(m) for m in done], indent=2))
    report(done)
    return 0


if __name__ == "__main__":
    os.environ.pop("HAKMEM_CONF", None)
    sys.exit(main())
