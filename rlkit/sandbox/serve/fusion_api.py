"""`POST /run_code`: SandboxFusion's schema, spoken by our server.

So that whatever can talk to SandboxFusion (trainers, notebooks, our own `fusion` backend) can use
a class's machine. Languages that we have are run, the others are refused with a sentence; a
program that runs out of memory or is killed ends as `Failed`, as it does there.

Left out on purpose: Jupyter cells, data sets, GPU languages, and files with absolute names.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import InfrastructureFault, Outcome
from rlkit.sandbox.backends.remote_io import Program
from rlkit.sandbox.endings import what_ended_it
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.serve.answer import Refusal, Request, field_of, limits_from, within
from rlkit.sandbox.spec import named_files
from rlkit.sandbox.verdict import CompileReport, Status

#: What the schema calls our languages.
LANGUAGES = {
    **{"python": "python", "cpp": "cpp", "nodejs": "javascript", "js": "javascript"},
    **{"typescript": "typescript", "ts": "typescript", "java": "java", "rust": "rust"},
    **{"go": "go", "bash": "bash", "sql": "sql", "c": "c"},
}

Runner = Callable[[Program, Callable[[], bool]], tuple[CompileReport | None, Outcome | None]]


def run_code(request: Request, run: Runner, usual: Limits, ceiling: Limits) -> dict[str, Any]:
    """Answer one request.

    Args:
        request: with the JSON object of the schema.
        run: runs a program.
        usual: limits of a program that asks for none.
        ceiling: the highest that it may ask for.

    Raises:
        Refusal: the request makes no sense, or asks for more than this server gives.
    """
    program = _program(request.json(), usual, ceiling)
    try:
        compiled, outcome = run(program, request.cancelled)
    except InfrastructureFault as fault:
        return _answer("SandboxError", message=str(fault))
    results: dict[str, Any] = {}
    if compiled is not None:
        results["compile_result"] = _compile_result(compiled)
    if outcome is not None:
        results["run_result"] = _run_result(program.limits, outcome)
        results["files"] = {
            name: base64.b64encode(data).decode("ascii") for name, data in outcome.files.items()
        }
    well = all(
        results[name]["status"] == "Finished" and results[name]["return_code"] == 0
        for name in ("compile_result", "run_result")
        if name in results
    )
    return _answer("Success" if well else "Failed", **results)


def _answer(status: str, message: str = "", **results: Any) -> dict[str, Any]:
    empty = {"compile_result": None, "run_result": None, "executor_pod_name": None, "files": {}}
    return {"status": status, "message": message, **empty, **results}


def _program(told: dict[str, Any], usual: Limits, ceiling: Limits) -> Program:
    language = field_of(told, "language", str, "")
    if language not in LANGUAGES:
        raise Refusal(400, f"language {language!r:.80} is none of {', '.join(LANGUAGES)}")
    if field_of(told, "args", list, []):
        raise Refusal(400, "args are for pytest only, which this server does not run")
    memory = field_of(told, "memory_limit_MB", int, -1)
    limits = limits_from(
        usual,
        wall_s=field_of(told, "run_timeout", (int, float), 10.0),
        memory_mb=usual.memory_mb if memory < 0 else max(64, memory),
    )
    # Processor time is not in the schema: only the clock counts.
    limits = limits_from(limits, cpu_s=limits.wall_s)
    within(limits, ceiling)
    compile_s = field_of(told, "compile_timeout", (int, float), 10.0)
    compiling = limits_from(ceiling, wall_s=compile_s, cpu_s=compile_s)
    within(compiling, ceiling, "the compiler")
    fetch = field_of(told, "fetch_files", list, [])
    try:
        named_files({name: b"" for name in fetch}, "fetch_files")
        files = named_files(_files(field_of(told, "files", dict, {})), "files")
    except (UserError, TypeError) as error:
        raise Refusal(400, str(error)) from None
    return Program(
        language=LANGUAGES[language],
        source=field_of(told, "code", str, ""),
        stdin=field_of(told, "stdin", str, "").encode("utf-8", "surrogatepass"),
        files=files,
        keep=tuple(fetch),
        limits=limits,
        compile_limits=compiling,
    )


def _files(told: dict[str, Any]) -> dict[str, bytes]:
    files = {}
    for name, content in told.items():
        if content is None:
            continue
        try:
            files[name] = base64.b64decode(content, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise Refusal(400, f"the content of {name!r:.80} is not base64") from None
    return files


def _compile_result(report: CompileReport) -> dict[str, Any]:
    late = report.status is Status.TIMEOUT
    return {
        "status": "TimeLimitExceeded" if late else "Finished",
        "execution_time": report.seconds,
        "return_code": None if late else int(report.status is not Status.PASS),
        "stdout": report.stdout,
        "stderr": report.stderr or report.message,
    }


def _run_result(limits: Limits, outcome: Outcome) -> dict[str, Any]:
    status, message = what_ended_it(limits, outcome)
    stderr = outcome.stderr.decode("utf-8", "replace")
    code = outcome.exit_code if outcome.signal is None else -outcome.signal
    if outcome.ended not in ("exit", "wall"):  # by us, with no place for it in the schema
        code, stderr = -9, f"{stderr}\n{message}".lstrip("\n")
    late = status is Status.TIMEOUT
    return {
        "status": "TimeLimitExceeded" if late else "Finished",
        "execution_time": outcome.wall_s,
        "return_code": None if late else (1 if code is None else code),
        "stdout": outcome.stdout.decode("utf-8", "replace"),
        "stderr": stderr,
    }
