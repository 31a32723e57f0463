"""Which verdicts may be kept, and how they are written down.

Another run of the same job must end in the same way: `PASS`, `FAIL`, `COMPILE_ERROR`,
`RUNTIME_ERROR` and `BAD_VALUE` are kept. Whatever a limit, a signal or a fault ended is run
again: time and memory depend on what else the machine did.

A verdict is written as JSON, never pickled, and what belongs to one run alone (how long it
waited, what kept it apart) is left away.

Left out on purpose: reading what another version wrote. The version is part of every key.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rlkit.sandbox.verdict import CompileReport, Status, TestResult, Verdict

#: Ends that another run of the same job must come to as well.
LASTING = frozenset(
    (Status.PASS, Status.FAIL, Status.COMPILE_ERROR, Status.RUNTIME_ERROR, Status.BAD_VALUE)
)

#: Fields of a verdict that belong to the run that is asked for, not to the one that is kept.
_OF_THE_RUN = ("isolation", "cached", "queue_s", "request_id", "flaky", "tests", "compile")


def lasting(verdict: Verdict, may_stop: bool = False) -> bool:
    """Whether another run of the same job must end in the same way.

    Args:
        verdict: how this run ended.
        may_stop: whether the job was to stop at its first failure, so that tests without a
            result are no wonder.
    """
    allowed = LASTING | {Status.NO_RESULT} if may_stop else LASTING
    return verdict.status in LASTING and all(test.status in allowed for test in verdict.tests)


def pack(verdict: Verdict) -> str:
    """A verdict as text, without what belongs to its run alone."""
    facts = {name: value for name, value in vars(verdict).items() if name not in _OF_THE_RUN}
    facts["tests"] = [vars(test) for test in verdict.tests]
    if verdict.compile is not None:
        facts["compile"] = vars(verdict.compile)
    return json.dumps(facts, separators=(",", ":"))


def unpack(text: str) -> Verdict:
    """The verdict again.

    Raises:
        ValueError, TypeError, KeyError: the text is no verdict.

    >>> verdict = Verdict(Status.FAIL, (TestResult("t", Status.FAIL, got_repr="5"),), 0, 1, 0.0)
    >>> unpack(pack(verdict)) == verdict
    True
    """
    facts = json.loads(text)
    tests = [TestResult(**{**test, "status": Status(test["status"])}) for test in facts["tests"]]
    compiled = facts.get("compile")
    if compiled is not None:
        compiled = CompileReport(**{**compiled, "status": Status(compiled["status"])})
    facts.update(
        status=Status(facts["status"]),
        tests=tuple(tests),
        compile=compiled,
        suspicion=tuple(facts["suspicion"]),
    )
    return Verdict(**facts)


def copy_of(known: Verdict, **of_the_run: Any) -> Verdict:
    """What a caller is given in place of a run: the kept verdict, marked as a copy."""
    compiled = known.compile
    if compiled is not None:
        compiled = replace(compiled, cached=True)
    return replace(known, cached=True, compile=compiled, **of_the_run)
