"""Proxy mode on the host: what both processes are told, and what the verifier's word is worth.

Each test is source text that runs in a process of its own, beside which the program runs in
another (`zygote/proxy_stubs.py` has the rules). `Job.share` says what tests have in common:
`process` (the default) one program process for all tests and a name space for each, `names`
one name space too, so that a test goes on where the last one stopped, `nothing` a program
that is loaded anew for each test, in the same process.

The verifier's process never holds the program, so its channel is believed, but not its
silence: a test passes only by a message that names it, one for each test.

Left out: a fresh process for each test; give each its own job for that.
"""

from __future__ import annotations

from dataclasses import replace

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import Call, Outcome
from rlkit.sandbox.endings import what_ended_it
from rlkit.sandbox.modes.evidence import Evidence, end_of_program, fill_the_gaps, verdict_of
from rlkit.sandbox.modes.test_text import read_test
from rlkit.sandbox.types import IsolationReport, Job, Limits, Status, TestResult, Verdict

#: A frame between the two processes is at least this long, whatever the limit on results.
_LEAST_FRAME = 1 << 20


def cannot_carry(code: str) -> str:
    """Why this test cannot run apart from the program; empty when it can.

    Decided by the test's text alone: no program can choose how it is tested.

    Raises:
        UserError: it is not Python.

    >>> cannot_carry("assert f([3, 1]) == [1, 3]"), cannot_carry("assert open('x').read() == f()")
    ('', 'shares files with the program')
    """
    return read_test(code).elsewhere


def prepare(job: Job, limits: Limits) -> Call:
    """What the two processes are told; the verifier's part never reaches the program's.

    Raises:
        UserError: a test could not fail, or cannot run apart from the program.
    """
    tests = []
    before: frozenset[str] = frozenset()
    for test in job.tests:
        text = read_test(test.code)
        if not text.evidence:
            raise UserError(f"test {test.name!r} asserts nothing, so every program would pass it")
        if text.elsewhere:
            raise UserError(
                f"test {test.name!r} {text.elsewhere}; proxy mode cannot carry that, use "
                "mode='inproc', which is weak"
            )
        entry = job.entry.partition(".")[0]
        names = {*text.names, "candidate"} if job.entry else set(text.names)
        # What an earlier test was to bind is not the program's, also when it came to nothing.
        names -= before
        before |= text.bound if job.share == "names" else frozenset()
        # The entry may bear the name of a builtin: it is what the test is about.
        tests.append((test.code, sorted(names | {entry} - {""}), list(text.classes)))
    size = max(_LEAST_FRAME, limits.result_kb * 1024)
    return Call(
        "proxy",
        {
            "candidate": {
                "source": job.source,
                "entry": job.entry,
                "seed": job.seed,
                "max_bytes": size,
            },
            "verifier": {
                "tests": tests,
                "entry": job.entry.partition(".")[0],
                "share": job.share,
                "stop_on_first": job.stop_on_first,
                "max_bytes": size,
            },
        },
        job.preload,
    )


def judge(job: Job, limits: Limits, outcome: Outcome, isolation: IsolationReport) -> Verdict:
    """The verdict by the verifier's messages, with the reason why some are missing."""
    evidence = Evidence(job, outcome)
    stopped, message = what_ended_it(limits, outcome)
    # When the program's process is gone, the verifier may live to tell, but not why.
    theirs, reason = (stopped, message) if stopped else end_of_program(limits, outcome)
    results = [
        replace(r, status=theirs, message=reason) if theirs is not None and _gone(r) else r
        for r in evidence.results
    ]
    if evidence.complete and outcome.ended != "output":
        stopped, message = None, ""  # every answer was in before it ended
    if evidence.broken is not None:
        status, message = evidence.broken
        if status is Status.NO_RESULT and theirs is not None:
            status, message = theirs, reason
        results = [replace(r, status=status, message=message) for r in results]
    elif outcome.ended == "output" or evidence.strange:
        # How many tests came before it was noticed is chance; a strange message is a fault.
        status = stopped or Status.TAMPERED
        message = message or "the answers did not come from the tests alone"
        results = [replace(r, status=status, message=message) for r in results]
    else:
        status = stopped
        reason = message or "the verifier ended before it had told"
        results = fill_the_gaps(results, stopped or Status.NO_RESULT, reason)
    return verdict_of(job, results, status, message, outcome, isolation, "strong")


def _gone(result: TestResult) -> bool:
    """Did this test end because the program's process was gone?"""
    return result.status is Status.NO_RESULT and result.message.startswith("the program ended")
