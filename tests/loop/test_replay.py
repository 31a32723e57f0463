"""Counterfactual replay: weights worked out by hand, exact weights, and nothing is touched."""

from __future__ import annotations

import math

import pytest
import torch

from rlkit.errors import UserError
from rlkit.loop import Run
from rlkit.loop.replay import Replay, replay, token_logprobs
from rlkit.loop.replay.result import labelled
from rlkit.loop.stored_batch import read_batch
from rlkit.objectives import DAPO, GDPO, GRPO, PPO, DrGRPO, Reinforce
from rlkit.policy import flatten
from rlkit.policy.value_head import value_head

ALL = ["GRPO", "DrGRPO", "DAPO", "GSPO", "CISPO", "RLOO", "Reinforce", "PPO"]


@pytest.fixture
def fresh(make_loop):
    """A loop that has drawn and judged a batch, and not learnt from it."""
    loop = make_loop(max_new_tokens=6)
    groups = loop.policy.generate(loop.curriculum.sample(2), 4, 6)
    return loop, groups


def of(loop, groups, objectives, **options) -> Replay:
    options = {
        "held_out": 0,
        "config": loop.config,
        "reward": loop.judge.rewards["arith"],
        **options,
    }
    return Replay.from_batch(loop.policy, groups, objectives, **options)


def test_the_weight_of_a_token_is_its_share_of_the_advantage(fresh) -> None:
    """At a ratio of 1 a token's push is A, over what its normaliser divides by."""
    loop, groups = fresh
    found = of(
        loop, groups, {"token": GRPO(), "answer": GRPO(normaliser="sequence"), "dr": DrGRPO()}
    )
    lengths = [len(r) for r in flatten(groups)]
    budget = max(6, *lengths)
    assert found.exact and found.max_ratio_error < 1e-4
    for i, length in enumerate(lengths):
        a, b, c = (found[name].advantages[i] for name in ("token", "answer", "dr"))
        assert a == b  # the same advantages, divided otherwise
        assert found["token"].weights[i] == pytest.approx([a / sum(lengths)] * length, abs=1e-6)
        assert found["answer"].weights[i] == pytest.approx([b / length / 8] * length, abs=1e-6)
        assert found["dr"].weights[i] == pytest.approx([c / (8 * budget)] * length, abs=1e-6)


def test_one_step_makes_likelier_what_is_pushed_up(fresh) -> None:
    """To first order the loss falls by the weights times the changes."""
    loop, groups = fresh
    for objective in of(loop, groups, ALL).objectives:
        pairs = zip(objective.weights, objective.changes, strict=True)
        gain = sum(w * c for ws, cs in pairs for w, c in zip(ws, cs, strict=True))
        assert gain > 0, objective.name
        assert objective.grad_norm > 0 and objective.update_norm > 0


def test_on_fresh_rollouts_clips_do_not_tell_objectives_apart(fresh) -> None:
    loop, groups = fresh
    found = of(loop, groups, ["GRPO", "DAPO", "CISPO", "DrGRPO"])
    assert found.cosines[0][:3] == pytest.approx((1.0, 1.0, 1.0), abs=1e-6)
    assert found.cosines[0][3] < 1
    assert "no clip acts" in str(found)
    ahead = of(loop, groups, ["GRPO", "DAPO", "GSPO"], ahead=8, config=_fast(loop))
    assert not ahead.exact and ahead.max_ratio_error > 0.2
    assert ahead["GSPO"].clipped > ahead["GRPO"].clipped > 0
    assert ahead["GRPO"].silent >= ahead["GRPO"].clipped
    assert ahead.cosines[0][1] < 1


def _fast(loop):
    from dataclasses import replace

    return replace(loop.config, learning_rate=0.03)


def test_nothing_is_touched(fresh) -> None:
    loop, groups = fresh
    before, counters = loop.policy.fingerprint(), loop.policy.state_dict()
    found = of(loop, groups, [*ALL, PPO(value_trunk="own_lora")], held_out=2, samples=2)
    assert loop.policy.fingerprint() == before
    assert loop.policy.state_dict() == counters
    assert value_head(loop.policy) is None
    assert all(p.grad is None for p in loop.policy.trainable().values())
    assert "fresh one" in found["PPO"].note
    assert found["PPO(value_trunk=own_lora)"].grad_norm > 0
    # Two problems a domain, of a model that babbles: nothing is solved, and that is a number.
    assert found.pass_rate == 0.0 and found.problems == 4 and found["GRPO"].gain == 0.0
    with pytest.raises(UserError, match="must not be negative"):
        of(loop, groups, ALL, ahead=-1)


def test_a_batch_of_a_loop_is_replayed_after_its_update_and_says_so(make_loop) -> None:
    loop = make_loop(learning_rate=0.03, warmup_steps=1)
    loop.step()
    found = of(loop, loop.batch, ["GRPO"], optimizer=loop.optimizer)
    assert found.step == 1 and not found.exact
    assert "has changed since it drew the batch" in found.weights
    assert found.optimizer == "adamw and the moments it had"
    assert [r.reward for r in found.rollouts] == [r for row in loop.batch.rewards_BG for r in row]


# -- of a run ---------------------------------------------------------------------------------


def test_a_run_keeps_what_a_gradient_needs(make_loop, tmp_path) -> None:
    loop = make_loop(run=tmp_path / "run")
    loop.run(1, progress=False)
    groups, judged = read_batch(Run.open(tmp_path / "run"), 1)
    assert judged.scores == loop.batch.scores and judged.solved == loop.batch.solved
    for kept, drawn in zip(flatten(groups), flatten(loop.batch.groups), strict=True):
        assert (kept.prompt_ids, kept.completion_ids) == (drawn.prompt_ids, drawn.completion_ids)
        assert (kept.trainable, kept.text) == (drawn.trainable, drawn.text)
        now, then = torch.tensor(kept.behaviour_logprobs), torch.tensor(drawn.behaviour_logprobs)
        assert torch.equal(now, then)  # nine digits are all that float32 has


@pytest.mark.parametrize(
    "objective", [GRPO(), Reinforce(), PPO(), PPO(value_trunk="own_lora"), GRPO(beta=0.1), GDPO()]
)
def test_the_replayed_update_is_the_one_that_was_made(make_loop, tmp_path, objective) -> None:
    """Checkpoints after 2, 4 and 5. Step 1: none before it. Step 4: one update taken again."""
    loop = make_loop(run=tmp_path / "run", objective=objective, learning_rate=0.01)
    after = {}
    loop.callbacks.append(
        lambda record, batch: after.update(
            {record.step: token_logprobs(loop.policy, flatten(batch.groups), loop.config)}
        )
    )
    loop.run(5, progress=False)
    for step, where in ((1, "as it started"), (4, "after step 2, with the 1 update since")):
        found = replay(tmp_path / "run", step, [objective], held_out=0)
        assert found.exact and where in found.weights, found.weights
        groups, _ = read_batch(Run.open(tmp_path / "run"), step)
        for n, rollout in enumerate(flatten(groups)):
            real = after[step][n] - torch.tensor(rollout.behaviour_logprobs)
            assert found.objectives[0].changes[n] == pytest.approx(real.tolist(), abs=2e-3)
    assert Run.open(tmp_path / "run").metrics()[-1]["step"] == 5


def test_where_the_weights_cannot_be_had_it_is_said(make_loop, tmp_path) -> None:
    loop = make_loop(run=tmp_path / "run", learning_rate=0.03, checkpoint_every=2)
    loop.run(4, progress=False)
    run = Run.open(tmp_path / "run")
    run.append_event("intervention", 3, action="rollback", rule="by hand")
    found = replay(run, 4, ["grpo"], held_out=0)
    assert not found.exact
    assert "checkpoint after step 2, 1 update before" in found.weights
    assert "rolled the policy back at step 3" in found.weights
    assert found.max_ratio_error > 0.01


def test_what_cannot_be_replayed_is_a_sentence(make_loop, tmp_path) -> None:
    loop = make_loop(run=tmp_path / "run")
    loop.run(2, progress=False)
    with pytest.raises(UserError, match="no rollouts of step 9; it has steps 1 to 2"):
        replay(tmp_path / "run", 9, ["grpo"])
    with pytest.raises(UserError, match="unknown objective 'adam'"):
        replay(tmp_path / "run", 1, ["adam"])
    with pytest.raises(UserError, match="given twice"):
        replay(tmp_path / "run", 1, ["grpo", "GRPO"])
    with pytest.raises(UserError, match="list of objectives is empty"):
        labelled([])
    (tmp_path / "run" / "tokens.jsonl.gz").unlink()
    with pytest.raises(UserError, match="did not keep the tokens of step 2"):
        replay(tmp_path / "run", objectives=["grpo"])
    assert len(Run.open(tmp_path / "run").rollouts()) == 16  # and is read as ever


def test_plain_values(fresh) -> None:
    import json

    loop, groups = fresh
    found = of(loop, groups, ["grpo", DAPO(beta=0.1)])
    body = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [o["name"] for o in body["objectives"]] == ["GRPO", "DAPO(beta=0.1)"]
    assert len(body["rollouts"]) == 8
    first = found.objectives[0]
    assert body["objectives"][0]["rollout_changes"][0] == pytest.approx(
        math.fsum(first.changes[0]), rel=1e-4
    )
    with pytest.raises(UserError, match="no objective 'PPO'; it has GRPO"):
        found["PPO"]
