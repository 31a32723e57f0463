"""The server's end of HTTP: connections, who may ask, and how much.

Nothing here knows what is served; `Server.answer` does. One thread serves one connection, and
there is a bound on connections.

Left out on purpose: chunked requests, which no client of ours sends.
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
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from rlkit.errors import UserError
from rlkit.sandbox import wire
from rlkit.sandbox.backends.base import InfrastructureFault
from rlkit.sandbox.serve.answer import Refusal, Request

if TYPE_CHECKING:
    from rlkit.sandbox.serve.server import Server

#: Longest request, in bytes.
MOST_BYTES = 32 << 20

#: A request must have arrived after so many seconds, and a silent connection is closed.
ARRIVAL_S = 30.0


class Gone(Exception):
    """The client went away; nobody reads the answer."""


class Listener(ThreadingHTTPServer):
    """Accepts connections for a server.

    Args:
        owner: answers the requests.
        connections: that may be open.

    Raises:
        UserError: the address cannot be had.
    """

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
    def at_work(self) -> Iterator[None]:
        """Counts as busy inside."""
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
    server: Listener

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
