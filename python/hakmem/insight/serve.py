"""Metrics over HTTP, by the official client's server."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.exposition import make_wsgi_app, start_wsgi_server

from hakmem.errors import HakmemError
from hakmem.insight.metrics import Look, registry
from hakmem.terminal import say

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LOOPBACK = "127.0.0.1"
PORT_MAX = 65535
PATHS = ("/metrics", "/")


def address_of(text: str, remote: bool) -> tuple[str, int]:
    """[ADDRESS:]PORT; other than loopback only if `remote` says so."""
    host, _, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= len(str(PORT_MAX))
    if not is_number or int(port) > PORT_MAX:
        raise HakmemError(f"--listen wants [ADDRESS:]PORT such as 9177, not '{text}'")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HakmemError(f"--listen: no such address '{host}': {error}") from None
    address = str(found[0][4][0])
    if not remote and not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        raise HakmemError(
            f"--listen {text}: everyone who reaches {address} could read these figures; "
            "add --allow-remote if they may"
        )
    return address, int(port)


def only_at_its_paths(metrics: WSGIApplication) -> WSGIApplication:
    """Who asks for something else is not to take the metrics for it."""

    def answer(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environment["PATH_INFO"] in PATHS:
            return metrics(environment, start)
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"The metrics are at /metrics\n"]

    return answer


def serve(look: Look, address: tuple[str, int]) -> None:
    """Until interrupted."""
    host, port = address
    metrics = registry(look)
    try:
        server, thread = start_wsgi_server(port, host, metrics)
    except OSError as error:
        raise HakmemError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    server.set_app(only_at_its_paths(make_wsgi_app(metrics)))
    shown = f"[{host}]" if ":" in host else host
    say(f"serving http://{shown}:{server.server_port}/metrics")
    try:
        thread.join()
    finally:
        server.shutdown()
        server.server_close()
