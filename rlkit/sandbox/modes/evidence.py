"""Evidence by the test: messages that say how one ended, counted, and made into a verdict.

Proxy, inproc and math mode tell the host about each test by one message: `("passed", index,
seconds)` or `("failed", index, status, message, got, seconds)`; `("broken", status, message)`
when the program does not load, `("done",)` at the end. The first message about a test counts.

Left out: what a message is worth. That depends on who wrote it, which each mode knows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from rlkit.sandbox.backends.base import Outcome
from rlkit.sandbox.endings import SIGKILL, SIGXCPU, what_ended_it
from rlkit.sandbox.types import IsolationReport, Job, Limits, Status, TestResult, Verdict

_FAILURES = frozenset(
    str(status)
    for status in Status
    if status not in (Status.PASS, Status.SANDBOX_ERROR, Status.REJECTED)
)


class Evidence:
    """The messages of a job, sorted.

    Attributes:
        results: one for each test; `NO_RESULT` without a message where nothing was said.
        broken: status and message when the program could not be loaded.
        done: whether the end was told.
        strange: messages that nobody should have sent.
        others: messages of other kinds, for the mode to read.
    """

    def __init__(self, job: Job, outcome: Outcome, others: tuple[str, ...] = ()) -> None:
        self.broken: tuple[Status, str] | None = None
        self.done = False
        self.strange = outcome.garbage
        self.others: list[tuple] = []
        found: dict[int, TestResult] = {}
        for message in outcome.messages:
            kind = message[0]
            if kind == "done" and len(message) == 1 and not self.done:
                self.done = True
            elif type(kind) is str and kind in others:
                self.others.append(message)
            elif kind == "broken" and self._is_broken(message):
                self.broken = Status(message[1]), plain(message[2])
            elif (told := self._about(job, message)) is not None and told[0] not in found:
                found[told[0]] = told[1]
            else:
                self.strange += 1
        self.results = [
            found.get(index, TestResult(test.name, Status.NO_RESULT))
            for index, test in enumerate(job.tests)
        ]
        self.complete = len(found) == len(job.tests) and self.done

    def _is_broken(self, message: tuple) -> bool:
        shape = [type(part) for part in message]
        return shape == [str] * 3 and message[1] in _FAILURES and self.broken is None

    @staticmethod
    def _about(job: Job, message: tuple) -> tuple[int, TestResult] | None:
        shape = tuple(type(part) for part in message)
        if len(shape) < 3 or shape[1] is not int or not 0 <= message[1] < len(job.tests):
            return None
        name = job.tests[message[1]].name
        seconds = message[-1] if type(message[-1]) is float and 0 <= message[-1] < 1e6 else None
        if message[0] == "passed" and shape == (str, int, float):
            return message[1], TestResult(name, Status.PASS, seconds=seconds)
        if message[0] != "failed" or shape[2:4] != (str, str) or message[2] not in _FAILURES:
            return None
        if len(shape) != 6 or shape[4] not in (str, type(None)):
            return None
        got = None if message[4] is None else plain(message[4])
        told = TestResult(name, Status(message[2]), seconds, got, message=plain(message[3]))
        return message[1], told


def end_of_program(limits: Limits, outcome: Outcome) -> tuple[Status | None, str]:
    """What ended the first process of a mode of two by itself: a limit, a signal, or nothing.

    The supervisor kills it when the other one is done, so a SIGKILL alone says nothing.
    """
    number = outcome.candidate_signal
    if outcome.ended != "exit" or number is None:
        return None, ""
    if number == SIGXCPU:  # sent by the kernel, or by itself, which is no better
        return Status.CPU_LIMIT, f"used up its {math.ceil(limits.cpu_s)} s of processor time"
    status, message = what_ended_it(limits, replace(outcome, signal=number))
    if number == SIGKILL and status is Status.CRASH:
        return None, ""
    return status, message


def fill_the_gaps(results: list[TestResult], status: Status, reason: str) -> list[TestResult]:
    """Say for each test without a message why: the first was running, the rest waited."""
    filled, first = [], True
    for result in results:
        if result.status is Status.NO_RESULT and not result.message:
            if first:
                result = replace(result, status=status, message=reason)
            else:
                result = replace(result, message=f"not reached: {reason}")
            first = False
        filled.append(result)
    return filled


def verdict_of(
    job: Job,
    results: list[TestResult],
    status: Status | None,
    message: str,
    outcome: Outcome,
    isolation: IsolationReport,
    trust: Literal["strong", "weak"],
) -> Verdict:
    """The verdict; without a status of the whole job, that of the first test that failed."""
    passed = sum(result.status is Status.PASS for result in results)
    if status is None:
        message = ""
        status = next((r.status for r in results if r.status is not Status.PASS), Status.PASS)
    return Verdict(
        status=status,
        tests=tuple(results),
        passed=passed,
        total=len(results),
        reward=passed / len(results),
        stdout=outcome.stdout.decode("utf-8", "replace"),
        stderr=outcome.stderr.decode("utf-8", "replace"),
        truncated=outcome.truncated,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        cpu_s=outcome.cpu_s,
        wall_s=outcome.wall_s,
        peak_rss_mb=outcome.peak_rss_mb,
        isolation=isolation,
        trust=trust,
        message=message,
    )


def plain(text: str) -> str:
    """What was said, on one line, without control characters or half characters.

    >>> plain("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:400])
