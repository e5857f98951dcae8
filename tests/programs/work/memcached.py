"""Four connections store, grow, count and read back items of many sizes."""

import hashlib
import pathlib
import socket
import subprocess
import threading
import time


def connect(path: str) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    return link


def body(key: int) -> bytes:
    return hashlib.sha256(str(key).encode()).hexdigest().encode() * (key % 200 + 1)


def load(path: str, first: int, digests: list[str]) -> None:
    """Stores every fourth key and reads it back, one command per answer."""
    digest = hashlib.sha256()
    with connect(path) as link, link.makefile("rb") as answers:

        def ask(command: bytes) -> bytes:
            link.sendall(command)
            return answers.readline()

        for key in range(first, 6000, 4):
            data = body(key)
            digest.update(ask(b"set k%d 0 0 %d\r\n%s\r\n" % (key, len(data), data)))
            digest.update(ask(b"append k%d 0 0 3\r\nend\r\n" % key))
            if key % 5 == 0:
                digest.update(ask(b"delete k%d\r\n" % key))
        for key in range(first, 6000, 4):
            head = ask(b"get k%d\r\n" % key)
            digest.update(head)
            if head != b"END\r\n":
                digest.update(answers.read(int(head.split()[3]) + 2) + answers.readline())
    digests[first] = digest.hexdigest()


def wait_for(path: str, server: subprocess.Popen) -> None:
    while server.poll() is None:
        try:
            connect(path).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("memcached ended early")


def main() -> None:
    path = str(pathlib.Path("socket").absolute())
    with pathlib.Path("server.log").open("wb") as log:
        server = subprocess.Popen(
            ["memcached", "-s", path, "-m", "256", "-t", "4", "-u", "root"], stdout=log, stderr=log
        )
    wait_for(path, server)
    digests = [""] * 4
    threads = [threading.Thread(target=load, args=(path, n, digests)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    maps = pathlib.Path(f"/proc/{server.pid}/maps").read_text()
    pathlib.Path("mapped/memcached").write_text(maps)
    print("\n".join(digests))
    server.terminate()
    print(server.wait())


main()
