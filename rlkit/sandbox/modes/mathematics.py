"""Language math on the host: expressions go in, a word about each test comes out.

`Job(language="math", source="2x + 2", tests=[TestSpec("t", expected="2(x + 1)")])`: is the
source the same expression as each test's `expected`? No program is executed, so the verdict's
`trust` is `strong`, although both sides are compared inside the sandbox
(`zygote/mathematics.py`), where the comparison can be killed.

Beside `rlkit.rewards.maths`, which reads free text and LaTeX, this is a plain service.
"""

from __future__ import annotations

from dataclasses import replace

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import Call, Outcome
from rlkit.sandbox.endings import what_ended_it
from rlkit.sandbox.modes.evidence import Evidence, fill_the_gaps, verdict_of
from rlkit.sandbox.types import IsolationReport, Job, Limits, Status, Verdict


def prepare(job: Job, limits: Limits) -> Call:
    """Both texts; which of them is right is nobody's secret here, since no code is run.

    Raises:
        UserError: `expected` of a test is no text, or a number.
    """
    expected = []
    for test in job.tests:
        value = test.expected
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise UserError(
                f"expected of test {test.name!r} must be an expression as text, such as "
                f"'2*(x + 1)', not {value!r}"
            )
        expected.append(str(value))
    return Call(
        "mathematics",
        {"source": job.source, "expected": expected, "seed": job.seed % (1 << 31)},
        "sympy",
    )


def judge(job: Job, limits: Limits, outcome: Outcome, isolation: IsolationReport) -> Verdict:
    """The verdict by the child's word for each test."""
    evidence = Evidence(job, outcome)
    stopped, message = what_ended_it(limits, outcome)
    results = [
        replace(result, expected_repr=str(test.expected)[:120])
        for result, test in zip(evidence.results, job.tests, strict=True)
    ]
    if evidence.broken is not None:
        status, message = evidence.broken
        results = [replace(r, status=status, message=message) for r in results]
    else:
        status = None if evidence.complete else stopped
        results = fill_the_gaps(results, status or Status.NO_RESULT, message or "it did not end")
    return verdict_of(job, results, status, message, outcome, isolation, "strong")
