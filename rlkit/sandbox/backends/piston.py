"""PistonBackend: a Piston service (https://github.com/engineer-man/piston), by its version 2 API.

Piston runs a program given as text in the newest of its runtimes that fits, and tells exit code,
signal and, in later versions, what ended it. As with `fusion`, whole programs run on the service's
toolchains, calls by a Python program of ours, and all evidence is judged here.

A Piston keeps little of what a program prints, 1 KiB unless its owner allows more
(`PISTON_OUTPUT_MAX_SIZE`), and takes requests of 100 KB only; calls whose answers do not fit are a
fault of the service, not of the program. Its limits on time and memory are often lower than ours;
a request above them is refused by the service, and its sentence is passed on.

Left out on purpose: installing runtimes, files to read back (the API has none), commands.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import Command, InfrastructureFault, Outcome
from rlkit.sandbox.backends.by_service import PATIENCE_S, ByService
from rlkit.sandbox.backends.http import Service
from rlkit.sandbox.backends.remote_io import Program
from rlkit.sandbox.limits import Limits

#: What Piston calls our languages.
LANGUAGES = {
    **{"python": "python", "javascript": "javascript", "typescript": "typescript", "c": "c"},
    **{"cpp": "c++", "java": "java", "rust": "rust", "go": "go", "bash": "bash", "sql": "sqlite3"},
}
#: Names that say enough of what is in a file.
_FILES = {
    **{"python": "main.py", "javascript": "main.js", "typescript": "main.ts", "c": "main.c"},
    **{"cpp": "main.cpp", "java": "Main.java", "rust": "main.rs", "go": "main.go"},
    **{"bash": "main.sh", "sql": "main.sql"},
}

#: How Piston says what ended a run, and what that is called here.
_ENDED = {"TO": ("wall", "wall clock"), "OL": ("output", "output limit")}
_ENDED["EL"] = _ENDED["OL"]

_SIGNALS = {
    **{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6},
    **{"SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12},
    **{"SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31},
}


class PistonBackend(ByService):
    """Runs jobs on a Piston service.

    Args:
        url: its address, for example `http://127.0.0.1:2000`; with `/api/v2` or without.
        workers: jobs at a time; the front keeps to it.
        token: sent as a bearer token, for a service behind a gate.
        tries: how often a request is made at most.
        patience_s: seconds to wait beyond a job's own time limits.

    Raises:
        UserError: no address.

    >>> PistonBackend("http://127.0.0.1:2000").name
    'piston'
    """

    name = "piston"
    path = "/api/v2/execute"
    compiled = ("c", "cpp", "java", "rust", "go", "typescript")

    def __init__(
        self,
        url: str,
        workers: int = 1,
        *,
        token: str | None = None,
        tries: int = 4,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.service = Service(url.rstrip("/").removesuffix("/api/v2"), token, tries)
        self.workers = workers
        self.patience_s = patience_s
        self._lock = threading.Lock()
        self._runtimes: dict[str, str] | None = None

    def runtimes(self) -> dict[str, str]:
        """The newest version of each language that the service has, by name and by alias.

        Raises:
            InfrastructureFault: the service does not answer.
        """
        with self._lock:
            if self._runtimes is None:
                told = self.service.json("GET", "/api/v2/runtimes", wait_s=self.patience_s)
                self._runtimes = self._known(told)
            return self._runtimes

    def execute(self, command: Command, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Not to be had: the service runs programs in languages that it knows."""
        self._no_commands()

    def understood(self, answer: Any) -> tuple[Outcome | None, Outcome | None]:
        """How compiling and running it ended."""
        if not isinstance(answer, dict):
            raise InfrastructureFault(f"{self.service.address} answered nonsense: {answer!r:.200}")
        compiling = self._stage(answer.get("compile"), "compile")
        if compiling is not None and (compiling.exit_code != 0 or compiling.ended != "exit"):
            return compiling, None
        outcome = self._stage(answer.get("run"), "run")
        if outcome is None:
            raise InfrastructureFault(f"{self.service.address} tells of no run: {answer!r:.200}")
        return compiling, outcome

    def request_of(self, program: Program) -> dict[str, Any]:
        language = LANGUAGES.get(program.language)
        version = self.runtimes().get(language or "")
        if version is None:
            raise UserError(
                f"{self.service.address} has no runtime for {program.language}; its owner can "
                "install one"
            )
        if program.keep:
            raise UserError("Piston gives no files back; let the program print what is compared")
        try:
            stdin = program.stdin.decode("utf-8")
        except UnicodeDecodeError:
            raise UserError(
                "Piston takes text as standard input, and a test's stdin is no UTF-8; put it into "
                "a file (Job.files)"
            ) from None
        # An empty program is refused there, and is a program all the same.
        files = [{"name": _FILES[program.language], "content": program.source or "\n"}]
        files += [
            {"name": name, "content": base64.b64encode(data).decode("ascii"), "encoding": "base64"}
            for name, data in program.files.items()
        ]
        return {
            "language": language,
            "version": version,
            "files": files,
            "stdin": stdin,
            "args": list(program.args),
            "compile_timeout": round(program.compile_limits.wall_s * 1000),
            "run_timeout": round(program.limits.wall_s * 1000),
            "run_memory_limit": program.limits.memory_mb << 20,
        }

    def _known(self, told: Any) -> dict[str, str]:
        newest: dict[str, tuple[tuple[int, ...], str]] = {}
        for row in told if isinstance(told, list) else ():
            if not isinstance(row, dict) or not isinstance(row.get("version"), str):
                continue
            rank = tuple(int(part) for part in row["version"].split(".") if part.isdigit())
            aliases = row.get("aliases")
            for name in (row.get("language"), *(aliases if isinstance(aliases, list) else ())):
                if isinstance(name, str) and (rank, row["version"]) > newest.get(name, ((), "")):
                    newest[name] = rank, row["version"]
        if not newest:
            raise InfrastructureFault(f"{self.service.address} names no runtimes: {told!r:.200}")
        return {name: version for name, (_, version) in newest.items()}

    def _stage(self, told: Any, name: str) -> Outcome | None:
        if told is None:
            return None
        shaped = (
            isinstance(told, dict)
            and isinstance(told.get("stdout"), str)
            and isinstance(told.get("stderr"), str)
            and type(told.get("code")) in (int, type(None))
            and isinstance(told.get("signal"), (str, type(None)))
        )
        if not shaped:
            raise InfrastructureFault(f"{self.service.address} answered nonsense: {told!r:.200}")
        if told.get("status") == "XX":
            raise InfrastructureFault(
                f"{self.service.address} failed ({name}): {told.get('message')!r:.200}"
            )
        made = Outcome(
            stdout=told["stdout"].encode("utf-8", "surrogatepass"),
            stderr=told["stderr"].encode("utf-8", "surrogatepass"),
            exit_code=told["code"],
            cpu_s=_seconds(told.get("cpu_time")),
            wall_s=_seconds(told.get("wall_time")) or 0.0,
        )
        memory = told.get("memory")
        if isinstance(memory, (int, float)) and not isinstance(memory, bool):
            made.peak_rss_mb = memory / (1 << 20)
        if told.get("status") in _ENDED:
            made.ended, made.stopped_by = _ENDED[told["status"]]
            made.exit_code = None
        elif told["signal"] is not None:
            made.exit_code, made.signal = None, _SIGNALS.get(told["signal"], 64)
        elif made.exit_code is None:
            raise InfrastructureFault(f"{self.service.address} tells no end of it: {told!r:.200}")
        return made

    def _no_commands(self) -> NoReturn:
        raise UserError("Piston runs programs in a language that it knows, and no commands")


def _seconds(milliseconds: Any) -> float | None:
    number = isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool)
    return milliseconds / 1000 if number else None
