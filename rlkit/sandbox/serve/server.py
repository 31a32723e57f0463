"""Server: programs of others, run in this machine's sandbox, over HTTP.

So that a class can share one machine, and so that a trainer on another computer, or on a system
where programs cannot be contained, has a place to run them.

    POST /v1/jobs          a whole job in, a verdict out (see `wire`); for backend="http://…"
    GET  /v1/report        what keeps a job apart here, as seen by probes
    POST /run_code         SandboxFusion's schema
    GET  /api/v2/runtimes, POST /api/v2/execute   Piston's schema
    GET  /health           whether it lives

It listens on this machine only, unless a token is set: then every request must carry it. Without
one, requests that come from a web page, or that call this machine by another name, are refused;
a browser would otherwise let any page run programs here.

Everything is bounded: connections, requests that wait (each address has a queue of its own, and
they take turns), the size of a request, the time it takes to arrive, and the limits that a job
may ask for. What does not fit is told so, with 429 and when to come again.

Left out on purpose: encryption. Put a proxy with a certificate in front to cross a network that
you do not trust.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotYet
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import rlkit
from rlkit.errors import UserError
from rlkit.sandbox import wire
from rlkit.sandbox.artefacts import Artefacts
from rlkit.sandbox.backends.base import Backend, InfrastructureFault, Outcome
from rlkit.sandbox.backends.remote_io import Program
from rlkit.sandbox.dispatch import run_job, weight
from rlkit.sandbox.probe import relaxed
from rlkit.sandbox.sandbox import available_processors
from rlkit.sandbox.scheduler import Closed, Full, Scheduler
from rlkit.sandbox.serve import fusion_api, piston_api
from rlkit.sandbox.serve.answer import Refusal, Request, within
from rlkit.sandbox.serve.programs import run_program
from rlkit.sandbox.types import CompileReport, Level, Limits
from rlkit.sandbox.unavailable import refusal

#: The highest limits that a job may ask for.
CEILING = Limits(
    wall_s=120.0,
    cpu_s=120.0,
    memory_mb=4096,
    processes=64,
    files_mb=256,
    scratch_mb=512,
    output_kb=4096,
    result_kb=8192,
    open_files=256,
)

#: What a whole program may use that asks for nothing: as much as such services usually give.
USUAL = Limits(
    wall_s=10.0,
    cpu_s=10.0,
    memory_mb=1024,
    processes=8,
    files_mb=16,
    scratch_mb=64,
    output_kb=1024,
)

#: Longest request, in bytes.
MOST_BYTES = 32 << 20

#: A request must have arrived after so many seconds, and a silent connection is closed.
ARRIVAL_S = 30.0

#: How often a waiting request looks whether its client is still there.
LOOK_S = 0.05


class Server:
    """Serves jobs until it is stopped.

    Args:
        host: address to listen on; any but this machine's own needs a token.
        port: 0 takes a free one, see `address`.
        token: what every request must carry as `Authorization: Bearer …`.
        workers: jobs at a time; the processors of this machine when None.
        queue: requests that may wait beside those that run.
        connections: that may be open.
        ceiling: highest limits that a job may ask for.
        backend: what runs the jobs; this machine's own zygotes when None.
        allow_unsafe: serve even where programs cannot be kept apart.

    Raises:
        UserError: the address cannot be had, or is no address of this machine without a token.
        SandboxUnavailable: programs cannot be kept apart here.

    >>> with Server(port=0, workers=1) as server:
    ...     server.address.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8080,
        *,
        token: str | None = None,
        workers: int | None = None,
        queue: int = 64,
        connections: int = 256,
        ceiling: Limits = CEILING,
        backend: Backend | None = None,
        allow_unsafe: bool = False,
    ) -> None:
        if token is not None and len(token) < 16:
            raise UserError("the token is shorter than 16 characters; take a longer one")
        if token is None and not is_loopback(host):
            raise UserError(
                f"{host!r} can be reached from other machines, and without a token everybody there "
                "could run programs here; set one with --token, or stay on 127.0.0.1"
            )
        for name, value in (("queue", queue), ("connections", connections)):
            if not isinstance(value, int) or value < 1:
                raise UserError(f"{name}={value!r}; give a whole number from 1 up")
        self.workers = available_processors() if workers is None else workers
        if not isinstance(self.workers, int) or self.workers < 1:
            raise UserError(f"workers={workers!r}; give a number of jobs at a time, 1 or more")
        self.token = token
        self.ceiling = ceiling
        self._owned = backend is None
        if backend is None:
            from rlkit.sandbox.backends.local import LocalBackend

            backend = LocalBackend(self.workers)
        self.backend = backend
        self._http: _Http | None = None
        try:
            self.report = backend.report()
            if self.report.level < Level.CONFINED and not allow_unsafe:
                raise refusal(self.report, Level.CONFINED, backend.name)
            # Whole programs may start others, as on such services, where that can be contained.
            self.usual = USUAL
            if relaxed(self.report, USUAL).level < min(self.report.level, Level.CONFINED):
                self.usual = replace(USUAL, processes=0)
            self.artefacts = Artefacts()
            self.scheduler = Scheduler(self.workers, queue, "rlkit-serve")
            self._http = _Http(self, host, port, connections)
        except InfrastructureFault as fault:
            self._end()
            raise UserError(f"the sandbox does not work here: {fault}") from None
        except BaseException:
            self._end()
            raise
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="rlkit-serve-accept", daemon=True
        )
        self.stopping = False
        self._lock = threading.Lock()
        self._counted = {"served": 0, "refused": 0, "faults": 0, "gone": 0}
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it is reached, for example `http://127.0.0.1:8080`."""
        host, port = self._http.server_address[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def stats(self) -> dict[str, int]:
        """What it did so far, and what waits and runs now."""
        with self._lock:
            counted = dict(self._counted)
        return {**counted, "waiting": self.scheduler.waiting, "running": self.scheduler.running}

    def stop(self, grace_s: float = 10.0) -> None:
        """Take no more requests, let those that run come to their end, and end; may be repeated.

        Args:
            grace_s: seconds that running requests are given; then their jobs are stopped.
        """
        with self._lock:
            if self.stopping:
                return
            self.stopping = True
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and self._http.busy:
            time.sleep(0.02)
        self.scheduler.close()
        self._http.hang_up()
        self._end()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop(grace_s=2.0)

    def _end(self) -> None:
        if self._owned:
            self.backend.close()

    # -- endpoints ---------------------------------------------------------------------------

    def answer(self, method: str, path: str, request: Request, group: str) -> tuple[str, bytes]:
        """Content type and body of the answer to a request.

        Raises:
            Refusal: it is not served.
        """
        handlers: dict[tuple[str, str], Callable[[Request, str], tuple[str, bytes]]] = {
            ("GET", "/health"): self._health,
            ("GET", "/v1/report"): self._report,
            ("POST", "/v1/jobs"): self._job,
            ("POST", "/run_code"): self._run_code,
            ("GET", "/api/v2/runtimes"): lambda *_: _json(piston_api.runtimes()),
            ("POST", "/api/v2/execute"): self._execute,
        }
        handler = handlers.get((method, path))
        if handler is None:
            known = {place for _, place in handlers}
            raise Refusal(405 if path in known else 404, f"there is no {method} {path}"[:200])
        return handler(request, group)

    def count(self, what: str) -> None:
        """Count something that happened, for `stats`."""
        with self._lock:
            self._counted[what] += 1

    def _health(self, request: Request, group: str) -> tuple[str, bytes]:
        about = {"ok": True, "version": rlkit.__version__, "level": self.report.level.name}
        return _json({**about, "workers": self.workers, **self.stats()})

    def _report(self, request: Request, group: str) -> tuple[str, bytes]:
        return _json({"backend": self.backend.name, **wire.pack_report(self.report)})

    def _job(self, request: Request, group: str) -> tuple[str, bytes]:
        try:
            job, limits = wire.unpack_job(request.body)
        except wire.Damaged as error:
            raise Refusal(400, str(error)) from None
        except UserError as error:
            raise Refusal(400, str(error)) from None
        within(limits, self.ceiling)
        if job.compile_limits is not None:
            within(job.compile_limits, self.ceiling, "the compiler")
        if self.report.level < job.min_isolation:
            raise Refusal(
                400, f"the job wants {job.min_isolation.name}, this server has {self.report.level.name}"
            )  # fmt: skip
        job = job.drawn()

        def run(stopped: Callable[[], bool]) -> bytes:
            verdict = run_job(job, limits, self.backend, self.report, self.artefacts, stopped)
            return wire.pack_verdict(verdict)

        return wire.KIND, self._scheduled(run, request, group, weight(job))

    def _run_code(self, request: Request, group: str) -> tuple[str, bytes]:
        runner = self._runner(request, group)
        return _json(fusion_api.run_code(request, runner, self.usual, self.ceiling))

    def _execute(self, request: Request, group: str) -> tuple[str, bytes]:
        runner = self._runner(request, group)
        return _json(piston_api.execute(request, runner, self.usual, self.ceiling))

    def _runner(self, request: Request, group: str) -> fusion_api.Runner:
        def run(
            program: Program, _: Callable[[], bool]
        ) -> tuple[CompileReport | None, Outcome | None]:
            def once(stopped: Callable[[], bool]) -> Any:
                return run_program(program, self.backend, self.artefacts, stopped)

            return self._scheduled(once, request, group, 1)

        return run

    def _scheduled(
        self, run: Callable[[Callable[[], bool]], Any], request: Request, group: str, slots: int
    ) -> Any:
        """Wait for a turn, run, and stop when the client goes away."""
        try:
            flight = self.scheduler.submit(
                lambda stopped, waited: run(stopped), group=group, weight=slots, wait=False
            )
        except Full:
            raise Refusal(429, "too many requests wait already; come again", wait_s=1) from None
        except Closed:
            raise Refusal(503, "the server is stopping", wait_s=5) from None
        while True:
            try:
                return flight.result(LOOK_S)
            except NotYet:
                if flight.done():  # the job's own, not ours
                    raise
                if request.cancelled():
                    flight.cancel()
                    raise Gone from None
            except (Closed, CancelledError):
                raise Refusal(503, "the server was stopped", wait_s=5) from None
            except UserError as error:
                raise Refusal(400, str(error)) from None


class Gone(Exception):
    """The client went away; nobody reads the answer."""


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, owner: Server, host: str, port: int, connections: int) -> None:
        self.owner = owner
        self.busy = 0
        self._free = threading.BoundedSemaphore(connections)
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(f"cannot listen on {host}:{port}: {error}") from None

    def process_request(self, request: socket.socket, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.settimeout(1.0)
                request.sendall(
                    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
                )
            self.shutdown_request(request)
            return
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket.socket, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guard:
                self._open.discard(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up in the middle is no event; anything else is a mistake of ours."""
        import sys
        import traceback

        if not isinstance(sys.exc_info()[1], (OSError, ValueError)):
            traceback.print_exc()

    @contextlib.contextmanager
    def at_work(self):
        with self._guard:
            self.busy += 1
        try:
            yield
        finally:
            with self._guard:
                self.busy -= 1

    def hang_up(self) -> None:
        """Close what is still open, so that no thread waits for a silent client."""
        with self._guard:
            left = list(self._open)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "rlkit"
    sys_version = ""
    timeout = ARRIVAL_S
    # An answer leaves as one piece, at once: otherwise each would wait 40 ms for the client's word.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    server: _Http

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: a line for each of a million jobs helps nobody; see `Server.stats`."""

    def _serve(self, method: str) -> None:
        owner = self.server.owner
        with self.server.at_work():
            try:
                path = self.path.split("?")[0]
                self._check(method, path)
                body = self._read_body() if method == "POST" else b""
                request = Request(body, self._gone)
                kind, data = owner.answer(method, path, request, self.client_address[0])
                owner.count("served")
                self._send(200, kind, data)
            except Refusal as refused:
                owner.count("refused")
                self._refuse(refused)
            except InfrastructureFault as fault:
                owner.count("faults")
                self._refuse(Refusal(500, f"the sandbox failed: {fault}"))
            except Gone:
                owner.count("gone")
                self.close_connection = True
            except (ConnectionError, TimeoutError):
                self.close_connection = True

    def _check(self, method: str, path: str) -> None:
        """Whether this client may ask at all."""
        owner = self.server.owner
        if owner.stopping:
            self.close_connection = True
            raise Refusal(503, "the server is stopping", wait_s=5)
        if owner.token is not None:
            given = self.headers.get("Authorization", "")
            wanted = f"Bearer {owner.token}"
            right = hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
            if not right and path != "/health":
                self.close_connection = True  # its body is not read
                raise Refusal(401, "this server wants a token: Authorization: Bearer …")
            return
        host = self.headers.get("Host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.headers.get("Origin") is not None or not is_loopback(name.strip("[]")):
            self.close_connection = True
            raise Refusal(403, "without a token, programs of this machine are served, no web pages")

    def _read_body(self) -> bytes:
        told = self.headers.get("Content-Length")
        try:
            kind = self.headers.get_content_type()
            if kind not in ("application/json", wire.KIND):
                raise Refusal(415, f"the body must be application/json, not {kind}"[:200])
            if told is None or not told.isdigit():
                raise Refusal(411, "the request must tell the length of its body")
            if int(told) > MOST_BYTES:
                raise Refusal(413, f"a request may have {MOST_BYTES >> 20} MiB")
        except Refusal:
            self.close_connection = True  # its body is not read
            raise
        deadline = time.monotonic() + ARRIVAL_S
        pieces, left = [], int(told)
        while left:
            piece = self.rfile.read1(min(left, 1 << 20))
            if not piece or time.monotonic() > deadline:
                raise ConnectionError("the request did not arrive")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _gone(self) -> bool:
        """Whether the client has hung up."""
        try:
            if not select.select([self.connection], [], [], 0)[0]:
                return False
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    def _refuse(self, refused: Refusal) -> None:
        data = json.dumps({"error": refused.message, "message": refused.message}).encode()
        headers = {"Retry-After": str(refused.wait_s)} if refused.wait_s else {}
        self._send(refused.status, "application/json", data, headers)

    def _send(self, status: int, kind: str, data: bytes, headers: dict | None = None) -> None:
        if self.server.owner.stopping:
            self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def is_loopback(host: str) -> bool:
    """Whether a name can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _json(value: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(value).encode()
