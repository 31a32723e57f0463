"""The skeleton and its presets: finite differences, micro-batches, padding, order."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.objectives import (
    CISPO,
    DAPO,
    GRPO,
    GSPO,
    PPO,
    RLOO,
    SAPO,
    Band,
    DrGRPO,
    KLCov,
    MaxRL,
    Objective,
    Reinforce,
    ReinforcePlusPlus,
    SequenceMask,
    Truncate,
    Window,
)

PRESETS = (
    GRPO(),
    DrGRPO(),
    DAPO(),
    GSPO(epsilon=0.1, epsilon_high=0.15),
    CISPO(ratio_cap=1.2),
    RLOO(),
    Reinforce(),
    PPO(),
    SAPO(),
    ReinforcePlusPlus(),
    MaxRL(),
    KLCov(cov_fraction=0.3),
    GRPO(dual_clip=1.3, beta=0.1, kl_estimator="k2"),
    GRPO(beta=0.1, kl_weighted=False),
    GSPO(beta=0.1),
    GRPO(beta=0.1, kl_estimator="k1"),
    DAPO(entropy_coef=0.05, top_entropy=0.4),
    GRPO(off_policy=Truncate(1.3)),
    GRPO(off_policy=Band(0.7, 1.4)),
    GRPO(off_policy=SequenceMask(0.5, 2.0), beta=0.1),
)
IDS = [f"{i}-{type(p).__name__}" for i, p in enumerate(PRESETS)]


class Drawn:
    """A random batch in float64, with everything that any objective may ask for."""

    def __init__(self, seed: int = 0, rows: int = 6, width: int = 5) -> None:
        draw = torch.Generator().manual_seed(seed)

        def noise(scale: float) -> torch.Tensor:
            return scale * torch.randn(rows, width, generator=draw, dtype=torch.float64)

        self.now = -1.5 + noise(0.5)
        self.proximal = self.now + noise(0.25)
        self.behaviour = self.proximal + noise(0.2)
        self.reference = self.now + noise(0.4)
        self.entropy = noise(1.0).abs()
        self.mask = torch.rand(rows, width, generator=draw) > 0.25
        self.mask[0] = False  # a row without tokens
        self.advantages = torch.randn(rows, generator=draw, dtype=torch.float64)

    def loss(self, objective, now, entropy, rows=slice(None), chosen=None, window=None):
        cut = slice(None) if rows is None else rows
        return objective.loss(
            now[cut],
            self.behaviour[cut],
            self.advantages[cut],
            self.mask[cut],
            window=window,
            reference_NT=self.reference[cut] if objective.beta else None,
            proximal_NT=self.proximal[cut],
            entropy_NT=entropy[cut],
            chosen_NT=None if chosen is None else chosen[cut],
        )

    def chosen(self, objective) -> torch.Tensor | None:
        if not objective.needs_choice:
            return None
        return objective.choose(self.now, self.entropy, self.advantages, self.mask)


@pytest.mark.parametrize("objective", PRESETS, ids=IDS)
def test_the_gradient_is_that_of_finite_differences(objective) -> None:
    batch = Drawn(2)
    chosen = batch.chosen(objective)
    now, entropy = batch.now.clone().requires_grad_(), batch.entropy.clone().requires_grad_()
    if objective.surrogate == "cispo":
        # Its weight is a number; hold it still, as it is at this point.
        held = torch.where(batch.mask, (batch.now - batch.behaviour).exp(), 0.0).clamp(max=1.2)
        total = batch.mask.sum()
        check = -(held * batch.advantages[:, None] * now * batch.mask).sum() / total
        found = [
            torch.autograd.grad(x, now)[0]
            for x in (check, batch.loss(objective, now, entropy).loss)
        ]
        torch.testing.assert_close(found[0], found[1])
        return
    assert torch.autograd.gradcheck(
        lambda x, e: batch.loss(objective, x, e, chosen=chosen).loss, (now, entropy)
    )


@pytest.mark.parametrize("objective", PRESETS, ids=IDS)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_micro_batches_add_up_to_the_whole(objective, size) -> None:
    batch = Drawn(3)
    chosen = batch.chosen(objective)
    window = Window.of(batch.mask, 9, chosen)

    def run(step: int):
        now, entropy = batch.now.clone().requires_grad_(), batch.entropy.clone().requires_grad_()
        total, sums = 0.0, {}
        for start in range(0, 6, step):
            rows = slice(start, start + step)
            out = batch.loss(objective, now, entropy, rows, chosen, window)
            out.loss.backward()
            total += out.loss.item()
            for name, value in out.sums.items():
                sums[name] = sums.get(name, 0.0) + value
        return total, sums, now.grad, entropy.grad

    whole, parts = run(6), run(size)
    assert parts[0] == pytest.approx(whole[0], abs=1e-12)
    assert parts[1] == pytest.approx(whole[1])
    torch.testing.assert_close(parts[2], whole[2])
    if whole[3] is not None:
        torch.testing.assert_close(parts[3], whole[3])


@pytest.mark.parametrize("objective", PRESETS, ids=IDS)
@given(seed=st.integers(0, 300), rng=st.randoms())
def test_neither_padding_nor_the_order_of_rows_matters(objective, seed, rng) -> None:
    batch = Drawn(seed)
    before = batch.loss(objective, batch.now, batch.entropy, chosen=batch.chosen(objective))
    order = list(range(6))
    rng.shuffle(order)
    for name in ("now", "proximal", "behaviour", "reference", "entropy"):
        moved = getattr(batch, name)[order]
        setattr(batch, name, torch.nn.functional.pad(moved, (0, 2), value=-7.0))
    batch.mask = torch.nn.functional.pad(batch.mask[order], (0, 2))
    batch.advantages = batch.advantages[order]
    window = Window.of(batch.mask, 5, batch.chosen(objective))  # the budget has not changed
    after = batch.loss(
        objective, batch.now, batch.entropy, chosen=batch.chosen(objective), window=window
    )
    torch.testing.assert_close(after.loss, before.loss)
    assert after.sums == pytest.approx(before.sums)


def test_on_policy_the_loss_is_minus_the_advantage_and_the_gradient_is_not_zero() -> None:
    # The ratio is 1, so two rows with advantages +1 and -1 add up to a loss of 0:
    # the printed loss says nothing, the gradient does.
    now = torch.tensor([[-1.0, -1.0], [-2.0, -2.0]], requires_grad=True)
    out = GRPO().loss(now, now.detach(), torch.tensor([1.0, -1.0]), torch.ones(2, 2))
    assert out.loss.item() == 0.0
    assert out.max_ratio_error == 0.0
    (gradient,) = torch.autograd.grad(out.loss, now)
    torch.testing.assert_close(gradient, torch.tensor([[-0.25, -0.25], [0.25, 0.25]]))


def test_one_mask_for_numerator_and_denominator() -> None:
    zeros = torch.zeros(2, 2)
    out = GRPO().loss(zeros, zeros, torch.tensor([1.0, 5.0]), torch.tensor([[1, 1], [0, 0]]))
    assert out.loss.item() == -1.0  # not -0.5 and not -3


def test_what_sets_two_presets_apart() -> None:
    assert GRPO().difference(DAPO()) == {"epsilon_high": (None, 0.28)}
    assert GRPO().difference(GRPO(normaliser="sequence")) == {"normaliser": ("token", "sequence")}
    assert set(GRPO().difference(GSPO())) == {"ratio", "epsilon", "epsilon_high", "normaliser"}
    assert set(GRPO().difference(CISPO())) == {"surrogate", "ratio_cap"}
    assert GRPO().difference(GRPO()) == {}


def test_a_preset_is_frozen_and_described_by_plain_values() -> None:
    import json

    objective = GRPO(off_policy=Truncate(3.0))
    with pytest.raises(FrozenInstanceError):
        objective.beta = 1.0
    kept = json.loads(json.dumps(objective.describe()))
    assert kept["name"] == "GRPO"
    assert kept["off_policy"] == {"name": "Truncate", "cap": 3.0, "level": "token"}
    assert replace(objective, beta=0.5).beta == 0.5


def test_what_a_loop_asks_of_an_objective() -> None:
    def facts(o: Objective) -> tuple[bool, ...]:
        return (o.needs_group, o.needs_value, o.token_level, o.needs_reference, o.pulls_always)

    assert facts(GRPO()) == (True, False, False, False, False)
    assert facts(GRPO(beta=0.1)) == (True, False, False, True, True)
    assert facts(RLOO(beta=0.1)) == (True, False, False, True, False)
    assert facts(Reinforce()) == (False, False, False, False, False)
    assert facts(ReinforcePlusPlus()) == (False, False, True, False, False)
    assert facts(PPO()) == (False, True, True, False, True)
    assert facts(GRPO(entropy_coef=0.1)) == (True, False, False, False, True)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"baseline": "critic"}, "baseline='critic' is unknown; choose group"),
        ({"scale_rewards": "std"}, "scale_rewards='std' is unknown"),
        ({"surrogate": "trpo"}, "surrogate='trpo' is unknown"),
        ({"beta": -1.0}, "beta must be a number from 0 up"),
        ({"beta": float("nan")}, "beta must be a number"),
        ({"top_entropy": 0.0}, r"top_entropy must lie in \(0, 1\]"),
        ({"decay": 1.0}, "decay=1.0 must lie"),
        ({"dual_clip": 0.5}, "dual_clip must be above 1"),
        ({"surrogate": "cispo"}, "cispo needs ratio_cap"),
        ({"surrogate": "kl_cov", "top_entropy": 0.2}, "kl_cov picks its own tokens"),
        ({"baseline": "value"}, "value baseline goes with"),
        ({"baseline": "running"}, "needs a group baseline"),
    ],
)
def test_settings_that_cannot_be(options, message) -> None:
    with pytest.raises(UserError, match=message):
        Objective(**options)
