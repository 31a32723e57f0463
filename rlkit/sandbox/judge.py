"""From the facts about a process to a verdict about a program: a pure function.

The order of decision is fixed: our own faults first (they never reach this
module), then the compiler's word, then limits and crashes, named by who ended the
process, and the evidence of each test last. A test passes only by a value that
the host itself found equal to the expected one; the exit code plays no part.

Left out on purpose: any look at the program's text. What it says is no evidence.
"""

from __future__ import annotations

from dataclasses import replace

from rlkit.sandbox.backends.base import Call, Outcome
from rlkit.sandbox.checkers import ask, is_custom
from rlkit.sandbox.codec import CodecError, decode
from rlkit.sandbox.compare import same, short_repr
from rlkit.sandbox.endings import what_ended_it
from rlkit.sandbox.modes.evidence import verdict_of
from rlkit.sandbox.types import (
    IsolationReport,
    Job,
    Limits,
    Status,
    TestResult,
    TestSpec,
    Verdict,
)


def prepare(job: Job, limits: Limits) -> Call:
    """The call that the harness is asked to make: the program and the inputs, nothing else."""
    request = {
        "source": job.source,
        "entry": job.entry,
        "inputs": tuple(test.inputs_wire for test in job.tests),
        "seed": job.seed,
    }
    return Call("func", request, job.preload)


def judge(job: Job, limits: Limits, outcome: Outcome, isolation: IsolationReport) -> Verdict:
    """The verdict on a job whose process came up and ended as `outcome` says."""
    answers = _Answers(job, outcome)
    stopped, message = what_ended_it(limits, outcome)
    if len(answers.of_test) == len(job.tests) and stopped not in _VOID:
        stopped, message = None, ""  # every answer was in before it ended
    results = [
        _result(job, test, answers.of_test.get(index)) for index, test in enumerate(job.tests)
    ]
    compiled = answers.broken is None or answers.broken[0] != Status.COMPILE_ERROR
    if answers.broken is not None and not (compiled and stopped in _VOID):
        kind, message = answers.broken[0], _plain(answers.broken[1])
        status = Status(kind)
        results = [replace(r, status=status, message=message) for r in results]
    elif stopped in _VOID:
        # How many answers came before the limit was noticed is chance, so none counts.
        status = stopped
        results = [replace(r, status=status, message=message) for r in results]
    else:
        status = stopped
        reason = message or f"the program ended itself{_how(outcome)} before it answered"
        results = _fill_the_gaps(results, stopped or Status.NO_RESULT, reason)
    passed = all(result.status is Status.PASS for result in results)
    if status is None and answers.strange and not passed:
        status = Status.TAMPERED
        message = "the program wrote into the channel that carries the answers"
    outcome = replace(outcome, peak_rss_mb=_peak(outcome, answers))
    return verdict_of(job, results, status, message, outcome, isolation, "strong")


def without_start(job: Job, status: Status, message: str) -> Verdict:
    """The verdict on a job that never ran: `REJECTED`, or `SANDBOX_ERROR` without a reward."""
    results = tuple(
        TestResult(t.name, status, expected_repr=short_repr(t.expected), message=message)
        for t in job.tests
    )
    reward = None if status is Status.SANDBOX_ERROR else 0.0
    return Verdict(status, results, 0, len(results), reward, message=message)


class _Answers:
    """The messages of the harness, sorted; the first answer to each test counts.

    Attributes:
        of_test: by index of the test, the first message about it.
        broken: status and message when the program could not be loaded.
        peak_kb: what the process said about its own memory; never used against it.
        strange: messages that the harness cannot have sent.
    """

    def __init__(self, job: Job, outcome: Outcome) -> None:
        self.of_test: dict[int, tuple] = {}
        self.broken: tuple[str, str] | None = None
        self.peak_kb: int | None = None
        self.strange = outcome.garbage
        seen: set[str] = set()
        for message in outcome.messages:
            shape = tuple(type(part) for part in message)
            kind = message[0]
            if shape in _ABOUT_A_TEST and shape == _SHAPES.get(kind):
                index = message[1]
                if not 0 <= index < len(job.tests) or index in self.of_test:
                    self.strange += 1
                else:
                    self.of_test[index] = message
                continue
            wanted = _SHAPES.get(kind) if type(kind) is str else None
            if kind == "done" and message[1:] == (None,):
                wanted = shape  # a system that does not tell how much memory was used
            if kind == "broken" and shape == wanted and message[1] not in _LOAD_FAILURES:
                wanted = None
            if shape != wanted or kind in seen:
                self.strange += 1
                continue
            seen.add(kind)
            if kind == "broken":
                self.broken = message[1:]
            elif kind == "done":
                self.peak_kb = message[1]


_SHAPES: dict[str, tuple[type, ...]] = {
    "broken": (str, str, str),
    "done": (str, int),
    "value": (str, int, bytes, float),
    "error": (str, int, str, str, float),
    "odd": (str, int, str, float),
}
_ABOUT_A_TEST = {_SHAPES["value"], _SHAPES["error"], _SHAPES["odd"]}
_VOID = (Status.OUTPUT_LIMIT,)
_LOAD_FAILURES = ("COMPILE_ERROR", "RUNTIME_ERROR", "MEMORY_LIMIT")


def _peak(outcome: Outcome, answers: _Answers) -> float | None:
    seen = [] if outcome.peak_rss_mb is None else [outcome.peak_rss_mb]
    if answers.peak_kb is not None and 0 < answers.peak_kb < 1 << 40:
        seen.append(answers.peak_kb / 1024)
    return max(seen, default=None)


def _result(job: Job, test: TestSpec, message: tuple | None) -> TestResult:
    """What one answer is worth; without an answer, `NO_RESULT` and an empty message."""
    result = TestResult(test.name, Status.NO_RESULT, expected_repr=short_repr(test.expected))
    if message is None:
        return result
    kind, seconds = message[0], message[-1]
    result = replace(result, seconds=seconds if 0.0 <= seconds < 1e6 else None)
    call = test.call(job.entry)
    if kind == "error":
        status = Status.MEMORY_LIMIT if message[2] == "MEMORY_LIMIT" else Status.RUNTIME_ERROR
        return replace(result, status=status, message=f"{call} raised {_plain(message[3])}")
    if kind == "odd":
        text = f"{call} returned what cannot be compared: {_plain(message[2])}"
        return replace(result, status=Status.BAD_VALUE, message=text)
    wire = message[2]
    asks = is_custom(test.checker)
    if wire == test.expected_wire and not asks:
        # The encoding is canonical: equal bytes, equal values.
        return replace(result, status=Status.PASS, got_repr=result.expected_repr)
    try:
        got = decode(wire)
    except CodecError as error:
        text = f"{call} returned what cannot be compared: {error}"
        return replace(result, status=Status.BAD_VALUE, message=text)
    shown = short_repr(got)
    if asks:
        agreement = ask(test.checker, test.expected, got)
        status = Status.PASS if agreement else Status.FAIL
        said = "" if agreement else f"{call} returned {shown}: {_plain(agreement.reason)}"
        return replace(result, status=status, got_repr=shown, message=said)
    if same(test.expected, got, test.tolerance, test.tuples_as_lists, test.mixed_numbers):
        return replace(result, status=Status.PASS, got_repr=shown)
    got_said, expected_said = shown, result.expected_repr
    if type(got) is not type(test.expected) or got_said == expected_said:
        got_said += f" ({type(got).__name__})"
        expected_said += f" ({type(test.expected).__name__})"
    text = f"{call} returned {got_said}, expected {expected_said}"
    return replace(result, status=Status.FAIL, got_repr=shown, message=text)


def _fill_the_gaps(results: list[TestResult], status: Status, reason: str) -> list[TestResult]:
    """Say for each unanswered test why: the first was running when it ended, the rest waited."""
    filled, not_reached = [], f"not reached: {reason}"
    for result in results:
        if result.status is Status.NO_RESULT:
            result = replace(result, status=status, message=reason)
            status, reason = Status.NO_RESULT, not_reached
        filled.append(result)
    return filled


def _plain(text: str) -> str:
    """What the program said, on one line, without control characters or half characters."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:400])


def _how(outcome: Outcome) -> str:
    return "" if outcome.exit_code is None else f" (exit code {outcome.exit_code})"
