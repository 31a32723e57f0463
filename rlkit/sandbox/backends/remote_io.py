"""io mode on a service that compiles and runs whole programs by the name of their language.

Such a service has toolchains of its own, and no warm processes and no store of compiled programs
that we could use: each test is a request, in which the program is compiled again. What comes back
is judged here, by the same judge as everywhere, so that an exit code of 0 alone pays nothing.

Left out on purpose: telling a compiler that refuses a program from one that does not work there.
The service's own word is taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from rlkit.errors import UserError
from rlkit.sandbox import languages
from rlkit.sandbox.backends.base import Outcome
from rlkit.sandbox.backends.by_text import stopped_early
from rlkit.sandbox.checkers import CheckerFault
from rlkit.sandbox.compiling import Interrupted
from rlkit.sandbox.endings import what_ended_it
from rlkit.sandbox.io_judge import judge_tests, last_words, not_run, verdict_of
from rlkit.sandbox.job import Job
from rlkit.sandbox.judge import without_start
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.spec import TestSpec, text_bytes
from rlkit.sandbox.verdict import CompileReport, IsolationReport, Status, Verdict


@dataclass(frozen=True)
class Program:
    """One run of a whole program.

    Attributes:
        language: a name of `rlkit.sandbox.languages.NAMES`.
        source: its text.
        stdin: what it reads.
        files: lie beside it, by relative name.
        args: its command line arguments.
        keep: names of files to read back.
        limits: of the run.
        compile_limits: of the compiler.
    """

    language: str
    source: str
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    compile_limits: Limits = field(default_factory=lambda: Limits(wall_s=20.0, cpu_s=20.0))


class RunsPrograms(Protocol):
    """What a backend of this kind has."""

    def run_program(
        self, program: Program, cancelled: Callable[[], bool]
    ) -> tuple[Outcome | None, Outcome | None]:
        """The compiler's outcome and the program's; None for what was not started."""


def run(
    job: Job,
    limits: Limits,
    backend: RunsPrograms,
    cancelled: Callable[[], bool],
    isolation: IsolationReport,
) -> Verdict:
    """Run a job's tests, one request each, and judge them.

    Args:
        job: in mode `io`, with its hidden tests drawn.
        limits: of each test.
        backend: the service.
        cancelled: asked now and then; True stops it.
        isolation: what keeps whole programs apart there; copied into the verdict.

    Raises:
        UserError: the service has no such language, or cannot be given what the job needs.
        InfrastructureFault: the service failed.
    """
    row = languages.get(job.language)
    limits = row.fit(job.limits or limits, chosen=job.limits is not None)
    try:
        source = job.source.removeprefix("\ufeff")
        source.encode("utf-8")
    except UnicodeEncodeError as error:
        text = f"the program holds half a character at character {error.start}"
        return without_start(job, Status.COMPILE_ERROR, text)
    if job.preload != "base":
        raise UserError(
            f"preload={job.preload!r} is not to be had for whole programs on the backend "
            f"{backend.name!r}; leave it out, and import what the service has"
        )
    files = {place: text_bytes(data, place) for place, data in job.files.items()}
    compiled: CompileReport | None = None

    def run_one(test: TestSpec) -> Outcome:
        nonlocal compiled
        program = Program(
            language=job.language,
            source=source,
            stdin=text_bytes(test.stdin or "", "stdin"),
            files=files,
            args=(*job.args, *test.argv),
            keep=tuple(test.expected_files),
            limits=limits,
            compile_limits=job.compile_limits or row.compile_limits,
        )
        compiling, outcome = backend.run_program(program, cancelled)
        if "cancelled" in (compiling and compiling.ended, outcome and outcome.ended):
            raise Interrupted
        if compiling is not None:
            compiled = _compiled(program.compile_limits, compiling)
            if compiled.status is not Status.PASS:
                raise _NotCompiled
        printed = len(outcome.stdout) + len(outcome.stderr)
        stopped_early(outcome, printed, limits.output_kb, limits.output_kb)
        return _within(limits, outcome)

    try:
        results, outcomes = judge_tests(job, row, limits, run_one)
    except Interrupted:
        return without_start(job, Status.SANDBOX_ERROR, "cancelled")
    except CheckerFault as fault:
        return without_start(job, Status.SANDBOX_ERROR, str(fault))
    except _NotCompiled:
        results = [not_run(t, compiled.status, compiled.message) for t in job.tests]
        return verdict_of(results, [], isolation, compiled, compiled.message)
    return verdict_of(results, outcomes, isolation, compiled)


class _NotCompiled(Exception):
    """The compiler refused the program, so no test can be run."""


def _within(limits: Limits, outcome: Outcome) -> Outcome:
    """The outcome with no more output than was allowed."""
    most = limits.output_kb * 1024
    if len(outcome.stdout) + len(outcome.stderr) <= most:
        return outcome
    cut = replace(outcome, stdout=outcome.stdout[:most], stderr=outcome.stderr[:most])
    cut.truncated = True
    if cut.ended == "exit":
        cut.ended, cut.stopped_by = "output", "output limit"
    return cut


def _compiled(limits: Limits, outcome: Outcome) -> CompileReport:
    status, message = what_ended_it(limits, outcome)
    stderr = outcome.stderr.decode("utf-8", "replace")
    if status is not None:
        message = f"while it was compiled: {message}"
    elif outcome.exit_code == 0:
        status = Status.PASS
    else:
        status = Status.COMPILE_ERROR
        errors = [line for line in stderr.split("\n") if "error" in line.lower()]
        message = f"does not compile: {last_words(errors[0] if errors else stderr)}"
    return CompileReport(
        status=status,
        seconds=outcome.wall_s or None,
        stdout=outcome.stdout.decode("utf-8", "replace"),
        stderr=stderr,
        message=message,
    )
