"""Flaky tests: some results of the cache are checked by another run, and differences told."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.sandbox import Job, Sandbox, Status, TestResult, TestSpec, Verdict
from rlkit.sandbox.flaky import RATE, Rechecker, difference, hunt


def ended(*statuses: Status) -> Verdict:
    tests = tuple(TestResult(f"t{n}", s) for n, s in enumerate(statuses))
    first = next((s for s in statuses if s is not Status.PASS), Status.PASS)
    passed = statuses.count(Status.PASS)
    return Verdict(first, tests, passed, len(tests), passed / len(tests))


#: Ends with what the clock says, which the seed does not decide.
CLOCK = Job(
    source="import time\ndef f(): return time.time_ns() // 1000 % 2\ndef g(): return 1",
    entry="f",
    tests=[TestSpec("clock", expected=0)],
)


def test_the_same_seed_chooses_the_same(monkeypatch):
    first, again, other = (Rechecker(0.3, seed) for seed in (5, 5, 6))
    chosen = [first.due() for _ in range(200)]
    assert [again.due() for _ in range(200)] == chosen
    assert [other.due() for _ in range(200)] != chosen


@given(st.floats(0.0, 1.0), st.integers())
def test_as_many_are_chosen_as_the_rate_says(rate, seed):
    chooser = Rechecker(rate, seed)
    number = sum(chooser.due() for _ in range(2000))
    # Five standard deviations of a binomial: below 5 * sqrt(2000 / 4) = 112.
    assert abs(number - 2000 * rate) <= 112
    assert rate not in (0.0, 1.0) or number == 2000 * rate


def test_one_in_a_hundred_by_default():
    assert RATE == 0.01
    with Sandbox(workers=1) as sandbox:
        assert sandbox.recheck == RATE


@pytest.mark.parametrize("rate", [-0.1, 1.5, "often"])
def test_a_rate_that_is_none(rate):
    with pytest.raises(UserError, match="recheck"):
        Rechecker(rate)


def test_what_differs_is_named():
    ok, bad, err = Status.PASS, Status.FAIL, Status.RUNTIME_ERROR
    assert difference(ended(ok, ok), ended(ok, ok)) == ""
    assert difference(ended(ok, ok), ended(ok, bad)) == "test 't1' ended in PASS, then in FAIL"
    assert "RUNTIME_ERROR" in difference(ended(bad), ended(err))
    # Another wrong value is still a wrong value.
    other = replace(ended(bad), tests=(TestResult("t0", bad, got_repr="8"),))
    assert difference(ended(bad), other) == ""


@pytest.mark.parametrize(
    "status", [Status.TIMEOUT, Status.CPU_LIMIT, Status.MEMORY_LIMIT, Status.SANDBOX_ERROR]
)
def test_a_limit_proves_nothing(status):
    assert difference(ended(Status.PASS), ended(status)) is None
    assert difference(ended(status), ended(Status.PASS)) is None


def test_a_steady_program_is_checked_and_said_to_be_steady(tmp_path):
    job = Job(source="def f(): return 1", entry="f", tests=[TestSpec("t", expected=1)])
    with Sandbox(workers=1, cache=tmp_path / "c", recheck=1.0) as sandbox:
        first, second = sandbox.run(job), sandbox.run(job)
        stats = sandbox.stats()
    assert (first.flaky, first.cached) == (None, False)
    assert (second.flaky, second.cached) == (False, False)  # it did run again
    assert (stats["rechecked"], stats["flaky"], stats["ran"]) == (1, 0, 2)


def test_a_flaky_program_is_found_told_and_never_served_again(tmp_path):
    with Sandbox(workers=1, cache=tmp_path / "c", recheck=1.0) as sandbox:
        for _ in range(60):
            verdict = sandbox.run(CLOCK)
            if verdict.flaky:
                break
        assert verdict.flaky is True
        stats = sandbox.stats()
        assert stats["flaky"] == 1
        assert stats["flaky_seen"][0].startswith("f(): test 'clock' ended in ")
        assert sandbox.cache.stats()["flaky"] == stats["flaky_seen"]
    with Sandbox(workers=1, cache=tmp_path / "c", recheck=0.0) as later:
        verdict = later.run(CLOCK)
    assert (verdict.cached, verdict.flaky) == (False, True)


def test_a_second_run_that_meets_a_limit_leaves_the_first_in_place(tmp_path, monkeypatch):
    from rlkit.sandbox import engine

    job = Job(source="def f(): return 1", entry="f", tests=[TestSpec("t", expected=1)])
    with Sandbox(workers=1, cache=tmp_path / "c", recheck=1.0) as sandbox:
        first = sandbox.run(job)
        real = engine.run_job
        monkeypatch.setattr(
            engine, "run_job", lambda *a: replace(real(*a), status=Status.TIMEOUT, reward=0.0)
        )
        second = sandbox.run(job)
    assert (second.status, second.cached, second.flaky) == (first.status, True, None)


def test_hunting_counts_how_a_job_ends(monkeypatch):
    job = Job(
        source=(
            "import random\ndef f(what): return random.random() < 0.5 if what == 'coin' else what\n"
        ),
        entry="f",
        tests=[TestSpec("coin", args=("coin",), expected=True), TestSpec("same", (3,), expected=3)],
    )
    with Sandbox(workers=2) as sandbox:
        report = hunt(sandbox, job, times=16)
        steady = hunt(sandbox, replace(job, tests=job.tests[1:]), times=3)
    assert report.flaky
    assert report.names == {0: "coin"}
    assert sum(report.tests[0].values()) == 16
    assert report.tests[0] == {s: n for s, n in report.statuses.items()}
    assert "test 'coin': " in str(report)
    assert not steady.flaky
    assert str(steady) == "3 runs: PASS 3 times"
    # By the seeds 0 to 15 the coin falls the same way each time it is hunted.
    with Sandbox(workers=1) as sandbox:
        assert hunt(sandbox, job, times=16) == report
        with pytest.raises(UserError, match="two runs"):
            hunt(sandbox, job, times=1)


def test_hunting_asks_no_cache(tmp_path):
    job = Job(source="def f(): return 1", entry="f", tests=[TestSpec("t", expected=1)])
    with Sandbox(workers=1, cache=tmp_path / "c", recheck=0.0) as sandbox:
        hunt(sandbox, job, times=4)
        assert sandbox.stats()["ran"] == 4


def test_every_difference_is_seen_whichever_comes_first():
    steady = [Status.PASS, Status.FAIL, Status.RUNTIME_ERROR, Status.BAD_VALUE]
    for one, other in itertools.product(steady, steady):
        assert bool(difference(ended(one), ended(other))) == (one is not other)
