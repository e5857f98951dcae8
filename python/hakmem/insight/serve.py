"""Metrics over HTTP, by the official client's server."""

import ipaddress
import socket

from prometheus_client.exposition import start_wsgi_server

from hakmem.errors import HakmemError
from hakmem.insight.metrics import Look, registry
from hakmem.terminal import say

LOOPBACK = "127.0.0.1"
PORT_MAX = 65535


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


def serve(look: Look, address: tuple[str, int]) -> None:
    """Until interrupted."""
    host, port = address
    try:
        server, thread = start_wsgi_server(port, host, registry(look))
    except OSError as error:
        raise HakmemError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    shown = f"[{host}]" if ":" in host else host
    say(f"serving http://{shown}:{server.server_port}/metrics")
    try:
        thread.join()
    finally:
        server.shutdown()
        server.server_close()
