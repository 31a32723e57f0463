"""Advantages, with the numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.objectives import (
    GRPO,
    RLOO,
    DrGRPO,
    Reinforce,
    alive_groups,
    gdpo_advantages,
    group_advantages,
    grpo_advantages,
    maxrl_advantages,
    next_baseline,
    rloo_advantages,
    running_advantages,
)

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
    with pytest.raises(UserError, match="'group', 'batch', 'mean' or 'none'"):
        advantages([1.0, 0.0], scale="rows")
    with pytest.raises(UserError, match="'group' or 'leave_one_out'"):
        group_advantages(torch.zeros(1, 2), baseline="running")


def test_batch_scale_divides_by_the_deviation_of_all_rewards() -> None:
    # Rewards 1, 0 and 3, 0: mean 1, squares 0 + 1 + 4 + 1 = 6, Bessel variance 6 / 3 = 2,
    # std 1.41421; group means 0.5 and 1.5, so +-0.5 / 1.41431 and +-1.5 / 1.41431.
    rows = advantages([1.0, 0.0], [3.0, 0.0], scale="batch")
    assert rows[0] == pytest.approx([0.35353, -0.35353], abs=1e-4)
    assert rows[1] == pytest.approx([1.06059, -1.06059], abs=1e-4)
    # A dead group stays dead, whatever the others do.
    assert advantages([0.7, 0.7], [3.0, 0.0], scale="batch")[0] == [0.0, 0.0]


def test_leave_one_out_by_hand() -> None:
    # 1 - mean(0, 0.5) = 0.75; 0 - mean(1, 0.5) = -0.75; 0.5 - mean(1, 0) = 0
    out, alive_B = rloo_advantages(torch.tensor([[1.0, 0.0, 0.5], [0.3, 0.3, 0.3]]))
    assert out[0].tolist() == pytest.approx([0.75, -0.75, 0.0])
    assert out[1].tolist() == [0.0, 0.0, 0.0]
    assert alive_B.tolist() == [True, False]
    # An abstention leaves n as well: 1 - 0 and 0 - 1.
    out, _ = rloo_advantages(torch.tensor([[1.0, NAN, 0.0]]))
    assert out[0].tolist() == pytest.approx([1.0, 0.0, -1.0])


def test_leave_one_out_is_never_blown_up_by_one_outlier() -> None:
    out, _ = rloo_advantages(torch.tensor([[0.35] * 7 + [0.0]]))
    # 0 - 0.35, and 0.35 - (6 x 0.35 + 0) / 7 = 0.05
    assert out[0].tolist() == pytest.approx([0.05] * 7 + [-0.35], abs=1e-6)


def test_maxrl_weighs_a_rare_success_by_its_rarity() -> None:
    # mean 0.25: (1 - 0.25) / 0.2501 = 2.9988; -0.25 / 0.2501 = -0.9996
    out, _ = maxrl_advantages(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    assert out[0].tolist() == pytest.approx([2.9988, -0.9996, -0.9996, -0.9996], abs=1e-4)
    assert maxrl_advantages(torch.zeros(1, 4))[0].tolist() == [[0.0] * 4]
    with pytest.raises(UserError, match="below 0"):
        maxrl_advantages(torch.tensor([[-1.0, 0.0]]))


def test_gdpo_tells_apart_what_a_sum_would_not() -> None:
    # Part 1: 1, 0, 0 with mean 1/3, std 0.57735: 1.15450, -0.57725, -0.57725. Part 2 the
    # same with its hit in row 2. Sums: 0.57725, 0.57725, -1.15450: mean 0, std 0.99983;
    # over 0.99993: 0.57729 and -1.15458. Of two hits in one part the sum is the same, and
    # the advantages are not: a hit that is rarer weighs more.
    rare = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    out, alive_B = gdpo_advantages(rare)
    assert out[0].tolist() == pytest.approx([0.57729, 0.57729, -1.15458], abs=1e-4)
    assert alive_B.tolist() == [True]
    common = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 0.0]]])
    (row,) = gdpo_advantages(common)[0].tolist()
    assert row[0] > row[1] == row[2]


def test_gdpo_without_contrast_or_verdicts() -> None:
    equal = torch.full((2, 4, 3), 0.7, dtype=torch.float32)
    out, alive_B = gdpo_advantages(equal, eps=1e-8)
    assert out.abs().max() == 0
    assert not alive_B.any()
    equal[0, 1] = NAN
    assert gdpo_advantages(equal, eps=1e-8)[0].abs().max() == 0


def test_a_running_baseline_needs_no_group() -> None:
    out, alive_B = running_advantages(torch.tensor([[1.0], [0.0], [NAN], [0.25]]), 0.25)
    assert out.flatten().tolist() == pytest.approx([0.75, -0.25, 0.0, 0.0])
    assert alive_B.tolist() == [True, True, False, False]
    # Before anything is known, the batch's own mean 0.5 stands in.
    assert running_advantages(torch.tensor([[1.0], [0.0]]), None)[0].tolist() == [[0.5], [-0.5]]


def test_the_baseline_runs_behind_the_rewards() -> None:
    # 0.9 x 0.5 + 0.1 x 1 = 0.55; the first batch sets it; a batch without verdicts does not.
    assert next_baseline(0.5, torch.tensor([[1.0, NAN]]), 0.9) == pytest.approx(0.55)
    assert next_baseline(None, torch.tensor([[1.0, 0.0]]), 0.9) == 0.5
    assert next_baseline(0.5, torch.tensor([[NAN]]), 0.9) == 0.5


def test_the_state_carries_the_baseline_from_step_to_step() -> None:
    objective = Reinforce(decay=0.5)
    state = objective.start()
    first = torch.tensor([[1.0], [0.0]])
    assert objective.advantages(first, state)[0].tolist() == [[0.5], [-0.5]]
    state = objective.next_state(state, first)
    assert state.baseline == 0.5
    assert objective.advantages(first, state)[0].tolist() == [[0.5], [-0.5]]
    state = objective.next_state(state, torch.ones(2, 1))
    assert state.baseline == 0.75  # 0.5 x 0.5 + 0.5 x 1
    again = type(state).from_state_dict(state.state_dict())
    assert objective.advantages(first, again)[0].tolist() == [[0.25], [-0.75]]


def test_a_divergence_in_the_reward_comes_off_before_the_baseline() -> None:
    # Rewards 1 and 1, divergences 2 and 0, beta 0.1: 0.8 and 1, so -0.2 and +0.2.
    objective = RLOO(beta=0.1)
    rewards, divergence = torch.ones(1, 2), torch.tensor([[2.0, 0.0]])
    out, alive_B = objective.advantages(rewards, None, divergence)
    assert out[0].tolist() == pytest.approx([-0.2, 0.2])
    assert alive_B.tolist() == [True]
    assert objective.advantages(rewards)[0].abs().max() == 0


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


groups = st.lists(st.one_of(st.floats(-3, 3), st.just(NAN)), min_size=2, max_size=7)
ESTIMATORS = {
    "grpo": lambda r: GRPO().advantages(r)[0],
    "dr_grpo": lambda r: DrGRPO().advantages(r)[0],
    "rloo": lambda r: RLOO().advantages(r)[0],
    "batch": lambda r: GRPO(scale_rewards="batch").advantages(r)[0],
}


@pytest.mark.parametrize("name", ESTIMATORS)
@given(rewards=groups, rng=st.randoms())
def test_the_order_of_a_group_does_not_matter(name, rewards, rng) -> None:
    group = torch.tensor([rewards], dtype=torch.float64)
    order = list(range(len(rewards)))
    rng.shuffle(order)
    out, moved = ESTIMATORS[name](group), ESTIMATORS[name](group[:, order])
    assert torch.isfinite(out).all()
    torch.testing.assert_close(moved, out[:, order], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "batch"])
@given(rewards=groups, shift=st.floats(-5, 5))
def test_a_constant_added_to_all_rewards_changes_nothing(name, rewards, shift) -> None:
    group = torch.tensor([rewards], dtype=torch.float64)
    known = group[~group.isnan()]
    if len(known) > 1 and not 1e-3 > float(known.max() - known.min()) > 1e-8:
        out, moved = ESTIMATORS[name](group), ESTIMATORS[name](group + shift)
        torch.testing.assert_close(moved, out, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["dr_grpo", "rloo"])
@given(rewards=groups, stretch=st.floats(0.5, 4))
def test_without_a_scale_advantages_stretch_with_the_rewards(name, rewards, stretch) -> None:
    group = torch.tensor([rewards], dtype=torch.float64)
    known = group[~group.isnan()]
    if len(known) > 1 and float(known.max() - known.min()) > 1e-3:
        out, moved = ESTIMATORS[name](group), ESTIMATORS[name](group * stretch)
        torch.testing.assert_close(moved, out * stretch, atol=1e-4, rtol=1e-4)


@given(first=groups, rng=st.randoms(), shift=st.floats(-5, 5))
def test_gdpo_by_permutation_and_shift(first, rng, shift) -> None:
    second = [r * r for r in first]
    parts = torch.tensor([first, second], dtype=torch.float64).T[None]
    order = list(range(len(first)))
    rng.shuffle(order)
    out = gdpo_advantages(parts)[0]
    assert torch.isfinite(out).all()
    torch.testing.assert_close(
        gdpo_advantages(parts[:, order])[0], out[:, order], atol=1e-5, rtol=1e-5
    )
    known = parts[0][~parts[0, :, 0].isnan()]
    if len(known) and not bool(((known.amax(0) - known.amin(0)) < 1e-2).any()):
        moved = gdpo_advantages(parts + shift)[0]
        torch.testing.assert_close(moved, out, atol=1e-4, rtol=1e-4)
