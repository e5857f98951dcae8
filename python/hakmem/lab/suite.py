"""Reads the suite of benchmark programs, bench/suite.toml, into cases that are ready to run."""

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hakmem.clone import RELEASE, Clone
from hakmem.errors import HakmemError
from hakmem.lab.forms import read_toml
from hakmem.lab.model import Case

# What the build makes all benchmark programs with.
BUILD_TARGET = "benchmarks"
# Slow allocators are several times slower than the fast ones the durations are chosen for.
TIMEOUT_S = {"quick": 30.0, "full": 120.0}


@dataclass(frozen=True)
class Program:
    """A [program.NAME] table: what is true of every benchmark that runs it."""

    name: str
    unit: str
    models: str
    cannot_show: str


@dataclass(frozen=True)
class Benchmark:
    """A [[benchmark]] table. Arguments are written as in a shell, without quoting."""

    name: str
    program: Program
    threads: int
    arguments: tuple[str, ...]
    quick: tuple[str, ...] | None
    shorter: tuple[str, ...] | None
    precise: tuple[tuple[str, ...], ...]


def suite_file(clone: Clone) -> Path:
    return clone.root / "bench" / "suite.toml"


def load(clone: Clone, quick: bool = False) -> list[Case]:
    """The cases of the quick or the full suite, in the file's order."""
    benchmarks = [b for b in read(suite_file(clone)) if not quick or b.quick is not None]
    folder = clone.build_folder(RELEASE) / "bench"
    return [_case(benchmark, folder, quick) for benchmark in benchmarks]


def read(path: Path) -> list[Benchmark]:
    form = read_toml(path)
    programs = {
        name: _program(path, name, table) for name, table in form.get("program", {}).items()
    }
    benchmarks = [_benchmark(path, table, programs) for table in form.get("benchmark", [])]
    _refuse_twins(path, benchmarks)
    return benchmarks


def _case(benchmark: Benchmark, folder: Path, quick: bool) -> Case:
    arguments = benchmark.quick if quick and benchmark.quick is not None else benchmark.arguments
    program = benchmark.program
    return Case(
        name=benchmark.name,
        arguments=arguments,
        threads=benchmark.threads,
        unit=program.unit,
        models=program.models,
        cannot_show=program.cannot_show,
        command=(str(_executable(folder, program.name)), *arguments),
        timeout_s=TIMEOUT_S["quick" if quick else "full"],
        precise=benchmark.precise,
        lengths=_lengths(benchmark.quick or benchmark.shorter, benchmark.arguments),
    )


def _lengths(few: tuple[str, ...] | None, many: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return (few, many) if few else ()


def _executable(folder: Path, name: str) -> Path:
    path = folder / name
    if not os.access(path, os.X_OK):
        raise HakmemError(f"the benchmark program {path} is not built; run ./hakmem build")
    return path


def _program(path: Path, name: str, table: dict[str, Any]) -> Program:
    keys = [field.name for field in fields(Program) if field.name != "name"]
    _check_keys(path, f"program.{name}", table, set(keys), set(keys))
    return Program(name, *(_text(path, f"program.{name}", table, key) for key in keys))


def _benchmark(path: Path, table: dict[str, Any], programs: dict[str, Program]) -> Benchmark:
    where = f"benchmark '{table.get('name', '?')}'"
    keys = {field.name for field in fields(Benchmark)}
    _check_keys(path, where, table, keys, keys - {"quick", "shorter", "precise"})
    program = programs.get(_text(path, where, table, "program"))
    if program is None:
        raise HakmemError(f"{path}: {where} names a program '{table['program']}' without a table")
    threads = table["threads"]
    if not isinstance(threads, int) or threads < 1:
        raise HakmemError(f"{path}: {where}: threads is not a whole number above 0: {threads!r}")
    quick, shorter = (
        _words(path, where, table, key) if key in table else None for key in ("quick", "shorter")
    )
    return Benchmark(
        name=_text(path, where, table, "name"),
        program=program,
        threads=threads,
        arguments=_words(path, where, table, "arguments"),
        quick=quick,
        shorter=shorter,
        precise=_precise(path, where, table),
    )


def _precise(path: Path, where: str, table: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    lists = table.get("precise", [])
    if not isinstance(lists, list) or not all(isinstance(entry, str) for entry in lists):
        raise HakmemError(f"{path}: {where}: precise is not a list of texts: {lists!r}")
    if lists and len(lists) != 2:
        raise HakmemError(f"{path}: {where}: precise takes two entries, not {len(lists)}")
    return tuple(tuple(entry.split()) for entry in lists)


def _words(path: Path, where: str, table: dict[str, Any], key: str) -> tuple[str, ...]:
    return tuple(_text(path, where, table, key).split())


def _text(path: Path, where: str, table: dict[str, Any], key: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value.strip():
        raise HakmemError(f"{path}: {where}: {key} is not a text: {value!r}")
    return value.strip()


def _check_keys(
    path: Path, where: str, table: dict[str, Any], known: set[str], required: set[str]
) -> None:
    missing = required - table.keys()
    unknown = table.keys() - known
    if missing:
        raise HakmemError(f"{path}: {where} lacks {', '.join(sorted(missing))}")
    if unknown:
        raise HakmemError(f"{path}: {where} has unknown keys: {', '.join(sorted(unknown))}")


def _refuse_twins(path: Path, benchmarks: list[Benchmark]) -> None:
    names = [benchmark.name for benchmark in benchmarks]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise HakmemError(f"{path}: more than one benchmark is named {', '.join(twins)}")
