"""Sandbox: run programs that a model wrote, a few at a time, and judge each of them.

Each job gets a fresh interpreter with its own session, scratch folder, limits and
fence (`guard.py`), and nothing of this process: no environment, no descriptor, no
expected value. The host compares what comes back (`judge.py`).

Left out on purpose, each with its own place later: warm processes instead of fresh
ones, namespaces, other languages and modes, remote back ends, a result cache that
outlives the batch.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox import launch
from rlkit.sandbox.judge import judge, without_start
from rlkit.sandbox.probe import probe, relaxed
from rlkit.sandbox.scratch import remove_folder
from rlkit.sandbox.supervise import InfrastructureFault, Outcome, run_child
from rlkit.sandbox.types import MAX_SOURCE_CHARS, IsolationReport, Job, Limits, Status, Verdict

#: Fences that the kernel may offer; each is used where a probe shows that it holds.
LAYERS = ("landlock", "seccomp")

_TRIES = 2  # an infrastructure fault is retried once
_job_numbers = count(1)
_reports: dict[tuple, tuple[IsolationReport, frozenset[str]]] = {}
_reports_lock = threading.Lock()


class Sandbox:
    """Runs jobs, `workers` of them at a time, and returns a verdict for each.

    Use it as a context manager, or call `close()`. It may be shared by threads, works
    inside a running event loop (where it blocks), and can be pickled: only its settings travel.

    Args:
        limits: what a job may use that names no limits of its own.
        workers: jobs at a time; the processors this process may use when None.
        python: interpreter that runs the jobs; this one when None.
        layers: which fences of the kernel to use where it has them; leave one out to see
            what it is good for.

    Raises:
        UserError: on Windows, or with settings that make no sense.

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
    ) -> None:
        if os.name != "posix":
            raise UserError(
                "the sandbox cannot keep a program apart on Windows; run rlkit in WSL 2, in a "
                "container, or on a Linux machine"
            )
        limits = Limits() if limits is None else limits
        if not isinstance(limits, Limits):
            raise UserError(f"limits must be Limits(...), not {limits!r}")
        if workers is None:
            workers = available_processors()
        if not isinstance(workers, int) or workers < 1:
            raise UserError(f"workers={workers!r}; give a number of jobs at a time, 1 or more")
        unknown = set(layers) - set(LAYERS)
        if unknown:
            raise UserError(f"unknown layers {sorted(unknown)}; choose from {', '.join(LAYERS)}")
        self.limits = limits
        self.workers = workers
        self.python = python or sys.executable
        if not self.python:
            raise UserError("no Python interpreter is known here; name one with python='...'")
        self.layers = tuple(sorted(set(layers)))
        self._lock = threading.Lock()
        self._state: _State | None = None
        self._closed = False

    def run(self, job: Job) -> Verdict:
        """Run one job and wait for its verdict.

        Raises:
            UserError: not a `Job`, or the sandbox is closed.
        """
        return self.run_many([job])[0]

    def run_many(self, jobs: Sequence[Job]) -> list[Verdict]:
        """Run jobs, `workers` at a time, and wait for all verdicts, in the order of the jobs.

        Equal jobs run once; the others get a copy of the verdict with `cached=True`. When the
        waiting is interrupted (Ctrl-C), what runs is killed and the interruption goes on.

        Raises:
            UserError: something else than a `Job` is among them, or the sandbox is closed.
        """
        jobs = list(jobs)
        for job in jobs:
            if not isinstance(job, Job):
                raise UserError(f"the sandbox runs Job(...) objects, not {job!r}")
        keys = [job.key(self.limits) for job in jobs]
        first_of: dict[str, int] = {}
        for place, key in enumerate(keys):
            first_of.setdefault(key, place)
        state = self._open()
        cancel = threading.Event()
        futures: dict[str, Future[Verdict]] = {}
        try:
            for key, place in first_of.items():
                futures[key] = state.submit(self._one, state, jobs[place], cancel)
            verdicts = {key: future.result() for key, future in futures.items()}
        except CancelledError:
            raise UserError("the sandbox was closed while this was waiting for it") from None
        except BaseException:
            cancel.set()
            for future in futures.values():
                future.cancel()
            wait(futures.values())
            raise
        return [
            verdicts[key] if first_of[key] == place else replace(verdicts[key], cached=True)
            for place, key in enumerate(keys)
        ]

    def report(self) -> IsolationReport:
        """What keeps a job apart from this machine, as seen by probes run inside the sandbox.

        Raises:
            UserError: the sandbox is closed, or no interpreter can be started.
        """
        state = self._open()
        try:
            return state.submit(self._isolation, state).result()[0]
        except InfrastructureFault as fault:
            raise UserError(f"the sandbox does not work here: {fault}") from fault

    def close(self) -> None:
        """Stop what runs, wait for it, and remove all scratch folders. May be called twice."""
        with self._lock:
            self._closed = True
            state, self._state = self._state, None
        if state is not None:
            state.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "limits": self.limits,
            "workers": self.workers,
            "python": self.python,
            "layers": self.layers,
        }

    def __setstate__(self, settings: dict[str, Any]) -> None:
        self.__init__(**settings)

    def __repr__(self) -> str:
        return f"Sandbox({self.limits}, workers={self.workers})"

    def _open(self) -> _State:
        with self._lock:
            if self._closed:
                raise UserError("this sandbox is closed; make a new one")
            # A forked copy of this process has none of its threads and must not share its folder.
            if self._state is None or self._state.pid != os.getpid():
                self._state = _State(self.workers, self.python)
            return self._state

    def _one(self, state: _State, job: Job, cancel: threading.Event) -> Verdict:
        if len(job.source) > MAX_SOURCE_CHARS:
            return without_start(
                job, Status.REJECTED, f"the source is longer than {MAX_SOURCE_CHARS:,} characters"
            )
        limits = job.limits or self.limits
        fault = "cancelled"
        for _ in range(_TRIES):
            if cancel.is_set() or state.closing.is_set():
                break
            try:
                report, fences = self._isolation(state)
                outcome = self._run_child(state, job, limits, cancel.is_set)
                if outcome.ended != "cancelled":
                    _check_fences(outcome, fences, limits)
            except (InfrastructureFault, OSError) as error:
                fault = str(error)
                continue
            if outcome.ended == "cancelled":
                break
            return judge(job, limits, outcome, relaxed(report, limits))
        return without_start(job, Status.SANDBOX_ERROR, fault)

    def _isolation(self, state: _State) -> tuple[IsolationReport, frozenset[str]]:
        key = (self.python, self.layers, os.getuid())
        with _reports_lock:  # once per process; the others wait for it
            if key not in _reports:
                _reports[key] = probe(
                    lambda job, limits: self._run_child(state, job, limits, lambda: False)
                )
            return _reports[key]

    def _run_child(
        self, state: _State, job: Job, limits: Limits, cancelled: Callable[[], bool]
    ) -> Outcome:
        number = next(_job_numbers)
        folder = state.folder / f"job-{number}"
        folder.mkdir(mode=0o700)
        try:
            request = launch.request(job, limits, self.layers, str(folder), number)
            return run_child(
                [self.python, "-s", "-S", "-B", str(state.harness)],
                request,
                limits,
                str(folder),
                launch.environment(job, str(folder)),
                lambda: cancelled() or state.closing.is_set(),
                request["tag"],
            )
        finally:
            remove_folder(str(folder))


class _State:
    """What an open sandbox holds: its folder with the compiled harness, and its threads."""

    def __init__(self, workers: int, python: str) -> None:
        self.pid = os.getpid()
        self.closing = threading.Event()
        self.folder = Path(tempfile.mkdtemp(prefix="rlkit-sandbox-"))
        # When nobody calls close(), this runs at the latest when the interpreter ends.
        self._remove = weakref.finalize(self, _remove_own, str(self.folder), self.pid)
        self.harness = launch.put_child_code(self.folder, python)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="rlkit-sandbox")

    def submit(self, function: Any, *arguments: Any) -> Future:
        try:
            return self._threads.submit(function, *arguments)
        except RuntimeError as error:  # closed by another thread a moment ago
            raise UserError(f"this sandbox is closed ({error}); make a new one") from None

    def close(self) -> None:
        self.closing.set()
        if self.pid == os.getpid():
            self._threads.shutdown(wait=True, cancel_futures=True)
            self._remove()


def _check_fences(outcome: Outcome, wanted: frozenset[str], limits: Limits) -> None:
    """A fence that stood for the probes stands for every job, or there is no verdict."""
    missing = wanted - outcome.fences - ({"no_processes"} if limits.processes else set())
    if missing:
        raise InfrastructureFault(f"the kernel refused what it gave before: {sorted(missing)}")


def available_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _remove_own(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # a forked copy of this process runs this too, and must not
        remove_folder(folder)
