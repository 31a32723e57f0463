"""One HTTP service: requests with a deadline, repeated when that can help, over kept connections.

Networks fail in more ways than programs do: a proxy answers 504, an answer is cut in the middle
or drips in for ever, a service asks for patience. None of that says anything about a program, so
all of it ends as `InfrastructureFault`, after as many tries as fit into the deadline. To run a
program a second time does no harm, so every request may be repeated.

Between two bytes, in either direction, the caller is asked whether the answer is still wanted.

Left out on purpose: proxies, redirects and certificates of one's own.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import InfrastructureFault

#: Answers that another try may better.
PASSING = (408, 425, 429, 500, 502, 503, 504)
#: Answers that no other try will better: the address or the token is wrong.
FINAL = (401, 403, 404, 405)

#: Seconds before the second try; twice as long before each further one, and never longer than…
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 8.0

#: No connection is waited for longer.
CONNECT_S = 10.0
#: How often a waiting thread asks whether its answer is still wanted.
ASK_S = 0.05
#: Connections that are kept when nobody uses them.
KEPT = 32

#: Longest answer that is read, in bytes.
MOST_BYTES = 64 << 20


class Cancelled(Exception):
    """The answer is not wanted any more."""


class Service:
    """One service at one address; any number of threads may use it.

    Args:
        url: `http://…` or `https://…`, perhaps with a path that all requests begin with.
        token: sent as a bearer token; None sends none.
        tries: how often a request is made at most.
        seed: of the jitter between tries; None draws one.

    Raises:
        UserError: no address of a service.

    >>> Service("http://127.0.0.1:8080/").address
    'http://127.0.0.1:8080'
    """

    def __init__(
        self, url: str, token: str | None = None, tries: int = 4, seed: int | None = None
    ) -> None:
        parts = urlsplit(url)
        try:
            self.port = parts.port
        except ValueError:
            self.port = None
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(
                f"{url!r} is no address of a service; give one such as http://127.0.0.1:8080"
            )
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UserError("the address of a service holds no password or query; use token=...")
        self.host = parts.hostname
        self.secure = parts.scheme == "https"
        self.base = parts.path.rstrip("/")
        self.address = f"{parts.scheme}://{parts.netloc}{self.base}"
        self.token = token
        self.tries = max(1, tries)
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False
        #: How many connections were opened, and how many requests were repeated.
        self.opened = self.repeated = 0

    def json(self, method: str, path: str, value: Any = None, **how: Any) -> Any:
        """Send plain data, and read plain data; see `request`."""
        body = None if value is None else json.dumps(value).encode("utf-8", "surrogatepass")
        return self.request(method, path, body, read=_json, **how)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        wait_s: float,
        cancelled: Callable[[], bool] = lambda: False,
        kind: str = "application/json",
        read: Callable[[bytes], Any] = bytes,
        refusals: tuple[int, ...] = (),
    ) -> Any:
        """Make a request, several times if need be, and return what `read` makes of the answer.

        Args:
            method: `GET` or `POST`.
            path: below the service's address, beginning with a slash.
            body: what is sent.
            wait_s: seconds for all tries together.
            cancelled: asked now and then; True gives up.
            kind: content type of the body.
            read: makes a value of the bytes; its `ValueError` means that they are damaged.
            refusals: further answers that are the caller's mistake.

        Raises:
            InfrastructureFault: no good answer came in time.
            UserError: the service refuses this address or token.
            Cancelled: nobody wants the answer any more.
        """
        deadline = time.monotonic() + wait_s
        trouble = ""
        for attempt in range(self.tries):
            if attempt:
                with self._lock:
                    self.repeated += 1
            pause = self._pause(attempt)
            try:
                status, headers, data = self._once(method, path, body, kind, deadline, cancelled)
                if status == 200:
                    return read(data)
                trouble = f"answered {status}{_said(data)}"
                if status in FINAL:
                    raise UserError(f"{self.address} {trouble}; check its address and the token")
                if status in refusals:
                    raise UserError(f"{self.address} {trouble}")
                if status not in PASSING:
                    raise InfrastructureFault(f"{self.address} {trouble}")
                pause += _retry_after(headers)  # and not all who were told so at once
            except TimeoutError:
                raise InfrastructureFault(
                    f"{self.address} did not answer within {wait_s:.3g} s"
                    + (f" (before, it {trouble})" if trouble else "")
                ) from None
            except ValueError as error:
                if isinstance(error, UserError):
                    raise
                trouble = f"sent a damaged answer ({str(error)[:120]})"
            except (OSError, http.client.HTTPException) as error:
                trouble = f"cannot be reached ({_named(error)})"
            if attempt + 1 < self.tries:
                if time.monotonic() + pause >= deadline:
                    raise InfrastructureFault(f"{self.address} {trouble}, and time ran out")
                _sleep(pause, cancelled)
        raise InfrastructureFault(f"{self.address} {trouble}, {self.tries} times")

    def close(self) -> None:
        """Close the connections that nobody uses; may be called twice."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # -- one try -----------------------------------------------------------------------------

    def _once(
        self,
        method: str,
        path: str,
        body: bytes | None,
        kind: str,
        deadline: float,
        cancelled: Callable[[], bool],
    ) -> tuple[int, Any, bytes]:
        def check() -> None:
            if cancelled():
                raise Cancelled
            if time.monotonic() > deadline:
                raise TimeoutError

        headers = {"Accept": "application/json", "Content-Type": kind}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        while True:
            connection, kept = self._connection(check, deadline)
            good = False
            try:
                try:
                    connection.request(method, self.base + path, body, headers)
                    response = connection.getresponse()
                except (ConnectionError, http.client.BadStatusLine):
                    # One that was kept may have been closed meanwhile: that is no trouble.
                    if kept:
                        continue
                    raise
                data = _body(response)
                good = not response.will_close
                return response.status, response.headers, data
            finally:
                self._give_back(connection, good)

    def _connection(
        self, check: Callable[[], None], deadline: float
    ) -> tuple[http.client.HTTPConnection, bool]:
        check()
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            connection.sock.check = check
            return connection, True
        wait_s = max(0.01, min(CONNECT_S, deadline - time.monotonic()))
        if self.secure:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                self.host, self.port, timeout=wait_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=wait_s)
        try:
            connection.connect()
        except TimeoutError:
            raise ConnectionError("no connection in time") from None
        connection.sock.settimeout(None)
        connection.sock = _Asking(connection.sock, check)
        with self._lock:
            self.opened += 1
        return connection, False

    def _give_back(self, connection: http.client.HTTPConnection, good: bool) -> None:
        with self._lock:
            if good and not self._closed and len(self._idle) < KEPT and connection.sock:
                self._idle.append(connection)
                return
        connection.close()

    def _pause(self, attempt: int) -> float:
        with self._lock:
            jitter = self._random.uniform(0.5, 1.0)
        return jitter * min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)


class _Asking:
    """A socket that asks, whenever it waits, whether there is still a point in it."""

    def __init__(self, inner: socket.socket, check: Callable[[], None]) -> None:
        self.inner = inner
        self.check = check

    def sendall(self, data: bytes) -> None:
        view = memoryview(data).cast("B")
        while view:
            self._wait(writing=True)
            view = view[self.inner.send(view[: 1 << 16]) :]

    def makefile(self, mode: str, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self), 1 << 16)

    def recv_into(self, buffer: Any) -> int:
        pending = getattr(self.inner, "pending", None)
        if pending is None or not pending():
            self._wait(writing=False)
        return self.inner.recv_into(buffer)

    def close(self) -> None:
        self.inner.close()

    def _wait(self, writing: bool) -> None:
        self.check()
        ours = [self.inner]
        while not any(select.select(() if writing else ours, ours if writing else (), (), ASK_S)):
            self.check()


class _Reader(io.RawIOBase):
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._asking.recv_into(buffer)


def _body(response: http.client.HTTPResponse) -> bytes:
    pieces, total = [], 0
    while piece := response.read1(1 << 18):
        pieces.append(piece)
        total += len(piece)
        if total > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
    told = response.headers.get("Content-Length", "")
    if told.isdigit() and int(told) != total:
        raise ConnectionError(f"cut off after {total} of {told} bytes")
    response.close()  # older Pythons wait for one more read before they take the next request
    return b"".join(pieces)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _said(data: bytes) -> str:
    """What a service says about a refusal, in one short line."""
    text = data[:2000].decode("utf-8", "replace")
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            for name in ("error", "message", "detail"):
                if name in found:
                    text = str(found[name])
                    break
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return f": {text[:200]}" if text else ""


def _retry_after(headers: Any) -> float:
    """Seconds that the service asks for; a date is taken as no wish."""
    told = headers.get("Retry-After", "").strip()
    return float(told) if told.isdigit() else 0.0


def _sleep(seconds: float, cancelled: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if cancelled():
            raise Cancelled
        time.sleep(min(ASK_S, left))


def _named(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}"[:160] if text else type(error).__name__
