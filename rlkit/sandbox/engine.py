"""Engine: what an open sandbox holds, and the way of a job through it.

    Request (a job, its limits, on whose account)
      -> known already? then it is a copy, unless it is its turn to be checked
      -> the queue of its group, where an equal job on its way is waited for
      -> a thread of the scheduler: the mode prepares, a backend runs, the mode judges
      -> a fault of the sandbox itself? once more on another worker, then SANDBOX_ERROR
      -> compared with what was known, and kept

An engine belongs to one process. A forked copy of it has none of its threads, so the front
makes another one there.

Left out on purpose: waiting in its many forms, which is what the front is for.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from rlkit.errors import UserError
from rlkit.sandbox import backends
from rlkit.sandbox.backends.base import Backend, InfrastructureFault
from rlkit.sandbox.backends.ladder import LAYERS
from rlkit.sandbox.checkers import is_custom
from rlkit.sandbox.dispatch import mode_module, run_job, weight
from rlkit.sandbox.judge import without_start
from rlkit.sandbox.probe import relaxed
from rlkit.sandbox.scheduler import Closed, Flight, Full, Scheduler, Stopped
from rlkit.sandbox.types import IsolationReport, Job, Level, Limits, Status, Verdict
from rlkit.sandbox.unavailable import refusal, unsafe

if TYPE_CHECKING:
    from rlkit.sandbox.artefacts import Artefacts
    from rlkit.sandbox.cache import Known, ResultCache

#: An infrastructure fault is retried once.
_TRIES = 2

_COUNTED = ("ran", "hits", "shared", "rechecked", "flaky", "faults", "retried")
_CLOSED_MEANWHILE = "the sandbox was closed while this was waiting for it"

_numbers = count(1)


@dataclass(frozen=True)
class Settings:
    """What was asked for when a sandbox was made; see `Sandbox` for each."""

    limits: Limits
    workers: int
    python: str
    layers: tuple[str, ...]
    backend: str | Backend
    min_isolation: Level
    allow_unsafe: bool
    cache: ResultCache | None
    queue: int | None
    recheck: float
    seed: int


@dataclass(eq=False)
class Request:
    """One job on its way.

    Attributes:
        job: with `draw` done.
        limits: the job's own, or the sandbox's.
        group: on whose account it runs.
        key: of its content; equal keys run once. None for a job that is to run in any case.
        equal: an earlier one of the same batch with this key, which runs in its place.
        stored: its key in the cache, when its result may be kept.
        known: what the cache holds about it.
        verdict: once it is there.
        flight: what to wait for until then.
    """

    job: Job
    limits: Limits
    group: str
    key: str | None = None
    equal: Request | None = None
    stored: bytes | None = None
    known: Known | None = None
    verdict: Verdict | None = None
    flight: Flight | None = None

    @property
    def is_done(self) -> bool:
        """Whether its verdict can be had without waiting."""
        if self.equal is not None:
            return self.equal.is_done
        return self.verdict is not None or (self.flight is not None and self.flight.done())


class Engine:
    """An open sandbox: its backend, its queue, its threads.

    Attributes:
        pid: of the process that it belongs to.
        backend: what runs the jobs.
        scheduler: what decides which runs next.

    Raises:
        UserError: the backend does not exist, or cannot work here.
    """

    def __init__(self, settings: Settings) -> None:
        self.pid = os.getpid()
        self.settings = settings
        self._owned = isinstance(settings.backend, str)
        self.backend: Backend = (
            backends.make(settings.backend, settings.workers, settings.python, settings.layers)
            if self._owned
            else settings.backend
        )
        capacity = settings.queue or max(64, 8 * settings.workers)
        self.scheduler = Scheduler(settings.workers, capacity)
        self._lock = threading.Lock()
        self._report: IsolationReport | None = None
        self._artefacts: Artefacts | None = None
        self._digests: dict[tuple, bytes] = {}
        self._counted = dict.fromkeys(_COUNTED, 0)
        self._flaky: deque[str] = deque(maxlen=100)
        self._rechecker = None
        if settings.cache is not None:
            from rlkit.sandbox.flaky import Rechecker

            self._rechecker = Rechecker(settings.recheck, settings.seed)

    # -- what keeps jobs apart ---------------------------------------------------------------

    @property
    def has_reported(self) -> bool:
        """Whether it is known already what keeps jobs apart, so that asking takes no time."""
        return self._report is not None

    def report(self) -> IsolationReport:
        """What keeps a job apart from this machine.

        Raises:
            InfrastructureFault: nothing can be started.
        """
        if self._report is None:
            report = self.backend.report()
            if self.settings.allow_unsafe:
                report = unsafe(report, self.settings.min_isolation)
            with self._lock:
                self._report = self._report or report
        return self._report

    def report_io(self) -> IsolationReport:
        """The same for whole programs, which a service may contain less well than calls.

        Raises:
            InfrastructureFault: the backend could not run the probes.
        """
        if not hasattr(self.backend, "report_io"):
            return self.report()
        report = self.backend.report_io()
        if self.settings.allow_unsafe:
            report = unsafe(report, self.settings.min_isolation)
        return report

    def report_for(self, level: Level, mode: str = "") -> IsolationReport:
        """The same, if it is enough for a job that asks for `level`.

        Raises:
            SandboxUnavailable: it is not.
            InfrastructureFault: nothing can be started.
        """
        report = self.report_io() if mode == "io" else self.report()
        wanted = max(level, self.settings.min_isolation)
        if report.level < wanted and not self.settings.allow_unsafe:
            left_out = set(LAYERS) - set(self.settings.layers)
            raise refusal(report, wanted, self.backend.name, left_out)
        return report

    def check(self, level: Level) -> None:
        """Refuse what cannot be kept apart well enough.

        Raises:
            SandboxUnavailable: a job that asks for `level` is not to run here.
        """
        # A backend that does not come up is no refusal: it may come up for the job, and if it
        # does not, then the job's verdict says so.
        with contextlib.suppress(InfrastructureFault):
            self.report_for(level)

    # -- the way of a job --------------------------------------------------------------------

    def requests(self, jobs: Sequence[Job]) -> list[Request]:
        """What is asked for, with what is known of it already.

        Raises:
            UserError: a mode that there is not.
        """
        caller = f"\0thread {threading.get_ident()}"  # no name that a user would choose
        requests = []
        first: dict[str, Request] = {}
        for job in jobs:
            job = job.drawn()
            if job.mode not in ("io", "func"):
                mode_module(job)
            request = Request(job, job.limits or self.settings.limits, job.group or caller)
            if job.cache != "off":
                request.key = job.key(self.settings.limits)
                before = first.setdefault(request.key, request)
                request.equal = None if before is request else before
            requests.append(request)
        if self.settings.cache is not None:
            self._look_up(list(first.values()))
        return requests

    def submit(self, request: Request, wait: bool = True) -> bool:
        """Put a request into the queue unless its verdict is known; False: there is no room.

        Raises:
            UserError: the sandbox is closed.
        """
        if request.verdict is not None or request.equal is not None:
            return True
        try:
            request.flight = self.scheduler.submit(
                lambda stopped, waited: self._run(request, stopped, waited),
                key=request.key,
                group=request.group,
                weight=weight(request.job),
                wait=wait,
            )
        except Full:
            return False
        except Closed:
            raise UserError("this sandbox is closed; make a new one") from None
        return True

    def verdict(self, request: Request) -> Verdict:
        """Wait for what was asked for.

        Raises:
            UserError: the sandbox was closed meanwhile.
        """
        if request.equal is not None:
            return _copy(self.verdict(request.equal))
        if request.verdict is None:
            try:
                verdict = request.flight.result()
            except (Closed, CancelledError):
                raise UserError(_CLOSED_MEANWHILE) from None
            request.verdict = _copy(verdict) if request.flight.shared else verdict
        return request.verdict

    def _run(self, request: Request, stopped: Callable[[], bool], waited: float) -> Verdict:
        """One job in a thread of the scheduler."""
        job, verdict, fault = request.job, None, ""
        for attempt in range(_TRIES):
            if stopped():
                raise Stopped
            try:
                report = self.report_for(job.min_isolation, job.mode)
                store = self._store() if job.mode == "io" else None
                verdict = run_job(job, request.limits, self.backend, report, store, stopped)
                if verdict.status is not Status.SANDBOX_ERROR:
                    break
            except (InfrastructureFault, OSError) as error:
                verdict, fault = None, str(error) or type(error).__name__
            self._count("faults")
            if attempt + 1 < _TRIES:
                self._count("retried")
        if verdict is None:
            verdict = without_start(job, Status.SANDBOX_ERROR, fault)
            verdict = replace(verdict, backend=self.backend.name)
        self._count("ran")
        if self.settings.cache is not None:
            verdict = self._remember(request, verdict)
        return replace(verdict, queue_s=waited, request_id=_request_id())

    def _store(self) -> Artefacts:
        """Compiled programs; the folder is made by the first one that needs it."""
        with self._lock:
            if self._artefacts is None:
                from rlkit.sandbox.artefacts import Artefacts

                self._artefacts = Artefacts()
            return self._artefacts

    # -- what is known -----------------------------------------------------------------------

    def _look_up(self, requests: Sequence[Request]) -> None:
        for request in requests:
            # A function of the user's own may depend on anything.
            if any(is_custom(test.checker) for test in request.job.tests):
                continue
            with contextlib.suppress(InfrastructureFault):  # then the job's verdict says so
                request.stored = self._stored_key(request)
        asking = [r for r in requests if r.stored is not None and r.job.cache == "use"]
        if not asking:
            return
        found = self.settings.cache.get([request.stored for request in asking])
        for request in asking:
            request.known = found.get(request.stored)
            if request.known is None or request.known.flaky or self._rechecker.due():
                continue
            request.verdict = self._from_cache(request)

    def _remember(self, request: Request, verdict: Verdict) -> Verdict:
        """Keep the result; compare it first when an older one is known."""
        from rlkit.sandbox.flaky import difference
        from rlkit.sandbox.kept import lasting

        told = ""
        if request.known is not None:
            self._count("rechecked")
            told, said = request.known.flaky, difference(request.known.verdict, verdict)
            if said:
                told = f"{_named(request.job)}: {said}"
                self._saw_flaky(told)
            if not told and said is None:
                # A limit or a fault ended it this time, and that proves nothing.
                return self._from_cache(request)
            verdict = replace(verdict, flaky=bool(told))
            if not told:
                return verdict
        if request.stored is not None and lasting(verdict, request.job.stop_on_first):
            self.settings.cache.put(request.stored, verdict, told)
        return verdict

    def _from_cache(self, request: Request) -> Verdict:
        from rlkit.sandbox.kept import copy_of

        self._count("hits")
        isolation = relaxed(self.report(), request.limits)
        return copy_of(request.known.verdict, isolation=isolation, request_id=_request_id())

    def _stored_key(self, request: Request) -> bytes:
        """Key in the cache: the job's content and all else that leads to its verdict."""
        which = (request.job.language, request.job.preload, request.job.mode)
        digest = self._digests.get(which)
        if digest is None:
            digest = self._digests[which] = self._digest(*which)
        return hashlib.sha256(digest + request.key.encode()).digest()

    def _digest(self, language: str, preload: str, mode: str) -> bytes:
        from rlkit.sandbox.levels import VARIABLE
        from rlkit.sandbox.toolchain import harness_version, toolchain

        parts = (
            harness_version(),
            toolchain(language, preload, self.settings.python, mode),
            self.backend.name,
            self.report().level.name,
            *self.settings.layers,
            os.environ.get(VARIABLE, ""),  # what of this machine is hidden on purpose
        )
        return hashlib.sha256("\0".join(parts).encode()).digest()

    # -- counts and the end ------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """What was done so far, as plain data."""
        with self._lock:
            counted, seen = dict(self._counted), list(self._flaky)
        counted["shared"] = self.scheduler.shared
        return {
            **counted,
            "waiting": self.scheduler.waiting,
            "running": self.scheduler.running,
            "flaky_seen": seen,
        }

    def close(self, wait: bool = True) -> None:
        """Stop what runs and leave nothing behind.

        Args:
            wait: for the threads; not where the garbage collector calls this.
        """
        if self.pid == os.getpid():
            self.scheduler.close(wait)
            if self._owned:
                self.backend.close()

    def forget(self) -> None:
        """Close a sandbox that nobody has a name for any more, in whatever thread this is."""
        self.close(wait=False)

    def _count(self, what: str) -> None:
        with self._lock:
            self._counted[what] += 1

    def _saw_flaky(self, told: str) -> None:
        with self._lock:
            self._counted["flaky"] += 1
            self._flaky.append(told)


def nothing_done() -> dict[str, Any]:
    """The counts of a sandbox that was never opened."""
    return {**dict.fromkeys(_COUNTED, 0), "waiting": 0, "running": 0, "flaky_seen": []}


def _copy(verdict: Verdict) -> Verdict:
    return replace(verdict, cached=True, request_id=_request_id())


def _request_id() -> str:
    return f"{os.getpid():x}-{next(_numbers):x}"


def _named(job: Job) -> str:
    return f"{job.entry}()" if job.entry else f"a {job.language} program"
