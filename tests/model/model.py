"""Builds the model checker and its scenarios from the library's sources, and runs them.

  model.py check BUILD_DIR [SCENARIO...]   explores the scenarios
  model.py mutate BUILD_DIR [FILE...]      weakens each memory order in turn and says which scenario
                                           notices; status 1 if one is neither noticed nor accounted
                                           for in its source; FILE:FUNCTION: of that function only

Exit status 77: there is no cargo.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SKIPPED = 77
CANNOT_RUN = 2  # of the checker: a module that is none, a scenario that is not there
SCENARIO_LIMIT = 120  # seconds of a scenario of a mutant: one that never ends was noticed as well

# The library's sources as they are; those that scenarios include are not among them.
SOURCES = [
    "os/lock.c", "heap/remote.c", "heap/registry.c", "heap/fork.c", "heap/heap.c",
    "heap/fresh.c", "heap/capacity.c", "heap/refill.c", "heap/shared.c", "heap/surplus.c",
    "heap/slots.c", "heap/show.c", "heap/explicit.c", "heap/lease.c", "region/free_map.c",
    "region/arrays.c", "slab/row.c", "slab/slab.c", "live/live.c",
]  # fmt: skip
FLAGS = [
    "-std=gnu11", "-O1", "-g", "-fPIC", "-fvisibility=hidden", "-ffunction-sections",
    "-fdata-sections", "-DHAK_INTERPOSE=0", "-include", "model.h", "-Wall", "-Wno-tsan",
    "-Wno-unknown-warning-option",
]  # fmt: skip

# Where the orders of the concurrent core stand.
MUTATED = [
    "os/lock.h", "os/lock.c", "heap/remote.c", "heap/registry.c", "heap/registry.h",
    "heap/fork.c", "heap/heap.h", "heap/heap.c", "heap/show.c", "super/super.c",
    "heap/lease.c", "heap/lease.h", "region/region.c", "region/region.h", "slab/slab.c",
    "live/live.h", "live/live.c", "mind/log.c", "heap/surplus.c",
]  # fmt: skip

# The scenarios that are asked first.
NEAREST = {
    "os": "lock", "super": "super", "region": "region", "slab": "live", "live": "live",
    "mind": "mind", "heap/registry.c": "registry", "heap/registry.h": "shared",
    "heap/fork.c": "fork", "heap/remote.c": "orphan", "heap/lease.c": "lease",
    "heap/lease.h": "lease", "heap/surplus.c": "surplus",
    "heap/heap.h": "live", "heap/show.c": "live",
}  # fmt: skip

# What stands there, what takes its place, and how the table says it.
WEAKER = [
    (r"\bload_acquire\(", "load_relaxed(", "acquire", "relaxed"),
    (r"\bstore_release\(", "store_relaxed(", "release", "relaxed"),
    (r"\bexchange_acquire\(", "exchange_relaxed(", "acquire", "relaxed"),
    (r"\bexchange_release\(", "exchange_relaxed(", "release", "relaxed"),
    (r"\bexchange_acq_rel\(", "exchange_acquire(", "acq_rel", "acquire"),
    (r"\bexchange_acq_rel\(", "exchange_release(", "acq_rel", "release"),
    (r"\bcas_acquire\(", "cas_relaxed(", "acquire", "relaxed"),
    (r"\bcas_release\(", "cas_relaxed(", "release", "relaxed"),
    (r"\bcas_acq_rel\(", "cas_acquire(", "acq_rel", "acquire"),
    (r"\bcas_acq_rel\(", "cas_release(", "acq_rel", "release"),
    (r"\bcas_weak_acquire\(", "cas_weak_relaxed(", "acquire", "relaxed"),
    (r"\bcas_weak_release\(", "cas_weak_relaxed(", "release", "relaxed"),
    (r"\bcas_weak_acq_rel\(", "cas_weak_acquire(", "acq_rel", "acquire"),
    (r"\bcas_weak_acq_rel\(", "cas_weak_release(", "acq_rel", "release"),
    (r"\bor_release\(", "or_relaxed(", "release", "relaxed"),
    (r"\band_acquire\(", "and_relaxed(", "acquire", "relaxed"),
    (r"atomic_thread_fence\(memory_order_seq_cst\)", "atomic_thread_fence(memory_order_acq_rel)",
     "seq_cst fence", "acq_rel fence"),
    (r"atomic_thread_fence\(memory_order_release\)", "(void)0", "release fence", "none"),
    (r"\bplain_store_release\(", "plain_store_relaxed(", "release", "relaxed"),
]  # fmt: skip
# Helpers that only mutants use.
WEAK_HELPERS = """
#define exchange_relaxed(p, v) atomic_exchange_explicit((p), (v), memory_order_relaxed)
"""
# In a comment of the source at most so many lines above: why no scenario can notice.
ACCOUNTED = "model:"
ACCOUNTED_LINES = 4


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    function: str
    text: str  # the whole mutated file
    was: str
    weaker: str
    reason: str  # why it need not be noticed; empty: it must be


def run(command: list[str | Path], **options: object) -> None:
    """Runs a step of the build; what it printed is shown if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")


def build_checker(build: Path) -> Path:
    cargo = shutil.which("cargo")
    if cargo is None:
        print("skipped: no cargo (Debian: apt-get install cargo)")
        sys.exit(SKIPPED)
    target = build / "cargo"
    manifest = HERE / "Cargo.toml"
    run([cargo, "build", "--quiet", "--manifest-path", manifest, "--target-dir", target])
    return target / "debug" / "hakmem-model"


class Module:
    """The scenarios on a folder's sources. Only what reads a changed file is compiled again."""

    def __init__(self, sources: Path, build: Path) -> None:
        build.mkdir(parents=True, exist_ok=True)
        self.compiler = os.environ.get("CC", "cc")
        self.sources = sources
        self.path = build / "scenarios.so"
        inputs = [*sorted(HERE.glob("*.c")), *(sources / name for name in SOURCES)]
        self.objects = {build / f"{i.parent.name}_{i.stem}.o": i for i in inputs}
        self._compile(list(self.objects))

    def changed(self, file: Path) -> None:
        self._compile(
            [o for o in self.objects if str(file) in o.with_suffix(".d").read_text().split()]
        )

    def _compile(self, objects: list[Path]) -> None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda o: run(self._command(o)), objects))
        link = ["-shared", "-Wl,-z,defs", "-Wl,--gc-sections", "-o"]
        run([self.compiler, *link, self.path, *self.objects])

    def _command(self, to: Path) -> list[str | Path]:
        source = self.objects[to]
        includes = [f"-I{HERE}", f"-I{self.sources}", f"-I{ROOT / 'include'}"]
        mode = "-fno-builtin" if source.name == "hooks.c" else "-fsanitize=thread"
        return [self.compiler, *FLAGS, *includes, mode, "-MMD", "-c", source, "-o", to]


def scenarios_of(checker: Path, module: Path) -> list[str]:
    return subprocess.run(
        [checker, module], capture_output=True, text=True, check=True
    ).stdout.split()


def check(build: Path, wanted: list[str]) -> int:
    checker = build_checker(build)
    module = Module(ROOT / "src", build / "module").path
    names = wanted or scenarios_of(checker, module)
    return subprocess.run([checker, module, *names]).returncode


# Mutants.


def function_at(lines: list[str], at: int) -> str:
    for line in reversed(lines[: at + 1]):
        if re.match(r"^[A-Za-z].*\(", line) and not line.rstrip().endswith(";"):
            found = re.search(r"(\w+)\(", line)
            if found:
                return found[1]
        if line.startswith("#define"):
            return line.split()[1].split("(")[0]
    return "?"


def reason_at(lines: list[str], at: int) -> str:
    above = " ".join(line.strip(" /*") for line in lines[max(0, at - ACCOUNTED_LINES) : at + 1])
    found = re.search(rf"{ACCOUNTED} (.*?)(?:\*/|$|\.)", above)
    return found[1] if found else ""


def mutants_of(file: str) -> list[Mutant]:
    text = (ROOT / "src" / file).read_text()
    lines = text.splitlines()
    mutants = []
    for pattern, replacement, was, weaker in WEAKER:
        for found in re.finditer(pattern, text):
            at = text.count("\n", 0, found.start())
            mutated = text[: found.start()] + replacement + text[found.end() :]
            mutants.append(
                Mutant(
                    file, at + 1, function_at(lines, at), mutated, was, weaker, reason_at(lines, at)
                )
            )
    return sorted(mutants, key=lambda m: (m.line, m.weaker))


def mutants_at(place: str) -> list[Mutant]:
    file, _, function = place.partition(":")
    return [m for m in mutants_of(file) if function in ("", m.function)]


def nearest_first(file: str, names: list[str]) -> list[str]:
    near = NEAREST.get(file) or NEAREST.get(file.split("/")[0], "")
    return sorted(names, key=lambda name: not name.startswith(near))


def noticed_by(checker: Path, module: Path, names: list[str]) -> str:
    """The scenario that fails; empty: none."""
    for name in names:
        try:
            result = subprocess.run(
                [checker, module, name], capture_output=True, timeout=SCENARIO_LIMIT
            )
        except subprocess.TimeoutExpired:
            return f"{name} (no end)"
        if result.returncode == CANNOT_RUN:
            sys.exit(result.stderr.decode())
        if result.returncode != 0:
            return name
    return ""


def mutate(build: Path, files: list[str]) -> int:
    checker = build_checker(build)
    sources = build / "src"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(ROOT / "src", sources)
    helpers = sources / "base" / "atomic.h"
    helpers.write_text(helpers.read_text().replace("\n#endif", f"{WEAK_HELPERS}\n#endif"))
    module = Module(sources, build / "mutant")
    names = scenarios_of(checker, module.path)
    failing = noticed_by(checker, module.path, names)
    if failing:
        sys.exit(f"nothing can be said of mutants: as the sources are, {failing} does not pass")
    mutants = [m for place in files or MUTATED for m in mutants_at(place)]
    if not mutants:
        sys.exit(
            f"no memory order in {' '.join(files)}: folder/file.c as in src/, or with :function"
        )
    open_ones = 0
    print("| where | order | weakened to | noticed by |")
    print("|---|---|---|---|", flush=True)
    for before, m in zip([None, *mutants], mutants, strict=False):
        if before is not None and before.file != m.file:
            shutil.copyfile(ROOT / "src" / before.file, sources / before.file)
            module.changed(sources / before.file)
        (sources / m.file).write_text(m.text)
        module.changed(sources / m.file)
        by = noticed_by(checker, module.path, nearest_first(m.file, names))
        open_ones += not by and not m.reason
        verdict = f"`{by}`" if by else f"no scenario: {m.reason or 'NOT ACCOUNTED FOR'}"
        print(
            f"| `{m.file}` {m.function}, {m.line} | {m.was} | {m.weaker} | {verdict} |", flush=True
        )
    print(f"\n{len(mutants)} mutants, {open_ones} neither noticed nor accounted for")
    return 1 if open_ones else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Model checks the concurrent core.")
    parser.add_argument("what", choices=["check", "mutate"])
    parser.add_argument("build", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    what = check if arguments.what == "check" else mutate
    return what(arguments.build, arguments.names)


if __name__ == "__main__":
    sys.exit(main())
