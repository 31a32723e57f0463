"""Sandbox: run programs that a model wrote, a few at a time, and judge each of them.

The front of everything in this folder. A job takes this way:

    run / run_many / map / arun / amap
      -> engine.py: known already? (cache.py, and flaky.py for the one in a hundred that runs
         again all the same); retried once when the sandbox itself failed
      -> scheduler.py: its group's queue; an equal job on its way is waited for
      -> dispatch.py: the mode's module prepares and judges it
      -> backends/: something runs it

Nothing of this process enters a job: no environment, no descriptor, no expected value. No
signals are used, nothing is forked here and no function is ever sent, so it works in any
thread, inside a running event loop, and in a notebook.

Left out on purpose: priorities between jobs. Groups share the workers evenly.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlkit.errors import UserError
from rlkit.sandbox import backends
from rlkit.sandbox.backends.base import Backend, InfrastructureFault
from rlkit.sandbox.backends.ladder import LAYERS
from rlkit.sandbox.engine import Engine, Request, Settings, nothing_done
from rlkit.sandbox.scheduler import Closed, settle
from rlkit.sandbox.types import IsolationReport, Job, Level, Limits, Verdict
from rlkit.sandbox.unavailable import WINDOWS, SandboxUnavailable

if TYPE_CHECKING:
    from rlkit.sandbox.cache import ResultCache

_open_sandboxes: weakref.WeakSet[Sandbox] = weakref.WeakSet()


class Sandbox:
    """Runs jobs, `workers` of them at a time, and returns a verdict for each.

    Use it as a context manager, or call `close()`. It may be shared by threads and used inside
    a running event loop (`arun` waits without blocking it), and can be pickled: only its
    settings travel.

    Args:
        limits: what a job may use that names no limits of its own.
        workers: jobs at a time; the processors this process may use when None.
        python: interpreter that runs the jobs; this one when None.
        layers: which fences of the kernel to use where it has them; leave one out to see
            what it is good for.
        backend: what runs the jobs: `local`, `bwrap`, `docker`, `kubernetes`, `fusion`,
            `piston`, or a backend object, which stays its maker's to close.
        min_isolation: below this level nothing runs.
        allow_unsafe: run below that level all the same; every verdict then says so.
        cache: where results are kept for later: True for one file of this user (see
            `cache.cache_file`), a path, or a `ResultCache`. None keeps nothing: a batch has
            no memory.
        queue: how many jobs may wait; who brings more waits too.
        recheck: share of the results found in the cache that is run again to find flaky tests.
        seed: decides which.

    Raises:
        UserError: settings that make no sense.
        SandboxUnavailable: on Windows, for the local backend.

    >>> from rlkit.sandbox import TestSpec
    >>> with Sandbox(Limits(wall_s=2.0), workers=1) as sandbox:
    ...     verdict = sandbox.run(Job(source="def f(x): return x + 2", entry="f",
    ...         tests=[TestSpec("two", args=(2,), expected=4),
    ...                TestSpec("three", args=(3,), expected=9)]))
    >>> str(verdict.status), verdict.reward, verdict.summary
    ('FAIL', 0.5, '1 of 2 tests passed; f(3) returned 5, expected 9')
    """

    def __init__(
        self,
        limits: Limits | None = None,
        workers: int | None = None,
        *,
        python: str | None = None,
        layers: Sequence[str] = LAYERS,
        backend: str | Backend = "local",
        min_isolation: Level = Level.CONFINED,
        allow_unsafe: bool = False,
        cache: ResultCache | str | Path | bool | None = None,
        queue: int | None = None,
        recheck: float = 0.01,
        seed: int = 0,
    ) -> None:
        if backend == "local" and os.name != "posix":
            raise SandboxUnavailable(WINDOWS)
        limits = Limits() if limits is None else limits
        if not isinstance(limits, Limits):
            raise UserError(f"limits must be Limits(...), not {limits!r}")
        if workers is None:
            workers = available_processors()
        if not isinstance(workers, int) or workers < 1:
            raise UserError(f"workers={workers!r}; give a number of jobs at a time, 1 or more")
        if queue is not None and (not isinstance(queue, int) or queue < 1):
            raise UserError(f"queue={queue!r}; give a number of jobs that may wait, 1 or more")
        if not isinstance(recheck, (int, float)) or not 0.0 <= recheck <= 1.0:
            raise UserError(f"recheck={recheck!r} is not a share; give a number from 0 to 1")
        unknown = set(layers) - set(LAYERS)
        if unknown:
            raise UserError(f"unknown layers {sorted(unknown)}; choose from {', '.join(LAYERS)}")
        if isinstance(backend, str):
            backends.check_name(backend)
        try:
            min_isolation = Level(min_isolation)
        except ValueError:
            raise UserError(
                f"min_isolation={min_isolation!r} is no Level; use Level.CONFINED or another"
            ) from None
        self.limits = limits
        self.workers = workers
        self.python = python or sys.executable
        if not self.python:
            raise UserError("no Python interpreter is known here; name one with python='...'")
        self.layers = tuple(sorted(set(layers)))
        self.backend = backend
        self.min_isolation = min_isolation
        self.allow_unsafe = bool(allow_unsafe)
        #: What decides how a program ends here, as plain data, for keys of caches.
        self.identity = (
            *(self.python, self.layers, astuple(limits)),
            backend if isinstance(backend, str) else backend.name,
        )
        self.cache = _cache(cache)
        self.queue = queue
        self.recheck = recheck
        self.seed = seed
        self._lock = threading.Lock()
        self._state: Engine | None = None
        self._closed = False

    # -- running -----------------------------------------------------------------------------

    def run(self, job: Job) -> Verdict:
        """Run one job and wait for its verdict.

        Raises:
            UserError: not a `Job`, or the sandbox is closed.
            SandboxUnavailable: this machine cannot keep it apart well enough.
        """
        return self.run_many([job])[0]

    def run_many(self, jobs: Sequence[Job]) -> list[Verdict]:
        """Run jobs, `workers` at a time, and wait for all verdicts, in the order of the jobs.

        Equal jobs run once; the others get a copy of the verdict with `cached=True`. When the
        waiting is interrupted (Ctrl-C), what runs is killed and the interruption goes on.

        Raises:
            UserError: something else than a `Job` is among them, or the sandbox is closed.
            SandboxUnavailable: this machine cannot keep one of them apart well enough.
        """
        jobs = [_checked(job) for job in jobs]
        if not jobs:
            return []
        engine = self._ready(max(job.min_isolation for job in jobs))
        requests = engine.requests(jobs)
        try:
            for request in requests:
                engine.submit(request)
            return [engine.verdict(request) for request in requests]
        finally:
            settle(r.flight for r in requests if r.flight is not None and not r.flight.done())

    def map(self, jobs: Iterable[Job], look_ahead: int | None = None) -> Iterator[Verdict]:
        """Verdicts of jobs that are still being made, in their order.

        Takes from `jobs` only a little ahead of what was handed out, so an endless iterator
        is fine. What still runs is killed when the result is no longer wanted.

        Args:
            jobs: any iterable; it is read in the thread that reads the result.
            look_ahead: how many jobs may be on their way; four times `workers` when None.

        Raises:
            UserError: something else than a `Job` is among them, or the sandbox is closed.

        >>> from rlkit.sandbox import TestSpec
        >>> made = (Job(source=f"def f(): return {n}", entry="f",
        ...             tests=[TestSpec("t", expected=4)]) for n in range(6))
        >>> with Sandbox(workers=1) as sandbox:
        ...     [verdict.reward for verdict in sandbox.map(made)]
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
        """
        if look_ahead is None:
            look_ahead = 4 * self.workers
        if not isinstance(look_ahead, int) or look_ahead < 1:
            raise UserError(f"look_ahead={look_ahead!r}; give a number of jobs, 1 or more")
        return self._map(iter(jobs), look_ahead)

    async def arun(self, job: Job) -> Verdict:
        """Run one job without blocking the event loop; cancelling the task kills the job.

        Raises:
            UserError: not a `Job`, or the sandbox is closed.
            SandboxUnavailable: this machine cannot keep it apart well enough.
        """
        import asyncio

        job = _checked(job)
        # Opening starts processes and asks them what holds: some tenths of a second, once.
        engine = self._at_hand(job.min_isolation)
        if engine is None:
            engine = await asyncio.to_thread(self._ready, job.min_isolation)
        (request,) = engine.requests([job])
        while not engine.submit(request, wait=False):
            await asyncio.wrap_future(engine.scheduler.room())
        if request.flight is not None:
            # A cancelled task cancels the flight, and that stops the job.
            with contextlib.suppress(Closed):  # said below
                await asyncio.wrap_future(request.flight)
        return engine.verdict(request)

    async def amap(
        self, jobs: Iterable[Job], look_ahead: int | None = None
    ) -> AsyncIterator[Verdict]:
        """`map` for an event loop: `async for verdict in sandbox.amap(jobs)`.

        Args:
            jobs: any iterable; it is read in the event loop.
            look_ahead: how many jobs may be on their way; four times `workers` when None.
        """
        import asyncio

        ahead = look_ahead or 4 * self.workers
        tasks: deque[asyncio.Task[Verdict]] = deque()
        try:
            for job in jobs:
                tasks.append(asyncio.ensure_future(self.arun(job)))
                if len(tasks) >= ahead:
                    yield await tasks.popleft()
            while tasks:
                yield await tasks.popleft()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- about it ----------------------------------------------------------------------------

    def report(self) -> IsolationReport:
        """What keeps a job apart from this machine, as seen by probes run inside the sandbox.

        Raises:
            UserError: the sandbox is closed, or nothing can be started here.
        """
        try:
            return self._open().report()
        except InfrastructureFault as fault:
            raise UserError(f"the sandbox does not work here: {fault}") from fault

    def record(self) -> dict[str, str]:
        """The line about this sandbox in the record of a run: backend, level, one sentence.

        Raises:
            UserError: the sandbox is closed, or nothing can be started here.
        """
        report = self.report()
        name = self.backend if isinstance(self.backend, str) else self.backend.name
        return {"backend": name, "level": report.level.name, "sentence": report.sentence}

    def stats(self) -> dict[str, Any]:
        """What this sandbox did since it was opened, as plain data."""
        with self._lock:
            engine = self._state
        done = nothing_done() if engine is None else engine.stats()
        return {**done, "cache": None if self.cache is None else self.cache.path}

    def zygotes(self) -> list[int]:
        """Process ids of the warm processes that stand ready here; empty for other backends."""
        with self._lock:
            engine = self._state
        pids = None if engine is None else getattr(engine.backend, "pids", None)
        return [] if pids is None else pids()

    def close(self) -> None:
        """Stop what runs, wait for it, and remove all scratch folders. May be called twice."""
        with self._lock:
            self._closed = True
            engine, self._state = self._state, None
        if engine is not None:
            engine.close()
        if self.cache is not None:
            self.cache.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        names = ("limits", "workers", "python", "layers", "backend", "min_isolation")
        names += ("allow_unsafe", "cache", "queue", "recheck", "seed")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, settings: dict[str, Any]) -> None:
        self.__init__(**settings)

    def __repr__(self) -> str:
        name = self.backend if isinstance(self.backend, str) else self.backend.name
        unsafe = ", allow_unsafe=True" if self.allow_unsafe else ""
        return f"Sandbox({self.limits}, workers={self.workers}, backend={name!r}{unsafe})"

    def _open(self) -> Engine:
        with self._lock:
            if self._closed:
                raise UserError("this sandbox is closed; make a new one")
            # A forked copy of this process has none of its threads and must not share its state.
            if self._state is None or self._state.pid != os.getpid():
                # It must not know this object, which could then never be forgotten.
                self._state = Engine(Settings(**self.__getstate__()))
                weakref.finalize(self, Engine.forget, self._state)
                _open_sandboxes.add(self)
            return self._state

    def _ready(self, level: Level) -> Engine:
        """The open engine, if jobs that ask for `level` may run in it."""
        engine = self._open()
        engine.check(level)
        return engine

    def _at_hand(self, level: Level) -> Engine | None:
        """The same when nothing has to be waited for, else None."""
        engine = self._state
        if engine is None or engine.pid != os.getpid() or not engine.has_reported:
            return None
        return self._ready(level)

    def _map(self, jobs: Iterator[Job], look_ahead: int) -> Iterator[Verdict]:
        on_their_way: deque[Request] = deque()
        try:
            for job in jobs:
                engine = self._ready(_checked(job).min_isolation)
                (request,) = engine.requests([job])
                on_their_way.append(request)
                engine.submit(request)
                while on_their_way and (len(on_their_way) >= look_ahead or on_their_way[0].is_done):
                    yield engine.verdict(on_their_way.popleft())
            while on_their_way:
                yield engine.verdict(on_their_way.popleft())
        finally:
            settle(r.flight for r in on_their_way if r.flight is not None)


def available_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _checked(job: Any) -> Job:
    if not isinstance(job, Job):
        raise UserError(f"the sandbox runs Job(...) objects, not {job!r}")
    return job


def _cache(given: ResultCache | str | Path | bool | None) -> ResultCache | None:
    if given is None or given is False:
        return None
    from rlkit.sandbox.cache import ResultCache

    if isinstance(given, ResultCache):
        return given
    if given is True:
        return ResultCache()
    if isinstance(given, (str, os.PathLike)):
        return ResultCache(os.fspath(given))
    raise UserError(f"cache={given!r}; give True, a path, a ResultCache, or None for none")


def _after_fork() -> None:
    """In a forked copy, a lock may be held by a thread that does not exist there."""
    for sandbox in list(_open_sandboxes):
        sandbox._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
