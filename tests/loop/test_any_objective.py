"""The loop takes any objective: inner epochs, micro-batches, optimizers, and its state."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from rlkit.errors import UserError
from rlkit.loop.micro_batches import split
from rlkit.loop.optimizers import build_optimizer, probe_adamw8bit
from rlkit.objectives import (
    CISPO,
    DAPO,
    GDPO,
    GRPO,
    GSPO,
    PPO,
    RLOO,
    SAPO,
    Band,
    DrGRPO,
    KLCov,
    MaxRL,
    Reinforce,
    ReinforcePlusPlus,
    SequenceMask,
    Truncate,
)
from rlkit.rewards import Reward

OBJECTIVES = {
    "GRPO": GRPO(),
    "DrGRPO": DrGRPO(),
    "DAPO": DAPO(),
    "GSPO": GSPO(),
    "CISPO": CISPO(),
    "RLOO": RLOO(),
    "Reinforce": Reinforce(),
    "PPO": PPO(),
    "SAPO": SAPO(),
    "ReinforcePlusPlus": ReinforcePlusPlus(),
    "MaxRL": MaxRL(),
    "GDPO": GDPO(),
    "PPO, values with a LoRA of their own": PPO(value_trunk="own_lora"),
    "KLCov": KLCov(cov_fraction=0.1),
    "RLOO with KL": RLOO(beta=0.1),
    "ReinforcePlusPlus with KL": ReinforcePlusPlus(beta=0.1),
    "PPO with KL": PPO(beta=0.1),
    "GSPO with KL": GSPO(beta=0.1),
    "DAPO, top entropy and bonus": DAPO(top_entropy=0.3, entropy_coef=0.01),
    "GRPO, truncated masked": GRPO(mask_truncated=True, normaliser="sequence"),
    "GRPO, TIS": GRPO(off_policy=Truncate(2.0)),
    "GRPO, IcePop": GRPO(off_policy=Band(0.5, 5.0)),
    "GRPO, sequence mask": GRPO(off_policy=SequenceMask(0.0, 3.0), beta=0.1),
}
positive = Reward(
    lambda completions, **_: [text.count("e") + 0.1 * len(text) for text in completions], "long"
)


def let_some_finish(loop) -> None:
    """A model that babbles is always cut by the budget; call every second answer finished."""
    relabel(loop, lambda i: "stop" if i % 2 else "length")


def relabel(loop, reason) -> None:
    generate = loop.policy.generate

    def marked(*args, **options):
        return [
            replace(
                group,
                rollouts=tuple(
                    replace(r, finish_reason=reason(i)) for i, r in enumerate(group.rollouts)
                ),
            )
            for group in generate(*args, **options)
        ]

    loop.policy.generate = marked


@pytest.mark.parametrize("name", OBJECTIVES)
def test_it_takes_steps_and_its_first_ratio_is_one(make_loop, name) -> None:
    loop = make_loop(
        objective=OBJECTIVES[name], reward=positive, inner_epochs=2, ratio_tolerance=1e-4
    )
    let_some_finish(loop)
    before = loop.policy.fingerprint()
    version = loop.policy.version
    for _ in range(2):
        record = loop.step()
        assert record["stepped"] == 1.0
        assert math.isfinite(record["loss"])
        assert record["grad_norm"] > 0
    assert loop.policy.fingerprint() != before
    assert loop.policy.version == version + 4  # two inner epochs in each of two steps
    if OBJECTIVES[name].needs_reference:
        assert record["kl"] > 0
    if OBJECTIVES[name].off_policy is not None:
        assert record["sampling/ess"] == pytest.approx(1.0, abs=1e-3)
        assert 0 <= record["sampling/mismatch_kl"] < 1e-4
        assert record["sampling/dropped"] == 0


@pytest.mark.parametrize("name", OBJECTIVES)
def test_micro_batches_have_the_gradient_of_the_whole(make_loop, name) -> None:
    """The gradient just before the optimizer sees it, of the same rollouts."""

    def gradients(size: int) -> dict[str, torch.Tensor]:
        loop = make_loop(objective=OBJECTIVES[name], reward=positive, micro_batch=size)
        let_some_finish(loop)
        found = {}

        def keep(optimizer, *_):
            for n, p in loop.policy.trainable().items():
                found[n] = torch.zeros_like(p) if p.grad is None else p.grad.clone()

        loop.optimizer.register_step_pre_hook(keep)
        loop.step()
        return found

    whole, parts = gradients(64), gradients(3)
    length = torch.cat([g.flatten() for g in whole.values()]).norm()
    assert length > 0
    gap = torch.cat([(whole[n] - parts[n]).flatten() for n in whole]).norm()
    assert gap / length < 1e-3


def test_later_inner_steps_leave_the_ratio_and_the_past_where_it_was(make_loop) -> None:
    """Behaviour log-probabilities stay those of sampling, so a second step sees a ratio."""
    once = make_loop(reward=positive, learning_rate=0.05, warmup_steps=1)
    often = make_loop(reward=positive, learning_rate=0.05, warmup_steps=1, inner_epochs=4)
    first, many = once.step(), often.step()
    assert first["clip_ratio/region_mean"] == 0.0
    assert many["clip_ratio/region_mean"] > 0.0
    # What is measured at the first inner step is the same in both.
    for key in ("entropy", "sampling/sampling_logp_difference/max", "reward"):
        assert first[key] == pytest.approx(many[key], rel=1e-6)
    assert often.policy.version == 4
    assert once.policy.fingerprint() != often.policy.fingerprint()


def test_a_refused_inner_step_ends_the_update(make_loop) -> None:
    """The gradient of the second inner step is not finite: one step is taken, not three."""
    loop = make_loop(reward=positive, inner_epochs=3)
    parameter = next(p for n, p in loop.policy.trainable().items() if "lora_B" in n)
    parameter.register_hook(
        lambda gradient: gradient * (1.0 if loop.policy.version == 0 else math.nan)
    )
    record = loop.step()
    assert loop.policy.version == 1
    assert record["stepped"] == 1.0
    assert record.nonfinite == ("grad_norm",)  # of all inner steps the worst is shown


def test_reinforce_learns_from_groups_of_one(make_loop) -> None:
    loop = make_loop(objective=Reinforce(), group_size=1, problems_per_step=6, reward=positive)
    record = loop.step()
    assert record["stepped"] == 1.0
    # No group has contrast, and it learns all the same.
    assert record["frac_reward_zero_std"] == 1.0
    assert record["baseline"] is None
    after = loop.objective_state.baseline
    assert after == pytest.approx(record["reward"])
    assert loop.step()["baseline"] == after
    for needy in (GRPO(), RLOO()):
        with pytest.raises(UserError, match="group_size=1 with a group baseline"):
            make_loop(objective=needy, group_size=1)


def test_the_state_of_an_objective_is_part_of_a_checkpoint(make_loop, tmp_path) -> None:
    options = {
        "objective": Reinforce(beta=0.1, kl_target=1e-4, entropy_coef=0.01, entropy_target=9.0),
        "reward": positive,
    }
    steady = make_loop(**options)
    steady.run(4, progress=False)
    broken = make_loop(**options, run=tmp_path / "run")
    broken.run(2, progress=False)
    again = make_loop(**options, run=tmp_path / "run")
    assert again.steps_done == 2
    assert again.objective_state == broken.objective_state != again.objective.start()
    again.run(4, progress=False)
    assert again.objective_state == steady.objective_state
    assert again.policy.fingerprint() == steady.policy.fingerprint()


@pytest.mark.parametrize("trunk", ["detached", "own_lora"])
def test_a_value_head_is_resumed_with_its_moments(make_loop, tmp_path, trunk) -> None:
    options = {"objective": PPO(value_trunk=trunk), "reward": positive}
    steady = make_loop(**options)
    steady.run(4, progress=False)
    make_loop(**options, run=tmp_path / "run").run(2, progress=False)
    again = make_loop(**options, run=tmp_path / "run")
    again.run(4, progress=False)
    assert again.policy.fingerprint() == steady.policy.fingerprint()
    assert any(n.startswith("value_head.") for n in again.policy.trainable())


@pytest.mark.parametrize("trunk", ["detached", "shared", "own_lora"])
def test_values_get_better_at_what_is_earned(make_loop, trunk) -> None:
    """A reward that is the same for all: the value loss must fall towards nothing."""
    always = Reward(lambda completions, **_: [1.0] * len(completions), "always")
    loop = make_loop(
        objective=PPO(lam=1.0, value_clip=None, value_trunk=trunk),
        reward=always,
        value_learning_rate=0.02,
        inner_epochs=4,
    )
    losses = [loop.step()["value/loss"] for _ in range(6)]
    assert losses[0] == pytest.approx(0.5)  # it starts at 0: (0 - 1)^2 / 2
    assert losses[-1] < 0.1
    assert loop.step()["value/explained_variance"] is None  # all returns are alike


def test_advantages_of_tokens_are_kept_as_their_mean(make_loop) -> None:
    loop = make_loop(objective=ReinforcePlusPlus(), reward=positive)
    loop.step()
    rows = [(r, a) for _, _, r, _, _, a in loop.batch.rows()]
    # Whitened over all tokens: the mean over tokens is 0.
    assert sum(len(r) * a for r, a in rows) == pytest.approx(0.0, abs=1e-3)
    assert max(a for _, a in rows) > 0.1


def test_an_interrupted_step_leaves_the_objective_where_it_was(make_loop) -> None:
    loop = make_loop(objective=Reinforce(), reward=positive)
    loop.step()
    kept = loop.objective_state
    loop.judge.judge = lambda groups: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        loop.step()
    assert loop.objective_state == kept


def test_where_all_answers_are_cut_nothing_is_left_to_learn(make_loop) -> None:
    loop = make_loop(objective=GRPO(mask_truncated=True), reward=positive)
    relabel(loop, lambda i: "length")
    record = loop.step()
    assert record["completions/clipped_ratio"] == 1.0
    assert record["grad_norm"] is None
    assert record["stepped"] == 0.0


# -- optimizers -----------------------------------------------------------------------------


def test_adamw_in_eight_bits_learns_and_goes_on_after_a_stop(make_loop, tmp_path) -> None:
    trouble = probe_adamw8bit("cpu")
    if trouble is not None:
        with pytest.raises(UserError, match="does not run here"):
            make_loop(optimizer="adamw8bit")
        return
    options = {"optimizer": "adamw8bit", "reward": positive, "learning_rate": 0.01}
    steady = make_loop(**options)
    assert type(steady.optimizer).__module__.startswith("bitsandbytes")
    before = steady.policy.fingerprint()
    steady.run(4, progress=False)
    assert steady.policy.fingerprint() != before
    make_loop(**options, run=tmp_path / "run").run(2, progress=False)
    again = make_loop(**options, run=tmp_path / "run")
    again.run(4, progress=False)
    assert again.policy.fingerprint() == steady.policy.fingerprint()


def test_moments_of_large_tensors_really_are_in_eight_bits() -> None:
    if probe_adamw8bit("cpu") is not None:
        pytest.skip(f"adamw8bit does not run here: {probe_adamw8bit('cpu')}")
    large, small = torch.nn.Parameter(torch.ones(64, 128)), torch.nn.Parameter(torch.ones(8))
    optimizer = build_optimizer("adamw8bit", [{"params": [large, small]}], 1e-2, 0.0)
    large.grad, small.grad = torch.ones(64, 128), torch.ones(8)
    optimizer.step()
    assert optimizer.state[large]["state1"].dtype == torch.uint8
    assert optimizer.state[small]["state1"].dtype == torch.float32


def test_without_bitsandbytes_it_is_said(monkeypatch) -> None:
    import sys

    probe_adamw8bit.cache_clear()
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    try:
        with pytest.raises(UserError, match="'adamw8bit' does not run here: bitsandbytes cannot"):
            group = {"params": [torch.nn.Parameter(torch.ones(2))]}
            build_optimizer("adamw8bit", [group], 1e-2, 0.0)
    finally:
        monkeypatch.undo()
        probe_adamw8bit.cache_clear()


def test_bad_settings(make_loop) -> None:
    with pytest.raises(UserError, match="unknown optimizer 'sgd'; choose adamw or adamw8bit"):
        make_loop(optimizer="sgd")
    with pytest.raises(UserError, match="inner_epochs must be at least 1"):
        make_loop(inner_epochs=0)
    with pytest.raises(UserError, match="unknown optimizer 'lion'"):
        build_optimizer("lion", [], 1e-3, 0.0)
    assert split(list(range(5)), 2) == [[0, 1], [2, 3], [4]]
