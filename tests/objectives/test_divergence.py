"""Divergence and entropy: values, and which estimator has the right gradient where."""

from __future__ import annotations

import math

import pytest
import torch

from rlkit.errors import UserError
from rlkit.objectives import (
    GRPO,
    RLOO,
    Window,
    divergence,
    entropy_threshold,
    high_entropy_mask,
    k1,
    k2,
    k3,
    masked_mean,
    next_beta,
    next_entropy_coefficient,
    sampled_entropy,
)


def test_three_estimators_by_hand() -> None:
    # d = 0.5: 0.5; 0.125; exp(-0.5) - 1 + 0.5 = 0.106531
    now, reference = torch.tensor(-1.0), torch.tensor(-1.5)
    found = [divergence(n, now, reference).item() for n in ("k1", "k2", "k3")]
    assert found == pytest.approx([0.5, 0.125, 0.1065307], abs=1e-6)
    with pytest.raises(UserError, match="unknown estimator 'k4'"):
        divergence("k4", now, reference)


def test_k3_is_never_negative_and_keeps_its_digits() -> None:
    logp = torch.linspace(-8, 0, 50)
    values = k3(logp[:, None], logp[None, :])
    assert (values >= 0).all()
    assert (values.diagonal() == 0).all()
    # Near zero d^2 / 2 is right to many digits; exp(d) - d - 1 in float32 would give 0.
    assert k3(torch.tensor(0.0), torch.tensor(1e-4)).item() == pytest.approx(5e-9, rel=1e-2)


P = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
Q = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def test_in_the_mean_k1_and_k3_are_the_divergence_and_k2_is_near() -> None:
    # 0.7 ln 1.4 + 0.2 ln 0.6667 + 0.1 ln 0.5 = 0.235531 - 0.081093 - 0.069315 = 0.085123
    expected = float((P * (P / Q).log()).sum())
    assert expected == pytest.approx(0.085123, abs=1e-6)
    assert float((P * k1(P.log(), Q.log())).sum()) == pytest.approx(expected)
    assert float((P * k3(P.log(), Q.log())).sum()) == pytest.approx(expected)
    assert float((P * k2(P.log(), Q.log())).sum()) == pytest.approx(expected, rel=0.2)


def mean_gradient(estimator, weighted: bool) -> torch.Tensor:
    """Expected gradient by the logits, over tokens drawn from P, without its sampling part."""
    logits = P.log().clone().requires_grad_()
    logp = torch.log_softmax(logits, -1)
    loss = estimator(logp, Q.log())
    if weighted:
        loss = loss * (logp - P.log()).exp()
    return torch.autograd.grad((P * loss).sum(), logits)[0]


def true_gradient(forward: bool) -> torch.Tensor:
    logits = P.log().clone().requires_grad_()
    logp = torch.log_softmax(logits, -1)
    kl = (logp.exp() * (logp - Q.log())).sum() if forward else (Q * (Q.log() - logp)).sum()
    return torch.autograd.grad(kl, logits)[0]


def test_which_gradient_is_the_divergences() -> None:
    """The table in the module's docstring, token by token."""
    forward, backward = true_gradient(True), true_gradient(False)
    close = torch.testing.assert_close
    close(mean_gradient(k1, False), torch.zeros(3, dtype=torch.float64))
    close(mean_gradient(k2, False), forward)
    close(mean_gradient(k3, False), backward)  # that of KL(ref, p): the other way round
    assert not torch.allclose(backward, forward, atol=1e-2)
    close(mean_gradient(k3, True), forward)
    close(mean_gradient(k1, True), forward)


def test_k1_in_the_reward_has_that_gradient_too() -> None:
    """Rewards -d, taken as numbers, times the gradient of log p: minus that of the KL."""
    logits = P.log().clone().requires_grad_()
    logp = torch.log_softmax(logits, -1)
    reward = -k1(P.log(), Q.log())
    (gradient,) = torch.autograd.grad((P * reward * logp).sum(), logits)
    torch.testing.assert_close(-gradient, true_gradient(True))


@pytest.mark.parametrize("name", ["k1", "k2", "k3"])
def test_the_gradients_are_those_of_finite_differences(name) -> None:
    now = torch.tensor([-1.0, -0.3, -2.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-1.4, -0.1, -2.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: divergence(name, x, reference), (now,))


def test_the_controller_follows_its_target_slowly() -> None:
    # Twice the target is cut to +20 %: 0.1 x (1 + 0.2 x 100 / 1000)
    assert next_beta(0.1, 0.2, 0.1, 100, 1000) == pytest.approx(0.102)
    assert next_beta(0.1, 0.0, 0.1, 100, 1000) == pytest.approx(0.098)
    # 10 % above: 0.1 x (1 + 0.1 x 0.1); on target: unchanged; a huge batch is one horizon.
    assert next_beta(0.1, 0.11, 0.1, 100, 1000) == pytest.approx(0.101)
    assert next_beta(0.1, 0.1, 0.1, 100, 1000) == pytest.approx(0.1)
    assert next_beta(0.1, 9.9, 0.1, 10**9, 1000) == pytest.approx(0.12)


def test_an_adapted_beta_is_kept_in_the_state() -> None:
    objective = GRPO(beta=0.1, kl_target=0.05, kl_horizon=80)
    state = objective.next_state(objective.start(), torch.zeros(2, 4), kl=1.0)
    assert state.beta == pytest.approx(0.1 * (1 + 0.2 * 8 / 80))
    assert objective.next_state(state, torch.zeros(2, 4), kl=None) == state
    now, mask = torch.tensor([[-1.0]]), torch.ones(1, 1)
    reference = torch.tensor([[-1.5]])
    given = {"reference_NT": reference, "window": Window(1, 1)}
    loss = objective.loss(now, now, torch.zeros(1), mask, state=state, **given).loss
    assert loss.item() == pytest.approx(state.beta * 0.1065307, rel=1e-5)
    with pytest.raises(UserError, match="beta above 0 to start from"):
        GRPO(kl_target=0.1)


def test_where_a_divergence_may_stand() -> None:
    with pytest.raises(UserError, match="k1 in the loss has no gradient"):
        GRPO(beta=0.1, kl_estimator="k1", kl_weighted=False)
    assert RLOO(beta=0.1).kl_in == "reward"
    now = torch.tensor([[-1.0]], requires_grad=True)
    # In the reward the loss has no such term, though the divergence is shown.
    out = RLOO(beta=0.1).loss(
        now, now.detach(), torch.zeros(1), torch.ones(1, 1), reference_NT=torch.tensor([[-1.5]])
    )
    assert out.loss.item() == 0.0
    assert out.sums["kl"] == pytest.approx(0.1065307, abs=1e-6)
    with pytest.raises(UserError, match="reference_NT is needed"):
        GRPO(beta=0.1).loss(now, now.detach(), torch.zeros(1), torch.ones(1, 1))


# -- entropy --------------------------------------------------------------------------------


def test_entropy_is_that_of_real_tokens() -> None:
    entropies, mask = torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[1, 1, 0]])
    assert masked_mean(entropies, mask).item() == 1.5
    assert sampled_entropy(torch.tensor([[-1.0, -2.0, 1.0]]), mask).item() == 1.5


def test_high_entropy_tokens() -> None:
    entropies = torch.tensor([[1.0, 2.0, 3.0, 4.0, 0.5]])
    mask = torch.tensor([[1, 1, 1, 1, 0]])
    # Between the second and the third of four: 2.5.
    assert entropy_threshold(entropies, mask, 0.5) == 2.5
    assert high_entropy_mask(entropies, mask, 0.5).int().tolist() == [[0, 0, 1, 1, 0]]
    assert high_entropy_mask(entropies, mask, 1.0).int().tolist() == [[1, 1, 1, 1, 0]]
    assert not high_entropy_mask(entropies, torch.zeros(1, 5), 0.5).any()


def test_only_high_entropy_tokens_have_a_policy_gradient() -> None:
    objective = GRPO(top_entropy=0.5)
    now = torch.full((1, 4), -1.0, requires_grad=True)
    entropies, mask = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.ones(1, 4)
    one = torch.ones(1)
    chosen = objective.choose(now, entropies, one, mask)
    out = objective.loss(now, now.detach(), one, mask, chosen_NT=chosen)
    (gradient,) = torch.autograd.grad(out.loss, now)
    assert gradient.tolist() == [[0.0, 0.0, -0.25, -0.25]]  # the mean is over all four
    with pytest.raises(UserError, match="chosen_NT is needed"):
        objective.loss(now, now.detach(), one, mask)


def test_the_bonus_is_the_mean_entropy_whatever_the_normaliser() -> None:
    # Entropies 1 and 3 over two tokens: mean 2, times 0.1.
    now, mask = torch.zeros(1, 2), torch.ones(1, 2)
    entropy = torch.tensor([[1.0, 3.0]], requires_grad=True)
    for normaliser in ("token", "sequence", "constant"):
        objective = GRPO(entropy_coef=0.1, normaliser=normaliser)
        window = Window.of(mask, 100)
        out = objective.loss(now, now, torch.zeros(1), mask, entropy_NT=entropy, window=window)
        assert out.loss.item() == pytest.approx(-0.2)
    (gradient,) = torch.autograd.grad(out.loss, entropy)
    assert gradient[0].tolist() == pytest.approx([-0.05, -0.05])
    with pytest.raises(UserError, match="entropy_NT is needed"):
        objective.loss(now, now, torch.zeros(1), mask)


def test_a_target_turns_the_bonus_on_and_off() -> None:
    assert next_entropy_coefficient(0.01, 0.2, 0.2, 0.005, 0.0, 1.0) == pytest.approx(0.015)
    assert next_entropy_coefficient(0.01, 0.3, 0.2, 0.005, 0.0, 1.0) == pytest.approx(0.005)
    assert next_entropy_coefficient(0.001, 0.3, 0.2, 0.005, 0.0, 1.0) == 0.0
    objective = GRPO(entropy_coef=0.1, entropy_target=0.2, entropy_step=0.05)
    now, mask, entropy = torch.zeros(1, 1), torch.ones(1, 1), torch.ones(1, 1)

    def bonus(state) -> float:
        given = {"entropy_NT": entropy, "state": state}
        return -objective.loss(now, now, torch.zeros(1), mask, **given).loss.item()

    rewards = torch.zeros(1, 1)
    state = objective.start()
    assert bonus(state) == 0.0  # nothing measured yet
    low = objective.next_state(state, rewards, entropy=0.1)
    assert bonus(low) == pytest.approx(0.15)
    high = objective.next_state(low, rewards, entropy=0.5)
    assert bonus(high) == 0.0
    assert high.entropy_coef == pytest.approx(0.1)
    assert math.isclose(objective.next_state(high, rewards, entropy=0.1).entropy_coef, 0.15)
