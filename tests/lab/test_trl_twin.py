"""TRL's own trainer on a frozen batch agrees with ours, and says so when it changes."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("trl")

from rlkit.errors import UserError
from rlkit.lab.trl_twin import trl_twin
from rlkit.objectives import GRPO, DrGRPO


def batch():
    draw = torch.Generator().manual_seed(0)
    rewards_BG = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 1.0], [0.0] * 4])
    lengths = [3, 5, 2, 4, 5, 5, 1, 3, 2, 2, 4, 5]
    ids = [[*range(5, 5 + n - 1), 2] for n in lengths]
    old_NT = -1 - torch.rand(12, 5, generator=draw)
    now_NT = old_NT + 0.3 * torch.randn(12, 5, generator=draw)
    mask_NT = torch.arange(5)[None] < torch.tensor(lengths)[:, None]
    return rewards_BG, ids, now_NT, old_NT, mask_NT


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        (GRPO(), {}),
        (GRPO(normaliser="sequence"), {"loss_type": "grpo"}),
        (GRPO(scale_rewards="none"), {"scale_rewards": "none"}),
    ],
)
def test_advantages_loss_and_gradient_are_trls(objective, settings, tiny_tokenizer):
    rewards_BG, ids, now_NT, old_NT, mask_NT = batch()
    twin = trl_twin(rewards_BG, ids, now_NT, old_NT, tiny_tokenizer, **settings)
    advantages_N = objective.advantages(rewards_BG)[0].flatten()
    leaf_NT = now_NT.clone().requires_grad_()
    loss = objective.loss(leaf_NT, old_NT, advantages_N, mask_NT).loss
    (gradient_NT,) = torch.autograd.grad(loss, [leaf_NT])
    assert twin.advantages_N == pytest.approx(advantages_N, abs=1e-5)
    assert twin.loss == pytest.approx(float(loss.detach()), abs=1e-5)
    assert twin.gradient_NT == pytest.approx(gradient_NT, abs=1e-5)
    assert float(twin.gradient_NT.abs().max()) > 1e-3
    # Another objective is told apart.
    other = DrGRPO().advantages(rewards_BG)[0].flatten()
    if objective.scale_rewards == "group":
        assert float((twin.advantages_N - other).abs().max()) > 0.1


def test_shapes_that_do_not_agree_are_refused(tiny_tokenizer):
    rewards_BG, ids, now_NT, old_NT, _ = batch()
    with pytest.raises(UserError, match="one row for each answer"):
        trl_twin(rewards_BG, ids[:-1], now_NT, old_NT, tiny_tokenizer)


@pytest.fixture
def tiny_tokenizer():
    from rlkit.policy.loading import load_tokenizer, resolve_source

    return load_tokenizer(resolve_source("tiny"))
