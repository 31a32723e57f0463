"""Token returns and GAE: by hand, and against the definition written out as a double sum."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.objectives import (
    PPO,
    ReinforcePlusPlus,
    explained_variance,
    gae,
    last_token_rewards,
    token_returns,
    value_loss,
    whiten,
)


def test_a_reward_stands_at_the_last_token_that_takes_part() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 0, 1], [0, 0, 0], [1, 1, 1]])
    rewards = torch.tensor([1.0, 2.0, 3.0, float("nan")])
    assert last_token_rewards(rewards, mask).tolist() == [
        [0, 1, 0],
        [0, 0, 2],
        [0, 0, 0],  # no token, no place
        [0, 0, 0],  # no verdict
    ]
    assert last_token_rewards(torch.ones(2), torch.zeros(2, 0)).shape == (2, 0)


def test_token_returns_by_hand() -> None:
    # From the end: 1 - 0.3; then 1 - 0.3 - 0.2; then 1 - 0.3 - 0.2 - 0.1.
    divergence = torch.tensor([[0.1, 0.2, 0.3, 9.0]])
    mask = torch.tensor([[1, 1, 1, 0]])
    out = token_returns(torch.tensor([1.0]), mask, divergence, beta=1.0)
    assert out[0].tolist() == pytest.approx([0.4, 0.5, 0.7, 0.0])
    # Without a divergence every token gets the reward.
    assert token_returns(torch.tensor([1.0]), mask)[0].tolist() == [1, 1, 1, 0]


def test_whitening_runs_over_all_tokens_of_the_batch() -> None:
    # 1, 3, 5: mean 3, Bessel std 2.
    values = torch.tensor([[1.0, 3.0], [5.0, 99.0]])
    mask = torch.tensor([[1, 1], [1, 0]])
    assert whiten(values, mask, eps=0.0).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert whiten(torch.full((1, 8), 0.7), torch.ones(1, 8), eps=0.0).abs().max() == 0
    assert whiten(torch.ones(1, 1), torch.ones(1, 1)).tolist() == [[0.0]]


def test_gae_by_hand() -> None:
    # gamma 0.9, lam 0.5, values 1, 2, 3, reward 4 at the end:
    # delta_2 = 4 - 3 = 1; delta_1 = 0.9 x 3 - 2 = 0.7; delta_0 = 0.9 x 2 - 1 = 0.8
    # A_2 = 1; A_1 = 0.7 + 0.45 x 1 = 1.15; A_0 = 0.8 + 0.45 x 1.15 = 1.3175
    values = torch.tensor([[1.0, 2.0, 3.0]])
    rewards = torch.tensor([[0.0, 0.0, 4.0]])
    advantages, returns = gae(rewards, values, torch.ones(1, 3), gamma=0.9, lam=0.5)
    assert advantages[0].tolist() == pytest.approx([1.3175, 1.15, 1.0])
    assert returns[0].tolist() == pytest.approx([2.3175, 3.15, 4.0])


def brute_force(rewards, values, mask, gamma, lam):
    """A_t = sum over l of (gamma lam)^l delta_{t+l}, over the tokens that take part."""
    out = torch.zeros_like(values)
    for n in range(len(values)):
        places = [t for t in range(values.shape[1]) if mask[n, t]]
        deltas = []
        for k, t in enumerate(places):
            following = values[n, places[k + 1]] if k + 1 < len(places) else 0.0
            deltas.append(rewards[n, t] + gamma * following - values[n, t])
        for k, t in enumerate(places):
            out[n, t] = sum((gamma * lam) ** (j - k) * deltas[j] for j in range(k, len(places)))
    return out


@given(
    st.integers(0, 1000),
    st.floats(0.5, 1.0),
    st.floats(0.0, 1.0),
)
def test_gae_is_the_sum_of_its_definition(seed, gamma, lam) -> None:
    draw = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, 3, 6, generator=draw, dtype=torch.float64)
    mask = torch.rand(3, 6, generator=draw) > 0.3  # with holes: a tool speaks in between
    advantages, returns = gae(rewards, values, mask, gamma, lam)
    torch.testing.assert_close(advantages, brute_force(rewards, values, mask, gamma, lam))
    torch.testing.assert_close(returns, torch.where(mask, advantages + values, 0.0))
    # Each token a turn of its own is the same; what stands outside the mask never matters.
    turns = torch.arange(6).expand(3, 6)
    torch.testing.assert_close(gae(rewards, values, mask, gamma, lam, turns)[0], advantages)
    noise = torch.where(mask, values, 1e6)
    torch.testing.assert_close(gae(rewards, noise, mask, gamma, lam)[0], advantages)


def test_gae_over_turns_by_hand() -> None:
    # Two turns of two tokens, a tool's token between. Values at the first tokens: 0.5, 0.8.
    # delta_1 = 1 - 0.8 = 0.2; delta_0 = 0.9 x 0.8 - 0.5 = 0.22; lam 1:
    # A_1 = 0.2; A_0 = 0.22 + 0.9 x 0.2 = 0.4. The other values (7) are not looked at.
    values = torch.tensor([[0.5, 7.0, 7.0, 0.8, 7.0]])
    rewards = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]])
    mask = torch.tensor([[1, 1, 0, 1, 1]])
    turns = torch.tensor([[0, 0, 0, 1, 1]])
    advantages, returns = gae(rewards, values, mask, 0.9, 1.0, turns)
    assert advantages[0].tolist() == pytest.approx([0.4, 0.4, 0.0, 0.2, 0.2])
    assert returns[0].tolist() == pytest.approx([0.9, 0.9, 0.0, 1.0, 1.0])


def test_lam_chooses_between_rewards_and_values() -> None:
    values = torch.tensor([[0.5, 0.6, 0.8]])
    rewards = torch.tensor([[0.0, 0.0, 1.0]])
    mask = torch.ones(1, 3)
    assert gae(rewards, values, mask, lam=1.0)[0][0].tolist() == pytest.approx([0.5, 0.4, 0.2])
    assert gae(rewards, values, mask, lam=0.0)[0][0].tolist() == pytest.approx([0.1, 0.2, 0.2])


def test_values_get_no_gradient_through_advantages() -> None:
    values = torch.zeros(1, 2, requires_grad=True)
    advantages, returns = gae(torch.ones(1, 2), values, torch.ones(1, 2))
    assert not advantages.requires_grad
    assert not returns.requires_grad


def test_the_value_loss_holds_a_step_back() -> None:
    # Old 0, new 1, wanted 2, clip 0.2: max((1 - 2)^2, (0.2 - 2)^2) / 2 = 1.62, and no
    # gradient. Towards the wrong side the plain error is the larger one and has a gradient.
    new = torch.tensor([1.0, -1.0], requires_grad=True)
    loss = value_loss(new, torch.zeros(2), torch.tensor([2.0, 2.0]), clip=0.2)
    assert loss.tolist() == pytest.approx([1.62, 4.5])
    (gradient,) = torch.autograd.grad(loss.sum(), new)
    assert gradient.tolist() == pytest.approx([0.0, -3.0])
    assert value_loss(new, torch.zeros(2), torch.full((2,), 2.0), None)[0].item() == 0.5


def test_the_gradient_of_the_value_loss_is_that_of_finite_differences() -> None:
    draw = torch.Generator().manual_seed(0)
    new, old, wanted = torch.randn(3, 2, 4, generator=draw, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: value_loss(x, old, wanted), (new.requires_grad_(),))


def test_explained_variance() -> None:
    returns, mask = torch.tensor([[0.0, 2.0, 5.0]]), torch.tensor([[1, 1, 0]])
    # Errors 0 and 1 have variance 0.5, returns 0 and 2 have 2: 1 - 0.25.
    assert explained_variance(torch.tensor([[0.0, 1.0, 9.0]]), returns, mask) == 0.75
    assert explained_variance(returns, returns, mask) == 1.0
    # A constant explains nothing, and the wrong way round is worse than nothing.
    assert explained_variance(torch.ones(1, 3), returns, mask) == 0.0
    assert explained_variance(torch.tensor([[2.0, 0.0, 0.0]]), returns, mask) == -3.0
    assert explained_variance(returns, torch.ones(1, 3), mask) is None


def test_objectives_with_advantages_of_tokens() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    known = torch.tensor([True, True])
    rewards = torch.tensor([1.0, 0.0])
    out, nothing = ReinforcePlusPlus(eps=0.0).token_advantages(rewards, mask, known_N=known)
    # Tokens 1, 1, 0, 0, 0: mean 0.4, variance (2 x 0.36 + 3 x 0.16) / 4 = 0.3, std 0.54772.
    assert nothing is None
    assert out[0].tolist() == pytest.approx([1.09545, 1.09545, 0.0], abs=1e-4)
    assert out[1].tolist() == pytest.approx([-0.73030] * 3, abs=1e-4)
    # A row without a verdict takes no part: what is left is all alike.
    out, _ = ReinforcePlusPlus().token_advantages(
        rewards, mask, known_N=torch.tensor([True, False])
    )
    assert out.abs().max() == 0

    values = torch.tensor([[0.5, 0.5, 9.0], [0.5, 0.25, 0.0]])
    plain = PPO(scale_rewards="none", lam=1.0)
    out, returns = plain.token_advantages(rewards, mask, known_N=known, values_NT=values)
    assert out.tolist() == [[0.5, 0.5, 0.0], [-0.5, -0.25, 0.0]]
    assert returns.tolist() == [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match="needs values_NT"):
        plain.token_advantages(rewards, mask)


def test_a_divergence_in_the_reward_of_tokens() -> None:
    mask = torch.ones(1, 2)
    objective = ReinforcePlusPlus(beta=0.5, scale_rewards="none")
    out, _ = objective.token_advantages(
        torch.tensor([1.0]), mask, divergence_NT=torch.tensor([[0.2, 0.4]])
    )
    # 1 - 0.5 x 0.4 = 0.8 at the end; 0.8 - 0.5 x 0.2 = 0.7 before.
    assert out[0].tolist() == pytest.approx([0.7, 0.8])
