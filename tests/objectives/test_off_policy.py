"""Corrections for a sampler that is not quite the policy."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.objectives import (
    GRPO,
    Band,
    SequenceMask,
    Truncate,
    decoupled_clip,
    effective_sample_size,
    mismatch_kl,
)

# w = 0.5, 1, 4 in row one (product 2), and 1, 1, 9 with the 9 outside the mask.
LOG = torch.tensor([[0.5, 1.0, 4.0], [1.0, 1.0, 9.0]]).log()
MASK = torch.tensor([[1, 1, 1], [1, 1, 0]])


def test_weights_by_hand() -> None:
    near = pytest.approx
    assert Truncate(2.0).weights(LOG, MASK)[0].tolist() == near([0.5, 1.0, 2.0])
    assert Truncate(None).weights(LOG, MASK)[0].tolist() == near([0.5, 1.0, 4.0])
    assert Truncate(1.5, "sequence").weights(LOG, MASK).flatten().tolist() == near([1.5, 1.0])
    assert Band(0.5, 3.0).weights(LOG, MASK)[0].tolist() == near([0.5, 1.0, 0.0])
    assert Band(0.6, 5.0).weights(LOG, MASK)[0].tolist() == near([0.0, 1.0, 4.0])
    assert SequenceMask(0.0, 3.0).weights(LOG, MASK).flatten().tolist() == near([2.0, 1.0])
    assert SequenceMask(0.0, 1.9).weights(LOG, MASK).flatten().tolist() == near([0.0, 1.0])
    # The geometric mean of row one is 2^(1/3) = 1.26.
    geometric = SequenceMask(0.0, 1.9, "sequence").weights(LOG, MASK)
    assert geometric.flatten().tolist() == near([2 ** (1 / 3), 1.0])


def test_bad_bounds() -> None:
    with pytest.raises(UserError, match="must rise from 0"):
        Band(2.0, 1.0)
    with pytest.raises(UserError, match="cap of a weight must be above 0"):
        Truncate(0.0)
    with pytest.raises(UserError, match="'token' or 'sequence'"):
        Truncate(2.0, "product")
    with pytest.raises(UserError, match="'product' or 'sequence'"):
        SequenceMask(0.0, 1.0, "token")


def test_effective_sample_size_by_hand() -> None:
    # (1 + 3)^2 / (2 x (1 + 9)) = 0.8; one of four: 0.25; none: nothing to say.
    assert effective_sample_size(torch.tensor([1.0, 3.0])) == 0.8
    assert effective_sample_size(torch.tensor([5.0, 0.0, 0.0, 0.0])) == 0.25
    assert effective_sample_size(torch.zeros(3)) is None


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9), st.floats(0.1, 10))
def test_effective_sample_size_is_a_share(weights, scale) -> None:
    share = effective_sample_size(torch.tensor(weights))
    assert 1 / len(weights) - 1e-6 <= share <= 1 + 1e-6
    assert effective_sample_size(torch.tensor(weights) * scale) == pytest.approx(share, rel=1e-3)


def test_mismatch_is_k3_of_sampler_and_learner() -> None:
    # In the mean over the sampler mu it is KL(mu, p): p 0.6, 0.4 and mu 0.5, 0.5.
    p = torch.tensor([0.6, 0.4], dtype=torch.float64)
    mu = torch.tensor([0.5, 0.5], dtype=torch.float64)
    expected = float((mu * (mu / p).log()).sum())
    assert float((mu * mismatch_kl((p / mu).log())).sum()) == pytest.approx(expected)
    assert mismatch_kl(torch.tensor(0.5)).item() == pytest.approx(math.exp(0.5) - 1.5)


def test_decoupled_ppo_clips_around_the_proximal_policy() -> None:
    # now 0.3 above proximal (ratio 1.35, clipped to 1.2), proximal 0.7 above the sampler:
    # w = 2.01375; -2.01375 x 1.2. Around the sampler the ratio would be e and its clip 1.2.
    now = torch.tensor([[0.3]], requires_grad=True)
    out = decoupled_clip(now, torch.zeros(1, 1), torch.tensor([[-0.7]]), torch.ones(1, 1))
    assert out.item() == pytest.approx(-math.exp(0.7) * 1.2)
    objective = GRPO(off_policy=Truncate(None))
    again = objective.loss(
        now,
        torch.tensor([[-0.7]]),
        torch.ones(1),
        torch.ones(1, 1),
        proximal_NT=torch.zeros(1, 1),
    )
    assert again.loss.item() == pytest.approx(out.item())
    with pytest.raises(UserError, match="proximal_NT is needed"):
        objective.loss(now, now.detach(), torch.ones(1), torch.ones(1, 1))


def test_the_weight_has_no_gradient_and_its_sums_are_kept() -> None:
    objective = GRPO(off_policy=Band(0.5, 2.0))
    now = torch.zeros(1, 3, requires_grad=True)
    behaviour = -torch.tensor([[1.0, 1.5, 4.0]]).log()  # w = 1, 1.5, 4
    out = objective.loss(
        now, behaviour, torch.ones(1), torch.ones(1, 3), proximal_NT=torch.zeros(1, 3)
    )
    (gradient,) = torch.autograd.grad(out.loss, now)
    assert gradient[0].tolist() == pytest.approx([-1 / 3, -1.5 / 3, 0.0], abs=1e-6)
    assert out.sums["weight"] == pytest.approx(2.5, abs=1e-5)
    assert out.sums["weight_squared"] == pytest.approx(1 + 2.25, abs=1e-5)
    assert out.sums["weight_zero"] == 1
    # 0; 1.5 - ln 1.5 - 1 = 0.094535; 4 - ln 4 - 1 = 1.613706
    assert out.sums["mismatch_kl"] == pytest.approx(1.708241, abs=1e-5)


def test_a_sampler_that_says_nothing_weighs_one() -> None:
    objective = GRPO(off_policy=Truncate(2.0))
    now = torch.zeros(1, 2, requires_grad=True)
    behaviour = torch.tensor([[float("nan"), 0.0]])
    out = objective.loss(
        now, behaviour, torch.ones(1), torch.ones(1, 2), proximal_NT=torch.zeros(1, 2)
    )
    assert out.loss.item() == -1.0
    assert out.sums["nonfinite_ratio"] == 1
