"""curl fetches, posts and uploads in parallel over HTTP to a small server on a unix socket."""

import hashlib
import http.server
import pathlib
import socketserver
import subprocess
import threading

FILES = 60


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with bytes that follow from the path, and with the digest of what was sent."""

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_args: object) -> None:
        pass

    def answer(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        number = int(self.path.rsplit("/", 1)[1])
        self.answer(hashlib.sha256(self.path.encode()).digest() * (number * number * 4 + 1))

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(hashlib.sha256(data).hexdigest().encode())

    do_PUT = do_POST


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


def curl(*args: str) -> str:
    command = ["curl", "-sS", "--no-progress-meter", "--fail", "--unix-socket", "socket", *args]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    with Server("socket", Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        curl("-Z", "--parallel-max", "6", f"http://localhost/[1-{FILES}]", "-o", "out/#1")
        big = pathlib.Path("out") / str(FILES)
        print(curl("-T", str(big), "http://localhost/put/1"))
        print(curl("--data-binary", f"@{big}", "http://localhost/post"))
        print(
            curl(
                "-F",
                "a=1",
                "--form-string",
                "b=two",
                "-H",
                "Expect:",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code} %{num_headers} %{method}",
                "http://localhost/form",
            )
        )
        urls = [f"url=http://localhost/{n % 9}\noutput=/dev/stdout" for n in range(300)]
        pathlib.Path("list").write_text("\n".join(urls))
        done = subprocess.run(
            ["curl", "-sS", "--unix-socket", "socket", "-K", "list"],
            check=True,
            stdout=subprocess.PIPE,
        )
        print(hashlib.sha256(done.stdout).hexdigest())
        server.shutdown()


main()
