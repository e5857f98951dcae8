"""Measures PostgreSQL: short transactions of many clients, then queries that sort, hash and build.

postgres_load.py make FOLDER        makes the cluster that runs start from
postgres_load.py run FOLDER COUNT   measures; COUNT transactions per client

The server refuses to be root; started by root, it runs as the user `postgres`.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import driving

SERVER_USER = "postgres"
DATABASE_USER = "measure"
SCALE = 2
CLIENTS = 4

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "autovacuum": "off",
    "shared_buffers": "32MB",
    "work_mem": "64MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}

ROWS = 150_000
GROUPS = 97
QUERIES = f"""
CREATE TEMP TABLE t AS SELECT i, md5(i::text) AS h, i % {GROUPS} AS g
    FROM generate_series(1, {ROWS}) AS i;
ANALYZE t;
SELECT count(*), sum(n), md5(string_agg(m, ',' ORDER BY g)) FROM
    (SELECT g, count(*) AS n, md5(string_agg(h, ',' ORDER BY i)) AS m FROM t GROUP BY g) AS grouped;
SELECT sum(r) FROM (SELECT rank() OVER (PARTITION BY g ORDER BY h DESC) AS r FROM t) AS ranked;
SELECT count(DISTINCT h), count(DISTINCT substr(h, 1, 4)) FROM t;
SELECT md5(jsonb_agg(jsonb_build_object('h', h, 'i', i) ORDER BY i)::text) FROM t WHERE i < 40000;
SELECT sum(array_length(string_to_array(h || '-' || reverse(h), 'a'), 1)) FROM t;
"""


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def expected() -> list[str]:
    """The answers to the queries, worked out here."""
    hashes = {i: md5(str(i)) for i in range(1, ROWS + 1)}
    starts = [GROUPS, *range(1, GROUPS)]
    groups = [[hashes[i] for i in range(start, ROWS + 1, GROUPS)] for start in starts]
    objects = [{"h": text, "i": i} for i, text in hashes.items() if i < 40000]
    return [
        f"{GROUPS}|{ROWS}|{md5(','.join(md5(','.join(group)) for group in groups))}",
        str(sum(len(group) * (len(group) + 1) // 2 for group in groups)),
        f"{len(set(hashes.values()))}|{len({text[:4] for text in hashes.values()})}",
        md5(json.dumps(objects)),
        str(sum(2 * text.count("a") + 1 for text in hashes.values())),
    ]


EVIDENCE = r"""
SELECT pg_backend_pid() AS backend \gset
\setenv BACKEND :backend
\! cat /proc/$BACKEND/status >backend.status
"""


def account() -> dict[str, Any]:
    """Arguments that start a process as the server's user."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(SERVER_USER)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextmanager
def server_folder() -> Iterator[Path]:
    """A folder that the server's user may use; with a short name, for the socket in it."""
    folder = Path(tempfile.mkdtemp(prefix="hakmem-pg-"))
    try:
        more = account()
        if more:
            os.chown(folder, more["user"], more["group"])
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path, library: str) -> driving.Server:
    options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    command = ["postgres", "-D", str(folder / "cluster"), "-k", str(folder), *options]
    server = driving.Server(command, Path("server.log"), library, cwd=folder, **account())
    os.environ.update(PGHOST=str(folder), PGUSER=DATABASE_USER, PGDATABASE="postgres")
    server.wait_until(lambda: "ready to accept connections" in server.log.read_text())
    return server


def make(target: Path) -> None:
    with server_folder() as folder:
        command = ["initdb", "-D", str(folder / "cluster"), "-A", "trust", "-U", DATABASE_USER]
        driving.run([*command, "--no-sync", "-E", "UTF8"], "initdb", cwd=folder, **account())
        server = start(folder, driving.own_libc())
        driving.run(["pgbench", "-q", "-i", "-s", str(SCALE)], "pgbench -i")
        server.end(signal.SIGINT)
        driving.run(["cp", "-a", str(folder / "cluster"), str(target)], "cp")


def readable(library: str, folder: Path) -> str:
    """The library where the server's user can read it."""
    copies = []
    for part in library.split(":"):
        found = part if "/" in part else f"{os.environ['LD_LIBRARY_PATH'].split(':')[-1]}/{part}"
        copy = shutil.copy(found, folder)
        Path(copy).chmod(0o755)
        copies.append(str(copy))
    return ":".join(copies)


def check(said: str, transactions: int) -> None:
    history = driving.run(
        ["psql", "-XqAt", "-c", "SELECT count(*) FROM pgbench_history"], "psql"
    ).strip()
    if int(history) != transactions:
        driving.fail(f"{history} transactions are in the history instead of {transactions}")
    lines = said.split()
    if lines != expected():
        driving.fail(f"the queries gave {lines} instead of {expected()}")


def measure(source: Path, count: int) -> None:
    with server_folder() as folder:
        driving.run(["cp", "-a", str((source / "cluster").resolve()), str(folder)], "cp")
        server = start(folder, readable(driving.preload(), folder))
        try:
            server.check_library()
            begun = time.monotonic()
            load = ["pgbench", "-n", "--random-seed=7", "-M", "prepared", "-t", str(count)]
            driving.run([*load, "-c", str(CLIENTS)], "pgbench")
            psql = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1"]
            said = driving.run(psql, "psql", given=(QUERIES + EVIDENCE).encode())
            elapsed = time.monotonic() - begun
            check(said, count * CLIENTS)
            peak = driving.status_field(Path("backend.status").read_text(), "VmHWM")
            costs = server.end(signal.SIGINT)
        finally:
            if server.process.returncode is None:
                server.process.kill()
    figures = {"ops": count * CLIENTS + QUERIES.count(";"), "time_s": elapsed}
    driving.report(figures | {"peak_rss_kib": peak} | costs)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        measure(Path(sys.argv[2]), int(sys.argv[3]))
