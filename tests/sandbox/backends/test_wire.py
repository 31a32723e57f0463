"""Jobs and verdicts on the way to another machine: the same at the other end, or refused."""

from __future__ import annotations

import operator
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.sandbox import Job, Level, Limits, Status, TestSpec
from rlkit.sandbox.codec import decode, encode
from rlkit.sandbox.verdict import (
    CompileReport,
    IsolationReport,
    Property,
    TestResult,
    Verdict,
)
from rlkit.sandbox.wire import Damaged, pack_job, pack_verdict, unpack_job, unpack_verdict

JOBS = [
    Job(source="f = abs", entry="f", seed=3, preload="numpy", min_isolation=Level.NAMESPACED,
        tests=[TestSpec("v", args=((1, b"\xff"), {"a"}), expected=Fraction(1, 3), hidden=True),
               TestSpec("w", kwargs={"x": 0.1}, expected="\ud800")], draw=1),
    Job("cpp", "int main(){}", [TestSpec("t", stdin=b"\x00", argv=("-x",), expected=b"\x01",
        expected_files={"out": "1"}, checker="tokens")], mode="io", files={"in/a": b"\x02"},
        args=("a",), limits=Limits(wall_s=1), compile_limits=Limits(wall_s=30), stop_on_first=True),
    Job(source="x", entry="f", mode="proxy", share="nothing", tests=[TestSpec("p", code="f()")]),
]  # fmt: skip

VERDICT = Verdict(
    Status.COMPILE_ERROR, (TestResult("t", Status.COMPILE_ERROR, 0.25, None, "4", "no", True),),
    0, 1, 0.0, stdout="\ud800", exit_code=None, signal=11, cpu_s=0.125, wall_s=None,
    isolation=IsolationReport(Level.NAMESPACED, "so", (Property("network", "enforced", "by"),)),
    compile=CompileReport(Status.COMPILE_ERROR, "gcc", 0.5, stderr="no"), suspicion=("a",),
)  # fmt: skip


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.mode)
def test_a_job_arrives_as_it_left(job):
    arrived, limits = unpack_job(pack_job(job, Limits(memory_mb=777)))
    assert arrived == job
    assert arrived.key(limits) == job.key(Limits(memory_mb=777))
    assert limits == (job.limits or Limits(memory_mb=777))


def test_a_verdict_arrives_as_it_left():
    assert unpack_verdict(pack_verdict(VERDICT)) == VERDICT
    masked = replace(
        VERDICT, status=Status.SANDBOX_ERROR, reward=None, compile=None, isolation=None
    )
    assert unpack_verdict(pack_verdict(masked)) == masked


def test_functions_are_not_sent():
    test = TestSpec("t", args=(1,), expected=1, checker=operator.eq)
    with pytest.raises(UserError, match="functions are not sent"):
        pack_job(Job(source="f = abs", entry="f", tests=[test]), Limits())


def test_numbers_that_do_not_agree_are_damage():
    told = decode(pack_verdict(VERDICT))
    for field, value in (("passed", 1), ("total", 2), ("reward", "1"), ("status", "FINE")):
        changed = {**told, "verdict": {**told["verdict"], field: value}}
        with pytest.raises(Damaged):
            unpack_verdict(encode(changed))


def test_another_version_is_refused():
    with pytest.raises(Damaged, match="version 2"):
        unpack_job(encode({"version": 2}))


@given(st.binary(max_size=200))
def test_noise_is_damage(data):
    for read in (unpack_job, unpack_verdict):
        with pytest.raises((Damaged, UserError)):
            read(data)


@given(st.integers(0, 2), st.data())
def test_a_changed_job_is_a_job_or_damage(which, data):
    wire = bytearray(pack_job(JOBS[which], Limits()))
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(unpack_job(bytes(wire))[0], Job)
    except (Damaged, UserError):
        return
