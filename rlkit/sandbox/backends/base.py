"""What every backend takes and gives: a `Command` or a `Call` in, an `Outcome` out.

A backend reports facts (what arrived on which channel, who ended the process and how);
`judge.py` and its like draw the conclusion. A program that fails is an outcome; only
when the sandbox itself fails is `InfrastructureFault` raised.

Left out on purpose: verdicts, statuses, retries and caches, which belong to the front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rlkit.sandbox.types import IsolationReport, Limits

Flavour = Literal["base", "numpy", "sympy", "tools"]

Ending = Literal[
    "exit", "wall", "output", "result", "disk", "memory", "closed", "cancelled"
]  # fmt: skip


class InfrastructureFault(Exception):
    """The sandbox itself failed; nothing is known about the program."""


@dataclass(frozen=True)
class Command:
    """Any program, to be run once in a fresh scratch folder.

    Attributes:
        argv: the program and its arguments; `argv[0]` is an absolute real path, or `./name` of
            a file in the scratch folder.
        stdin: what it reads from its standard input, however long.
        files: put into the scratch folder first, by relative name, executable.
        keep: relative names of files to read back afterwards, into `Outcome.files`.
        environment: its variables, beside `PATH`, `HOME`, `TMPDIR` and `LC_ALL`.
        memory: what its memory limit counts: `address` space, or only `data` for programs that
            reserve far more than they use (node, java).
        flavour: which zygote starts it.

    >>> Command(("/bin/echo", "hello")).flavour
    'tools'
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    memory: Literal["address", "data"] = "address"
    flavour: Flavour = "tools"


@dataclass(frozen=True)
class Call:
    """A Python program to be run by a mode of the harness.

    Attributes:
        mode: `func`, or another module of `rlkit.sandbox.zygote` with a `main(request, send)`;
            a mode of two processes has `candidate` and `verifier` instead.
        request: plain data that the mode needs. For a mode of two processes it has the keys
            `candidate` and `verifier`, and each process receives its own part only.
        flavour: which libraries are loaded already.
    """

    mode: str
    request: Mapping[str, Any]
    flavour: Flavour = "base"


@dataclass
class Outcome:
    """The facts about one job's process.

    Attributes:
        ended: `exit` when it ended by itself or by a signal of its own, else what we stopped
            it for; `closed` is a channel closed by a program that went on running.
        messages: what arrived on the channel, in order, decoded.
        fences: names of the fences that stood before the program was read.
        garbage: lines on the channel that the harness cannot have written.
        stdout: first bytes that it printed, up to the limit.
        stderr: the same for errors.
        truncated: whether it printed more.
        exit_code: as given to exit(); None after a signal, or when unknown.
        signal: that ended it, or None.
        cpu_s: processor seconds, None when unknown.
        wall_s: seconds from the first line of the program to the end.
        peak_rss_mb: most memory seen resident by us, in MiB; None when it was never seen.
        files: contents of the files asked for by `Command.keep` that were there.
        orphans: processes that the job left behind and that were killed.
        stopped_by: which layer ended or refused it, for example `wall clock`; "" if none.
        candidate_exit_code: of the first process in a mode of two; `exit_code` is the other's.
        candidate_signal: the same for the signal.
    """

    ended: Ending = "exit"
    messages: list[tuple] = field(default_factory=list)
    fences: frozenset[str] = frozenset()
    garbage: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    exit_code: int | None = None
    signal: int | None = None
    cpu_s: float | None = None
    wall_s: float = 0.0
    peak_rss_mb: float | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    orphans: int = 0
    stopped_by: str = ""
    candidate_exit_code: int | None = None
    candidate_signal: int | None = None


class Backend(Protocol):
    """Runs commands and calls, any number at a time, from any thread."""

    name: str

    def execute(self, command: Command, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Run a program to its end; `cancelled` is asked now and then, True stops it."""

    def call(self, call: Call, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Run a mode of the harness to its end."""

    def report(self) -> IsolationReport:
        """What keeps a job apart from this machine."""

    def close(self) -> None:
        """Stop what runs and leave nothing behind; may be called twice."""
