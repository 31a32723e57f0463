"""A service that speaks SandboxFusion's and Piston's schema, and misbehaves as it is told.

It never runs anything: a good answer is made of a script. Loaded by path, see `conftest`.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RUNTIMES = [
    {"language": "python", "version": "3.9.1", "aliases": ["py"]},
    {"language": "python", "version": "3.12.0", "aliases": ["py", "python3"]},
    {"language": "bash", "version": "5.2.0", "aliases": []},
]


class Misbehaving:
    """A server whose `plan` says what to do with each request in turn; the last word stays.

    Words: `good`, a status such as `504`, `hang`, `drip`, `drip headers`, `cut`, `cut at once`,
    `truncated`, `no json`, `empty`, `429 with Retry-After`, or a dict or list that is sent as JSON.
    """

    def __init__(self) -> None:
        self.plan: list = ["good"]
        self.stdout = "42\n"
        self.seen: list[dict] = []
        self.times: list[float] = []
        self.connections = 0
        self.stopping = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                owner.connections += 1

            def do_GET(self) -> None:
                self.answer(owner.next_word(), RUNTIMES)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.seen.append({"path": self.path, "token": self.headers["Authorization"]})
                owner.seen[-1].update(json.loads(body))
                good = owner.fusion() if self.path == "/run_code" else owner.piston()
                self.answer(owner.next_word(), good)

            def answer(self, word, good) -> None:
                data = json.dumps(good).encode()
                if not isinstance(word, str):
                    data, word = json.dumps(word).encode(), "good"
                if word == "good":
                    return self.send(200, data)
                if word.isdigit():
                    return self.send(int(word), b'{"error": "told to"}')
                if word == "429 with Retry-After":
                    return self.send(429, b"{}", {"Retry-After": "1"})
                if word == "no json":
                    return self.send(200, b"<html>a proxy's login page</html>")
                if word == "empty":
                    return self.send(200, b"")
                if word == "truncated":
                    return self.send(200, data[: len(data) // 2])
                self.close_connection = True
                if word == "cut at once":
                    return None
                if word == "hang":
                    owner.stopping.wait(30)
                    return None
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                head += b"Content-Length: %d\r\n\r\n" % len(data)
                if word == "cut":
                    self.wfile.write(head + data[: len(data) // 2])
                    return None
                slow = head + data if word == "drip headers" else data
                if word == "drip":
                    self.wfile.write(head)
                for byte in slow:
                    if owner.stopping.wait(0.05):
                        return None
                    self.wfile.write(bytes((byte,)))
                return None

            def send(self, status: int, data: bytes, headers=None) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments) -> None:
                return None

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, address) -> None:
                return None  # clients hang up; that is the point

        self.http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def next_word(self):
        self.times.append(time.monotonic())
        return self.plan.pop(0) if len(self.plan) > 1 else self.plan[0]

    def fusion(self) -> dict:
        run = {"status": "Finished", "execution_time": 0.1, "return_code": 0}
        run |= {"stdout": self.stdout, "stderr": ""}
        return {
            "status": "Success", "message": "", "compile_result": None, "run_result": run,
            "executor_pod_name": None, "files": {},
        }  # fmt: skip

    def piston(self) -> dict:
        run = {"stdout": self.stdout, "stderr": "", "output": self.stdout, "code": 0}
        return {"language": "python", "version": "3.12.0", "run": {**run, "signal": None}}

    def close(self) -> None:
        self.stopping.set()
        self.http.shutdown()
        self.http.server_close()
