"""Flaky tests: programs that pass once and fail the next time, found by running them again.

A result from the cache stands for every later run, so it had better be the only one
possible. One in a hundred of them is not believed: the job runs again, and the two are
compared. `hunt` does the same on purpose, many times over, for one job.

Left out on purpose: guessing from the source what might be flaky. A program may call
`random` and still always end alike.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlkit.errors import UserError
from rlkit.sandbox.kept import lasting
from rlkit.sandbox.verdict import Status, Verdict

if TYPE_CHECKING:
    from rlkit.sandbox.job import Job
    from rlkit.sandbox.sandbox import Sandbox

#: The share of results from the cache that are checked by another run.
RATE = 0.01


class Rechecker:
    """Chooses which results to check; the same choice for the same seed and order.

    Args:
        rate: share that is chosen, 0 to 1.
        seed: decides which.

    >>> chosen = Rechecker(rate=0.5, seed=1)
    >>> [chosen.due() for _ in range(6)]
    [True, False, False, True, True, True]
    """

    def __init__(self, rate: float = RATE, seed: int = 0) -> None:
        if not isinstance(rate, (int, float)) or not 0.0 <= rate <= 1.0:
            raise UserError(f"recheck={rate!r} is not a share; give a number from 0 to 1")
        self.rate = float(rate)
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def due(self) -> bool:
        """Whether the result that was just found is one of those to check."""
        with self._lock:
            return self._random.random() < self.rate


def difference(one: Verdict, other: Verdict) -> str | None:
    """In what two runs of one job differ, for a person; empty when they ended alike.

    Returns:
        None when that cannot be told: a limit or a fault ended one of them.

    >>> from rlkit.sandbox.verdict import TestResult
    >>> def run(status): return Verdict(status, (TestResult("t", status),), 0, 1, 0.0)
    >>> difference(run(Status.PASS), run(Status.FAIL))
    "test 't' ended in PASS, then in FAIL"
    >>> difference(run(Status.PASS), run(Status.TIMEOUT)) is None
    True
    """
    if not lasting(one, may_stop=True) or not lasting(other, may_stop=True):
        return None
    for a, b in zip(one.tests, other.tests, strict=True):
        if a.status is not b.status:
            return f"test {a.name!r} ended in {a.status}, then in {b.status}"
    if one.status is not other.status:
        return f"the job ended in {one.status}, then in {other.status}"
    return ""


@dataclass(frozen=True)
class FlakyReport:
    """What came of running one job many times.

    Attributes:
        runs: how often it ran.
        statuses: how often each status came out.
        tests: for each test (by number) that did not always end alike, the same.
        names: of those tests.
    """

    runs: int
    statuses: Mapping[Status, int]
    tests: Mapping[int, Mapping[Status, int]]
    names: Mapping[int, str]

    @property
    def flaky(self) -> bool:
        """Whether any two runs ended differently."""
        return len(self.statuses) > 1 or bool(self.tests)

    def __str__(self) -> str:
        counted = ", ".join(f"{status} {n} times" for status, n in self.statuses.items())
        lines = [f"{self.runs} runs: {counted}"]
        for number, came_out in self.tests.items():
            counted = ", ".join(f"{status} {n} times" for status, n in came_out.items())
            lines.append(f"test {self.names[number]!r}: {counted}")
        return "\n".join(lines)


def hunt(sandbox: Sandbox, job: Job, times: int = 10) -> FlakyReport:
    """Run one job many times, without any cache, and count how it ends.

    Each run has another seed for `random`.

    Args:
        sandbox: where it runs.
        job: what runs.
        times: how often, 2 or more.

    Raises:
        UserError: fewer than two runs.

    >>> from rlkit.sandbox import Job, Sandbox, TestSpec
    >>> job = Job(source="import random\\ndef f(): return random.random() < 0.5", entry="f",
    ...           tests=[TestSpec("coin", expected=True)])
    >>> with Sandbox(workers=1) as sandbox:
    ...     hunt(sandbox, job, times=12).flaky
    True
    """
    if not isinstance(times, int) or times < 2:
        raise UserError(f"times={times!r}; two runs or more can differ")
    job = job.drawn()
    again = [replace(job, seed=job.seed + n, cache="off") for n in range(times)]
    verdicts = sandbox.run_many(again)
    tests = {}
    for number, results in enumerate(zip(*(v.tests for v in verdicts), strict=True)):
        came_out = Counter(result.status for result in results)
        if len(came_out) > 1:
            tests[number] = dict(came_out)
    names = {number: job.tests[number].name for number in tests}
    return FlakyReport(times, dict(Counter(v.status for v in verdicts)), tests, names)
