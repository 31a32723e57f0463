"""Inproc mode on the host: one call for each test, and what its record is worth.

For tests that must share a process with the program (see `zygote/inproc.py`). Opt in; the
verdict's `trust` is `weak`, for a program that means to can pay itself here.

Each test has a process, and limits, of its own, unless `Job.share` is `names`: then one
process runs them all in order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import Backend, Call, Outcome
from rlkit.sandbox.endings import what_ended_it
from rlkit.sandbox.modes.evidence import Evidence, end_of_program, fill_the_gaps, verdict_of
from rlkit.sandbox.modes.test_text import read_test
from rlkit.sandbox.types import IsolationReport, Job, Limits, Status, Verdict

#: Modules that are loaded before the program, so that it cannot put its own in their place.
_BEFORE = ("json", "os", "operator", "math", "re")


def prepare(job: Job, limits: Limits) -> Call:
    """What the two processes are told; the test itself reaches the program's late.

    Raises:
        UserError: a test that could not fail.
    """
    tests, imports = [], list(_BEFORE)
    for test in job.tests:
        if not read_test(test.code).evidence:
            raise UserError(f"test {test.name!r} asserts nothing, so every program would pass it")
        tests.append((test.code, count_functions(test.code)))
        if "unittest" in test.code:
            imports += ["unittest", "unittest.mock"]
    return Call(
        "inproc",
        {
            "candidate": {"source": job.source, "seed": job.seed, "imports": imports},
            "verifier": {"tests": tests, "entry": job.entry},
        },
        job.preload,
    )


def run(
    job: Job,
    limits: Limits,
    backend: Backend,
    cancelled: Callable[[], bool],
    isolation: IsolationReport,
) -> Verdict:
    """Run each test in a process of its own, and put the verdicts together."""
    if job.share == "names" or len(job.tests) == 1:
        return judge(job, limits, backend.call(prepare(job, limits), limits, cancelled), isolation)
    prepare(job, limits)  # refuse before anything runs
    verdicts: list[Verdict] = []
    for test in job.tests:
        one = replace(job, tests=(test,))
        outcome = backend.call(prepare(one, limits), limits, cancelled)
        verdicts.append(judge(one, limits, outcome, isolation))
        failed = verdicts[-1].status is not Status.PASS
        if cancelled() or (failed and (job.stop_on_first or _hopeless(verdicts[-1]))):
            break
    return _together(job, verdicts)


def _hopeless(verdict: Verdict) -> bool:
    """It did not load, or hung: the next test would end in the same way, as slowly."""
    stops = (Status.COMPILE_ERROR, Status.TIMEOUT, Status.CPU_LIMIT, Status.OUTPUT_LIMIT)
    return verdict.status in stops or bool(verdict.message)


def _together(job: Job, verdicts: list[Verdict]) -> Verdict:
    results = [verdict.tests[0] for verdict in verdicts]
    last = next((v for v in verdicts if v.status is not Status.PASS), verdicts[-1])
    reason = last.message or "the tests before ended it"
    for test in job.tests[len(results) :]:
        result = replace(results[-1], name=test.name, seconds=None, got_repr=None)
        waited = replace(result, status=Status.NO_RESULT, message=f"not reached: {reason}")
        results.append(waited)
    passed = sum(result.status is Status.PASS for result in results)

    def added(name: str) -> float | None:
        values = [getattr(verdict, name) for verdict in verdicts]
        return None if None in values else sum(values)

    peaks = [v.peak_rss_mb for v in verdicts if v.peak_rss_mb is not None]
    return replace(
        last,
        tests=tuple(results),
        passed=passed,
        total=len(results),
        reward=passed / len(results),
        cpu_s=added("cpu_s"),
        wall_s=added("wall_s"),
        peak_rss_mb=max(peaks, default=None),
        orphans_killed=sum(v.orphans_killed for v in verdicts),
    )


def judge(job: Job, limits: Limits, outcome: Outcome, isolation: IsolationReport) -> Verdict:
    """A pass takes a record for each test, an exit by itself with code 0, and nothing strange."""
    evidence = Evidence(job, outcome, others=("more",))
    stopped, message = what_ended_it(limits, outcome)
    results = evidence.results
    if stopped is None and any(r.status is Status.NO_RESULT for r in results):
        stopped, message = end_of_program(limits, outcome)
    if evidence.broken is not None:
        status, said = evidence.broken
        if status is Status.NO_RESULT and stopped is not None:
            status, said = stopped, message
        message = said
        results = [replace(r, status=status, message=message) for r in results]
    elif evidence.others or evidence.strange:
        status, message = Status.TAMPERED, "the program sent more than its records"
        results = [replace(r, status=status, message=message) for r in results]
    else:
        status = stopped
        if stopped is not None:
            lost = (Status.NO_RESULT, Status.PASS)
            results = [
                replace(r, status=stopped, message=message) if r.status in lost else r
                for r in results
            ]
        elif outcome.candidate_exit_code != 0 and evidence.complete:
            code = outcome.candidate_exit_code
            text = f"the program's process ended with exit code {code}"
            results = [
                replace(r, status=Status.NO_RESULT, message=text) if r.status is Status.PASS else r
                for r in results
            ]
        results = fill_the_gaps(results, Status.NO_RESULT, message or "the tests did not end")
    return replace(
        verdict_of(job, results, status, message, outcome, isolation, "weak"),
        orphans_killed=outcome.orphans,
        stopped_by=outcome.stopped_by,
    )


def count_functions(code: str) -> int:
    """How many test functions a test's text has, with the methods of its test classes.

    >>> count_functions("def test_a(): pass\\nclass TestB:\\n    def test_c(self): pass")
    2
    """
    count = 0
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef):
            count += node.name.startswith("test") or node.name == "check"
        elif isinstance(node, ast.ClassDef):
            methods = sum(
                isinstance(part, ast.FunctionDef) and part.name.startswith("test")
                for part in node.body
            )
            cases = any("TestCase" in ast.unparse(base) for base in node.bases)
            count += methods if cases or node.name.startswith("Test") else 0
    return count
