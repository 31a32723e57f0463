"""A whole step of ours beside TRL's: equal work, in turns, in processes of their own."""

from __future__ import annotations

import json

import pytest

from rlkit.bench import learning, step
from rlkit.bench.fixed_work import Case
from rlkit.errors import UserError

SMALL = Case("small", problems=2, group_size=2, prompt_tokens=40, new_tokens=4)
CEILINGS = {
    "device": "cpu",
    "threads": 1,
    "gflops": {
        "float32": {"32": 50.0, "2048": 100.0},
        "bfloat16": {"32": 150.0, "2048": 400.0},
    },
    "copy_gb_s": 20.0,
    "stream_gb_s": {"float32": 10.0, "bfloat16": 8.0},
    "best_gflops": 400.0,
    "best_gb_s": 20.0,
}


def test_both_sides_do_the_same_work_in_turns(untrained):
    told = []
    found = step.measure(
        [SMALL],
        policy=str(untrained),
        repeats=2,
        threads=1,
        quantize=None,
        ceilings=CEILINGS,
        say=told.append,
    )
    json.dumps(found)
    (case,) = found["cases"]
    assert case["case"] == "small"
    assert (case["tokens"], case["prompt_tokens"]) == (2 * 2 * 4, 40)
    for name in ("ours", "peer"):
        side = case[name]
        assert len(side["seconds"]["all"]) == 2  # the first of each is left out
        assert case[f"{name}_s"] == side["seconds"]["median"] > 0
        parts = side["generation_s"]["median"] + side["update_s"]["median"]
        assert 0 < parts < 1.5 * side["seconds"]["largest"]
        assert side["stepped"]
        assert len(side["dead_groups"]) == 3
        assert case[f"{name}_mb"] == side["peak_mb"] >= side["loaded_mb"] > 100
        assert 0 < side["shares"]["update"]["matmul_share"] < 1
    assert case["ours"]["about"]["rollouts"].startswith("fast")
    assert case["peer"]["about"]["gradient_checkpointing"] is True  # TRL's default
    assert case["speedups"]["least"] <= case["speedup"] <= case["speedups"]["largest"]
    assert [line for line in told if line.startswith("round 2 of 2: ours ")]
    page = step.page(found)
    assert page.count("| small | TRL |") == page.count("| small | rlkit |") == 2
    assert "Ceilings of cpu" in page


def test_unequal_work_is_an_error():
    one = {"prompt_tokens": 40, "tokens": 16}
    step._check_equal(SMALL, {"ours": [one], "peer": [one]})
    for wrong in ({"prompt_tokens": 41, "tokens": 16}, {"prompt_tokens": 40, "tokens": 15}):
        with pytest.raises(RuntimeError, match="the work is not the same"):
            step._check_equal(SMALL, {"ours": [one], "peer": [wrong]})
        with pytest.raises(RuntimeError, match="the work is not the same"):
            step._check_equal(SMALL, {"ours": [wrong], "peer": [one]})
    fewer = {"prompt_tokens": 40, "tokens": 15}
    with pytest.raises(RuntimeError, match="16 completion tokens were asked for"):
        step._check_equal(SMALL, {"ours": [fewer], "peer": [fewer]})


def test_curves_of_both_sides(untrained):
    found = learning.measure(
        policy=str(untrained),
        steps=3,
        seeds=(0,),
        learning_rate=1e-2,
        case=SMALL,
        threads=1,
        quantize=None,
    )
    assert [len(found[name]) for name in ("ours", "peer")] == [1, 1]
    assert all(len(curve) == 3 for curve in (*found["ours"], *found["peer"]))
    assert "within noise" in learning.page(found)


def test_overlap_by_hand():
    flat = [0.1, 0.1, 0.1, 0.1]
    risen = [0.1, 0.1, 0.5, 0.5]
    # Gains 0.4 and 0; the last window is the last two steps. The wobble of `risen`: differences
    # 0, 0.4, 0; mean square 0.16 / 3, half of it 0.02667; 2 x 0.02667 / 2 = 0.02667; root 0.163.
    # Noise: 2 x 0.163 x sqrt(2) = 0.46 with one seed; with eight, sqrt(2 / 8) = 0.5: 0.163.
    one = learning.compare([risen], [flat])
    assert one["gains"] == {"ours": [0.4], "peer": [0.0]}
    assert one["noise"] == pytest.approx(0.4619, abs=1e-4)
    assert one["overlap"]
    many = learning.compare([risen] * 8, [flat] * 8)
    assert many["noise"] == pytest.approx(0.1633, abs=1e-4)
    assert not many["overlap"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: step.measure(["17"]), "unknown case '17'"),
        (lambda: step.measure(["24"], repeats=0), "1 or more"),
        (lambda: step.measure(["24"], peer_dtype="int8"), "float32 or bfloat16"),
        (lambda: step.measure(["24"], policy="no such folder"), "unknown policy"),
        (lambda: learning.measure(steps=1), "2 or more"),
    ],
)
def test_what_cannot_be_measured(call, said):
    with pytest.raises(UserError, match=said):
        call()


def test_smol_absent_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path))
    with pytest.raises(UserError, match="rlkit fetch smol"):
        step.measure(["24"])
