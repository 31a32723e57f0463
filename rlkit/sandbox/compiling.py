"""Compiling a program inside the sandbox, or taking it from the store of compiled programs.

Left out on purpose: telling a compiler that refuses from one that does not work here. That
takes a program known to be right, and `io_mode` runs one before it believes the first refusal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from rlkit.sandbox import languages
from rlkit.sandbox.artefacts import Artefact, Artefacts, key_of
from rlkit.sandbox.backends.base import Backend, Command, InfrastructureFault, Outcome
from rlkit.sandbox.endings import what_ended_it
from rlkit.sandbox.io_judge import plain
from rlkit.sandbox.io_program import Program
from rlkit.sandbox.languages.row import Compilation, Toolchain
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.verdict import CompileReport, Status

#: What a compiler says when it did not refuse the program but was stopped itself.
_STOPPED = re.compile(
    r"signal terminated program|internal compiler error|out of memory|cannot allocate|"
    r"memory exhausted|No space left|File size limit|OutOfMemoryError|SIGKILL|SIGXCPU",
    re.IGNORECASE,
)

_NOWHERE = Path("/nonexistent")


class Interrupted(Exception):
    """Somebody cancelled it; nothing is known, and nothing is kept."""


def compile_program(
    program: Program,
    backend: Backend,
    artefacts: Artefacts | None,
    cancelled: Callable[[], bool],
    refused: Callable[[], None],
) -> Artefact:
    """The compiled program, or what the compiler had against it.

    Args:
        program: of a language that is compiled.
        backend: what runs the compiler.
        artefacts: the store of compiled programs; None compiles anew.
        cancelled: asked now and then; True stops it.
        refused: called before a refusal is believed and kept; it may raise.

    Raises:
        Interrupted: it was cancelled.
        InfrastructureFault: the sandbox itself failed.
        UserError: the toolchain is not on this machine.
    """
    toolchain = program.toolchain
    # What is prepared on this machine is of no use where another toolchain compiles.
    elsewhere = hasattr(backend, "toolchain")
    prepared = _NOWHERE if elsewhere else languages.prepared_folder(program.row.name)
    recipe, files, limits = program.compilation(prepared)

    def make() -> Artefact:
        command = Command(
            argv=recipe.argv,
            files=files,
            keep=recipe.keep,
            environment={"TZ": "UTC", **recipe.environment},
            memory="data",
            flavour="tools",
        )
        outcome = backend.execute(command, limits, cancelled)
        if outcome.ended == "cancelled":
            raise Interrupted
        made = _compiled(toolchain, recipe, limits, outcome)
        if made.report.status is Status.COMPILE_ERROR:
            refused()
        return made

    if artefacts is None:
        return make()
    return artefacts.get_or_make(
        key_of(toolchain.identity, recipe.argv, recipe.environment, files), make
    )


def _compiled(
    toolchain: Toolchain, recipe: Compilation, limits: Limits, outcome: Outcome
) -> Artefact:
    status, message = _why_not(limits, outcome)
    stderr = outcome.stderr.decode("utf-8", "replace")
    files = {name: outcome.files[name] for name in recipe.keep if name in outcome.files}
    if status is Status.PASS and len(files) < len(recipe.keep):
        raise InfrastructureFault(f"{toolchain.version} ended well and left no program behind")
    return Artefact(
        files if status is Status.PASS else {},
        CompileReport(
            status=status,
            compiler=toolchain.version,
            seconds=outcome.wall_s,
            stdout=outcome.stdout.decode("utf-8", "replace"),
            stderr=stderr,
            message=message,
        ),
    )


def _why_not(limits: Limits, outcome: Outcome) -> tuple[Status, str]:
    status, message = what_ended_it(limits, outcome)
    if status is not None:
        return status, f"while it was compiled: {message}"
    if outcome.exit_code == 0:
        return Status.PASS, ""
    said = outcome.stderr.decode("utf-8", "replace") or outcome.stdout.decode("utf-8", "replace")
    stopped = [line for line in said.split("\n") if _STOPPED.search(line)]
    if stopped:
        # The compiler's own processes were stopped, and it lived to say so.
        spent = outcome.cpu_s or 0.0
        why = Status.CPU_LIMIT if spent >= 0.9 * limits.cpu_s else Status.MEMORY_LIMIT
        return why, f"while it was compiled: {plain(stopped[0].strip()[:200])}"
    return Status.COMPILE_ERROR, f"does not compile: {_first_error(said)}"


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    first = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
    return plain(first[:200])
