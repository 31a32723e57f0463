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

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotYet
from dataclasses import replace
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
from rlkit.sandbox.serve.protocol import Gone, Listener, is_loopback
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
        self._http: Listener | None = None
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
            self._http = Listener(self, host, port, connections)
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
            wanted, has = job.min_isolation.name, self.report.level.name
            raise Refusal(400, f"the job wants {wanted}, this server has {has}")
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


def _json(value: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(value).encode()
