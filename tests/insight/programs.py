"""Real programs that build up something in memory and then wait, each until its input ends."""

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from hakmem.jobs import template_source

# Only the distribution's own programs: what a user has put elsewhere is not known to be the same.
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
MISSING = 77
READY = "ready"
TIMEOUT_S = 240
POLL_S = 0.02


class MissingError(Exception):
    """What the test needs and is not there."""


class NotReadyError(Exception):
    """The program ended, or took too long, before it could be looked at."""


@dataclass(frozen=True)
class Speaker:
    """A program that says `ready` on its output and then waits for its input to go on."""

    program: str
    arguments: tuple[str, ...]
    text: str = ""  # on its input
    environment: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def running(self, library: Path, folder: Path) -> Iterator[tuple[int, str]]:
        command = [find(self.program), *self.arguments]
        with started(command, library, folder, self.environment) as child:
            assert child.stdin is not None
            child.stdin.write(self.text)
            child.stdin.flush()
            yield child.pid, until_ready(child)


@dataclass(frozen=True)
class Server:
    """A program that listens on a socket, which `fill` is given."""

    program: str
    arguments: tuple[str, ...]
    fill: Callable[[socket.socket], None]
    make: Callable[[Path], None] | None = None

    @contextmanager
    def running(self, library: Path, folder: Path) -> Iterator[tuple[int, str]]:
        if self.make is not None:
            self.make(folder)
        command = [find(self.program), *self.arguments]
        with (
            started(command, library, folder, {}) as child,
            connected(child, folder / "socket") as connection,
        ):
            self.fill(connection)
            yield child.pid, ""


@dataclass(frozen=True)
class Stopped:
    """A program without a place to wait: it is stopped when it has grown."""

    program: str
    proper: str  # what it is a driver of
    arguments: tuple[str, ...]
    make: Callable[[Path], None]
    resident: int

    @contextmanager
    def running(self, library: Path, folder: Path) -> Iterator[tuple[int, str]]:
        self.make(folder)
        asked = [find(self.program), f"-print-prog-name={self.proper}"]
        proper = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        with started([proper, *self.arguments], library, folder, {}) as child:
            wait_until(child, lambda: resident(child.pid) >= self.resident)
            child.send_signal(signal.SIGSTOP)
            yield child.pid, ""


Program = Speaker | Server | Stopped


def parser_for(description: str | None) -> argparse.ArgumentParser:
    """Of a test that runs programs with the library."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", type=Path, required=True, help="the library to preload")
    return parser


def status_of(test: Callable[[], list[str]]) -> int:
    """Of a test that names addresses, and gives its complaints."""
    try:
        if find_spec("symbolic") is None:
            raise MissingError("the Python packages of the extra 'insight': ./hakmem setup")
        found = test()
    except MissingError as error:
        print(f"skipped, what is missing: {error}")
        return MISSING
    for complaint in found:
        print(f"FAILED: {complaint}")
    return 1 if found else 0


def find(name: str) -> str:
    found = shutil.which(name, path=SYSTEM_PATH)
    if found is None:
        raise FileNotFoundError(name)
    return found


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def started(
    command: list[str], library: Path, folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    own = {
        "PATH": SYSTEM_PATH,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C.UTF-8",
        "LD_PRELOAD": str(library),
    }
    kept = {name: value for name, value in os.environ.items() if name.startswith("HAKMEM_")}
    pipe = subprocess.PIPE
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            command,
            cwd=folder,
            env=own | kept | environment,
            stdin=pipe,
            stdout=pipe,
            stderr=errors,
            text=True,
        ) as child,
    ):
        try:
            yield child
        finally:
            child.kill()


def until_ready(child: subprocess.Popen[str]) -> str:
    """What it said before it was ready."""
    assert child.stdout is not None
    said = ""
    for line in child.stdout:
        if READY in line:
            return said
        said += line
    raise NotReadyError(f"it ended with status {child.wait()}, having said: {said[-500:]}")


def wait_until(child: subprocess.Popen[str], holds: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        if child.poll() is not None:
            raise NotReadyError(f"it ended with status {child.returncode}")
        if time.monotonic() > end:
            raise NotReadyError(f"not ready after {TIMEOUT_S} s")
        time.sleep(POLL_S)


@contextmanager
def connected(child: subprocess.Popen[str], path: Path) -> Iterator[socket.socket]:
    def try_to() -> bool:
        try:
            connection.connect(str(path))
        except OSError:
            return False
        return True

    with socket.socket(socket.AF_UNIX) as connection:
        wait_until(child, try_to)
        yield connection


def receive(connection: socket.socket, pattern: bytes) -> None:
    got = b""
    while not re.search(pattern, got):
        more = connection.recv(1 << 16)
        if not more:
            raise NotReadyError(f"it closed the connection, having said: {got[-500:]!r}")
        got += more


# What each one does.

PYTHON = """
import sys
rows = [{"key": i, "text": str(i) * 3, "list": [i] * 4} for i in range(60000)]
del rows[::3]
buffers = [bytearray(n * 9000) for n in range(60)]
large = bytearray(20_000_000)
print("ready", flush=True)
sys.stdin.readline()
"""

LUA = """
local t = {}
for i = 1, 150000 do t[i] = {i, tostring(i) .. "x", {i}} end
for i = 1, 150000, 3 do t[i] = nil end
collectgarbage()
print("ready") io.stdout:flush() io.read()
"""

PERL = """
$| = 1;
my %h = map { $_ => { n => $_, s => "x" x ($_ % 90) } } 1 .. 60000;
delete $h{$_ * 4} for 1 .. 15000;
print "ready\\n"; <STDIN>;
"""

RUBY = """
$stdout.sync = true
h = (1..80000).map { |i| ["key#{i}" * (i % 9), [i.to_s * 20]] }.to_h
h.delete_if { |_, v| v[0].size % 3 == 0 }
puts "ready"; gets
"""

PHP = """
$a = [];
for ($i = 0; $i < 150000; $i++) $a[] = ["n" => $i, "s" => str_repeat("x", $i % 70)];
for ($i = 0; $i < 150000; $i += 3) unset($a[$i]);
echo "ready\\n"; fgets(STDIN);
"""

NODE = """
const m = new Map();
for (let i = 0; i < 100000; i++) m.set("key" + i, { n: i, s: "x".repeat(i % 50) });
const buffers = Array.from({ length: 50 }, (_, i) => Buffer.alloc(i * 7000, 1));
console.log("ready"); process.stdin.resume();
"""

SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
insert into t select i, printf('%d-%d', i, i * 7919 % 1000), i * 1.5 from n;
create index i on t(b);
delete from t where a % 3 = 0;
-- Its own output waits in a buffer.
.shell echo ready
"""

JQ = '[range(120000) | {key: ., text: (tostring * 3)}] as $x | "ready", (input | $x | length)'

AWK = """BEGIN {
    for (i = 0; i < 200000; i++) t[i] = i "text" i * 3
    for (i = 0; i < 200000; i += 3) delete t[i]
    print "ready"; fflush(); getline
}"""

BASH = """
for ((i = 0; i < 40000; i++)); do a[i]="text $i $i $i"; done
for ((i = 0; i < 40000; i += 3)); do unset "a[i]"; done
echo ready; read -r
"""

TCL = """
for {set i 0} {$i < 120000} {incr i} { dict set d $i [list $i text$i [expr {$i * 2}]] }
for {set i 0} {$i < 120000} {incr i 3} { dict unset d $i }
puts ready; flush stdout
"""

POSTSCRIPT = """
/a 60000 array def
0 1 59999 { dup 30 mod 20 add string /s exch def a exch s put } for
/d 5000 dict def 0 1 4999 { dup 10 array d 3 1 roll put } for
(ready\\n) print flush
"""

SCHEME = """
(define t (make-hash-table))
(let loop ((i 0))
  (when (< i 60000) (hash-set! t i (make-string (modulo i 90) #\\x)) (loop (+ i 1))))
(display "ready\\n") (force-output) (read-char)
"""


def fill_redis(connection: socket.socket) -> None:
    script = (
        "for i = 1, 120000 do redis.call('SET', 'key:' .. i, string.rep('x', i % 150)) end "
        "for i = 1, 120000, 3 do redis.call('DEL', 'key:' .. i) end return 'done'"
    )
    connection.sendall(f'EVAL "{script}" 0\r\n'.encode())
    receive(connection, rb"done")


def fill_memcached(connection: socket.socket) -> None:
    for i in range(20000):
        size = i % 900
        connection.sendall(b"set key%d 0 0 %d noreply\r\n%s\r\n" % (i, size, b"x" * size))
    connection.sendall(b"version\r\n")
    receive(connection, rb"VERSION")


def ask_nginx(connection: socket.socket) -> None:
    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
    receive(connection, rb"200 OK")


def make_nginx(folder: Path) -> None:
    rows = "".join(f"  /path/{i} value{i};\n" for i in range(40000))
    (folder / "conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off; map_hash_max_size 65536;\n"
        f"map $uri $found {{ default none;\n{rows}}}\n"
        + "".join(f"{kind}_temp_path {folder};\n" for kind in ("client_body", "proxy", "fastcgi"))
        + "".join(f"{kind}_temp_path {folder};\n" for kind in ("uwsgi", "scgi"))
        + f"server {{ listen unix:{folder}/socket; return 200 $found; }} }}\n"
    )


def make_templates(folder: Path) -> None:
    source = folder / "templates.cpp"
    source.write_text(template_source(40))
    command = [find("g++"), "-std=c++17", "-E", "-P", str(source), "-o", "templates.ii"]
    subprocess.run(command, cwd=folder, check=True)


def _speaker(program: str, *arguments: str, text: str = "", **environment: str) -> Speaker:
    return Speaker(program, arguments, text, environment)


PROGRAMS: dict[str, Program] = {
    "python3": _speaker("python3", "-S", "-c", PYTHON, PYTHONMALLOC="malloc"),
    "lua": _speaker("lua5.4", "-e", LUA),
    "perl": _speaker("perl", "-e", PERL),
    "ruby": _speaker("ruby", "-e", RUBY),
    "php": _speaker("php", "-n", "-r", PHP, USE_ZEND_ALLOC="0"),
    "node": _speaker("node", "-e", NODE),
    "sqlite3": _speaker("sqlite3", "-batch", ":memory:", text=SQL),
    "jq": _speaker("jq", "-n", "--unbuffered", JQ),
    "gawk": _speaker("gawk", AWK),
    "bash": _speaker("bash", "-c", BASH),
    "tcl": _speaker("tclsh", text=TCL),
    "ghostscript": _speaker("gs", "-q", "-dNODISPLAY", "-dNOPROMPT", text=POSTSCRIPT),
    "guile": _speaker("guile", "--no-auto-compile", "-c", SCHEME),
    "redis": Server(
        "redis-server",
        ("--port", "0", "--unixsocket", "socket", "--save", ""),
        fill_redis,
    ),
    "memcached": Server("memcached", ("-s", "socket", "-u", "root", "-m", "256"), fill_memcached),
    "nginx": Server("nginx", ("-p", ".", "-e", "stderr", "-c", "conf"), ask_nginx, make_nginx),
    "g++": Stopped(
        "g++",
        "cc1plus",
        ("-quiet", "-w", "-fpreprocessed", "-std=c++17", "templates.ii", "-o", "templates.s"),
        make_templates,
        resident=80 << 20,
    ),
}
