"""What happened to a job: a status, a result for each test, and the facts beside them.

All of it is frozen plain data and can be pickled. Nothing here decides anything; the
judges of the modes do.

Left out on purpose: a status for "nearly right". How near a program came is the share of
its tests that passed, and shaping it further belongs to rewards.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Any, Literal


class Status(str, Enum):
    """How a job, or one of its tests, ended. `str()` gives the bare name.

    >>> str(Status.PASS), f"{Status.FAIL}", Status("TIMEOUT") is Status.TIMEOUT
    ('PASS', 'FAIL', True)
    """

    PASS = "PASS"  # the right value, seen by the host itself
    FAIL = "FAIL"  # a plain value, but not the right one
    COMPILE_ERROR = "COMPILE_ERROR"  # not a program of this language
    RUNTIME_ERROR = "RUNTIME_ERROR"  # an exception, while loading or in a test
    TIMEOUT = "TIMEOUT"  # stopped by the wall clock
    CPU_LIMIT = "CPU_LIMIT"  # stopped after its share of processor time
    MEMORY_LIMIT = "MEMORY_LIMIT"  # asked for more memory than it may have
    OUTPUT_LIMIT = "OUTPUT_LIMIT"  # printed, returned or stored too much
    CRASH = "CRASH"  # killed by a signal that was not ours
    NO_RESULT = "NO_RESULT"  # ended by itself without an answer
    BAD_VALUE = "BAD_VALUE"  # returned something that is not plain data
    TAMPERED = "TAMPERED"  # wrote into the channel that carries the answers
    REJECTED = "REJECTED"  # not started, for a reason that lies in the program
    SANDBOX_ERROR = "SANDBOX_ERROR"  # our fault: no verdict, and no reward

    def __str__(self) -> str:
        return self.value

    __format__ = str.__format__


class Level(IntEnum):
    """How strongly a job is kept apart from the machine; higher is stronger."""

    NONE = 0
    LIMITS = 1
    CONFINED = 2
    NAMESPACED = 3
    CONTAINER = 4
    SEPARATE_KERNEL = 5


@dataclass(frozen=True)
class TestResult:
    """What came of one test.

    Attributes:
        name: the test's.
        status: `PASS`, or why not.
        seconds: how long the call took by the program's own clock, or in io mode the whole
            process by ours; None when unknown.
        got_repr: what was returned or printed, shortened; None when nothing was.
        expected_repr: what should have been, shortened; never in the sandbox.
        message: one line for a learner; empty for a pass.
        hidden: whether the test was a hidden one.
    """

    __test__ = False

    name: str
    status: Status
    seconds: float | None = None
    got_repr: str | None = None
    expected_repr: str | None = None
    message: str = ""
    hidden: bool = False

    def veiled(self) -> TestResult:
        """The same result of a hidden test: how it ended stays, what would give it away goes.

        >>> TestResult("h", Status.FAIL, got_repr="5", expected_repr="4",
        ...            message="f(2) returned 5, expected 4").veiled().message
        'a hidden test ended in FAIL'
        """
        message = "" if self.status is Status.PASS else f"a hidden test ended in {self.status}"
        return replace(self, got_repr=None, expected_repr=None, message=message, hidden=True)


@dataclass(frozen=True)
class CompileReport:
    """What the compiler said.

    Attributes:
        status: `PASS` when it made a program; else `COMPILE_ERROR`, or the limit it passed.
        compiler: name and version.
        seconds: how long it took; that of the first time when `cached`.
        cached: whether the program came from the store of compiled programs.
        stdout: head of what it printed. Escape it before it reaches HTML.
        stderr: the same for errors and warnings.
        message: one line for a person; empty when all went well.
    """

    status: Status
    compiler: str = ""
    seconds: float | None = None
    cached: bool = False
    stdout: str = ""
    stderr: str = ""
    message: str = ""


@dataclass(frozen=True)
class Property:
    """One thing that isolation is about, and how far it was seen to hold.

    Attributes:
        name: for example `network`.
        state: `enforced`, `partial` or `absent`.
        mechanism: what does it, or what is missing, in a few words.
    """

    name: str
    state: Literal["enforced", "partial", "absent"]
    mechanism: str


@dataclass(frozen=True)
class IsolationReport:
    """What keeps a job apart from this machine, as seen by probes run inside the sandbox.

    Attributes:
        level: the strongest level whose every property was seen to hold.
        sentence: the same in one plain sentence.
        properties: one entry for each thing that was looked at.
    """

    level: Level
    sentence: str
    properties: tuple[Property, ...] = ()

    def __getitem__(self, name: str) -> Property:
        for candidate in self.properties:
            if candidate.name == name:
                return candidate
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a run's `config.json`."""
        return {
            "level": self.level.name,
            "sentence": self.sentence,
            "properties": {
                p.name: {"state": p.state, "mechanism": p.mechanism} for p in self.properties
            },
        }


@dataclass(frozen=True)
class Verdict:
    """What happened to a job.

    Attributes:
        status: `PASS` when every test passed; else what ended the job, or the status of
            the first test that did not pass.
        tests: one result for each test, in order.
        passed: tests passed.
        total: tests asked for.
        reward: `passed / total`; None when the sandbox failed, for nothing is known then.
        stdout: head of what was printed, for showing only. Escape it before it reaches HTML.
        stderr: the same for errors.
        truncated: whether more was printed than is shown.
        exit_code: of the process; None when a signal ended it. Never evidence.
        signal: number of the signal that ended it, or None.
        cpu_s: processor seconds, None when unknown.
        wall_s: seconds from the first line of the program to its end, None if not started.
        peak_rss_mb: mebibytes of memory held at most, None when unknown.
        isolation: what was in force; None when it never ran.
        trust: `strong`: judged by the host, from values alone.
        backend: what ran it.
        cached: whether this is a copy of an equal job's verdict.
        message: what happened to the job as a whole; empty when the tests say it all.
        compile: what the compiler said; None where nothing is compiled.
        queue_s: seconds it waited for a free worker, None when unknown.
        orphans_killed: processes of the job that outlived it and were ended.
        suspicion: what in the program looks like cheating; telemetry, never a reason.
        stopped_by: which layer of the sandbox ended or refused it; empty if none did.
        flaky: whether a second run of an equal job ended otherwise; None when never tried.
        request_id: tells this run from all others, for logs.
    """

    status: Status
    tests: tuple[TestResult, ...]
    passed: int
    total: int
    reward: float | None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    exit_code: int | None = None
    signal: int | None = None
    cpu_s: float | None = None
    wall_s: float | None = None
    peak_rss_mb: float | None = None
    isolation: IsolationReport | None = field(default=None, repr=False)
    trust: Literal["strong", "weak"] = "strong"
    backend: str = "local"
    cached: bool = False
    message: str = ""
    compile: CompileReport | None = None
    queue_s: float | None = None
    orphans_killed: int = 0
    suspicion: tuple[str, ...] = ()
    stopped_by: str = ""
    flaky: bool | None = None
    request_id: str = ""

    @property
    def summary(self) -> str:
        """One line for a person, for example `3 of 5 tests passed; f(2) returned 5, expected 4`."""
        if self.status is Status.SANDBOX_ERROR:
            return f"no verdict, the sandbox failed: {self.message}"
        counted = f"{self.passed} of {self.total} tests passed"
        first = next((t.message for t in self.tests if t.status is not Status.PASS), "")
        reason = self.message or first
        return f"{counted}; {reason}" if reason else counted
