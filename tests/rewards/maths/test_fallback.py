"""math-verify as a late fallback: in a child, behind a guard, under a wall clock."""

from __future__ import annotations

import importlib.util
import os
import pickle
import signal
import threading
import warnings

import pytest

from rlkit.rewards.maths import judge
from rlkit.rewards.maths.fallback import Fallback, refusal

SUM, VALUE = r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}"
needs_math_verify = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None, reason="math-verify is not installed"
)


@pytest.fixture(scope="module")
def fallback():
    # The clock is generous here: what is tested is the verdict, not the machine.
    asked = Fallback(seconds=30.0)
    yield asked
    asked.close()


@needs_math_verify
def test_a_gold_answer_beyond_our_parser_is_judged(fallback):
    assert judge(rf"\boxed{{{VALUE}}}", SUM, fallback=fallback).value == 1.0
    assert judge(r"\boxed{\frac{n(n-1)}{2}}", SUM, fallback=fallback).value == 0.0


@needs_math_verify
def test_it_is_asked_from_any_thread(fallback):
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(judge(rf"\boxed{{{VALUE}}}", SUM, fallback=fallback).value)
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [1.0] * 4


def test_what_was_not_worked_out_is_wrong_without_asking(fallback):
    found = judge(r"\boxed{\int_0^1 2x\,dx}", "1", fallback=fallback)
    assert (found.value, found.status) == (0.0, "NOT_WORKED_OUT")


def test_without_a_fallback_there_is_no_verdict():
    found = judge(rf"\boxed{{{VALUE}}}", SUM)
    assert (found.value, found.status) == (None, "NO_FALLBACK")


def test_a_missing_math_verify_is_said_once(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    asked = Fallback()
    with pytest.warns(UserWarning, match="math-verify is not installed"):
        assert asked.ask(SUM, VALUE).status == "NO_FALLBACK"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asked.ask(SUM, VALUE).status == "NO_FALLBACK"


@needs_math_verify
def test_a_question_that_takes_too_long_is_counted_and_the_next_one_is_answered():
    asked = Fallback(seconds=30.0)
    try:
        assert asked.ask(SUM, VALUE).agrees is True
        asked.seconds = 0.0
        slow = judge(r"\boxed{\frac{n(n+2)}{2}}", SUM, fallback=asked)
        assert (slow.value, slow.status) == (None, "TIMEOUT")
        assert asked.timeouts == 1
        asked.seconds = 30.0
        assert asked.ask(SUM, r"\frac{n^2+n}{2}").agrees is True
    finally:
        asked.close()


@needs_math_verify
def test_a_child_that_was_killed_is_replaced():
    asked = Fallback(seconds=30.0)
    try:
        assert asked.ask(SUM, VALUE).agrees is True
        os.kill(asked._process.pid, signal.SIGKILL)
        asked._process.wait()
        assert asked.ask(SUM, r"\frac{n^2+n}{2}").agrees is True
    finally:
        asked.close()


@pytest.mark.parametrize(
    "text",
    [
        "9^{9^{9}}",
        "9^9^9",
        "2^{1000}",
        "n!",
        r"\binom{10000}{5000}",
        "1" * 31,
        "(" * 7 + "1" + ")" * 7,
        "x" * 401,
        "__import__",
        "import os",
        "a.b`c",
        "print(1)",
        "9**9",
        "'; x = \"y",
    ],
)
def test_the_guard_refuses(text):
    assert refusal(text) is not None


@pytest.mark.parametrize("text", [SUM, VALUE, r"\int_0^x s\,ds", r"\max(a, b)", "x^{2}"])
def test_the_guard_lets_pass(text):
    assert refusal(text) is None


def test_the_reward_holds_no_process():
    from rlkit.rewards import math_answer

    assert b"Popen" not in pickle.dumps(math_answer)
