"""MonitorCallback: the rules act on a real run of TRL, and what they did can be read."""

from __future__ import annotations

import math

import pytest
import torch

from rlkit.errors import UserError
from rlkit.loop.run import Run
from rlkit.monitor import EntropyCollapse, Monitor, NonFiniteGradient, RewardCollapse, Rule
from rlkit.monitor.rules import Finding
from rlkit.policy import LoraSpec, Policy
from rlkit.scale.trl import MonitorCallback, domain_dataset, watch
from rlkit.scale.trl.keeping import StateCallback, newest_checkpoint
from rlkit.scale.trl.snapshots import Snapshot, slow_down, trained_parameters


def letters(completions, **columns):
    return [c[0]["content"].count("e") / (len(c[0]["content"]) or 1) for c in completions]


class Falling:
    """A reward that is good for some steps and then breaks down; answers still differ."""

    __name__ = "falling"

    def __init__(self, until):
        self.until = until

    def __call__(self, completions, trainer_state, **columns):
        high = 1.0 if trainer_state.global_step < self.until else 0.0
        return [high + 0.01 * value for value in letters(completions)]


class At(Rule):
    """Asks for an action at one step."""

    def __init__(self, step, action):
        self.name, self.at, self.action = f"at_{step}", step, action

    def check(self, record):
        return Finding(f"step {self.at} has come", {}) if record.step == self.at else None


def weights(policy):
    return {name: p.detach().clone() for name, p in policy.trainable().items()}


def start(small, make_trainer, tmp_path, monitor, reward=letters, steps=4, **options):
    dataset = domain_dataset(["arith"], steps=steps, problems_per_step=2)
    watched = watch(reward, dataset, 4, end_ids=small.end_ids)
    run = Run.create(tmp_path / "run", {"policy": {"name": "small"}, "domains": ["arith"]})
    monitoring = MonitorCallback(monitor, run=run, watch=watched, **options)
    trainer = make_trainer(
        small,
        watched.functions,
        dataset,
        settings={"max_steps": steps},
        callbacks=[monitoring],
    )
    return trainer, monitoring, run


def test_a_gradient_that_is_not_finite_changes_nothing(small, make_trainer, tmp_path):
    trainer, monitoring, run = start(
        small, make_trainer, tmp_path, Monitor([NonFiniteGradient()]), steps=3
    )
    spoiled = next(p for name, p in small.trainable().items() if "lora_B" in name)
    seen = []

    def spoil(gradient):
        return gradient * math.nan if trainer.state.global_step == 1 else gradient

    spoiled.register_hook(spoil)
    kept = monitoring.on_log

    def look(*args, **kwargs):
        seen.append(weights(small))
        return kept(*args, **kwargs)

    monitoring.on_log = look
    trainer.train()
    assert all(torch.equal(seen[0][n], seen[1][n]) for n in seen[0])  # step 2 did nothing
    assert any(not torch.equal(seen[1][n], seen[2][n]) for n in seen[0])  # step 3 did
    assert all(torch.isfinite(p).all() for p in small.trainable().values())
    (event,) = [e for e in run.events() if e["kind"] == "intervention"]
    assert (event["step"], event["rule"], event["action"]) == (2, "nonfinite_gradient", "skip_step")
    assert event["done"] == "the gradients were dropped and nothing was changed"
    record = monitoring.records[1]
    assert "grad_norm" in record.nonfinite
    assert record["loss"] is None  # transformers would show an older one


def test_a_collapse_brings_the_best_back_and_slows_down(small, make_trainer, tmp_path):
    rule = RewardCollapse(window=2, min_drop=0.3, sigmas=0.0, patience=1)
    trainer, monitoring, run = start(
        small, make_trainer, tmp_path, Monitor([rule]), reward=Falling(3), steps=6
    )
    before, kept = {}, monitoring.on_pre_optimizer_step

    def look(args, state, control, **kwargs):
        before[state.global_step] = weights(small)
        return kept(args, state, control, **kwargs)

    monitoring.on_pre_optimizer_step = look
    trainer.train()
    # Rewards of about 1 1 1 0 0 0: the average of two is best at step 2 or 3, and has fallen
    # by 0.5 at step 4.
    (event,) = [e for e in run.events() if e["kind"] == "intervention" and e["action"] != "warn"]
    assert (event["step"], event["action"]) == (4, "rollback")
    best = monitoring.monitor.best_step()
    assert best in (2, 3)
    # The step after began where the best step had begun.
    after = before[4]
    assert all(torch.equal(after[n], before[best - 1][n]) for n in after)
    assert f"of step {best - 1} are back" in event["done"]
    rates = [r["learning_rate"] for r in monitoring.records]
    assert rates == pytest.approx([1e-2] * 4 + [5e-3] * 2)
    assert [r["step"] for r in run.metrics()] == [1, 2, 3, 4, 5, 6]
    assert run.events()[-1]["kind"] == "finished"


def test_without_a_copy_a_rollback_ends_the_run(small, make_trainer, tmp_path):
    rule = RewardCollapse(window=2, min_drop=0.3, sigmas=0.0, patience=1)
    trainer, monitoring, run = start(
        small, make_trainer, tmp_path, Monitor([rule]), Falling(3), 6, keep_best=False
    )
    trainer.train()
    assert trainer.state.global_step == 4
    assert monitoring.ending == "stopped"
    assert "no best step was kept, so there is no way back" in run.events()[-2]["done"]


@pytest.mark.parametrize(("action", "ending"), [("pause", "paused"), ("stop", "stopped")])
def test_pause_and_stop_write_a_checkpoint(small, make_trainer, tmp_path, action, ending):
    trainer, monitoring, run = start(small, make_trainer, tmp_path, Monitor([At(2, action)]))
    trainer.train()
    assert trainer.state.global_step == 2
    assert (tmp_path / "trl" / "checkpoint-2" / "trainer_state.json").exists()
    assert [e["kind"] for e in run.events()] == ["started", "intervention", ending]
    assert monitoring.ending == ending


def test_the_learning_rate_alone(small, make_trainer, tmp_path):
    trainer, monitoring, _ = start(
        small, make_trainer, tmp_path, Monitor([At(1, "learning_rate")]), steps=3, slowdown=0.1
    )
    trainer.train()
    assert [r["learning_rate"] for r in monitoring.records] == pytest.approx([1e-2, 1e-3, 1e-3])


def test_an_action_that_nobody_knows_ends_the_run_and_says_so(small, make_trainer, tmp_path):
    trainer, _, run = start(small, make_trainer, tmp_path, Monitor([At(1, "dance")]))
    trainer.train()
    assert trainer.state.global_step == 1
    assert "knows no action 'dance'" in run.events()[-2]["done"]


def test_a_stored_run_is_replayed_to_the_same_decisions(small, make_trainer, tmp_path):
    def rules():
        return [
            NonFiniteGradient(),
            RewardCollapse(window=2, min_drop=0.3, sigmas=0.0, patience=1),
            EntropyCollapse(),
        ]

    trainer, monitoring, run = start(
        small, make_trainer, tmp_path, Monitor(rules()), Falling(2), steps=4
    )
    trainer.train()
    again = Monitor(rules()).replay(run.metrics())
    assert [(d.step, d.rule, d.action) for d in again] == [
        (e["step"], e["rule"], e["action"]) for e in monitoring.events
    ]
    assert again


def test_the_report_reads_such_a_run(small, make_trainer, tmp_path):
    from rlkit.lab.report import write_report

    trainer, _, run = start(small, make_trainer, tmp_path, Monitor(), steps=2)
    trainer.train()
    page = write_report(run).read_text("utf-8")
    assert "arith" in page
    assert len(run.rollouts()) == 16  # 2 steps of 2 problems of 4 answers


def test_the_best_state_outlives_a_pause(untrained, make_trainer, tmp_path):
    """It is kept in the checkpoint: a rollback after a resume goes back to before it."""

    def build():
        policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=0)
        rule = RewardCollapse(window=2, min_drop=0.3, sigmas=0.0, patience=1)
        trainer, monitoring, run = start(
            policy, make_trainer, tmp_path, Monitor([rule, At(3, "pause")]), Falling(3), steps=5
        )
        keeping = StateCallback({}, monitoring.watch.dataset, monitoring)
        trainer.add_callback(keeping)
        return policy, trainer, monitoring, keeping, run

    policy, trainer, monitoring, _, _ = build()
    before, kept = {}, monitoring.on_pre_optimizer_step

    def look(args, state, control, **kwargs):
        before[state.global_step] = weights(policy)
        return kept(args, state, control, **kwargs)

    monitoring.on_pre_optimizer_step = look
    trainer.train()
    checkpoint, _ = newest_checkpoint(tmp_path / "trl")
    assert checkpoint.name == "checkpoint-3"
    best = monitoring.monitor.best_step()

    policy, trainer, monitoring, keeping, run = build()
    keeping.load(checkpoint)
    seen, kept_log = [], monitoring.on_log

    def after(*args, **kwargs):
        control = kept_log(*args, **kwargs)
        seen.append(weights(policy))
        return control

    monitoring.on_log = after
    trainer.train(resume_from_checkpoint=str(checkpoint))
    assert [record.step for record in monitoring.records] == [4, 5]
    (event,) = [e for e in run.events() if e.get("action") == "rollback"]
    assert event["step"] == 4
    assert f"of step {best - 1} are back" in event["done"]
    assert all(torch.equal(seen[0][name], before[best - 1][name]) for name in seen[0])


# -- the parts ------------------------------------------------------------------------------------


def test_a_snapshot_brings_weights_and_moments_back(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    x = torch.ones(1, 3)

    def step():
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    fresh = Snapshot.take(0, model, optimizer)
    assert fresh.moments == {}
    step()
    kept = Snapshot.take(1, model, optimizer)
    kept.save(tmp_path / "best.safetensors")
    step()
    after_two = {n: p.detach().clone() for n, p in trained_parameters(model).items()}
    step()
    for again in (kept, Snapshot.load(tmp_path / "best.safetensors", 1, model)):
        again.restore(model, optimizer)
        step()  # the same second step, moments included
        assert all(torch.equal(p, after_two[n]) for n, p in trained_parameters(model).items())
    fresh.restore(model, optimizer)
    assert not optimizer.state


def test_a_slower_rate_stays(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    # 0.5, 1, 1, ... of the base rate
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, 0.5 * (n + 1)))
    assert schedule.get_last_lr() == [0.5]
    assert slow_down(optimizer, schedule, 0.5) == [0.25]
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.5]  # half of 1.0


def test_a_slowdown_that_is_none():
    with pytest.raises(UserError, match=r"between 0 and 1, not 1\.0"):
        MonitorCallback(slowdown=1.0)
