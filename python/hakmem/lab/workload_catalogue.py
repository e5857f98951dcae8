"""Which real programs are measured, what each is made to do, and what that can and cannot show."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from hakmem.errors import HakmemError
from hakmem.jobs import template_source
from hakmem.lab import workload_inputs as inputs

# Only the distribution's own programs: what a user has put elsewhere is not known to be the same.
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SERVER_FOLDERS = ("usr/lib/postgresql/*/bin",)
# The folder in a run's own whose content is its result, with what it prints.
OUTPUT = "out"

Prepare = Callable[[Path], None]


@dataclass(frozen=True)
class Plan:
    """How one program is run: started in a folder that has the files that `make` made."""

    command: tuple[str, ...]
    make: Prepare | None = None
    environment: dict[str, str] = field(default_factory=dict)
    self_preloading: bool = False


@dataclass(frozen=True)
class Workload:
    """A real program and what it is made to do; `full` and `quick` are sizes `plan` is given.

    Without `quick` it is not in the quick suite.
    """

    name: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    plan: Callable[["Place", int], Plan]
    full: int
    models: str
    cannot_show: str
    quick: int | None = None
    threads: int = 1
    unit: str = "run"

    def lacking(self) -> list[str]:
        return [program for program in self.programs if find_program(program) is None]


@dataclass(frozen=True)
class Place:
    """Where the scripts lie that the programs run."""

    folder: Path

    def script(self, name: str) -> str:
        return str(self.folder / name)


@cache
def search_path() -> str:
    hits = [str(hit) for pattern in SERVER_FOLDERS for hit in sorted(Path("/").glob(pattern))]
    return ":".join([SYSTEM_PATH, *reversed(hits)])


@cache
def find_program(name: str) -> str | None:
    return shutil.which(name, path=search_path())


def program(name: str) -> str:
    found = find_program(name)
    if found is None:
        raise HakmemError(f"{name} is not installed")
    return found


def driver(place: Place, script: str, *arguments: str) -> tuple[str, ...]:
    """A driver of a server, run by this same Python, without the user's settings for it."""
    return (sys.executable, "-E", "-s", "-B", place.script(script), *arguments)


def python_objects(place: Place, repetitions: int) -> Plan:
    return Plan(
        command=(
            *(program("python3"), "-S", "-s", "-P"),
            *(place.script("objects.py"), "document.json", str(repetitions)),
        ),
        make=partial(make_document, records=12_000),
        # Python's own small-object allocator would hide malloc from most of the work.
        environment={"PYTHONMALLOC": "malloc"},
    )


def make_document(folder: Path, records: int) -> None:
    inputs.write_document(folder / "document.json", records)


def sqlite_shop(place: Place, sales: int) -> Plan:
    parameter = f".parameter set $sales {sales}"
    script = place.script("shop.sql")
    return Plan((program("sqlite3"), "-batch", ":memory:", parameter, f".read '{script}'"))


def lua_tables(place: Place, rounds: int) -> Plan:
    return Plan((program("lua5.4"), place.script("tables.lua"), str(rounds)))


def perl_words(place: Place, lines: int) -> Plan:
    def make(folder: Path) -> None:
        inputs.write_text(folder / "text", lines)

    return Plan((program("perl"), place.script("words.pl"), "text", "1"), make)


def jq_people(place: Place, records: int) -> Plan:
    command = (program("jq"), "-c", "-f", place.script("people.jq"), "document.json")
    return Plan(command, partial(make_document, records=records))


def node_workers(place: Place, rounds: int) -> Plan:
    return Plan((program("node"), place.script("workers.js"), "2", str(rounds)))


def compiler(place: Place, types: int) -> Plan:
    """The compiler proper: measured alone, without driver, assembler and linker around it."""
    driver = program("g++")

    def make(folder: Path) -> None:
        source = folder / "templates.cpp"
        source.write_text(template_source(types), encoding="utf-8")
        preprocessed = str(folder / "templates.ii")
        _checked([driver, "-std=c++17", "-E", "-P", str(source), "-o", preprocessed])

    proper = _checked([driver, "-print-prog-name=cc1plus"]).strip()
    flags = ("-quiet", "-w", "-fpreprocessed", "-std=c++17", "-O1")
    return Plan((proper, *flags, "templates.ii", "-o", f"{OUTPUT}/templates.s"), make)


def _checked(command: list[str], folder: Path | None = None) -> str:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HakmemError(f"{command[0]} failed:\n{result.stderr.rstrip()}")
    return result.stdout


def ghostscript_pages(place: Place, pages: int) -> Plan:
    options = ("-q", "-dNOPAUSE", "-dBATCH", f"-dPages={pages}", "-sDEVICE=inkcov", "-r100")
    return Plan((program("gs"), *options, "-sOutputFile=-", place.script("pages.ps")))


def z3_queens(place: Place, size: int) -> Plan:
    def make(folder: Path) -> None:
        inputs.write_queens(folder / "queens.smt2", size)

    seeds = ("sat.random_seed=1", "smt.random_seed=1")
    return Plan((program("z3"), "-smt2", *seeds, "queens.smt2"), make)


def zstd_threads(place: Place, lines: int) -> Plan:
    def make(folder: Path) -> None:
        inputs.write_text(folder / "text", lines)

    command = (program("zstd"), "-q", "-T2", "-9", "-B1M", "-c", "text")
    return Plan((*command, "-o", f"{OUTPUT}/text.zst"), make)


def redis_load(place: Place, requests: int) -> Plan:
    script = "redis_load.py"
    command = driver(place, script, str(requests), str(requests // 2))
    return Plan(command, self_preloading=True)


def postgres_load(place: Place, transactions: int) -> Plan:
    def make(folder: Path) -> None:
        # In a folder of its own: the server leaves a log where it is started.
        with tempfile.TemporaryDirectory(prefix="hakmem-postgres-") as scratch:
            _checked([*driver(place, "postgres_load.py", "make", str(folder))], Path(scratch))

    command = driver(place, "postgres_load.py", "run", ".", str(transactions))
    return Plan(command, make, self_preloading=True)


WORKLOADS = (
    Workload(
        name="python3",
        packages=("python3",),
        programs=("python3",),
        plan=python_objects,
        full=3,
        quick=1,
        models="Python with PYTHONMALLOC=malloc reads a JSON document of 5 MB, makes objects, sets "
        "and dictionaries of it, groups and counts, writes it back and drops it all: millions of "
        "blocks under 200 B, most short-lived, a hundred thousand live at a time.",
        cannot_show="How Python runs by default, where its own allocator serves what is up to "
        "512 B, and malloc sees little but arenas of 256 KiB or more.",
    ),
    Workload(
        name="sqlite3",
        packages=("sqlite3",),
        programs=("sqlite3",),
        plan=sqlite_shop,
        full=300_000,
        quick=60_000,
        models="A database in memory: bulk load, indexes, joins, sorting, window functions, full "
        "text, JSON, updates and deletes. Strings and small structures of statements, page caches, "
        "and sorters that grow.",
        cannot_show="Files, journals and several connections. Pages have one size, and most of the "
        "time goes to comparing and copying rather than allocating.",
    ),
    Workload(
        name="lua",
        packages=("lua5.4",),
        programs=("lua5.4",),
        plan=lua_tables,
        full=6,
        quick=1,
        models="An interpreter whose every table, string and closure is a block from realloc, "
        "collected by a tracing collector: tables of records, sorting, concatenation, coroutines.",
        cannot_show="Threads, and blocks over a few KiB, of which there are hardly any.",
    ),
    Workload(
        name="perl",
        packages=("perl",),
        programs=("perl",),
        plan=perl_words,
        full=50_000,
        models="A script that splits, counts, indexes, sorts and rewrites the words of a text: two "
        "million strings and array elements, growing hashes, all alive until the end.",
        cannot_show="Long running: little is freed before the process ends.",
    ),
    Workload(
        name="jq",
        packages=("jq",),
        programs=("jq",),
        plan=jq_people,
        full=20_000,
        quick=4_000,
        models="A filter over an array of JSON records: every value is a counted block of its own, "
        "made and dropped as the filter backtracks.",
        cannot_show="Threads, and large blocks.",
    ),
    Workload(
        name="node",
        packages=("nodejs",),
        programs=("node",),
        plan=node_workers,
        full=8,
        threads=2,
        models="Two worker threads make objects, compress and expand strings and fill buffers of "
        "4 to 13 KiB, beside the engine's own helper threads. What malloc sees is what lies "
        "outside the collected heap: buffers, zlib, the compiler, messages.",
        cannot_show="JavaScript objects: the engine maps its heap itself.",
    ),
    Workload(
        name="g++",
        packages=("g++",),
        programs=("g++",),
        plan=compiler,
        full=1,
        models="The compiler proper (cc1plus -O1) on a file full of templates: a process that "
        "builds large graphs of small nodes, bit sets and hash tables, and frees little of them.",
        cannot_show="Much of it lies in the compiler's own pages and obstacks, whose blocks are "
        "large when malloc sees them.",
    ),
    Workload(
        name="ghostscript",
        packages=("ghostscript",),
        programs=("gs",),
        plan=ghostscript_pages,
        full=150,
        models="Pages of text, curves and images interpreted and rendered in bands: an interpreter "
        "with its own chunks and a rasteriser with buffers of tens of KiB, made anew per page.",
        cannot_show="Small blocks: they come out of the interpreter's own chunks.",
    ),
    Workload(
        name="z3",
        packages=("z3",),
        programs=("z3",),
        plan=z3_queens,
        full=26,
        quick=24,
        models="A theorem prover on integer constraints: search with backtracking over terms, "
        "clauses and tableaux, a million blocks of mixed sizes with irregular lifetimes.",
        cannot_show="How much of a solver's time malloc can be in general; another problem, or "
        "another version of it, takes another path.",
    ),
    Workload(
        name="zstd",
        packages=("zstd",),
        programs=("zstd",),
        plan=zstd_threads,
        full=200_000,
        threads=2,
        models="A compressor with two worker threads and a queue of jobs: tables and buffers of "
        "megabytes, taken once, used from other threads than the one that took them.",
        cannot_show="The speed of malloc, with some hundred calls in all; only what its large "
        "blocks cost in memory and page faults.",
    ),
    Workload(
        name="redis",
        packages=("redis-server", "redis-tools"),
        programs=("redis-server", "redis-benchmark"),
        plan=redis_load,
        full=30_000,
        quick=6_000,
        unit="command",
        models="A data store under redis-benchmark with 16 connections and pipelines of 16, on all "
        "of its types with values of 200 B, then known data, growth and deletion. Time and "
        "commands are those the clients see; memory and processor time are the server's alone, "
        "`rss_end_kib` what it holds after everything was deleted.",
        cannot_show="More processors than two: clients and server share them here. The network, "
        "for it runs over a unix socket.",
    ),
    Workload(
        name="postgres",
        packages=("postgresql",),
        programs=("postgres", "initdb", "pgbench", "psql"),
        plan=postgres_load,
        full=300,
        threads=4,
        unit="transaction",
        models="A database server of several processes: pgbench with four clients, then queries "
        "that sort, hash, rank, and build strings and JSON. Its memory contexts take blocks of "
        "8 KiB to 8 MiB from malloc and free them by the query. Peak memory is that of the process "
        "that runs the queries.",
        cannot_show="Small blocks, which the contexts cut from theirs, and threads.",
    ),
)
