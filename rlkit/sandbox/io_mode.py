"""io mode: run the whole program, once for each test, and compare what it prints and writes.

A program is compiled once, inside the sandbox, or taken from the store of compiled programs.
Each test then gets a fresh process in a fresh folder, its stdin, its arguments and the job's
files; what is expected stays here. `io_judge` says what counts as a pass.

A program that runs into the wall clock three times in a row is not started again: what never
ends on three inputs would cost minutes to show it on a hundred. The tests left over are
`NO_RESULT` and say so.

The first time that a language's program fails on a backend, and none has come to its end there
yet, the language's honest program is run. If that fails too, it is not the program's fault: the
toolchain does not work inside this sandbox, and that is said instead of a verdict.

Left out on purpose: interactive problems, where a judge answers what the program asks.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from rlkit.errors import UserError
from rlkit.sandbox import languages
from rlkit.sandbox.artefacts import Artefacts
from rlkit.sandbox.backends.base import Backend, InfrastructureFault, Outcome
from rlkit.sandbox.checkers import CheckerFault
from rlkit.sandbox.compiling import Interrupted, compile_program
from rlkit.sandbox.io_judge import judge_tests, not_run, verdict_of
from rlkit.sandbox.io_program import Program, Refused
from rlkit.sandbox.job import Job
from rlkit.sandbox.judge import without_start
from rlkit.sandbox.languages.row import Language, Toolchain
from rlkit.sandbox.languages.search import closed_to_others
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.spec import TestSpec
from rlkit.sandbox.verdict import IsolationReport, Status, TestResult, Verdict

#: What an honest program may use that shows whether a language works.
PROOF = Limits(wall_s=20.0, cpu_s=10.0)

#: The program came to its end by itself, so its language works.
_CAME_TO_ITS_END = (Status.PASS, Status.FAIL)
#: So may end a program whose language does not work.
_FAILED = (Status.RUNTIME_ERROR, Status.COMPILE_ERROR, Status.CRASH)

Cancelled = Callable[[], bool]


def run(
    job: Job,
    limits: Limits,
    backend: Backend,
    artefacts: Artefacts | None,
    cancelled: Cancelled,
    isolation: IsolationReport,
) -> Verdict:
    """Compile a job's program if need be, run its tests, and judge them.

    Args:
        job: in mode `io`.
        limits: of each test, where the job names none of its own.
        backend: what runs commands.
        artefacts: the store of compiled programs; None compiles anew.
        cancelled: asked now and then; True stops it.
        isolation: what keeps the program apart; copied into the verdict.

    Raises:
        UserError: the language's toolchain is not on this machine, or does not work inside.
        InfrastructureFault: the sandbox itself failed.
    """
    job = job.drawn()
    row = languages.get(job.language)
    # A container has toolchains of its own, in places of its own.
    require = getattr(backend, "toolchain", languages.require)
    toolchain = require(job.language)
    limits = row.fit(job.limits or limits, chosen=job.limits is not None)

    def prove() -> None:
        _prove(row, toolchain, backend, cancelled)

    try:
        program = Program.of(row, toolchain, job, limits)
        compiled, files = None, program.files
        if row.compile is not None:
            made = compile_program(program, backend, artefacts, cancelled, prove)
            compiled, files = made.report, {**made.files, **program.beside}
            if compiled.status is not Status.PASS:
                results = [not_run(t, compiled.status, compiled.message) for t in job.tests]
                return verdict_of(results, [], isolation, compiled, compiled.message)
        results, outcomes = _run_tests(program, files, backend, cancelled)
        if any(result.status in _CAME_TO_ITS_END for result in results):
            _proven(backend).add(row.name)
        elif any(result.status in _FAILED for result in results):
            prove()
    except Refused as refused:
        return without_start(job, refused.status, str(refused))
    except Interrupted:
        return without_start(job, Status.SANDBOX_ERROR, "cancelled")
    except CheckerFault as fault:
        return without_start(job, Status.SANDBOX_ERROR, str(fault))
    return verdict_of(results, outcomes, isolation, compiled)


def _run_tests(
    program: Program, files: dict[str, bytes], backend: Backend, cancelled: Cancelled
) -> tuple[list[TestResult], list[Outcome]]:
    """A result for each test, in order, and the outcomes of those that were run."""

    def run_one(test: TestSpec) -> Outcome:
        outcome = backend.execute(program.command(test, files), program.allowed, cancelled)
        if outcome.ended == "cancelled":
            raise Interrupted
        return outcome

    return judge_tests(program.job, program.row, program.limits, run_one)


_proofs: dict[int, tuple[weakref.ref, set[str]]] = {}


def _proven(backend: Backend) -> set[str]:
    """The languages that are known to work on a backend."""
    key = id(backend)  # and not the backend itself, which may have an equality of its own
    known = _proofs.get(key)
    if known is None or known[0]() is not backend:
        known = weakref.ref(backend, lambda _: _proofs.pop(key, None)), set()
        _proofs[key] = known
    return known[1]


def _prove(row: Language, toolchain: Toolchain, backend: Backend, cancelled: Cancelled) -> None:
    """Run a language's honest program, unless the language is known to work on this backend.

    Raises:
        UserError: it does not work there.
        InfrastructureFault: it ran into a limit, which may be chance.
        Interrupted: it was cancelled.
    """
    known = _proven(backend)
    if row.name in known:
        return
    smoke = row.honest[0]
    job = Job(row.name, smoke.source, smoke.tests, mode="io")
    program = Program.of(row, toolchain, job, row.fit(PROOF, chosen=False))
    files = program.files
    if row.compile is not None:
        made = compile_program(program, backend, None, cancelled, lambda: None)
        status, message = made.report.status, made.report.message
        files = {**made.files, **program.beside}
    if row.compile is None or status is Status.PASS:
        results, _ = _run_tests(program, files, backend, cancelled)
        bad = next((r for r in results if r.status is not Status.PASS), results[0])
        status, message = bad.status, bad.message
    if status is Status.PASS:
        known.add(row.name)
        return
    said = f"{toolchain.version}: a program that {smoke.name} ended in {status} ({message})"
    if status not in (*_FAILED, Status.FAIL):
        raise InfrastructureFault(said)
    closed = next(filter(None, map(closed_to_others, toolchain.tools.values())), "")
    if closed:
        said += (
            f". Its toolchain lies in {closed}, which only its owner may enter, and without "
            "namespaces a program runs as another user: install it for all users"
        )
    raise UserError(f"{row.title} does not work inside this sandbox; {said}")
