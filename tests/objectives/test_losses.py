"""Token losses: by hand, by finite differences, and split into micro-batches."""

from __future__ import annotations

import math

import pytest
import torch

from rlkit.objectives import GRPO, clipped_token_loss, k3, token_ratios


def loss_of(now, then, advantages, mask=None, **options):
    now = torch.tensor(now, requires_grad=True)
    then = torch.tensor(then)
    mask = (
        torch.ones_like(then, dtype=torch.bool)
        if mask is None
        else torch.tensor(mask, dtype=torch.bool)
    )
    options.setdefault("total_tokens", int(mask.sum()))
    result = clipped_token_loss(now, then, torch.tensor(advantages), mask, **options)
    return result, now


def test_ratios_by_hand() -> None:
    # exp(-1 + 1.1) = 1.10517, exp(-1.3 + 1.0) = 0.74082
    ratio, unknown = token_ratios(
        torch.tensor([[-1.0, -1.0, -1.3]]), torch.tensor([[-1.1, -1.1, -1.0]])
    )
    assert ratio[0].tolist() == pytest.approx([1.10517, 1.10517, 0.74082], abs=1e-5)
    assert not unknown.any()


def test_an_unknown_past_is_neutral_and_counted() -> None:
    result, now = loss_of([[-1.0, -2.0]], [[-1.0, float("nan")]], [1.0])
    assert result.sums["nonfinite_ratio"] == 1
    result.loss.backward()
    assert now.grad is not None
    assert now.grad[0].tolist() == pytest.approx([-0.5, 0.0])


def test_on_policy_the_loss_is_minus_the_advantage_and_the_gradient_is_not_zero() -> None:
    # The ratio is 1, so two rows with advantages +1 and -1 add up to a loss of 0:
    # the printed loss says nothing, the gradient does.
    result, now = loss_of([[-1.0, -1.0], [-2.0, -2.0]], [[-1.0, -1.0], [-2.0, -2.0]], [1.0, -1.0])
    assert float(result.loss.detach()) == pytest.approx(0.0)
    assert result.max_ratio_error == 0.0
    result.loss.backward()
    torch.testing.assert_close(now.grad, torch.tensor([[-0.25, -0.25], [0.25, 0.25]]))


def test_the_clip_takes_the_gradient_away_on_the_right_side_only() -> None:
    far, near = math.log(1.5), math.log(1.1)
    # ratio 1.5 with A > 0 is beyond the clip: no gradient. With A < 0 it keeps it.
    up, now_up = loss_of([[far, near]], [[0.0, 0.0]], [1.0])
    up.loss.backward()
    assert now_up.grad[0].tolist() == pytest.approx([0.0, -1.1 / 2])
    assert up.sums["clipped"] == 1
    down, now_down = loss_of([[far, near]], [[0.0, 0.0]], [-1.0])
    down.loss.backward()
    assert now_down.grad[0].tolist() == pytest.approx([1.5 / 2, 1.1 / 2])
    assert down.sums["clipped"] == 0


def test_clip_higher_leaves_more_room_above() -> None:
    value = math.log(1.25)
    assert loss_of([[value]], [[0.0]], [1.0])[0].sums["clipped"] == 1
    assert loss_of([[value]], [[0.0]], [1.0], epsilon_high=0.28)[0].sums["clipped"] == 0


def test_one_mask_for_numerator_and_denominator() -> None:
    # Row two is masked out: the mean over real tokens is -1, not -0.5 and not -3.
    result, _ = loss_of([[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0]] * 2, [1.0, 5.0], [[1, 1], [0, 0]])
    assert float(result.loss.detach()) == pytest.approx(-1.0)


def test_micro_batches_add_up_to_the_whole() -> None:
    generator = torch.Generator().manual_seed(1)
    now = torch.randn(4, 6, generator=generator) - 2
    then = now + 0.1 * torch.randn(4, 6, generator=generator)
    mask = torch.rand(4, 6, generator=generator) > 0.3
    advantages = torch.randn(4, generator=generator)
    total = int(mask.sum())

    def grad_of(*parts: slice) -> torch.Tensor:
        leaf = now.clone().requires_grad_()
        for rows in parts:
            clipped_token_loss(
                leaf[rows], then[rows], advantages[rows], mask[rows], total_tokens=total
            ).loss.backward()
        return leaf.grad

    whole = grad_of(slice(0, 4))
    split = grad_of(slice(0, 1), slice(1, 4))
    torch.testing.assert_close(whole, split)


def test_the_gradient_is_that_of_finite_differences() -> None:
    generator = torch.Generator().manual_seed(2)
    now = (torch.randn(2, 3, generator=generator) - 1).double().requires_grad_()
    then = (now + 0.05).detach()
    reference = (now + 0.3).detach()
    mask = torch.tensor([[True, True, False], [True, True, True]])

    def loss(x: torch.Tensor) -> torch.Tensor:
        return clipped_token_loss(
            x,
            then,
            torch.tensor([1.0, -0.5], dtype=torch.float64),
            mask,
            total_tokens=5,
            beta=0.1,
            reference_NT=reference,
        ).loss

    assert torch.autograd.gradcheck(loss, (now,))


def test_k3_by_hand_and_never_negative() -> None:
    # exp(-0.5) - (-0.5) - 1 = 0.106531
    assert k3(torch.tensor(-1.0), torch.tensor(-1.5)).item() == pytest.approx(0.1065307, abs=1e-6)
    logp = torch.linspace(-8, 0, 50)
    values = k3(logp[:, None], logp[None, :])
    assert (values >= 0).all()
    assert (values.diagonal() == 0).all()
    # Near zero d^2 / 2 is right to many digits; exp(d) - d - 1 in float32 would give 0.
    assert k3(torch.tensor(0.0), torch.tensor(1e-4)).item() == pytest.approx(5e-9, rel=1e-2)


def test_k3_is_the_divergence_in_the_mean() -> None:
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.5, 0.3, 0.2])
    expected = (p * (p / q).log()).sum()  # KL(p || q) = 0.0851228
    assert (p * k3(p.log(), q.log())).sum().item() == pytest.approx(expected.item(), abs=1e-6)
    assert expected.item() == pytest.approx(0.0851228, abs=1e-5)


def test_beta_needs_a_reference() -> None:
    with pytest.raises(ValueError, match="reference_NT is needed"):
        loss_of([[0.0]], [[0.0]], [1.0], beta=0.1)


def test_trl_computes_the_same_loss() -> None:
    """TRL 1.16, loss_type="dapo": masked sum of the clipped surrogate over all tokens."""
    generator = torch.Generator().manual_seed(3)
    now = torch.randn(5, 7, generator=generator) - 1
    then = now + 0.3 * torch.randn(5, 7, generator=generator)
    mask = torch.rand(5, 7, generator=generator) > 0.2
    advantages = torch.randn(5, generator=generator)
    coefficient = torch.exp(now - then)
    first = coefficient * advantages[:, None]
    second = torch.clamp(coefficient, 0.8, 1.2) * advantages[:, None]
    trl = (-torch.min(first, second) * mask).sum() / mask.sum()
    ours = GRPO().loss(now, then, advantages, mask, total_tokens=int(mask.sum()))
    torch.testing.assert_close(ours.loss, trl, atol=1e-5, rtol=0)
