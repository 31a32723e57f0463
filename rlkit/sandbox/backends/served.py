"""ServedBackend: another machine's sandbox, by a server that `rlkit sandbox serve` started there.

A job is sent as a whole and comes back as a verdict: one request, and warm zygotes at the other
end. What is expected goes along, to the server, which judges; it never enters the sandbox.

The report on isolation is the one that the server's own probes made: what a job can do to that
machine, as that machine saw it. It is no report on the way there.

Left out on purpose: checkers that are functions. They would have to be sent as code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from rlkit.errors import UserError
from rlkit.sandbox import languages, wire
from rlkit.sandbox.backends.base import Call, Command, InfrastructureFault, Outcome
from rlkit.sandbox.backends.http import Cancelled, Service
from rlkit.sandbox.scheduler import Stopped
from rlkit.sandbox.types import IsolationReport, Job, Limits, Status, Verdict

#: Seconds that the server may take beside what a job may: queueing, starting, the way there.
PATIENCE_S = 60.0


class ServedBackend:
    """Runs whole jobs on another machine.

    Args:
        url: the server's address.
        workers: jobs at a time; the front keeps to it.
        token: what the server was given with `--token`.
        tries: how often a request is made at most.
        patience_s: seconds to wait beyond a job's own time limits.

    Raises:
        UserError: no address.

    >>> ServedBackend("http://127.0.0.1:8080").name
    'http://127.0.0.1:8080'
    """

    def __init__(
        self,
        url: str,
        workers: int = 1,
        *,
        token: str | None = None,
        tries: int = 6,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.service = Service(url, token, tries)
        self.name = self.service.address
        self.workers = workers
        self.patience_s = patience_s

    def run_job(self, job: Job, limits: Limits, cancelled: Callable[[], bool]) -> Verdict:
        """Have a job run and judged.

        Raises:
            UserError: the server refuses the job, for example because it lacks the language.
            InfrastructureFault: the server, or the way to it, failed.
            Stopped: it was cancelled.
        """
        try:
            verdict = self.service.request(
                "POST",
                "/v1/jobs",
                wire.pack_job(job, limits),
                wait_s=_longest(job, limits) + self.patience_s,
                cancelled=cancelled,
                kind=wire.KIND,
                read=wire.unpack_verdict,
                refusals=(400, 413),
            )
        except Cancelled:
            raise Stopped from None
        if verdict.status is Status.SANDBOX_ERROR:
            raise InfrastructureFault(f"{self.name}: {verdict.message}")
        if [result.name for result in verdict.tests] != [test.name for test in job.tests]:
            raise InfrastructureFault(f"{self.name} answered about other tests")
        return replace(verdict, cached=False)

    def report(self) -> IsolationReport:
        """What keeps a job apart on the server's machine, by the server's own probes.

        Raises:
            InfrastructureFault: the server does not answer.
        """
        told = self.service.json("GET", "/v1/report", wait_s=self.patience_s)
        try:
            report = wire.unpack_report(told)
        except wire.Damaged as error:
            raise InfrastructureFault(f"{self.name}: {error}") from None
        return replace(report, sentence=f"on {self.name}: {report.sentence}")

    def call(self, call: Call, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Not to be had: the server runs jobs as a whole."""
        self._whole_jobs_only()

    def execute(self, command: Command, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Not to be had: the server runs jobs as a whole."""
        self._whole_jobs_only()

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self.service.close()

    def _whole_jobs_only(self) -> NoReturn:
        raise UserError(f"{self.name} runs whole jobs; use Sandbox(backend=...).run(job)")


def _longest(job: Job, limits: Limits) -> float:
    """Seconds that a job may take if everything in it takes its time."""
    limits = job.limits or limits
    apart = job.mode in ("io", "inproc") or job.share == "nothing"
    seconds = limits.wall_s * (len(job.tests) if apart else 1)
    if job.mode == "io":
        compiling = job.compile_limits or languages.get(job.language).compile_limits
        seconds += compiling.wall_s
    return seconds
