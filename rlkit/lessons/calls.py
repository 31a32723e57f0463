"""Calls of a learner's function: many at once in the sandbox, or one by one in this process.

In the sandbox all calls are one job, so they cost one process. The job's own wrapper writes
each value, encoded as plain data, as a line of its output, and the host reads it back; the
verdict says why a call gave none. In this process the arguments are copied first, and a
timer ends a loop that does not, where the system has one.

Left out on purpose: any judgement of the values; see `examination`.
"""

from __future__ import annotations

import contextlib
import copy
import random
import re
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from rlkit.errors import UserError
from rlkit.lessons.exercise import Call
from rlkit.lessons.expect import LearnerError, kind_of
from rlkit.lessons.learner_code import Program
from rlkit.sandbox import CodecError, Job, Limits, Sandbox, Status, TestSpec, Verdict, decode

#: Seconds that all calls of a check may take together.
SANDBOX_S, HERE_S = 1.0, 10.0
#: Characters and lines of the learner's own prints that are shown.
PRINTED, PRINTED_LINES = 600, 8


@dataclass(frozen=True)
class Reply:
    """What one call gave: a value, or a sentence that says why there is none.

    Attributes:
        value: what was returned; None when there is an error.
        error: why there is no value.
        changed: whether the function changed what it was given.
    """

    value: Any = None
    error: LearnerError | None = None
    changed: bool = False


class Unavailable(Exception):
    """The sandbox itself does not work here; nothing is known about the answer."""


# -- in the sandbox ------------------------------------------------------------------------

# Runs after the learner's code, in the sandbox. The codec's text is ours.
_WRAPPER = """

def _rlkit_answer(number, args, kwargs, _space={{"__name__": "codec"}}):
    import posix
    if "encode" not in _space:
        exec({codec!r}, _space)
    encode, error = _space["encode"], _space["CodecError"]
    before = encode((args, kwargs))
    value = {entry}(*args, **kwargs)
    try:
        changed = encode((args, kwargs)) != before
    except error:
        changed = True
    try:
        message = encode(("value", value, changed))
    except error as problem:
        message = encode(("odd", type(value).__name__, str(problem)))
    line = ("\\n{token} %d %s\\n" % (number, message.hex())).encode()
    while line:
        line = line[posix.write(1, line):]
    return True
"""
_lock = threading.Lock()
_sandbox: Sandbox | None = None


def run_apart(
    program: Program, calls: Sequence[Call], seconds: float | None = None
) -> tuple[list[Reply], str]:
    """Makes all calls in one job of the sandbox.

    Args:
        program: defines the learner's function.
        calls: with plain data as arguments.
        seconds: of processor time for all of them; three times as long by the clock.

    Returns:
        a reply for each call, and what the learner's code printed.

    Raises:
        Unavailable: the sandbox failed, so there is no verdict.

    >>> run_apart(Program("def double(x): return 2 * x", "double"), [Call((4,))])[0][0].value
    8
    """
    token = secrets.token_hex(8)
    codec = files("rlkit.sandbox").joinpath("codec.py").read_text(encoding="utf-8")
    wrapper = _WRAPPER.format(codec=codec, entry=program.entry, token=token)
    limit = SANDBOX_S if seconds is None else seconds
    job = Job(
        source=program.source + wrapper,
        entry="_rlkit_answer",
        tests=[
            TestSpec(str(i), args=(i, tuple(c.args), dict(c.kwargs)), expected=True)
            for i, c in enumerate(calls)
        ],
        limits=Limits(wall_s=3 * limit, cpu_s=limit, output_kb=1024),
    )
    try:
        verdict = _shared_sandbox().run(job)
    except UserError as error:  # Windows, or no interpreter to start
        raise Unavailable(str(error)) from None
    if verdict.status is Status.SANDBOX_ERROR:
        raise Unavailable(verdict.message)
    answers, printed = _read(verdict.stdout, token)
    replies = [_reply(program, c, answers.get(i), verdict, i, limit) for i, c in enumerate(calls)]
    return replies, printed


def _shared_sandbox() -> Sandbox:
    global _sandbox
    with _lock:
        if _sandbox is None:
            _sandbox = Sandbox(workers=1)
        return _sandbox


def _read(stdout: str, token: str) -> tuple[dict[int, tuple], str]:
    """The wrapper's lines, by number of the call, and everything else that was printed."""
    answers, rest = {}, []
    for line in stdout.split("\n"):
        if not line.startswith(token):
            rest.append(line)
            continue
        try:
            _, number, text = line.split(" ")
            answers[int(number)] = decode(bytes.fromhex(text))
        except (ValueError, CodecError):  # cut off at the end of the output
            continue
    lines = [line for line in rest if line]
    printed = "\n".join(lines[:PRINTED_LINES])
    if len(printed) > PRINTED:
        printed = f"{printed[:PRINTED]} …"
    if len(lines) > PRINTED_LINES:
        printed += f"\n… and {len(lines) - PRINTED_LINES} more lines"
    return answers, printed


def _reply(
    program: Program, made: Call, answer: tuple | None, verdict: Verdict, index: int, limit: float
) -> Reply:
    result = verdict.tests[index]
    shown = made.text(program.entry)
    if result.status is Status.PASS:
        if answer is None:
            return _failed("OUTPUT_LIMIT", f"{shown} printed so much that its value was lost")
        if answer[0] == "odd":
            return _odd(shown, answer[1], answer[2])
        return Reply(value=answer[1], changed=answer[2])
    message = result.message or verdict.message
    status = str(result.status)
    if result.status in (Status.TIMEOUT, Status.CPU_LIMIT):
        return _endless(shown, limit)
    if result.status in (Status.RUNTIME_ERROR, Status.COMPILE_ERROR):
        return _raised(program, shown, message, result.status)
    if result.status is Status.NO_RESULT and message.startswith("not reached"):
        return _failed("NOT_REACHED", f"{shown} was not tried any more")
    if result.status is Status.MEMORY_LIMIT:
        return _failed(status, f"{shown} asked for more memory than a lesson has to give")
    if result.status is Status.OUTPUT_LIMIT:
        return _failed(status, f"{shown} printed without end and was stopped")
    return _failed(status, f"{shown} gave no value: {message}")


def _raised(program: Program, shown: str, message: str, status: Status) -> Reply:
    """`_rlkit_answer(0, (1,), {}) raised ValueError: text (line 7)`, as a learner reads it."""
    _, raised, text = message.partition(") raised ")
    text = text if raised else message
    kind = re.match(r"\w+", text)
    name = kind[0] if kind else str(status)
    where = re.search(r" \(line (\d+)\)$", text)
    if where:
        place = program.place(int(where[1]))
        text = text[: where.start()] + (f", in {place}" if place else "")
    if name == "ModuleNotFoundError":
        text += "; the sandbox has Python's own library only"
    if status is Status.COMPILE_ERROR:
        return _failed(name, f"this is not Python: {text}")
    return _failed(name, f"{shown} raised {text}" if raised else f"your code raised {text}")


def _odd(shown: str, kind: str, problem: str) -> Reply:
    if kind == "ellipsis":
        return _failed("TODO", f"{shown} returned `...`")
    if kind == "generator":
        return _failed("odd", f"{shown} returned a generator: list(...) makes a list of it")
    if kind == "coroutine":
        return _failed("odd", f"{shown} returned a coroutine: write def, not async def")
    return _failed(
        "odd", f"{shown} returned a value of type {kind}, not plain numbers, text or lists"
    )


def _endless(shown: str, limit: float) -> Reply:
    return _failed(
        "TIMEOUT",
        f"{shown} did not come back within {limit:g} s and was stopped: is there a loop that "
        "never ends?",
    )


def _failed(kind: str, sentence: str) -> Reply:
    return Reply(error=LearnerError(kind, sentence))


# -- in this process -----------------------------------------------------------------------


class OutOfTime(BaseException):
    """Raised by the timer; no `except Exception` of the learner's swallows it."""


def call_here(function: Callable[..., Any], made: Call, name: str, copied: bool = True) -> Reply:
    """Makes one call in this process; an exception, an exit or Ctrl-C becomes a sentence.

    Args:
        function: the learner's.
        made: the arguments.
        name: how the sentence calls the function.
        copied: whether it gets a copy of the arguments; not where a test wants to see what
            becomes of them, such as gradients.

    >>> call_here(lambda x: 1 / x, Call((0,)), "f").error
    LearnerError('f(0) raised ZeroDivisionError: division by zero, in line 1 of f')
    """
    shown = made.text(name)
    args, kwargs = made.args, dict(made.kwargs)
    if copied:
        args, kwargs = copy.deepcopy((args, kwargs))
    started = time.monotonic()
    try:
        value = function(*args, **kwargs)
    except OutOfTime:
        return _endless(shown, round(time.monotonic() - started, 1))
    except KeyboardInterrupt:
        waited = time.monotonic() - started
        return _failed("TIMEOUT", f"{shown} was interrupted after {waited:.1f} s")
    except BaseException as error:
        kind = type(error).__name__
        if kind == "NotImplementedError":
            return _failed("TODO", f"{shown} raised NotImplementedError")
        text = f": {error}" if str(error) else ""
        return _failed(kind, f"{shown} raised {kind}{text}{_line_of(function, error, name)}")
    if value is ...:
        return _failed("TODO", f"{shown} returned `...`")
    if type(value).__name__ in ("generator", "coroutine"):
        return _odd(shown, type(value).__name__, kind_of(value))
    changed = copied and not _unchanged((args, kwargs), (made.args, dict(made.kwargs)))
    return Reply(value, changed=changed)


@contextlib.contextmanager
def time_limit(seconds: float | None = None) -> Iterator[bool]:
    """Ends what runs in this process after some seconds, where a timer can.

    Gives whether it can: only in the main thread, and not on Windows. Elsewhere a running
    cell has to be interrupted by hand, and after a while a printed sentence says so.
    """
    limit = HERE_S if seconds is None else seconds
    can = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not can:
        sentence = "Still checking. If your code never ends, interrupt it: ■ in the toolbar."
        reminder = threading.Timer(limit, print, [sentence])
        reminder.daemon = True
        reminder.start()
        try:
            yield False
        finally:
            reminder.cancel()
        return

    def out_of_time(*_: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """The random numbers of Python and torch begin anew inside, and are put back after."""
    state = random.getstate()
    random.seed(seed)
    torch = sys.modules.get("torch")
    torch_state = None if torch is None else torch.random.get_rng_state()
    if torch is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
        if torch_state is not None:
            torch.random.set_rng_state(torch_state)


def _line_of(function: Callable[..., Any], error: BaseException, name: str) -> str:
    code = getattr(function, "__code__", None)
    line, step = None, error.__traceback__
    while step is not None:
        if code is not None and step.tb_frame.f_code is code:
            line = step.tb_lineno - code.co_firstlineno + 1
        step = step.tb_next
    return "" if line is None else f", in line {line} of {name}"


def _unchanged(after: Any, before: Any) -> bool:
    """Whether two values are equal all the way down, tensors and NaN included."""
    if hasattr(before, "tolist"):
        return type(after) is type(before) and repr(after.tolist()) == repr(before.tolist())
    if type(before) in (list, tuple):
        return (
            type(after) is type(before)
            and len(after) == len(before)
            and all(_unchanged(a, b) for a, b in zip(after, before, strict=True))
        )
    if type(before) is dict:
        return (
            type(after) is dict
            and after.keys() == before.keys()
            and all(_unchanged(after[key], before[key]) for key in before)
        )
    if type(before) in (int, float, str, bool, bytes, set):
        return repr(after) == repr(before) or after == before
    return True  # an object of some other kind: nothing is known, so nothing is held against it
