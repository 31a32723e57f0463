"""The value head: where it reads, what it moves, and that going back covers it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlkit.errors import UserError
from rlkit.policy import LoraSpec, Policy, flatten
from rlkit.policy.value_head import (
    ValueHead,
    attach_value_head,
    borrowed_value_head,
    parameter_groups,
    score_values,
    value_head,
)
from rlkit.tasks import get_domain


@pytest.fixture
def policy(untrained: Path) -> Policy:
    return Policy.load(untrained, quantize="nf4", lora=LoraSpec(rank=4), seed=3)


def rollouts_of(policy: Policy):
    return flatten(policy.generate(get_domain("arith").held_out(3), 2, 8))


def stir(policy: Policy) -> None:
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.trainable().values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw))


def test_it_starts_by_saying_nothing_and_is_part_of_the_policy(policy: Policy) -> None:
    before = set(policy.trainable())
    assert value_head(policy) is None
    head = attach_value_head(policy, seed=7)
    assert attach_value_head(policy) is head
    added = set(policy.trainable()) - before
    assert len(added) == 4
    assert all(name.startswith("value_head.") for name in added)
    values = score_values(policy, rollouts_of(policy))
    assert values.abs().max() == 0
    own, heads = parameter_groups(policy)
    assert (own["value"], heads["value"]) == (False, True)
    assert len(own["params"]) + len(heads["params"]) == len(policy.trainable())


def test_a_value_is_read_before_its_token_is_chosen(policy: Policy) -> None:
    """Changing a token changes the values behind it, and not its own or those before."""
    from dataclasses import replace

    attach_value_head(policy)
    stir(policy)
    rollout = next(r for r in rollouts_of(policy) if len(r) >= 4)
    ids = list(rollout.completion_ids)
    ids[2] = ids[2] + 1
    with torch.no_grad():
        (first,) = score_values(policy, [rollout])
        (second,) = score_values(policy, [replace(rollout, completion_ids=tuple(ids))])
    torch.testing.assert_close(first[:3], second[:3])
    assert (first[3] - second[3]).abs() > 1e-6


def test_padding_changes_nothing(policy: Policy) -> None:
    attach_value_head(policy)
    stir(policy)
    rollouts = rollouts_of(policy)
    with torch.no_grad():
        together = score_values(policy, rollouts)
        for i, rollout in enumerate(rollouts):
            alone = score_values(policy, [rollout])[0]
            torch.testing.assert_close(together[i, : len(rollout)], alone, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("trunk", ["detached", "shared"])
def test_only_a_shared_trunk_is_moved_by_the_value_loss(policy: Policy, trunk: str) -> None:
    attach_value_head(policy, trunk=trunk)
    stir(policy)
    score_values(policy, rollouts_of(policy)).square().sum().backward()
    moved = {n for n, p in policy.trainable().items() if p.grad is not None and p.grad.any()}
    assert any(name.startswith("value_head.") for name in moved)
    assert any("lora_" in name for name in moved) == (trunk == "shared")


def test_snapshots_and_references_go_on_working(untrained: Path, tmp_path: Path) -> None:
    trained = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=2)
    stir(trained)
    trained.save(tmp_path / "saved")
    policy = Policy.load(tmp_path / "saved", quantize=None)
    rollouts = rollouts_of(policy)
    start = policy.score(rollouts).logprobs_NT.detach()
    attach_value_head(policy)
    kept = policy.snapshot()
    stir(policy)
    moved = score_values(policy, rollouts).detach()
    with torch.no_grad(), policy.reference():
        torch.testing.assert_close(policy.score(rollouts).logprobs_NT, start)
    torch.testing.assert_close(score_values(policy, rollouts).detach(), moved)
    policy.restore(kept)
    assert score_values(policy, rollouts).abs().max() == 0
    # What is saved is what answers problems; the head stays behind.
    policy.save(tmp_path / "again")
    assert value_head(Policy.load(tmp_path / "again", quantize=None)) is None


def test_it_can_learn_what_an_answer_earns(policy: Policy) -> None:
    """Whether a completion begins with a certain token is plain from its hidden states."""
    attach_value_head(policy, seed=1)
    rollouts = flatten(policy.generate(get_domain("arith").held_out(4), 8, 4))
    median = sorted(r.completion_ids[0] for r in rollouts)[16]
    wanted = torch.tensor([float(r.completion_ids[0] >= median) for r in rollouts])
    optimizer = torch.optim.Adam(value_head(policy).parameters(), lr=1e-2)
    for _ in range(60):
        values = torch.stack(
            [
                v[min(1, len(r) - 1)]
                for v, r in zip(score_values(policy, rollouts), rollouts, strict=True)
            ]
        )
        loss = (values - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5 * wanted.var().item()


def test_bad_requests(policy: Policy) -> None:
    with pytest.raises(UserError, match="no value head"):
        score_values(policy, rollouts_of(policy))
    with pytest.raises(UserError, match="detached or shared"):
        ValueHead(8, trunk="own")


# -- an adapter of its own ----------------------------------------------------------------------


def test_own_lora_starts_from_the_base_and_moves_only_itself(policy: Policy) -> None:
    """The policy's adapter has no say in the values, and gets no gradient from them."""
    head = attach_value_head(policy, trunk="own_lora", seed=7)
    rollouts = rollouts_of(policy)
    stir(policy)  # the policy's adapter, the head and its LoRA, all away from 0
    values = score_values(policy, rollouts)
    logprobs = policy.score(rollouts).logprobs_NT
    with torch.no_grad():
        for name, parameter in policy.trainable().items():
            if not name.startswith("value_head."):
                parameter.mul_(3.0)
    assert torch.equal(score_values(policy, rollouts), values)
    assert not torch.equal(policy.score(rollouts).logprobs_NT, logprobs)
    score_values(policy, rollouts).sum().backward()
    for name, parameter in policy.trainable().items():
        moved = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        # The last layer's values reach the last hidden state through every projection.
        assert moved == name.startswith("value_head."), name
    _own, heads = parameter_groups(policy)
    assert len(heads["params"]) == 4 + 2 * len(head.lora.down)


def test_own_lora_changes_the_values_and_not_what_the_policy_says(policy: Policy) -> None:
    head = attach_value_head(policy, trunk="own_lora")
    rollouts = rollouts_of(policy)
    stir(policy)
    values, logprobs = score_values(policy, rollouts), policy.score(rollouts).logprobs_NT
    flags = {n: p.requires_grad for n, p in policy.model.named_parameters()}
    with torch.no_grad():
        for up in head.lora.up.values():
            up.mul_(2.0)
    assert not torch.equal(score_values(policy, rollouts), values)
    assert torch.equal(policy.score(rollouts).logprobs_NT, logprobs)
    assert flags == {n: p.requires_grad for n, p in policy.model.named_parameters()}


def test_own_lora_is_kept_and_left_out_like_the_head(policy: Policy, tmp_path: Path) -> None:
    attach_value_head(policy, trunk="own_lora")
    kept, before = policy.snapshot(), policy.fingerprint()
    stir(policy)
    assert policy.fingerprint() != before
    policy.restore(kept)
    assert policy.fingerprint() == before
    saved = policy.save(tmp_path / "saved")
    from safetensors.torch import load_file

    assert not any("value" in name for name in load_file(saved / "adapter_model.safetensors"))


def test_a_borrowed_head_is_taken_off_again(untrained: Path, policy: Policy) -> None:
    before = set(policy.trainable())
    with borrowed_value_head(policy, "own_lora") as fresh:
        assert fresh
        assert len(policy.trainable()) > len(before)
    assert set(policy.trainable()) == before
    assert value_head(policy) is None
    head = attach_value_head(policy)
    with pytest.raises(RuntimeError, match="in the middle"), borrowed_value_head(policy) as fresh:
        assert not fresh
        raise RuntimeError("in the middle")
    assert value_head(policy) is head
    plain = Policy.load(untrained, quantize=None)
    with pytest.raises(UserError, match="needs a policy with LoRA"):
        attach_value_head(plain, trunk="own_lora")
    with pytest.raises(UserError, match="a lora goes with trunk='own_lora'"):
        ValueHead(8, trunk="own_lora")
