"""From facts to a verdict, without a process: what outranks what."""

from __future__ import annotations

import signal

import pytest

from rlkit.sandbox import IsolationReport, Job, Level, Limits, Status, TestSpec, encode
from rlkit.sandbox.backends.base import Outcome
from rlkit.sandbox.judge import judge

REPORT = IsolationReport(Level.LIMITS, "a sentence")
LIMITS = Limits(wall_s=4.0, cpu_s=2.0, memory_mb=100)
JOB = Job(
    source="...",
    entry="f",
    tests=[TestSpec("a", args=(1,), expected=10), TestSpec("b", args=(2,), expected=20)],
)
DONE = ("done", 9000)
RIGHT_A, RIGHT_B = ("value", 0, encode(10), 0.1), ("value", 1, encode(20), 0.1)
WRONG_B = ("value", 1, encode(21), 0.1)


def verdict_on(*messages, **facts):
    return judge(JOB, LIMITS, Outcome(messages=list(messages), **facts), REPORT)


def statuses(verdict):
    return [test.status.value for test in verdict.tests]


def test_every_test_needs_evidence():
    assert verdict_on(RIGHT_A, RIGHT_B, DONE, exit_code=0).status is Status.PASS
    verdict = verdict_on(RIGHT_A, DONE, exit_code=0)
    assert verdict.status is Status.NO_RESULT
    assert (statuses(verdict), verdict.reward) == (["PASS", "NO_RESULT"], 0.5)
    assert verdict_on(exit_code=0).reward == 0.0


def test_the_exit_code_is_no_evidence():
    assert verdict_on(RIGHT_A, RIGHT_B, exit_code=1).status is Status.PASS
    assert verdict_on(RIGHT_A, WRONG_B, exit_code=0).status is Status.FAIL
    assert verdict_on(RIGHT_A, RIGHT_B, signal=signal.SIGKILL).status is Status.PASS


def test_the_compiler_outranks_the_limits():
    broken = ("broken", "COMPILE_ERROR", "SyntaxError: no (line 1)")
    verdict = verdict_on(broken, ended="output", signal=9)
    assert (verdict.status, verdict.reward) == (Status.COMPILE_ERROR, 0.0)
    assert verdict.summary == "0 of 2 tests passed; SyntaxError: no (line 1)"


def test_answers_after_a_broken_program_do_not_count():
    verdict = verdict_on(("broken", "RUNTIME_ERROR", "x"), RIGHT_A, RIGHT_B, exit_code=0)
    assert (verdict.status, verdict.reward) == (Status.RUNTIME_ERROR, 0.0)


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"ended": "wall", "signal": 9, "cpu_s": 3.0}, Status.TIMEOUT),
        ({"signal": signal.SIGXCPU, "cpu_s": 2.0}, Status.CPU_LIMIT),
        ({"signal": signal.SIGKILL, "cpu_s": 3.0}, Status.CPU_LIMIT),
        ({"signal": signal.SIGXCPU, "cpu_s": 0.1}, Status.CRASH),  # sent by itself
        ({"signal": signal.SIGKILL, "cpu_s": 0.1}, Status.CRASH),
        ({"signal": signal.SIGSEGV, "cpu_s": 0.1, "peak_rss_mb": 95.0}, Status.MEMORY_LIMIT),
        ({"signal": signal.SIGKILL, "cpu_s": 0.1, "peak_rss_mb": 50.0}, Status.CRASH),
        ({"signal": 40, "cpu_s": None}, Status.CRASH),
        ({"ended": "closed", "signal": 9, "cpu_s": 0.1}, Status.TAMPERED),
        ({"exit_code": 0}, Status.NO_RESULT),
        ({}, Status.NO_RESULT),  # nobody knows how it ended
    ],
)
def test_who_ended_it_gives_the_status(facts, status):
    verdict = verdict_on(RIGHT_A, **facts)
    assert verdict.status is status
    assert statuses(verdict) == ["PASS", status.value]
    assert verdict.reward == 0.5
    assert verdict.tests[1].message


@pytest.mark.parametrize("ended", ["output", "result", "disk"])
def test_nothing_counts_once_too_much_was_put_out(ended):
    verdict = verdict_on(RIGHT_A, RIGHT_B, ended=ended, signal=9)
    assert verdict.status is Status.OUTPUT_LIMIT
    assert (statuses(verdict), verdict.reward) == (["OUTPUT_LIMIT"] * 2, 0.0)


def test_what_happens_after_the_last_answer_changes_nothing():
    for facts in ({"ended": "wall", "signal": 9}, {"signal": 11}, {"ended": "closed"}):
        assert verdict_on(RIGHT_A, RIGHT_B, **facts).status is Status.PASS
        assert verdict_on(RIGHT_A, WRONG_B, **facts).status is Status.FAIL


@pytest.mark.parametrize(
    "strange",
    [
        RIGHT_A,
        ("ready", (), 0.0),
        ("value", 2, encode(20), 0.1),
        ("value", -1, encode(20), 0.1),
        ("value", True, encode(20), 0.1),
        ("value", 1, [20], 0.1),
        ("value", 1),
        ("broken", "PASS", "x"),
        ("broken", "SANDBOX_ERROR", "x"),
        ("done", "x"),
        ("passed", 2),
        (None,),
        ((), ()),
    ],
)
def test_what_the_harness_never_sends_is_tampering_unless_all_is_right(strange):
    verdict = verdict_on(RIGHT_A, strange, WRONG_B, DONE, exit_code=0)
    assert verdict.status is Status.TAMPERED
    assert (statuses(verdict), verdict.reward) == (["PASS", "FAIL"], 0.5)
    assert verdict_on(RIGHT_A, strange, RIGHT_B, DONE, exit_code=0).reward == 1.0


def test_the_first_answer_counts():
    verdict = verdict_on(RIGHT_A, WRONG_B, RIGHT_B, DONE, exit_code=0)
    assert statuses(verdict) == ["PASS", "FAIL"]


def test_bytes_that_are_no_value_are_a_bad_value():
    verdict = verdict_on(RIGHT_A, ("value", 1, b"nonsense", 0.1), DONE, exit_code=0)
    assert statuses(verdict) == ["PASS", "BAD_VALUE"]


def test_numbers_that_the_program_made_up_are_not_shown():
    for seconds in (float("nan"), float("inf"), -1.0):
        verdict = verdict_on(("value", 0, encode(10), seconds), RIGHT_B, ("done", -5))
        assert verdict.tests[0].seconds is None
        assert verdict.peak_rss_mb is None
    assert verdict_on(RIGHT_A, RIGHT_B, DONE).peak_rss_mb == 9000 / 1024


def test_a_claim_about_memory_is_not_used_against_the_program():
    verdict = verdict_on(RIGHT_A, ("done", 99 * 1024), signal=11)
    assert verdict.status is Status.CRASH
