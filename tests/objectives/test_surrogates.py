"""Ratios, surrogates and normalisers: by hand, and by finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.objectives import (
    Window,
    cispo,
    clipped,
    covariance,
    kl_cov,
    log_ratios,
    normalise,
    ppo_clip,
    ratios,
    sapo,
    score_function,
    token_ratios,
    top_covariance,
)


def gradient(loss, leaf: torch.Tensor) -> list:
    return torch.autograd.grad(loss.sum(), leaf)[0].tolist()


# -- ratios ---------------------------------------------------------------------------------


def test_ratios_by_hand() -> None:
    # exp(-1 + 1.1) = 1.10517, exp(-1.3 + 1.0) = 0.74082; mean of logs (0.1 + 0.1 - 0.3) / 3,
    # exp of it 0.96722; product exp(-0.1) = 0.90484
    now, then = torch.tensor([[-1.0, -1.0, -1.3]]), torch.tensor([[-1.1, -1.1, -1.0]])
    ratio, unknown = token_ratios(now, then)
    assert ratio[0].tolist() == pytest.approx([1.10517, 1.10517, 0.74082], abs=1e-5)
    assert not unknown.any()
    log, _ = log_ratios(now, then)
    mask = torch.ones(1, 3)
    assert ratios(log, mask, "sequence").item() == pytest.approx(0.96722, abs=1e-5)
    assert ratios(log, mask, "product").item() == pytest.approx(0.90484, abs=1e-5)
    # What stands outside the mask counts for nothing: (0.1 + 0.1) / 2.
    assert ratios(log, torch.tensor([[1, 1, 0]]), "sequence").item() == pytest.approx(1.10517)
    assert ratios(log, torch.zeros(1, 3), "sequence").item() == 1.0
    with pytest.raises(UserError, match="unknown level 'group'"):
        ratios(log, mask, "group")


def test_an_unknown_past_is_neutral_and_has_no_gradient() -> None:
    now = torch.tensor([[-1.0, -2.0, -3.0]], requires_grad=True)
    then = torch.tensor([[-1.5, float("nan"), float("-inf")]])
    ratio, unknown = token_ratios(now, then)
    assert unknown.tolist() == [[False, True, True]]
    assert ratio[0].tolist() == pytest.approx([math.exp(0.5), 1.0, 1.0])
    assert gradient(ratio, now)[0] == pytest.approx([math.exp(0.5), 0.0, 0.0])


# -- surrogates -----------------------------------------------------------------------------


def test_the_clip_takes_the_gradient_away_on_the_right_side_only() -> None:
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1], requires_grad=True)
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    loss = ppo_clip(ratio, advantage)
    # -min(1.5, 1.2); -min(-1.5, -1.2); -min(0.5, 0.8); -min(-0.5, -0.8); -min(1.1, 1.1)
    assert loss.tolist() == pytest.approx([-1.2, 1.5, -0.5, 0.8, -1.1])
    assert gradient(loss, ratio) == pytest.approx([0.0, 1.0, -1.0, 0.0, -1.0])
    assert clipped(ratio.detach(), advantage).tolist() == [True, False, False, True, False]


def test_clip_higher_leaves_more_room_above() -> None:
    ratio, one = torch.tensor([1.25]), torch.ones(1)
    assert clipped(ratio, one).item()
    assert not clipped(ratio, one, high=0.28).item()
    assert ppo_clip(ratio, one, high=0.28).item() == pytest.approx(-1.25)


def test_a_dual_clip_bounds_what_one_bad_token_may_cost() -> None:
    # A = -1, ratio 9: plain 9; held at 3. A = -1, ratio 2: still 2. A > 0 is not touched.
    ratio = torch.tensor([9.0, 2.0, 9.0], requires_grad=True)
    advantage = torch.tensor([-1.0, -1.0, 1.0])
    loss = ppo_clip(ratio, advantage, dual=3.0)
    assert loss.tolist() == pytest.approx([3.0, 2.0, -1.2])
    assert gradient(loss, ratio) == pytest.approx([0.0, 1.0, 0.0])
    assert clipped(ratio.detach(), advantage, dual=3.0).tolist() == [True, False, True]


def test_a_cap_bounds_the_unclipped_branch() -> None:
    ratio = torch.tensor([9.0, 2.0], requires_grad=True)
    loss = ppo_clip(ratio, -torch.ones(2), cap=4.0)
    assert loss.tolist() == pytest.approx([4.0, 2.0])
    assert gradient(loss, ratio) == pytest.approx([0.0, 1.0])


def test_cispo_keeps_the_gradient_of_every_token() -> None:
    # Weight min(r, 5) x A; the gradient by log p is minus that.
    logprobs = torch.tensor([-1.0, -1.0], requires_grad=True)
    loss = cispo(logprobs, torch.tensor([9.0, 2.0]), torch.tensor([1.0, -0.5]))
    assert loss.tolist() == pytest.approx([5.0, -1.0])
    assert gradient(loss, logprobs) == pytest.approx([-5.0, 1.0])


def test_sapo_fades_where_a_clip_would_cut() -> None:
    # At r = 1: value -(4 / 1) x 0.5 = -2, slope -1. At r = 3: p = sigmoid(2) = 0.880797,
    # value -3.523188, slope -4 p (1 - p) = -0.419974.
    ratio = torch.tensor([1.0, 3.0], requires_grad=True)
    loss = sapo(ratio, torch.ones(2))
    assert loss.tolist() == pytest.approx([-2.0, -3.523188], abs=1e-5)
    assert gradient(loss, ratio) == pytest.approx([-1.0, -0.419974], abs=1e-5)
    # The other temperature for A <= 0, with slope +1 at r = 1 all the same.
    below = torch.tensor([1.0], requires_grad=True)
    assert gradient(sapo(below, -torch.ones(1)), below) == pytest.approx([1.0])


def test_at_a_ratio_of_one_all_have_the_gradient_of_reinforce() -> None:
    now = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    advantage = torch.tensor([0.7, -1.2, 0.0])
    log = now - now.detach()
    none = torch.zeros(3, dtype=torch.bool)
    for loss in (
        ppo_clip(log.exp(), advantage),
        ppo_clip(log.exp(), advantage, dual=3.0, cap=2.0),
        cispo(now, log.exp(), advantage),
        sapo(log.exp(), advantage),
        score_function(now, advantage),
        kl_cov(log, advantage, none),
        kl_cov(log, advantage, ~none),
    ):
        found = torch.autograd.grad(loss.sum(), now, retain_graph=True)[0].tolist()
        assert found == pytest.approx([-0.7, 1.2, 0.0], abs=1e-6)


def test_covariance_by_hand() -> None:
    # log p: mean -2, so 1, 0, -1; A: mean 0, so 1, -2, 1: products 1, 0, -1.
    logprobs = torch.tensor([[-1.0, -2.0, -3.0, 50.0]])
    advantages = torch.tensor([[1.0, -2.0, 1.0, 50.0]])
    mask = torch.tensor([[1, 1, 1, 0]])
    assert covariance(logprobs, advantages, mask)[0].tolist() == [1.0, 0.0, -1.0, 0.0]
    assert top_covariance(logprobs, advantages, mask, 0.4).tolist() == [[True, False, False, False]]
    assert top_covariance(logprobs, advantages, mask, 0.7).sum() == 2
    # One token at least; none where there are none. One advantage for a whole answer.
    assert top_covariance(logprobs, torch.tensor([[1.0]]), mask, 1e-6).sum() == 1
    assert not top_covariance(logprobs, advantages, torch.zeros(1, 4), 0.5).any()


def test_kl_cov_pulls_only_where_it_was_told_to() -> None:
    # log r = 0.5: -1.648721, plus 1.648721 - 1 - 0.5 = 0.148721 where chosen.
    log, one = torch.tensor([0.5, 0.5]), torch.ones(2)
    loss = kl_cov(log, one, torch.tensor([False, True]))
    assert loss.tolist() == pytest.approx([-1.648721, -1.5], abs=1e-5)
    assert kl_cov(log, one, torch.tensor([False, True]), 2.0)[1].item() == pytest.approx(
        -1.351279, abs=1e-5
    )


SURROGATES = {
    "clip": lambda x, a: ppo_clip(x.exp(), a),
    "dual clip": lambda x, a: ppo_clip(x.exp(), a, 0.2, 0.28, dual=1.5),
    "cap": lambda x, a: ppo_clip(x.exp(), a, cap=1.4),
    "sapo": lambda x, a: sapo(x.exp(), a),
    "plain": score_function,
    "kl_cov": lambda x, a: kl_cov(x, a, x.detach() > 0),
}


@pytest.mark.parametrize("name", SURROGATES)
def test_the_gradient_is_that_of_finite_differences(name) -> None:
    # Ratios on both sides of every bound, and none within 1e-3 of one.
    log = torch.tensor([-0.6, -0.1, 0.05, 0.15, 0.3, 0.38, 0.6], dtype=torch.float64)
    for sign in (1.0, -1.0, 0.3):
        advantage = torch.full((7,), sign, dtype=torch.float64)
        leaf = log.clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda x: SURROGATES[name](x, advantage), (leaf,))  # noqa: B023


def test_the_weight_of_cispo_has_no_gradient_of_its_own() -> None:
    """Finite differences of the value would follow the weight too; held still they agree."""
    now = torch.tensor([-1.0, -0.2], dtype=torch.float64, requires_grad=True)
    ratio, advantage = torch.tensor([0.7, 6.0]).double(), torch.tensor([1.0, -1.0]).double()
    assert torch.autograd.gradcheck(lambda x: cispo(x, ratio, advantage), (now,))
    assert gradient(cispo(now, now.exp(), advantage), now) == pytest.approx(
        [-math.exp(-1.0), math.exp(-0.2)]
    )


# -- normalisers ----------------------------------------------------------------------------


def test_three_normalisers_by_hand() -> None:
    # Sums -2 and 8 over 2 and 8 tokens: means -1 and 1; (6) / 10; 6 / (2 x 10).
    loss = torch.tensor([[-1.0] * 2 + [99.0] * 6, [1.0] * 8])
    mask = torch.tensor([[1] * 2 + [0] * 6, [1] * 8])
    window = Window.of(mask, 10)
    found = {n: normalise(loss, mask, n, window).item() for n in ("sequence", "token", "constant")}
    assert found == pytest.approx({"sequence": 0.0, "token": 0.6, "constant": 0.3})
    with pytest.raises(UserError, match="unknown normaliser 'mean'"):
        normalise(loss, mask, "mean", window)


def test_what_is_masked_may_be_anything() -> None:
    loss = torch.tensor([[1.0, float("nan"), float("inf")]], requires_grad=True)
    out = normalise(loss, torch.tensor([[1, 0, 0]]), "token", Window(1, 1, 3))
    assert out.item() == 1.0
    assert gradient(out, loss) == [[1.0, 0.0, 0.0]]


@given(st.integers(0, 500), st.integers(1, 4), st.sampled_from(["token", "sequence", "constant"]))
def test_parts_add_up_to_the_whole_and_padding_adds_nothing(seed, size, normaliser) -> None:
    draw = torch.Generator().manual_seed(seed)
    loss = torch.randn(6, 5, generator=draw, dtype=torch.float64)
    mask = torch.rand(6, 5, generator=draw) > 0.4
    window = Window.of(mask, 9)
    whole = normalise(loss, mask, normaliser, window)
    parts = [
        normalise(loss[k : k + size], mask[k : k + size], normaliser, window)
        for k in range(0, 6, size)
    ]
    torch.testing.assert_close(torch.stack(parts).sum(), whole)
    padded = torch.nn.functional.pad(loss, (0, 3), value=7.0)
    longer = torch.nn.functional.pad(mask, (0, 3))
    torch.testing.assert_close(normalise(padded, longer, normaliser, window), whole)
    assert Window.of(longer, 9) == window
