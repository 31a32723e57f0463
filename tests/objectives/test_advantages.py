"""Advantages, with the numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.objectives import GRPO, alive_groups, grpo_advantages

NAN = float("nan")


def advantages(*groups: list[float], **options) -> list[list[float]]:
    return grpo_advantages(torch.tensor(groups, dtype=torch.float64), **options)[0].tolist()


def test_one_hit_in_four() -> None:
    # mean 0.25; Bessel variance (0.75^2 + 3 * 0.25^2) / 3 = 0.25, so std 0.5;
    # (1 - 0.25) / 0.5001 = 1.4997 and -0.25 / 0.5001 = -0.4999
    assert advantages([1.0, 0.0, 0.0, 0.0])[0] == pytest.approx(
        [1.4997, -0.4999, -0.4999, -0.4999], abs=1e-4
    )


def test_without_scaling_only_the_mean_is_taken_off() -> None:
    assert advantages([1.0, 0.0, 0.0, 0.0], scale="none")[0] == pytest.approx(
        [0.75, -0.25, -0.25, -0.25]
    )


def test_an_outlier_is_bounded() -> None:
    # The largest possible |A| is (G - 1) / sqrt(G) = 7 / sqrt(8) = 2.4749
    row = advantages([0.35] * 7 + [0.0])[0]
    assert row[:7] == pytest.approx([0.3533] * 7, abs=1e-3)
    assert row[7] == pytest.approx(-2.4729, abs=1e-3)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.7, 0.1 + 0.2])
@pytest.mark.parametrize("eps", [1e-4, 1e-8])
def test_equal_rewards_teach_nothing_whatever_the_rounding(value: float, eps: float) -> None:
    rewards = torch.full((1, 8), value, dtype=torch.float32)
    advantage_BG, alive_B = grpo_advantages(rewards, eps)
    assert advantage_BG.tolist() == [[0.0] * 8]
    assert alive_B.tolist() == [False]


def test_a_group_of_one_gives_zeros_and_a_warning() -> None:
    with pytest.warns(UserWarning, match="group of one has no baseline"):
        assert advantages([1.0], [0.0]) == [[0.0], [0.0]]


def test_a_row_without_a_verdict_stays_out_of_mean_and_deviation() -> None:
    # Of 1, 0 and nothing: mean 0.5, std sqrt(0.5) = 0.70711; 0.5 / 0.70721 = 0.7070
    assert advantages([1.0, NAN, 0.0])[0] == pytest.approx([0.7070, 0.0, -0.7070], abs=1e-4)
    # One verdict alone has nothing to be compared with.
    assert advantages([1.0, NAN, NAN])[0] == [0.0, 0.0, 0.0]
    assert advantages([NAN, NAN])[0] == [0.0, 0.0]


def test_groups_with_contrast() -> None:
    rewards = torch.tensor([[0.7, 0.7], [1.0, 0.0], [1.0, NAN], [0.5, 0.5 + 1e-7]])
    assert alive_groups(rewards).tolist() == [False, True, False, False]


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="'group' or 'none'"):
        advantages([1.0, 0.0], scale="batch")


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=9),
    st.floats(-5, 5),
    st.floats(0.5, 4),
    st.randoms(),
)
def test_properties(rewards: list[float], shift: float, stretch: float, rng) -> None:
    (row,) = advantages(rewards)
    assert all(math.isfinite(a) for a in row)
    assert sum(row) == pytest.approx(0.0, abs=1e-4)
    count = len(rewards)
    assert max(map(abs, row)) <= (count - 1) / math.sqrt(count) + 1e-4
    # Adding a constant changes nothing; a wide group is not moved by stretching either.
    if max(rewards) - min(rewards) > 0.1:
        assert advantages([r + shift for r in rewards])[0] == pytest.approx(row, abs=1e-4)
        assert advantages([r * stretch for r in rewards])[0] == pytest.approx(row, abs=2e-2)
    order = list(range(count))
    rng.shuffle(order)
    assert advantages([rewards[i] for i in order])[0] == pytest.approx(
        [row[i] for i in order], abs=1e-6
    )


def test_trl_computes_the_same() -> None:
    """TRL 1.16, scale_rewards="group": (r - mean) / (std + 1e-4) over the group."""
    rewards = torch.rand(6, 8, generator=torch.Generator().manual_seed(0))
    trl = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    ours, alive_B = GRPO().advantages(rewards)
    assert alive_B.all()
    torch.testing.assert_close(ours, trl, atol=1e-5, rtol=0)
