"""What was sampled, and what the learner thinks of it: the two must agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rlkit.errors import UserError
from rlkit.policy import LoraSpec, Policy, flatten
from rlkit.policy.engine.sampling import Sampling, draw
from rlkit.policy.generation import position_ids, uniform_streams
from rlkit.policy.scoring import score_rollouts
from rlkit.tasks import Problem, get_domain


@pytest.fixture(scope="module", params=[None, "nf4"])
def policy(request, untrained: Path) -> Policy:
    policy = Policy.load(untrained, quantize=request.param, lora=LoraSpec(rank=4), seed=3)
    with torch.no_grad():  # an adapter that does something, as after some updates
        for name, parameter in policy.trainable().items():
            if "lora_B" in name:
                parameter.normal_(0, 0.05, generator=torch.Generator().manual_seed(1))
    return policy


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return get_domain("pyfunc").held_out(3) + get_domain("arith").held_out(3)


@pytest.fixture(scope="module")
def rollouts(policy: Policy, problems: list[Problem]):
    return flatten(policy.generate(problems, 3, 12))


def test_shapes_and_finish_reasons(policy: Policy, problems: list[Problem]) -> None:
    groups = policy.generate(problems, group_size=3, max_new_tokens=12)
    assert [g.problem for g in groups] == problems
    for rollout in flatten(groups):
        assert 1 <= len(rollout) <= 12
        assert len(rollout.behaviour_logprobs) == len(rollout.trainable) == len(rollout)
        ended = rollout.completion_ids[-1] in policy.end_ids
        assert rollout.finish_reason == ("stop" if ended else "length")
        assert not any(i in policy.end_ids for i in rollout.completion_ids[:-1])
        assert all(lp <= 0 for lp in rollout.behaviour_logprobs)


def test_the_learner_agrees_with_the_sampler(policy: Policy, rollouts) -> None:
    scored = policy.score(rollouts)
    gap = (scored.logprobs_NT - scored.behaviour_NT).abs()[scored.mask_NT]
    assert float(gap.max()) < 1e-4


def test_padding_changes_nothing(policy: Policy, rollouts) -> None:
    """Scored together, padded on both sides, against each one alone and unpadded."""
    together = policy.score(rollouts)
    for i, rollout in enumerate(rollouts):
        alone = policy.score([rollout])
        length = len(rollout)
        torch.testing.assert_close(
            together.logprobs_NT[i, :length], alone.logprobs_NT[0, :length], atol=1e-4, rtol=0
        )
        assert together.mask_NT[i].sum() == length


def test_scores_equal_a_plain_forward_pass(policy: Policy, rollouts) -> None:
    rollout = rollouts[0]
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion_ids]])
    with torch.no_grad():
        logits = policy.model(input_ids=ids, position_ids=torch.arange(ids.shape[1])[None]).logits
    start = len(rollout.prompt_ids)
    rows = torch.log_softmax(logits[0, start - 1 : -1], -1)
    plain = rows.gather(-1, torch.tensor(rollout.completion_ids)[:, None])[:, 0]
    scored = policy.score([rollout])
    torch.testing.assert_close(scored.logprobs_NT[0], plain, atol=1e-4, rtol=0)
    entropy = -(rows.exp() * rows).sum(-1)
    torch.testing.assert_close(scored.entropy_NT[0], entropy, atol=1e-3, rtol=0)


def test_temperature_divides_the_logits_of_sampler_and_learner(policy, problems) -> None:
    rollouts = flatten(policy.generate(problems, 2, 8, temperature=0.6))
    scored = policy.score(rollouts)
    gap = (scored.logprobs_NT - scored.behaviour_NT).abs()[scored.mask_NT]
    assert float(gap.max()) < 1e-4
    # Scored at another temperature the gap is plain to see: the check can fail.
    wrong = policy.score([replace(r, temperature=1.0) for r in rollouts])
    assert float((wrong.logprobs_NT - wrong.behaviour_NT).abs()[wrong.mask_NT].max()) > 0.05


def test_wrong_positions_and_shifted_masks_would_be_seen(policy: Policy, rollouts) -> None:
    right = policy.score(rollouts)
    shifted = policy.score([replace(r, prompt_ids=r.prompt_ids[:-1]) for r in rollouts])
    assert float((right.logprobs_NT - shifted.logprobs_NT).abs().max()) > 0.01


def test_the_same_seed_draws_the_same_whatever_the_batch(policy, problems) -> None:
    policy.load_state_dict({"seed": 5, "draws": 10, "version": 0})
    together = flatten(policy.generate(problems, 2, 8))
    policy.load_state_dict({"seed": 5, "draws": 10, "version": 0})
    first_only = flatten(policy.generate(problems[:1], 2, 8))
    assert [r.completion_ids for r in together[:2]] == [r.completion_ids for r in first_only]
    policy.load_state_dict({"seed": 6, "draws": 10, "version": 0})
    other = flatten(policy.generate(problems, 2, 8))
    assert [r.completion_ids for r in other] != [r.completion_ids for r in together]


def test_sampling_follows_the_distribution() -> None:
    logits = torch.log(torch.tensor([0.5, 0.3, 0.2])).expand(20_000, 3)
    uniform = uniform_streams(1, 1, 0, 20_000, 1)[:, 0]
    chosen, logprobs = draw(logits, Sampling(1.0), uniform)
    shares = torch.bincount(chosen, minlength=3) / 20_000
    assert shares.tolist() == pytest.approx([0.5, 0.3, 0.2], abs=0.015)
    assert logprobs[chosen == 0][0].exp().item() == pytest.approx(0.5, abs=1e-5)
    # At temperature 0.5 probabilities are squared: 0.25, 0.09, 0.04 of 0.38
    sharper, _ = draw(logits, Sampling(0.5), uniform)
    shares = torch.bincount(sharper, minlength=3) / 20_000
    assert shares.tolist() == pytest.approx([0.658, 0.237, 0.105], abs=0.015)
    greedy, certain = draw(logits, Sampling(0.0), uniform)
    assert greedy.unique().tolist() == [0]
    assert certain.unique().tolist() == [0.0]


def test_positions() -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    assert position_ids(mask).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]


def test_masked_tokens_take_no_part(policy: Policy, rollouts) -> None:
    rollout = replace(rollouts[0], trainable=(0,) * len(rollouts[0]))
    scored = policy.score([rollout])
    assert not scored.mask_NT.any()
    assert scored.logprobs_NT.abs().sum() == 0


def test_bad_requests(policy: Policy, problems, rollouts) -> None:
    with pytest.raises(UserError, match="no problems"):
        policy.generate([])
    with pytest.raises(UserError, match="does not fit the context of 128 tokens"):
        policy.generate(problems, 1, max_new_tokens=120)
    with pytest.raises(UserError, match="group_size must be at least 1"):
        policy.generate(problems, 0)
    with pytest.raises(UserError, match="temperature must not be negative"):
        policy.generate(problems, 1, 4, temperature=-1)
    with pytest.raises(UserError, match="no rollouts"):
        policy.score([])
    with pytest.raises(UserError, match="one temperature at a time"):
        policy.score([rollouts[0], replace(rollouts[1], temperature=0.5)])
    with pytest.raises(UserError, match="temperature 0 cannot be scored"):
        score_rollouts(policy.model, [replace(rollouts[0], temperature=0.0)], 0)
