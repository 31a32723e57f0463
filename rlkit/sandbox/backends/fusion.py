"""FusionBackend: a SandboxFusion service, or anything that speaks its `/run_code`.

https://github.com/bytedance/SandboxFusion runs a program given as text in a fresh folder, and
tells how compiling and running it ended. All modes work: whole programs by the service's own
toolchains (`remote_io`), calls by a Python program of ours (`by_text`), commands by a line of
shell. Its word `Success` (exit code 0) is no verdict; the evidence is judged here.

Limits that the schema knows are sent along: time for compiling and running, and memory. The
others stand inside calls, where our own harness sets them, and not for whole programs; what that
comes to is probed, not claimed.

Left out on purpose: Jupyter cells, data sets and judges of the service's own.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import Command, InfrastructureFault, Outcome
from rlkit.sandbox.backends.by_service import PATIENCE_S, ByService
from rlkit.sandbox.backends.http import Service
from rlkit.sandbox.backends.remote_io import Program
from rlkit.sandbox.limits import Limits

#: What the service calls our languages; C is compiled as the nearest that it has.
LANGUAGES = {
    **{"python": "python", "javascript": "nodejs", "typescript": "typescript", "cpp": "cpp"},
    **{"java": "java", "rust": "rust", "go": "go", "bash": "bash", "sql": "sql"},
}

#: The service keeps this much of each output and drops the rest without a word.
KEPT_BYTES = 1 << 20

_STDIN = "rlkit-stdin"


class FusionBackend(ByService):
    """Runs jobs on a SandboxFusion service.

    Args:
        url: its address, for example `http://127.0.0.1:8080`.
        workers: jobs at a time; the front keeps to it.
        token: sent as a bearer token, for a service behind a gate.
        tries: how often a request is made at most.
        patience_s: seconds to wait beyond a job's own time limits.
        kept_bytes: how much of a program's output the service keeps.

    Raises:
        UserError: no address.

    >>> FusionBackend("http://127.0.0.1:8080").name
    'fusion'
    """

    name = "fusion"
    path = "/run_code"
    compiled = ("cpp", "java", "rust", "go")

    def __init__(
        self,
        url: str,
        workers: int = 1,
        *,
        token: str | None = None,
        tries: int = 4,
        patience_s: float = PATIENCE_S,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.service = Service(url, token, tries)
        self.workers = workers
        self.patience_s = patience_s
        self.kept_bytes = kept_bytes

    def run_text(
        self, source: str, stdin: str, limits: Limits, cancelled: Callable[[], bool]
    ) -> Outcome:
        """Run a Python program; see `by_text`."""
        outcome = super().run_text(source, stdin, limits, cancelled)
        if len(outcome.stdout) >= self.kept_bytes and outcome.ended == "exit":
            # Cut somewhere, so that answers are missing; the program may be all right.
            raise InfrastructureFault(
                f"{self.service.address} keeps {self.kept_bytes >> 10} KiB of output only; use "
                "smaller values, or Limits(result_kb=...)"
            )
        return outcome

    def execute(self, command: Command, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Run a program of the service's machine; `argv[0]` is a path or a name there.

        Raises:
            InfrastructureFault: the service failed.
        """
        variables = {"HOME": ".", "TMPDIR": ".", "LC_ALL": "C.UTF-8", **command.environment}
        words = ["exec", "env", "-i", 'PATH="$PATH"']
        words += [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        words += [shlex.quote(word) for word in command.argv]
        names = [shlex.quote(name) for name in command.files]
        lines = [f"chmod 700 -- {' '.join(names)}"] if names else []
        lines.append(f"exec 0< {_STDIN}; rm -f {_STDIN}")
        program = Program(
            language="bash",
            source="\n".join([*lines, " ".join(words)]),
            files={**command.files, _STDIN: command.stdin},
            keep=command.keep,
            limits=replace(limits, processes=max(1, limits.processes)),
        )
        return self.run_alone(program, cancelled)

    def request_of(self, program: Program) -> dict[str, Any]:
        if program.language not in LANGUAGES:
            raise UserError(
                f"SandboxFusion runs no {program.language}; it has {', '.join(LANGUAGES)}"
            )
        if program.args:
            raise UserError(
                "SandboxFusion hands no arguments to a program; put them into stdin, or use a "
                "server of `rlkit sandbox serve` by its plain address (backend='http://...')"
            )
        try:
            stdin = program.stdin.decode("utf-8")
        except UnicodeDecodeError:
            raise UserError(
                "SandboxFusion takes text as standard input, and a test's stdin is no UTF-8; put "
                "it into a file (Job.files)"
            ) from None
        return {
            "code": program.source,
            "language": LANGUAGES[program.language],
            "compile_timeout": program.compile_limits.wall_s,
            "run_timeout": program.limits.wall_s,
            "memory_limit_MB": program.limits.memory_mb,
            "stdin": stdin,
            "files": {n: base64.b64encode(d).decode("ascii") for n, d in program.files.items()},
            "fetch_files": list(program.keep),
        }

    def understood(self, answer: Any) -> tuple[Outcome | None, Outcome | None]:
        """The facts in an answer; whatever does not have its shape is a fault of the service."""
        if not isinstance(answer, dict) or answer.get("status") not in _STATUSES:
            raise InfrastructureFault(f"{self.service.address} answered nonsense: {answer!r:.200}")
        if answer["status"] == "SandboxError":
            raise InfrastructureFault(
                f"{self.service.address} failed: {str(answer.get('message'))[-300:]}"
            )
        compiling = self._result(answer.get("compile_result"), "compile_result")
        outcome = self._result(answer.get("run_result"), "run_result")
        if outcome is None and (compiling is None or compiling.exit_code == 0):
            raise InfrastructureFault(f"{self.service.address} tells of no run: {answer!r:.200}")
        if outcome is not None:
            outcome.files = self._files(answer.get("files"))
        return compiling, outcome

    def _result(self, told: Any, name: str) -> Outcome | None:
        if told is None:
            return None
        shaped = (
            isinstance(told, dict)
            and told.get("status") in ("Finished", "Error", "TimeLimitExceeded")
            and all(isinstance(told.get(part), (str, type(None))) for part in ("stdout", "stderr"))
            and _whole(told.get("return_code"))
            and _number(told.get("execution_time"))
        )
        if not shaped:
            raise InfrastructureFault(f"{self.service.address} answered nonsense: {told!r:.200}")
        if told["status"] == "Error":
            raise InfrastructureFault(
                f"{self.service.address} failed ({name}): {str(told.get('stderr'))[-300:]}"
            )
        made = Outcome(
            stdout=(told.get("stdout") or "").encode("utf-8", "surrogatepass"),
            stderr=(told.get("stderr") or "").encode("utf-8", "surrogatepass"),
            wall_s=float(told.get("execution_time") or 0.0),
        )
        if told["status"] == "TimeLimitExceeded":
            made.ended, made.stopped_by = "wall", "wall clock"
            return made
        code = told.get("return_code")
        if code is None:
            raise InfrastructureFault(f"{self.service.address} tells no exit code: {told!r:.200}")
        made.exit_code, made.signal = ended_with(code)
        return made

    def _files(self, told: Any) -> dict[str, bytes]:
        files = {}
        for name, content in (told or {}).items() if isinstance(told, dict) else ():
            try:
                files[str(name)] = base64.b64decode(content, validate=True)
            except (ValueError, TypeError):
                raise InfrastructureFault(
                    f"{self.service.address} sent a damaged file {name!r:.80}"
                ) from None
        return files


_STATUSES = ("Success", "Failed", "SandboxError")


def ended_with(code: int) -> tuple[int | None, int | None]:
    """Exit code and signal, from a return code as Python's or as a shell's.

    >>> ended_with(3), ended_with(-9), ended_with(139)
    ((3, None), (None, 9), (None, 11))
    """
    if code < 0:
        return None, -code
    if 128 < code <= 128 + 64:
        return None, code - 128
    return code, None


def _whole(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
