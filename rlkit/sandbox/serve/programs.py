"""Whole programs, run by a server for clients that judge the outcome themselves.

The parts are those of io mode: the table of languages, the store of compiled programs, the local
backend. Only the judge is missing.

Left out on purpose: what the outside calls a language or a result; each protocol has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rlkit.errors import UserError
from rlkit.sandbox import languages
from rlkit.sandbox.artefacts import Artefacts
from rlkit.sandbox.backends.base import Backend, Outcome
from rlkit.sandbox.backends.remote_io import Program as Wanted
from rlkit.sandbox.compiling import Interrupted, compile_program
from rlkit.sandbox.io_program import Program, Refused
from rlkit.sandbox.job import Job
from rlkit.sandbox.scheduler import Stopped
from rlkit.sandbox.serve.answer import Refusal
from rlkit.sandbox.spec import TestSpec
from rlkit.sandbox.verdict import CompileReport, Status


def run_program(
    wanted: Wanted, backend: Backend, artefacts: Artefacts, cancelled: Callable[[], bool]
) -> tuple[CompileReport | None, Outcome | None]:
    """Compile and run a program once.

    Returns:
        What the compiler said, None where nothing is compiled; and what the program did, None
        when it was not started.

    Raises:
        Refusal: no such language here, or a program that cannot be one.
        InfrastructureFault: the sandbox failed.
        Stopped: nobody waits any more.
    """
    try:
        row, toolchain = languages.get(wanted.language), languages.require(wanted.language)
        if row.launch is None:
            raise Refusal(400, f"{row.title} is no language of whole programs")
        job = Job(
            language=wanted.language,
            source=wanted.source,
            tests=[TestSpec("run", stdin=wanted.stdin, expected=b"-")],
            mode="io",
            files=wanted.files,
            args=wanted.args,
            # Installed libraries can be imported, as on such services.
            preload="numpy" if row.name == "python" else "base",
            limits=row.fit(wanted.limits, chosen=False),
            compile_limits=wanted.compile_limits if row.compile is not None else None,
        )
        program = Program.of(row, toolchain, job, job.limits)
        compiled, files = None, program.files
        if row.compile is not None:
            made = compile_program(program, backend, artefacts, cancelled, lambda: None)
            compiled, files = made.report, {**made.files, **program.beside}
            if compiled.status is not Status.PASS:
                return compiled, None
        command = replace(program.command(job.tests[0], files), keep=wanted.keep)
        outcome = backend.execute(command, program.allowed, cancelled)
    except Refused as refused:
        report = CompileReport(Status.COMPILE_ERROR, message=str(refused), stderr=str(refused))
        return report, None
    except UserError as error:
        raise Refusal(400, str(error)) from None
    except ValueError as error:  # the name of a file to fetch
        raise Refusal(400, str(error)) from None
    except Interrupted:
        raise Stopped from None
    if outcome.ended == "cancelled":
        raise Stopped
    return compiled, outcome
