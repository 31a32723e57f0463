"""From a job to the module that runs its mode, and what is the same for all of them.

A mode has `prepare(job, limits) -> Call` and `judge(job, limits, outcome, isolation) ->
Verdict`; the io mode, which may compile and starts a process for each test, does both in
`run`, as does inproc. What all verdicts share is added here: results of hidden tests say no
more than how they ended, and what in the program looks like cheating is noted.

Left out on purpose: retries, caching and order, which belong to the front and its
scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import Backend
from rlkit.sandbox.checkers import CheckerFault
from rlkit.sandbox.judge import without_start
from rlkit.sandbox.probe import relaxed
from rlkit.sandbox.scheduler import Stopped
from rlkit.sandbox.suspicion import suspicion
from rlkit.sandbox.types import MAX_SOURCE_CHARS, IsolationReport, Job, Limits, Status, Verdict

if TYPE_CHECKING:
    from rlkit.sandbox.artefacts import Artefacts

#: How many of the scheduler's slots a job takes. A compiler keeps a core busy for as long as
#: hundreds of Python calls, and runs processes and threads of its own.
WEIGHTS = {"c": 2, "cpp": 2, "java": 2, "rust": 2, "go": 2}


def weight(job: Job) -> int:
    """How many slots of the scheduler a job takes."""
    return WEIGHTS.get(job.language, 1)


def mode_module(job: Job) -> ModuleType:
    """The module that prepares and judges the calls of a job's mode.

    Raises:
        UserError: a mode that this version has not.
    """
    if job.language == "math":
        name = "rlkit.sandbox.modes.mathematics"
    elif job.mode == "func":
        name = "rlkit.sandbox.judge"
    else:
        name = f"rlkit.sandbox.modes.{job.mode}"
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise UserError(f"mode {job.mode!r} is not supported by this version of rlkit") from None


def run_job(
    job: Job,
    limits: Limits,
    backend: Backend,
    report: IsolationReport,
    artefacts: Artefacts | None,
    cancelled: Callable[[], bool],
) -> Verdict:
    """Run a job once, and judge it.

    Args:
        job: with `draw` done.
        limits: what it may use.
        backend: what runs it.
        report: what keeps a job of that backend apart.
        artefacts: the store of compiled programs, for jobs of mode `io`.
        cancelled: asked now and then; True stops it.

    Raises:
        InfrastructureFault: the sandbox itself failed.
        Stopped: it was cancelled.
    """
    if len(job.source) > MAX_SOURCE_CHARS:
        text = f"the source is longer than {MAX_SOURCE_CHARS:,} characters"
        return without_start(job, Status.REJECTED, text)
    isolation = relaxed(report, limits)
    if hasattr(backend, "run_job"):  # a server of ours, which does all of this itself
        verdict = backend.run_job(job, limits, cancelled)
    elif job.mode == "io":
        if hasattr(backend, "run_program"):  # a service with toolchains of its own
            from rlkit.sandbox.backends import remote_io

            verdict = remote_io.run(job, limits, backend, cancelled, isolation)
        else:
            from rlkit.sandbox import io_mode

            verdict = io_mode.run(job, limits, backend, artefacts, cancelled, isolation)
        if cancelled():
            raise Stopped
    else:
        module = mode_module(job)
        try:
            if hasattr(module, "run"):  # a mode that makes several calls
                verdict = module.run(job, limits, backend, cancelled, isolation)
                if cancelled():
                    raise Stopped
            else:
                outcome = backend.call(module.prepare(job, limits), limits, cancelled)
                if outcome.ended == "cancelled":
                    raise Stopped
                verdict = module.judge(job, limits, outcome, isolation)
                verdict = replace(
                    verdict, orphans_killed=outcome.orphans, stopped_by=outcome.stopped_by or ""
                )
        except CheckerFault as fault:  # the user's own function, so nothing is known
            return without_start(job, Status.SANDBOX_ERROR, str(fault))
    if any(test.hidden for test in job.tests):
        results = zip(job.tests, verdict.tests, strict=True)
        verdict = replace(verdict, tests=tuple(r.veiled() if t.hidden else r for t, r in results))
    return replace(verdict, backend=backend.name, suspicion=suspicion(job.source, job.language))
