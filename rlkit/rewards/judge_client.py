"""Endpoint: any server that speaks the chat-completions schema, asked over plain HTTP.

Connections are kept and reused, a busy or broken server is asked again after a pause that
grows, and every request and the whole batch have a time-out. What a server may do wrong
(429, 500, garbage, silence, a cut connection) ends in no verdict for one row, with the
reason; a mistake in the settings (wrong address, key or model) is an error at the first
request.

Left out on purpose: streaming, tools, redirects, proxies. The key is read from an
environment variable at each request and is neither kept nor pickled nor shown.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rlkit.errors import UserError

#: Statuses after which the same request may well succeed.
RETRIED = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
#: Statuses that say that address, key or model are wrong.
SETTINGS = frozenset((301, 302, 307, 308, 401, 403, 404, 405))
#: A longer reply is garbage, in bytes.
MOST_BYTES = 4 << 20
#: Idle connections that are kept.
MOST_IDLE = 64


@dataclass(frozen=True)
class Reply:
    """What came of asking a judge once.

    Attributes:
        text: what it wrote; `None` when there is nothing.
        status: `OK`, `JUDGE_TIMEOUT`, `UNREACHABLE`, `REFUSED`, `TOO_LONG` or `JUDGE_ERROR`.
        reason: why there is no text.
    """

    text: str | None
    status: str = "OK"
    reason: str = ""


class _Again(Exception):
    """The request may be tried again, after `wait_s` when the server says so."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class Endpoint:
    """A chat model behind an OpenAI-compatible address.

    Args:
        base_url: address up to and with the version, `http://localhost:8000/v1`.
        model: the model's name on that server.
        key_env: name of the environment variable that holds the key; `None` sends none.
        timeout_s: wall clock of one request, in seconds.
        retries: how often a failed request is tried again.
        backoff_s: pause before the first retry, in seconds; it doubles each time.
        extra: further fields of the request, such as `{"seed": 1}`.

    Attributes:
        requests: requests that were sent; `retried`: those of them that were repeats.
        connections: connections that were opened.

    Raises:
        UserError: no such address, an empty model, a number out of range, an unset variable.

    >>> Endpoint("http://localhost:8000/v1", "small-judge").name
    'http://localhost:8000/v1 small-judge'
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key_env: str | None = None,
        timeout_s: float = 60.0,
        retries: int = 4,
        backoff_s: float = 0.5,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        parts = urlsplit(base_url) if isinstance(base_url, str) else urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise UserError(
                f"base_url is an address such as http://localhost:8000/v1, not {base_url!r}"
            )
        if not isinstance(model, str) or not model:
            raise UserError("model is the model's name on the server; it must not be empty")
        for name, value in (("timeout_s", timeout_s), ("backoff_s", backoff_s)):
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
                raise UserError(f"{name} is a time in seconds above 0, not {value!r}")
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            raise UserError(f"retries is a whole number from 0 up, not {retries!r}")
        if key_env is not None and not os.environ.get(key_env):
            raise UserError(
                f"the environment variable {key_env!r} is not set; put the server's key into it, "
                "or give key_env=None for a server that needs none"
            )
        self.base_url = base_url.rstrip("/")
        self.model = model
        self.key_env = key_env
        self.timeout_s = timeout_s
        self.retries = retries
        self.backoff_s = backoff_s
        self.extra = dict(extra or {})
        self._reset()

    def _reset(self) -> None:
        self.requests = self.retried = self.connections = 0
        self._worked = False
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._busy: dict[int, Any] = {}

    @property
    def name(self) -> str:
        return f"{self.base_url} {self.model}"

    def __repr__(self) -> str:
        return f"Endpoint({self.name})"

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        temperature: float = 0.0,
        max_tokens: int = 512,
        deadline: float | None = None,
    ) -> Reply:
        """Asks once, with retries.

        Args:
            messages: the chat.
            temperature: 0 for the likeliest reply.
            max_tokens: budget of the reply, in tokens.
            deadline: `time.monotonic()` after which nothing is tried any more.

        Raises:
            UserError: the server refuses address, key or model, and never worked before.
        """
        body = json.dumps(
            {
                "model": self.model,
                "messages": [dict(m) for m in messages],
                "temperature": temperature,
                "max_tokens": max_tokens,
                **self.extra,
            }
        ).encode()
        deadline = float("inf") if deadline is None else deadline
        for attempt in range(self.retries + 1):
            if time.monotonic() >= deadline:
                return Reply(None, "JUDGE_TIMEOUT", "the time for judging was used up")
            try:
                return self._once(body, min(deadline, time.monotonic() + self.timeout_s))
            except _Again as again:
                fault = str(again)
                status = "JUDGE_TIMEOUT" if isinstance(again.__cause__, TimeoutError) else ""
                if attempt == self.retries:
                    break
                pause = self.backoff_s * 2**attempt * random.uniform(0.75, 1.25)
                pause = max(pause, again.wait_s or 0.0)
                if time.monotonic() + pause >= deadline:
                    fault += "; there was no time to try again"
                    break
                time.sleep(pause)
                with self._lock:
                    self.retried += 1
        return Reply(None, status or "UNREACHABLE", f"the judge's server gave no answer: {fault}")

    def cancel(self) -> None:
        """Cuts the connections that are in use, so that no thread hangs on them."""
        with self._lock:
            busy = list(self._busy.values())
        for connection in busy:
            _cut(connection)

    def close(self) -> None:
        """Closes the idle connections; the next request opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # -- one request ------------------------------------------------------------------------

    def _once(self, body: bytes, deadline: float) -> Reply:
        import http.client

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.key_env is not None:
            headers["Authorization"] = f"Bearer {os.environ.get(self.key_env, '')}"
        path = f"{urlsplit(self.base_url).path}/chat/completions"
        while True:
            connection, fresh = self._take()
            kept = False
            try:
                connection.timeout = _left(deadline)
                if connection.sock is not None:
                    connection.sock.settimeout(connection.timeout)
                with self._lock:
                    self.requests += 1
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                data = _read(connection, response, deadline)
                kept = not response.will_close
                return self._reply(response.status, response.headers, data)
            except TimeoutError as error:
                raise _Again("no answer in time") from error
            except (http.client.HTTPException, OSError) as error:
                if not fresh and isinstance(
                    error, (http.client.RemoteDisconnected, ConnectionError)
                ):
                    continue  # a kept connection had gone stale: that is no fault of the server
                raise _Again(f"{type(error).__name__}: {error}") from error
            finally:
                self._give_back(connection, kept)

    def _take(self) -> tuple[Any, bool]:
        import http.client

        with self._lock:
            fresh = not self._idle
            if not fresh:
                connection = self._idle.pop()
            else:
                parts = urlsplit(self.base_url)
                kind = (
                    http.client.HTTPSConnection
                    if parts.scheme == "https"
                    else http.client.HTTPConnection
                )
                connection = kind(parts.hostname, parts.port, timeout=self.timeout_s)
                self.connections += 1
            self._busy[id(connection)] = connection
        return connection, fresh

    def _give_back(self, connection: Any, kept: bool) -> None:
        with self._lock:
            self._busy.pop(id(connection), None)
            if kept and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _reply(self, status: int, headers: Any, data: bytes) -> Reply:
        if status == 200:
            text = _content(data)
            if text is None:
                raise _Again("its answer is not of the chat-completions schema")
            self._worked = True
            return Reply(text)
        said = f"HTTP {status}: {data[:200].decode('utf-8', 'replace').strip()}"
        if status in RETRIED:
            raise _Again(said, _retry_after(headers.get("Retry-After")))
        if status in SETTINGS and not self._worked:
            key = f"the key in {self.key_env}" if self.key_env else "no key (key_env=None)"
            raise UserError(
                f"the judge's server refuses: {said}; asked were {self.base_url!r}, model "
                f"{self.model!r}, {key}"
            )
        return Reply(None, "REFUSED", f"the judge's server refuses this request: {said}")

    def __getstate__(self) -> dict[str, Any]:
        kept = ("base_url", "model", "key_env", "timeout_s", "retries", "backoff_s", "extra")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __deepcopy__(self, memo: dict[int, Any]) -> Endpoint:
        return self  # copies of a reward share its connections


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _read(connection: Any, response: Any, deadline: float) -> bytes:
    """The body, however slowly it comes, up to the deadline and to a size."""
    pieces: list[bytes] = []
    size = 0
    while True:
        sock = connection.sock
        if sock is not None:  # http.client lets go of it where the server will close
            sock.settimeout(_left(deadline))
        _left(deadline)
        piece = response.read1(1 << 16)
        if not piece:
            if response.length:
                import http.client

                raise http.client.IncompleteRead(b"", response.length)
            response.close()  # read1 leaves it open, and the connection could not be used again
            return b"".join(pieces)
        size += len(piece)
        if size > MOST_BYTES:
            raise OSError(f"the answer has more than {MOST_BYTES:,} bytes")
        pieces.append(piece)


def _content(data: bytes) -> str | None:
    """The text of the first choice; `None` when the body is not of the schema."""
    try:
        content = json.loads(data)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if isinstance(content, list):  # parts, as some servers give them
        parts = [p.get("text") for p in content if isinstance(p, dict)]
        return "".join(parts) if parts and all(isinstance(p, str) for p in parts) else None
    return content if isinstance(content, str) else None


def _retry_after(value: str | None) -> float | None:
    """Seconds that the server asks to wait; dates are left to the growing pause."""
    try:
        return min(300.0, max(0.0, float(value))) if value else None
    except ValueError:
        return None


def _cut(connection: Any) -> None:
    import socket

    sock = connection.sock
    if sock is None:
        return
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already
