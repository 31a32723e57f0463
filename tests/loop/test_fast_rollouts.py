"""Sampling from rounded weights: measured, corrected, and refused without a correction."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlkit import ClosedLoop, LoopConfig, LoraSpec, Policy
from rlkit.errors import UserError
from rlkit.loop.update import RatioMismatch
from rlkit.objectives import GRPO, Truncate
from rlkit.policy import sampler as module
from rlkit.policy import scorer

SMALL = LoopConfig(seed=1, problems_per_step=4, group_size=4, max_new_tokens=24)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Policy:
    # Whatever this machine multiplies fastest, the test wants the rounding.
    monkeypatch.setattr(module, "fastest_dtype", lambda device: torch.bfloat16)
    return Policy.load("tiny", lora=LoraSpec(rank=8), seed=0, rollouts="fast")


def test_without_a_correction_it_is_refused(fast: Policy) -> None:
    with pytest.raises(UserError, match=r"rounded weights .*bfloat16.*off_policy"):
        ClosedLoop(fast, ["pyfunc"], GRPO(), SMALL)


def test_with_a_correction_the_gap_is_measured_and_the_ratio_is_one(
    fast: Policy, tmp_path: Path
) -> None:
    loop = ClosedLoop(fast, ["pyfunc"], GRPO(off_policy=Truncate(2.0)), SMALL, run=tmp_path / "r")
    records = loop.run(steps=2)
    for record in records:
        gap = record["sampling/sampling_logp_difference/mean"]
        assert 1e-4 < gap < 0.2
        assert 0.5 < record["sampling/ess"] <= 1
        assert record["stepped"] == 1


def test_the_exact_way_has_no_gap(tmp_path: Path) -> None:
    policy = Policy.load("tiny", lora=LoraSpec(rank=8), seed=0)
    assert policy.sampler.exact and policy.sampler.kind == "exact"
    (record,) = ClosedLoop(policy, ["pyfunc"], GRPO(), SMALL, run=tmp_path / "r").run(steps=1)
    assert record["sampling/sampling_logp_difference/max"] < 1e-3


def test_the_ratio_is_one_however_the_batch_is_cut(fast: Policy) -> None:
    # Groups without contrast rest, so the learner sees other parts than the sampler did, and
    # rounding depends on them. The proximal policy is what the first inner step itself saw.
    config = LoopConfig(
        seed=1, problems_per_step=6, group_size=4, max_new_tokens=24, micro_batch=5, inner_epochs=2,
        learning_rate=1e-3, ratio_tolerance=1e-6,
    )  # fmt: skip
    loop = ClosedLoop(fast, ["pyfunc", "sort"], GRPO(off_policy=Truncate(2.0)), config)
    before = fast.version
    record = loop.run(steps=2)[-1]
    assert fast.version == before + 4
    assert record["sampling/sampling_logp_difference/max"] > 1e-4


def test_a_mistake_is_seen_through_the_correction(fast: Policy, monkeypatch) -> None:
    # The learner is not told the temperature that the sampler drew with.
    config = LoopConfig(
        seed=1, problems_per_step=4, group_size=4, max_new_tokens=24, temperature=2.0
    )
    loop = ClosedLoop(fast, ["pyfunc"], GRPO(off_policy=Truncate(2.0)), config)
    loop.step()  # the copy has been compared with the model, and is believed from here on
    right = scorer.token_logprobs
    monkeypatch.setattr(
        scorer,
        "token_logprobs",
        lambda hidden, weight, chosen, temperature, bias: right(hidden, weight, chosen, 1.0, bias),
    )
    before = fast.fingerprint()
    with pytest.raises(RatioMismatch, match="rounding explains"):
        loop.step()
    assert fast.fingerprint() == before
