"""Memory by stages, curves with fits, and the GPU's script on the CPU."""

from __future__ import annotations

import json
import xml.dom.minidom

import pytest
import torch

from rlkit.bench import gpu, memory, scaling
from rlkit.bench.fixed_work import Case
from rlkit.errors import UserError


def test_memory_by_stages(untrained):
    found = memory.measure(
        str(untrained),
        new_tokens=(4,),
        budgets=(None, 100),
        case=Case("small", 2, 2, 40, 4),
        threads=1,
        quantize=None,
    )
    json.dumps(found)
    assert [one["micro_batch_tokens"] for one in found["sizes"]] == [None, 100]
    for one in found["sizes"]:
        assert one["tokens"] == 16
        stages = one["stages"]
        assert stages["libraries"] > 50  # torch and transformers
        # What the stages keep and what a step needs beside it add up to the peak.
        assert sum(stages.values()) >= one["peak_mb"] - 1
    counted = found["sizes"][0]["counted"]
    assert counted["optimizer's moments"] == pytest.approx(2 * counted["gradients"], abs=0.11)
    assert "| 4 | 100 tokens |" in memory.page(found)


def test_sizes_that_a_policy_cannot_do(monkeypatch) -> None:
    """Its own are left out aloud, those that were asked for are an error, before any step."""
    monkeypatch.setattr(scaling, "_curve", lambda policy, name, sizes, *rest: list(sizes))
    said: list[str] = []
    found = scaling.measure("tiny", sweeps=("prompt_tokens",), say=said.append)
    assert found["curves"]["prompt_tokens"] == [48, 128, 256]
    assert any(text.startswith("1024 prompt tokens left out: ") for text in said)
    sizes = {"prompt_tokens": (48, 4096)}
    with pytest.raises(UserError, match="do not fit the context of 512 tokens"):
        scaling.measure("tiny", sweeps=("prompt_tokens",), sizes=sizes)


def test_curves_and_their_fits(untrained):
    sizes = {"group_size": (1, 2), "prompt_tokens": (30, 60), "new_tokens": (2, 4)}
    found = scaling.measure(
        str(untrained),
        sizes=sizes,
        middle=scaling.Middle(2, 2, 40, 4),
        repeats=1,
        quantize=None,
    )
    json.dumps(found)
    made = {name: [p["tokens"] for p in curve["points"]] for name, curve in found["curves"].items()}
    # 2 problems x G answers x T tokens
    assert made == {"group_size": [8, 16], "prompt_tokens": [16, 16], "new_tokens": [8, 16]}
    for curve in found["curves"].values():
        assert set(curve["update"]) == {"start_s", "slope_s", "exponent"}
    text = scaling.svg(found)
    xml.dom.minidom.parseString(text)
    assert text.count("<polyline") == 6  # three sweeps, two parts
    assert scaling.page(found).count("Fitted:") == 3


def test_a_fit_by_hand():
    # 2 + 3 x: a line; 5 x^2: a power of 2.
    line = scaling.fit([1, 2, 4], [5.0, 8.0, 14.0])
    assert (line["start_s"], line["slope_s"]) == (2.0, 3.0)
    assert scaling.fit([1, 2, 4], [5.0, 20.0, 80.0])["exponent"] == 2.0


def test_the_script_for_a_gpu_runs_on_the_cpu_when_asked():
    found = gpu.measure(dry=True)
    json.dumps(found)
    assert found["left_out"] == []
    assert found["rollout"]["contestants"][0]["tokens"] == 2 * 2 * 4
    assert found["score"]["tokens"] == 2 * 2 * 4
    (case,) = found["step 4"]["cases"]
    assert case["tokens"] == 2 * 2 * 4
    assert case["ours"]["dead_groups"] == [0.0, 0.0]  # ids tell the answers apart
    page = gpu.page(found)
    assert all(f"**{name}**" in page for name in ("rollout", "score", "step"))


def test_no_time_is_said():
    found = gpu.measure(dry=True, minutes=1e-6)
    assert found["left_out"] == ["rollout", "score", "step 4"]
    assert "No time was left for rollout, score, step 4." in gpu.page(found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_one_sentence():
    with pytest.raises(UserError, match="there is no CUDA device here"):
        gpu.measure()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: memory.measure("tiny", new_tokens=()), "1 or more"),
        (lambda: memory.measure("tiny", budgets=(0,)), "1 or more"),
        (lambda: scaling.measure("tiny", sweeps=("width",)), "unknown sweep 'width'"),
        (
            lambda: scaling.measure("tiny", sweeps=("group_size",), sizes={"group_size": (2, 2)}),
            "two different sizes",
        ),
        (lambda: gpu.measure(dry=True, minutes=0), "above 0"),
    ],
)
def test_what_cannot_be_measured(call, said):
    with pytest.raises(UserError, match=said):
        call()
