"""Preference and offline losses: by hand, by finite differences, and TRL's own numbers."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.objectives import (
    Window,
    accepted,
    astar_loss,
    awr_weights,
    dpo_loss,
    kto_loss,
    optimal_value,
    sequence_logprobs,
    sft_loss,
)

NAN = float("nan")


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


# -- supervised -----------------------------------------------------------------------------


def test_fine_tuning_is_the_mean_over_tokens_that_take_part() -> None:
    # (1 + 3 + 2) / 3; by answers ((1 + 3) / 2 + 2) / 2 = 2.
    logprobs = torch.tensor([[-1.0, -3.0], [-2.0, -9.0]])
    mask = torch.tensor([[1, 1], [1, 0]])
    assert sft_loss(logprobs, mask).item() == 2.0
    assert sft_loss(logprobs, mask, normaliser="sequence").item() == 2.0
    window = Window(tokens=6, rollouts=3)
    assert sft_loss(logprobs, mask, window).item() == 1.0
    assert sequence_logprobs(logprobs, mask).tolist() == [-4.0, -2.0]


def test_rejection_fine_tuning_leaves_the_rejected_out_of_the_denominator() -> None:
    rewards = torch.tensor([1.0, 0.0, NAN])
    assert accepted(rewards, 1.0).tolist() == [True, False, False]
    mask = torch.ones(3, 2) * accepted(rewards, 1.0)[:, None]
    assert sft_loss(torch.tensor([[-1.0] * 2, [-5.0] * 2, [-7.0] * 2]), mask).item() == 1.0


def test_awr_by_hand() -> None:
    # exp(0.5 / 0.5) = 2.71828; exp(-1) = 0.36788; capped; no verdict.
    rewards, values = torch.tensor([1.0, 0.0, 1e6, NAN]), torch.full((4,), 0.5)
    weights = awr_weights(rewards, values, beta=0.5)
    assert weights.tolist() == pytest.approx([math.e, 1 / math.e, 20.0, 0.0], rel=1e-5)
    # (2.71828 x 2 + 0.36788 x 1) / 2 tokens
    logprobs = torch.tensor([[-2.0], [-1.0]])
    loss = sft_loss(logprobs, torch.ones(2, 1), weights_N=weights[:2])
    assert loss.item() == pytest.approx((2 * math.e + 1 / math.e) / 2, rel=1e-5)
    with pytest.raises(UserError, match="beta must be above 0"):
        awr_weights(rewards, values, beta=0.0)


# -- pairs, and single answers --------------------------------------------------------------


def test_dpo_by_hand() -> None:
    # Margin (-1 + 2) - (-4 + 3) = 2; -log sigmoid(0.1 x 2) = log(1 + exp(-0.2)) = 0.598139
    better, worse = leaf(-1.0), leaf(-4.0)
    loss = dpo_loss(better, worse, torch.tensor([-2.0]), torch.tensor([-3.0]), beta=0.1)
    assert loss.item() == pytest.approx(0.598139, abs=1e-6)
    # Slope -beta sigmoid(-0.2) = -0.1 x 0.450166 for the better one, + for the worse.
    up, down = torch.autograd.grad(loss.sum(), (better, worse))
    assert (up.item(), down.item()) == pytest.approx((-0.0450166, 0.0450166), abs=1e-6)


@given(st.floats(-50, 50), st.floats(-50, 50), st.floats(-30, 30))
def test_dpo_looks_at_the_margin_alone(better, worse, shift) -> None:
    zero = torch.zeros(1, dtype=torch.float64)
    plain = dpo_loss(zero + better, zero + worse, zero, zero)
    moved = dpo_loss(zero + better + shift, zero + worse + shift, zero, zero)
    torch.testing.assert_close(plain, moved)
    # Swapped, the two losses are of p and 1 - p.
    swapped = dpo_loss(zero + worse, zero + better, zero, zero)
    assert (-plain).exp().item() + (-swapped).exp().item() == pytest.approx(1.0)


def test_kto_by_hand() -> None:
    # d = 2, z = 0.5: wanted 1 - sigmoid(0.1 x 1.5) = 0.462570; unwanted with weight 2:
    # 2 (1 - sigmoid(-0.15)) = 2 x 0.537430.
    now, reference = leaf(-1.0, -1.0), torch.tensor([-3.0, -3.0])
    loss = kto_loss(now, reference, torch.tensor([True, False]), kl=0.5, weight_unwanted=2.0)
    assert loss.tolist() == pytest.approx([0.462570, 1.074859], abs=1e-5)
    (gradient,) = torch.autograd.grad(loss.sum(), now)
    assert gradient[0] < 0 < gradient[1]
    # A divergence below 0 is an accident of sampling, and taken as 0.
    same = kto_loss(now, reference, torch.tensor([True, True]), kl=-3.0)
    assert same.tolist() == pytest.approx([1 - 1 / (1 + math.exp(-0.2))] * 2, rel=1e-5)


def test_the_optimal_value_lies_between_mean_and_best() -> None:
    # 0.5 log((e^2 + 1) / 2) = 0.5 log 4.194528 = 0.716890
    rewards = torch.tensor([[1.0, 0.0], [1.0, NAN], [NAN, NAN]])
    values = optimal_value(rewards, beta=0.5)
    assert values[0].item() == pytest.approx(0.716890, abs=1e-5)
    assert values[1].item() == 1.0
    assert math.isnan(values[2].item())
    assert optimal_value(rewards[:1], beta=1e4).item() == pytest.approx(0.5, abs=1e-3)
    assert optimal_value(rewards[:1], beta=1e-3).item() == pytest.approx(1.0, abs=1e-3)


def test_astar_by_hand() -> None:
    # (0.5 x (-1 + 3) - (1 - 0.7))^2 = 0.49; slope 2 x 0.5 x 0.7 = 0.7; no value, no loss.
    now = leaf(-1.0, -1.0)
    loss = astar_loss(
        now,
        torch.tensor([-3.0, -3.0]),
        torch.tensor([1.0, 1.0]),
        torch.tensor([0.7, NAN]),
        beta=0.5,
    )
    assert loss.tolist() == pytest.approx([0.49, 0.0])
    (gradient,) = torch.autograd.grad(loss.sum(), now)
    assert gradient.tolist() == pytest.approx([0.7, 0.0])


FIXED = torch.tensor([-1.0, -0.5, -2.0, -0.2], dtype=torch.float64)
WANTED = torch.tensor([True, False, True, False])
LOSSES = {
    "sft": lambda x: sft_loss(x.view(2, 2), torch.tensor([[1, 1], [1, 0]])),
    "dpo": lambda x: dpo_loss(x[:2], x[2:], FIXED[:2] - 0.3, FIXED[2:] + 0.2, 0.5),
    "kto": lambda x: kto_loss(x, FIXED - 0.4, WANTED, 0.2, 0.7),
    "astar": lambda x: astar_loss(x, FIXED - 0.4, torch.ones(4), torch.full((4,), 0.3), 0.5),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_is_that_of_finite_differences(name) -> None:
    assert torch.autograd.gradcheck(LOSSES[name], (leaf(*FIXED.tolist()),))


# -- TRL's numbers --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def said():
    """Log-probabilities of six answers of five tokens, now and under the reference."""
    draw = torch.Generator().manual_seed(4)
    now = -torch.rand(6, 5, generator=draw) * 2
    reference = now + 0.5 * torch.randn(6, 5, generator=draw)
    mask = torch.tensor([[0] + [1] * n + [0] * (5 - n) for n in (5, 3, 4, 2, 5, 1)])
    return now * mask[:, 1:], reference * mask[:, 1:], mask


def model_that_says(logprobs: torch.Tensor):
    """A model of fixed log-probabilities; what TRL only logs (entropies and so on) is 0."""

    class Output:
        log_probs = logprobs
        loss = None

        def __getattr__(self, name: str) -> torch.Tensor:
            zeros = torch.zeros_like(logprobs.detach())
            return zeros.bool() if "top1" in name else zeros

    return lambda **_: Output()


def trl_trainer(kind: str, model: Path, folder: Path):
    trl = pytest.importorskip("trl", reason="parity needs TRL")
    from datasets import Dataset

    rows = {"prompt": ["a"] * 2}
    rows |= (
        {"chosen": ["b"] * 2, "rejected": ["c"] * 2}
        if kind == "DPO"
        else {"completion": ["b", "c"], "label": [True, False]}
    )
    config = getattr(trl, f"{kind}Config")(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        report_to=[],
        per_device_train_batch_size=2,
        beta=0.1,
    )
    trainer = getattr(trl, f"{kind}Trainer")(
        model=str(model), args=config, train_dataset=Dataset.from_dict(rows)
    )
    trainer.precompute_ref_logps = True
    return trainer


def test_trl_has_the_same_dpo(said, untrained, tmp_path) -> None:
    now, reference, mask = said
    trainer = trl_trainer("DPO", untrained, tmp_path)
    now = now.clone().requires_grad_()
    summed = reference.sum(-1)
    inputs = {
        "input_ids": torch.ones_like(mask),
        "attention_mask": torch.ones_like(mask),
        "completion_mask": mask,
        "ref_chosen_logps": summed[:3],
        "ref_rejected_logps": summed[3:],
    }
    theirs = trainer._compute_loss(model_that_says(now * mask[:, 1:]), inputs, return_outputs=False)
    totals = sequence_logprobs(now, mask[:, 1:])
    ours = dpo_loss(totals[:3], totals[3:], summed[:3], summed[3:], 0.1).mean()
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        *(torch.autograd.grad(x, now, retain_graph=True)[0] for x in (ours, theirs)),
        atol=1e-5,
        rtol=0,
    )


def test_trl_has_the_same_kto(said, untrained, tmp_path) -> None:
    now, reference, mask = said
    trainer = trl_trainer("KTO", untrained, tmp_path)
    trainer.undesirable_weight = 1.5
    now = now.clone().requires_grad_()
    summed = reference.sum(-1)
    kl = torch.tensor([0.3, 0.5, 0.1, 0.2, 0.4, 0.3])
    trainer._compute_kl_logps = lambda model, batch: summed + kl
    wanted = torch.tensor([True, False, True, True, False, False])
    inputs = {
        "input_ids": torch.ones_like(mask),
        "attention_mask": torch.ones_like(mask),
        "completion_mask": mask,
        "label": wanted,
        "ref_logps": summed,
        "ref_KL_logps": summed,
    }
    theirs = trainer._compute_loss(model_that_says(now * mask[:, 1:]), inputs, return_outputs=False)
    totals = sequence_logprobs(now, mask[:, 1:])
    ours = kto_loss(totals, summed, wanted, kl.mean(), 0.1, 1.0, 1.5).mean()
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        *(torch.autograd.grad(x, now, retain_graph=True)[0] for x in (ours, theirs)),
        atol=1e-5,
        rtol=0,
    )


def test_trl_has_the_same_astar(said, monkeypatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    pytest.importorskip("trl", reason="parity needs TRL")
    from collections import defaultdict

    from trl.experimental.a2po import A2POTrainer

    now, reference, mask = said
    totals = sequence_logprobs(now, mask[:, 1:]).requires_grad_()
    rewards, values = torch.rand(6), torch.rand(6)
    stand_in = SimpleNamespace(
        model=SimpleNamespace(training=True),
        args=SimpleNamespace(beta2=0.05),
        _metrics={"train": defaultdict(list)},
        _get_sequence_logps=lambda *_: totals,
    )
    inputs = {
        "input_ids": None,
        "attention_mask": None,
        "logits_to_keep": 5,
        "ref_logps": reference.sum(-1),
        "rewards": rewards,
        "v_star": values,
    }
    theirs = A2POTrainer.compute_loss(stand_in, None, inputs)
    ours = astar_loss(totals, reference.sum(-1), rewards, values, 0.05).mean()
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        *(torch.autograd.grad(x, totals, retain_graph=True)[0] for x in (ours, theirs)),
        atol=1e-5,
        rtol=0,
    )
