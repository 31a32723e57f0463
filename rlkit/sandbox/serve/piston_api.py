"""`GET /api/v2/runtimes` and `POST /api/v2/execute`: Piston's schema, spoken by our server.

Left out on purpose: packages, and the interactive socket.
"""

from __future__ import annotations

import base64
import binascii
import signal
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox import languages
from rlkit.sandbox.backends.base import Outcome
from rlkit.sandbox.backends.remote_io import Program
from rlkit.sandbox.endings import what_ended_it
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.serve.answer import Refusal, Request, field_of, limits_from, within
from rlkit.sandbox.serve.fusion_api import Runner
from rlkit.sandbox.spec import named_files
from rlkit.sandbox.verdict import CompileReport, Status

_NAMES = {"cpp": "c++"}
_ALIASES = {
    **{"python": ["py", "python3"], "javascript": ["js", "node-js", "node-javascript"]},
    **{"typescript": ["ts"], "cpp": ["cpp", "g++"], "rust": ["rs"], "go": ["golang"]},
    **{"bash": ["sh"], "sql": ["sqlite3"]},
}
#: How Piston says what ended a run.
_ENDINGS = {
    Status.TIMEOUT: "TO",
    Status.CPU_LIMIT: "TO",
    Status.OUTPUT_LIMIT: "OL",
    Status.CRASH: "SG",
    Status.MEMORY_LIMIT: "SG",
}


def runtimes() -> list[dict[str, Any]]:
    """The languages of this machine."""
    found = []
    for row in languages.table():
        if row["available"] and "io" in row["modes"]:
            name = row["language"]
            version = next((w for w in row["toolchain"].split() if w[0].isdigit()), "1.0.0")
            aliases = _ALIASES.get(name, [])
            found.append(
                {"language": _NAMES.get(name, name), "version": version, "aliases": aliases}
            )
    return found


def execute(request: Request, run: Runner, usual: Limits, ceiling: Limits) -> dict[str, Any]:
    """Answer one request; see `fusion_api.run_code`.

    Raises:
        Refusal: the request makes no sense, or asks for more than this server gives.
        InfrastructureFault: the sandbox failed.
    """
    told = request.json()
    language, version = field_of(told, "language", str, ""), field_of(told, "version", str, "")
    if not language or not version:
        raise Refusal(400, "language and version are required as strings")
    row = next((r for r in runtimes() if language in (r["language"], *r["aliases"])), None)
    if row is None or not (version == "*" or row["version"].startswith(version.rstrip(".x*"))):
        raise Refusal(400, f"{language}-{version} runtime is unknown"[:200])
    program = _program(told, languages.canonical(row["language"]), usual, ceiling)
    compiled, outcome = run(program, request.cancelled)
    answer: dict[str, Any] = {"language": row["language"], "version": row["version"]}
    if compiled is not None:
        answer["compile"] = _compile_stage(compiled)
    if outcome is None:
        nothing = {"stdout": "", "stderr": "", "output": "", "code": None, "signal": None}
        answer["run"] = nothing
    else:
        answer["run"] = _run_stage(program.limits, outcome)
    return answer


def _program(told: dict[str, Any], language: str, usual: Limits, ceiling: Limits) -> Program:
    given = field_of(told, "files", list, None)
    if not given or not all(isinstance(file, dict) for file in given):
        raise Refusal(400, "files is required as an array")
    contents = [_content(number, file) for number, file in enumerate(given)]
    try:
        source = contents[0].decode("utf-8")
        beside = {
            field_of(file, "name", str, f"file{number}.code"): contents[number]
            for number, file in enumerate(given)
            if number
        }
        files = named_files(beside, "files")
    except UnicodeDecodeError:
        raise Refusal(400, "files[0] is no text, and it is the program") from None
    except UserError as error:
        raise Refusal(400, str(error)) from None
    args = field_of(told, "args", list, [])
    if not all(isinstance(word, str) for word in args):
        raise Refusal(400, "args must be an array of strings")
    run_ms = field_of(told, "run_timeout", (int, float), 3000)
    compile_ms = field_of(told, "compile_timeout", (int, float), 10000)
    memory = field_of(told, "run_memory_limit", int, -1)
    limits = limits_from(
        usual,
        wall_s=run_ms / 1000,
        cpu_s=field_of(told, "run_cpu_time", (int, float), run_ms) / 1000,
        memory_mb=usual.memory_mb if memory < 0 else max(64, memory >> 20),
    )
    compiling = limits_from(ceiling, wall_s=compile_ms / 1000, cpu_s=compile_ms / 1000)
    within(limits, ceiling)
    within(compiling, ceiling, "the compiler")
    return Program(
        language=language,
        source=source,
        stdin=field_of(told, "stdin", str, "").encode("utf-8", "surrogatepass"),
        files=files,
        args=tuple(args),
        limits=limits,
        compile_limits=compiling,
    )


def _content(number: int, file: dict[str, Any]) -> bytes:
    text = field_of(file, "content", str, None)
    if text is None:
        raise Refusal(400, f"files[{number}].content is required as a string")
    encoding = field_of(file, "encoding", str, "utf8")
    try:
        if encoding == "base64":
            return base64.b64decode(text, validate=True)
        if encoding == "hex":
            return bytes.fromhex(text)
    except (binascii.Error, ValueError):
        raise Refusal(400, f"files[{number}].content is not {encoding}") from None
    return text.encode("utf-8", "surrogatepass")


def _compile_stage(report: CompileReport) -> dict[str, Any]:
    well = report.status is Status.PASS
    return {
        "stdout": report.stdout,
        "stderr": report.stderr or report.message,
        "output": report.stdout + report.stderr,
        "code": 0 if well else 1,
        "signal": None,
        "message": report.message or None,
        "status": None if well else "TO" if report.status is Status.TIMEOUT else "RE",
        "cpu_time": None,
        "wall_time": None if report.seconds is None else round(report.seconds * 1000),
        "memory": None,
    }


def _run_stage(limits: Limits, outcome: Outcome) -> dict[str, Any]:
    status, message = what_ended_it(limits, outcome)
    stdout = outcome.stdout.decode("utf-8", "replace")
    stderr = outcome.stderr.decode("utf-8", "replace")
    number = outcome.signal or (9 if status is not None else None)
    ended = _ENDINGS.get(status) if status is not None else ("RE" if outcome.exit_code else None)
    if outcome.ended == "disk":  # "OL" is for what it printed
        ended = "SG"
    return {
        "stdout": stdout,
        "stderr": stderr,
        "output": stdout + stderr,
        "code": outcome.exit_code if number is None else None,
        "signal": None if number is None else _signal_name(number),
        "message": message or None,
        "status": ended,
        "cpu_time": None if outcome.cpu_s is None else round(outcome.cpu_s * 1000),
        "wall_time": round(outcome.wall_s * 1000),
        "memory": None if outcome.peak_rss_mb is None else int(outcome.peak_rss_mb * (1 << 20)),
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"SIG{number}"
