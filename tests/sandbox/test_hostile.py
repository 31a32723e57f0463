"""What the hostile corpus cannot say by itself: exact facts about what a job finds around it.

The hostile programs themselves are in `rlkit.sandbox.corpus`, and run by `test_corpus.py`.
"""

from __future__ import annotations

import sys

import pytest

from rlkit.sandbox import Job, Limits, Status, TestSpec

pytestmark = [
    pytest.mark.usefixtures("confined"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="attacks on Linux"),
]


def test_a_file_left_behind_is_not_there_for_the_next_job(check):
    source = """
import os
def f():
    found = os.listdir(".")
    open("left", "w").write("x")
    return found
"""
    job = Job(source=source, entry="f", tests=[TestSpec("first", expected=[])])
    again = Job(source=source + "\n", entry="f", tests=[TestSpec("second", expected=[])])
    assert check(job).reward == 1.0
    assert check(again).reward == 1.0


def test_no_descriptor_but_the_channel_is_open(check):
    source = """
import os, stat
def f():
    kinds = []
    for fd in range(3, 1000):
        try: mode = os.fstat(fd).st_mode
        except OSError: continue
        kinds.append("pipe" if stat.S_ISFIFO(mode) else "file" if stat.S_ISREG(mode) else "other")
    return sorted(kinds)
"""
    # The pipe for the answers.
    test = TestSpec("t", expected=["pipe"])
    verdict = check(Job(source=source, entry="f", tests=[test]))
    assert verdict.status is Status.PASS, verdict.summary


@pytest.mark.parametrize("number", [9, 19, 15])
def test_a_job_that_signals_everybody_does_not_reach_the_next_one(check, number):
    """A worker may have the process of its next job ready; it must not be there to be hit."""
    source = f"""
import os
def f():
    for pid in range(2, 300):
        if pid != os.getpid():
            try: os.kill(pid, {number})
            except OSError: pass
    try: os.kill(-1, {number})
    except OSError: pass
    return "done"
"""
    limits = Limits(processes=4, wall_s=5.0)
    for seed in range(3):
        attack = Job(source=source, entry="f", tests=[TestSpec("t", expected="done")],
                     limits=limits, seed=seed)  # fmt: skip
        check(attack)
        honest = Job(source="def f(): return 1", entry="f", tests=[TestSpec("t", expected=1)],
                     limits=limits, seed=seed)  # fmt: skip
        assert check(honest).status is Status.PASS
