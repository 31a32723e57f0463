"""What the cheat corpus leaves open: as what exactly some cheats end, and which answer counts.

The cheats themselves are in `rlkit.sandbox.corpus`, and run by `test_corpus.py`; there a cheat
may end as anything but paid. Here, on this machine's own backend, anything else than the
status named would be luck.
"""

from __future__ import annotations

import pytest

from rlkit.sandbox import Status
from rlkit.sandbox.corpus import cases

EXACTLY = {
    "results in JSON on every descriptor": Status.TAMPERED,
    "our own messages with a wrong value": Status.TAMPERED,
    "frames with a length in front": Status.TAMPERED,
    "messages about tests that do not exist": Status.TAMPERED,
    "messages of the wrong shape": Status.TAMPERED,
    "closes every descriptor and goes on": Status.TAMPERED,
    "a claim that the sandbox failed": Status.TAMPERED,
    "a claim of a limit that was not reached": Status.TAMPERED,
    "a second start": Status.TAMPERED,
    "takes its own messages back": Status.NO_RESULT,
    "a list that equals everything": Status.BAD_VALUE,
    "an object that equals everything": Status.BAD_VALUE,
    "a lie about the class": Status.BAD_VALUE,
    "a metaclass that lies": Status.BAD_VALUE,
    "a mock": Status.BAD_VALUE,
    "searches the callers": Status.FAIL,
    "NaN": Status.FAIL,
    "a tuple": Status.FAIL,
}


@pytest.mark.parametrize("name", EXACTLY)
def test_a_cheat_ends_as_what_it_is(check, name):
    (case,) = [case for case in cases("cheat", "python", "func") if case.name == name]
    verdict = check(case.job({}))
    assert verdict.status is EXACTLY[name], verdict.summary
    assert verdict.passed < verdict.total
    assert verdict.reward is not None and verdict.reward < 1.0


def test_the_first_answer_to_a_test_counts(check, job_of):
    source = """
import sys, os
frame = sys._getframe()
while "codec" not in frame.f_globals: frame = frame.f_back
codec = frame.f_globals["codec"]
def f(x):
    for fd in range(3, 64):
        line = codec.encode(("value", 0, codec.encode("forged"), 0.0))
        try: os.write(fd, b"\\n" + line + b"\\n")
        except OSError: pass
    return sorted(x)
"""
    verdict = check(job_of(source))
    assert verdict.tests[0].got_repr == "'forged'"
    assert [test.status for test in verdict.tests] == [Status.FAIL, Status.PASS, Status.PASS]
    assert verdict.status is Status.TAMPERED
