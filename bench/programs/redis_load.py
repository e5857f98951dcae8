"""Measures redis-server: a benchmark load on all types, then known data, checked, then deletion.

redis_load.py REQUESTS KEYS, in an empty folder. REQUESTS is per kind of command of the benchmark.
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import driving

KINDS = ("set", "get", "incr", "lpush", "rpush", "lpop", "sadd", "hset", "spop", "zadd", "mset")
RANGE = 40_000
BATCH = 500
READY = "ready to accept connections"


class Client:
    """A connection that sends commands in batches and reads every answer."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.answers = self.socket.makefile("rb")

    def call(self, *words: str) -> object:
        self.socket.sendall(encoded(words))
        return self.answer()

    def answer(self) -> object:
        line = self.answers.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.answers.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        driving.fail(f"redis answered {line!r}")

    def send_all(self, batches: list[tuple[bytes, int]]) -> None:
        for data, answers in batches:
            self.socket.sendall(data)
            for _ in range(answers):
                self.answer()


def encoded(words: tuple[str, ...]) -> bytes:
    parts = [f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]
    return "".join(parts).encode()


def batches(commands: list[tuple[str, ...]]) -> list[tuple[bytes, int]]:
    """The commands as bytes, several at a time; made before the clock runs."""
    parts = [commands[at : at + BATCH] for at in range(0, len(commands), BATCH)]
    return [(b"".join(map(encoded, part)), len(part)) for part in parts]


def value(key: int) -> str:
    return f"{key * 7919 % 1009}-" * (key % 23 + 1)


def known_data(keys: int) -> list[tuple[str, ...]]:
    """Writes, growth and deletions whose outcome is known: see `expected`."""
    commands: list[tuple[str, ...]] = []
    for key in range(keys):
        commands.append(("SET", f"known:{key}", value(key)))
        commands.append(("HSET", f"hash:{key % 300}", f"field{key}", value(key)))
        commands.append(("RPUSH", f"list:{key % 200}", value(key)))
    commands += [("APPEND", f"known:{key}", "+" * 200) for key in range(0, keys, 2)]
    commands += [("DEL", f"known:{key}") for key in range(0, keys, 3)]
    return commands


def expected(key: int) -> str | None:
    if key % 3 == 0:
        return None
    return value(key) + ("+" * 200 if key % 2 == 0 else "")


def check(client: Client, keys: int) -> None:
    for first in range(0, keys, BATCH):
        chosen = range(first, min(first + BATCH, keys))
        if client.call("MGET", *(f"known:{key}" for key in chosen)) != list(map(expected, chosen)):
            driving.fail(f"redis lost or changed a value among known:{first} and those after it")
    fields = sum(int(str(client.call("HLEN", f"hash:{number}"))) for number in range(300))
    items = sum(int(str(client.call("LLEN", f"list:{number}"))) for number in range(200))
    if (fields, items) != (keys, keys):
        driving.fail(f"redis holds {fields} fields and {items} items instead of {keys} each")


def benchmark(path: str, requests: int) -> int:
    command = [
        *("redis-benchmark", "-s", path, "-q", "--csv", "-n", str(requests), "-r", str(RANGE)),
        *("-d", "200", "-P", "16", "-c", "16", "-t", ",".join(KINDS)),
    ]
    said = driving.run(command, "redis-benchmark")
    kinds = len(said.strip().splitlines()) - 1
    if kinds != len(KINDS):
        driving.fail(f"redis-benchmark reported {kinds} kinds of command, not {len(KINDS)}")
    return kinds * requests


def measure(requests: int, keys: int) -> None:
    path = str(Path("redis.socket").resolve())
    server = driving.Server(
        [
            *("redis-server", "--port", "0", "--unixsocket", path, "--save", ""),
            *("--appendonly", "no", "--dir", str(Path.cwd())),
        ],
        Path("server.log"),
        driving.preload(),
    )
    try:
        server.wait_until(lambda: READY in server.log.read_text(errors="replace"))
        server.check_library()
        client, commands = Client(path), known_data(keys)
        prepared = batches(commands)
        begun = time.monotonic()
        done = benchmark(path, requests)
        client.send_all(prepared)
        elapsed = time.monotonic() - begun
        check(client, keys)
        peak = server.status("VmHWM")
        client.call("FLUSHALL", "SYNC")
        emptied = server.status("VmRSS")
        costs = server.end()
    finally:
        if server.process.returncode is None:
            server.process.kill()
    driving.report(
        {
            "ops": done + len(commands),
            "time_s": elapsed,
            "peak_rss_kib": peak,
            "rss_end_kib": emptied,
            **costs,
        }
    )


if __name__ == "__main__":
    measure(int(sys.argv[1]), int(sys.argv[2]))
