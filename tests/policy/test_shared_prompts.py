"""Prompts that are read once: the same numbers, the same gradients, and mistakes are seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from rlkit.policy import LoraSpec, Policy, flatten, scoring
from rlkit.policy.rollout import Rollout
from rlkit.tasks import get_domain


def rollouts_of(lengths: list[int], prompts: list[int], seed: int = 0) -> list[Rollout]:
    """Rollouts with made-up tokens: `prompts[i]` is the length of the i-th one's prompt."""
    generator = torch.Generator().manual_seed(seed)
    texts = {
        n: tuple(torch.randint(4, 300, (n,), generator=generator).tolist()) for n in set(prompts)
    }
    problem = get_domain("arith").held_out(1)[0]
    made = []
    for length, prompt in zip(lengths, prompts, strict=True):
        ids = tuple(torch.randint(4, 300, (length,), generator=generator).tolist())
        made.append(
            Rollout(problem, texts[prompt], ids, (0.0,) * length, (1,) * length, "", "stop", 0, 0.9)
        )
    return made


def numbers(model: Any, rollouts: list[Rollout]) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities, and the adapter's gradient for uneven advantages."""
    model.zero_grad()
    scored = scoring.score_rollouts(model, rollouts, 0)
    pull = torch.linspace(-1, 1.5, scored.logprobs_NT.numel()).view_as(scored.logprobs_NT)
    ((scored.logprobs_NT + 0.1 * scored.entropy_NT) * pull).sum().backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return scored.logprobs_NT.detach(), torch.cat(gradients)


def test_shared_prompts_change_no_number(build, any_shape, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(any_shape)
    rollouts = rollouts_of([7, 3, 1, 9, 2, 5], [6, 6, 6, 4, 4, 11])
    shared = numbers(model, rollouts)
    monkeypatch.setattr(scoring, "KNOWN", ())
    plain = numbers(model, rollouts)
    assert torch.allclose(shared[0], plain[0], atol=1e-4)
    assert float((shared[1] - plain[1]).norm() / plain[1].norm()) < 1e-3


def test_one_token_answers_and_lone_prompts(build, shapes, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(shapes["llama"])
    for rollouts in (rollouts_of([1, 1, 1], [5, 5, 3]), rollouts_of([4, 2], [3, 6])):
        shared = numbers(model, rollouts)
        with monkeypatch.context() as patch:
            patch.setattr(scoring, "KNOWN", ())
            plain = numbers(model, rollouts)
        assert torch.allclose(shared[0], plain[0], atol=1e-4)


def test_an_adapter_on_the_head_is_not_left_out(build, shapes) -> None:
    model = build(shapes["llama"], rank=0)
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["lm_head"])).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.5)
    rollouts = rollouts_of([4, 4], [5, 5])
    with_adapter = scoring.score_rollouts(adapted, rollouts, 0).logprobs_NT
    with adapted.disable_adapter():
        without = scoring.score_rollouts(adapted, rollouts, 0).logprobs_NT
    assert (with_adapter - without).abs().max() > 0.01


@pytest.mark.parametrize("mistake", ["positions", "mask", "temperature"])
def test_a_mistake_is_seen_by_the_ratio(
    mistake: str, untrained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong position id, a shifted mask, a missing temperature: each moves the numbers."""
    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=3, learner="model")
    with torch.no_grad():  # a model that is sure of something, as a trained one is
        for name, parameter in policy.model.named_parameters():
            if parameter.ndim == 2 and "lora" not in name:
                parameter.mul_(6)
    problems = get_domain("pyfunc").held_out(2) + get_domain("arith").held_out(2)
    rollouts = flatten(policy.generate(problems, 3, 12, temperature=0.7))
    scored = policy.score(rollouts)
    assert (scored.logprobs_NT - scored.behaviour_NT).abs().max() < 1e-3
    if mistake == "positions":
        right = scoring.position_ids
        monkeypatch.setattr(scoring, "position_ids", lambda mask: right(mask) + mask.cumsum(-1))
    elif mistake == "mask":
        rollouts = [
            replace(r, completion_ids=r.completion_ids[1:] + r.completion_ids[:1]) for r in rollouts
        ]
    else:
        rollouts = [replace(r, temperature=1.0) for r in rollouts]
    wrong = policy.score(rollouts)
    assert (wrong.logprobs_NT - wrong.behaviour_NT).abs().max() > 0.05
