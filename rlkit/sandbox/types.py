"""The nouns of the sandbox: what to run, what it may use, what happened.

`Job` (a program, its tests, its limits) goes in, `Verdict` (a status, a result
for each test, the heads of its output, time and memory) comes out. All of them
are frozen, hold plain data only, and can be pickled.

Left out on purpose: the modes `io`, `proxy` and `inproc`, and other languages
than Python; the fields for them have a place here already.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from enum import Enum, IntEnum
from typing import Any, Literal

from rlkit.errors import UserError
from rlkit.sandbox.codec import CodecError, decode, encode
from rlkit.sandbox.compare import TOLERANCE, short_repr

Mode = Literal["io", "func", "proxy", "inproc"]

#: No program that a language model writes is longer; the sandbox does not start such a one.
MAX_SOURCE_CHARS = 16_000_000


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
class Limits:
    """What one job may use.

    Attributes:
        wall_s: seconds by the clock, from the first line of the program to its end.
        cpu_s: seconds of processor time, rounded up to whole seconds by the kernel.
        memory_mb: mebibytes of address space, the interpreter's own 20 or so included.
        processes: how many further processes the job may start; threads are free.
        files_mb: mebibytes that one file may grow to.
        scratch_mb: mebibytes that all files of the job may hold together.
        output_kb: kibibytes that it may print, stdout and stderr together.
        result_kb: kibibytes that all returned values may take together.
        open_files: how many descriptors may be open at once.
        network: whether it may open sockets.

    >>> Limits(wall_s=1).memory_mb
    512
    """

    wall_s: float = 4.0
    cpu_s: float = 2.0
    memory_mb: int = 512
    processes: int = 0
    files_mb: int = 16
    scratch_mb: int = 64
    output_kb: int = 64
    result_kb: int = 1024
    open_files: int = 64
    network: bool = False

    def __post_init__(self) -> None:
        lowest = {"wall_s": 0.01, "cpu_s": 0.01, "memory_mb": 64, "processes": 0, "open_files": 8}
        for name, value in vars(self).items():
            if name == "network":
                continue
            least = lowest.get(name, 1)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < least:
                raise UserError(f"{name}={value!r} is not a limit; give a number from {least} up")
            if name not in ("wall_s", "cpu_s") and not isinstance(value, int):
                raise UserError(f"{name}={value!r} is not a limit; give a whole number")


@dataclass(frozen=True)
class TestSpec:
    """One call to make and the value that it must return.

    Only `args` and `kwargs` ever enter the sandbox; `expected` stays with the host.
    All of them are plain data (see `codec.encode`) and are copied when the test is made.

    Attributes:
        name: what the test is called in results; need not be unique.
        args: positional arguments of the call.
        kwargs: named arguments of the call.
        expected: the right return value.
        tolerance: distance, relative or absolute, within which floats are equal.
        tuples_as_lists: let tuples and lists stand for each other; for tests from JSON.
        mixed_numbers: let equal ints and floats stand for each other; for tests with `==`.

    Raises:
        UserError: something in it is not plain data.

    >>> TestSpec("small", args=(2,), expected=4).call("square")
    'square(2)'
    """

    __test__ = False  # the name begins with "Test"; pytest must not collect it

    name: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    expected: Any = None
    tolerance: float = TOLERANCE
    tuples_as_lists: bool = False
    mixed_numbers: bool = False
    inputs_wire: bytes = field(init=False, repr=False, compare=False)
    expected_wire: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise UserError(f"a test's name must be text, not {self.name!r}")
        if isinstance(self.args, (str, bytes)) or not isinstance(self.args, Sequence):
            raise UserError(f"args of test {self.name!r} must be a list, not {self.args!r}")
        tolerance = self.tolerance
        if not isinstance(tolerance, (int, float)) or not 0.0 <= tolerance < math.inf:
            raise UserError(f"tolerance={tolerance!r} of test {self.name!r} is not a distance")
        kwargs = dict(self.kwargs)
        if not all(type(key) is str for key in kwargs):
            raise UserError(f"kwargs of test {self.name!r} must have names (str) as keys")
        wires = {}
        for what, value in (("inputs", (tuple(self.args), kwargs)), ("expected", self.expected)):
            try:
                wires[what] = encode(value)
            except CodecError as error:
                raise UserError(
                    f"{what} of test {self.name!r} cannot be used: {error}; use None, bool, int, "
                    "float, complex, str, bytes, Decimal, Fraction, or lists, tuples, dicts and "
                    "sets of those"
                ) from None
        args, kwargs = decode(wires["inputs"])
        # The dataclass is frozen; these are private copies, which nobody can change later.
        for name, value in (
            ("args", args),
            ("kwargs", kwargs),
            ("expected", decode(wires["expected"])),
            ("inputs_wire", wires["inputs"]),
            ("expected_wire", wires["expected"]),
        ):
            object.__setattr__(self, name, value)

    def call(self, entry: str) -> str:
        """The call as a reader would write it, shortened."""
        shown = [short_repr(value, 40) for value in self.args]
        shown += [f"{key}={short_repr(value, 40)}" for key, value in self.kwargs.items()]
        text = ", ".join(shown)
        return f"{entry}({text if len(text) <= 100 else text[:97] + '...'})"


@dataclass(frozen=True)
class Job:
    """A program and the tests it is to pass.

    Attributes:
        language: only `"python"` so far.
        source: the program's text; it may be anything at all.
        tests: at least one; nothing passes without evidence.
        mode: only `"func"` so far: each test calls one function and compares its value.
        entry: what the tests call: a function, `Class.method`, or a method of a class
            named `Solution`, of which every test gets a fresh object.
        limits: what it may use; None takes the sandbox's.
        seed: of `hash()` and of the `random` module, so that equal jobs end equally.

    Raises:
        UserError: no tests, another language or mode, no entry.

    >>> job = Job(source="def f(x): return x + 1", entry="f",
    ...           tests=[TestSpec("one", args=(1,), expected=2)])
    >>> job.mode, len(job.tests)
    ('func', 1)
    """

    language: str = "python"
    source: str = ""
    tests: Sequence[TestSpec] = ()
    mode: Mode = "func"
    entry: str = ""
    limits: Limits | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.language != "python":
            raise UserError(f"language {self.language!r} is not supported yet; use 'python'")
        if self.mode != "func":
            raise UserError(
                f"mode {self.mode!r} is not supported yet; use 'func', which calls the function "
                "named by `entry` with each test's arguments and compares what it returns"
            )
        if not isinstance(self.source, str):
            raise UserError(f"source must be the program's text, not {type(self.source).__name__}")
        if not isinstance(self.tests, Sequence) or not all(
            isinstance(test, TestSpec) for test in self.tests
        ):
            raise UserError("tests must be a list of TestSpec(name, args, kwargs, expected)")
        if not self.tests:
            raise UserError("a job without tests proves nothing; give at least one TestSpec")
        if not isinstance(self.entry, str) or not all(
            part.isidentifier() for part in self.entry.split(".")
        ):
            raise UserError(f"entry={self.entry!r} is not the name of a function to call")
        if not isinstance(self.seed, int):
            raise UserError(f"seed={self.seed!r} is not a whole number")
        if self.limits is not None and not isinstance(self.limits, Limits):
            raise UserError(f"limits must be Limits(...) or None, not {self.limits!r}")
        object.__setattr__(self, "tests", tuple(self.tests))

    def key(self, limits: Limits) -> str:
        """Content key: two jobs with the same key end in the same way.

        Args:
            limits: what applies when the job names none of its own.
        """
        tests = tuple(
            (
                *(t.name, t.inputs_wire, t.expected_wire),
                *(t.tolerance, t.tuples_as_lists, t.mixed_numbers),
            )
            for t in self.tests
        )
        content = (self.language, self.mode, self.entry, self.source, self.seed, tests)
        return hashlib.sha256(
            encode((content, astuple(self.limits or limits)), max_bytes=1 << 30)
        ).hexdigest()


@dataclass(frozen=True)
class TestResult:
    """What came of one test.

    Attributes:
        name: the test's.
        status: `PASS`, or why not.
        seconds: how long the call took by the program's own clock; None when unknown.
        got_repr: what was returned, shortened; None when nothing was.
        expected_repr: what should have been returned, shortened; never in the sandbox.
        message: one line for a learner; empty for a pass.
    """

    __test__ = False

    name: str
    status: Status
    seconds: float | None = None
    got_repr: str | None = None
    expected_repr: str | None = None
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

    @property
    def summary(self) -> str:
        """One line for a person, for example `3 of 5 tests passed; f(2) returned 5, expected 4`."""
        if self.status is Status.SANDBOX_ERROR:
            return f"no verdict, the sandbox failed: {self.message}"
        counted = f"{self.passed} of {self.total} tests passed"
        first = next((t.message for t in self.tests if t.status is not Status.PASS), "")
        reason = self.message or first
        return f"{counted}; {reason}" if reason else counted
