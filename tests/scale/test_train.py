"""`rlkit.scale.train` in this process: runs, resumes, interruptions, and what is refused."""

from __future__ import annotations

import json
import signal

import pytest
import torch
from transformers import TrainerCallback

from rlkit.errors import UserError
from rlkit.loop.run import Run
from rlkit.policy import Policy
from rlkit.scale import trainer as building
from rlkit.scale.config import ScaleConfig
from rlkit.scale.train import accelerate_file, main, train
from rlkit.scale.trl.keeping import mark_complete, newest_checkpoint, remove_broken, why_broken


@pytest.fixture
def config(untrained, tmp_path):
    """Small steps on a small random model; the reward counts letters."""

    def make(**changes):
        base = {
            "policy": str(untrained),
            "run": str(tmp_path / "run"),
            "domains": ["arith", "sort"],
            "weighting": "learnability",
            "rewards": {"letters": 1.0, "exact_answer": 1.0},
            "lora": {"rank": 4},
            "steps": 4,
            "problems_per_step": 2,
            "group_size": 4,
            "max_new_tokens": 24,
            "learning_rate": 1e-2,
            "device": "cpu",
            "checkpoint_every": 2,
        }
        return ScaleConfig.from_dict({**base, **changes})

    return make


@pytest.fixture
def known_letters(monkeypatch):
    """A registered reward in which the answers of a random model differ."""
    from rlkit.rewards import _REWARDS, reward

    def letters(completions):
        return [text.count("e") / (len(text) or 1) for text in completions]

    monkeypatch.setitem(_REWARDS, "letters", reward(letters))


pytestmark = pytest.mark.usefixtures("known_letters")


def test_a_run_that_goes_on_equals_one_that_never_stopped(config, tmp_path):
    whole, broken = str(tmp_path / "whole"), str(tmp_path / "broken")
    assert train(config(run=whole)) == 0
    assert train(config(run=broken, steps=2)) == 0
    assert train(config(run=broken), resume=True) == 0
    one, two = Run.open(whole), Run.open(broken)
    assert [row["step"] for row in two.metrics()] == [1, 2, 3, 4]
    for mine, theirs in zip(one.metrics(), two.metrics(), strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine.keys() - {"step_time"}:
            assert mine[name] == theirs[name], name
    assert [r["text"] for r in one.rollouts()] == [r["text"] for r in two.rollouts()]
    first, second = (Policy.load(f"{run}/model", quantize=None) for run in (whole, broken))
    assert first.fingerprint() == second.fingerprint()
    assert first.version == 4
    kinds = [event["kind"] for event in two.events()]
    assert kinds == ["started", "finished", "resumed", "started", "finished"]
    assert two.events()[2]["checkpoint"] == "checkpoint-2"


def test_a_run_with_steps_is_not_begun_again_by_mistake(config):
    assert train(config(steps=1)) == 0
    with pytest.raises(UserError, match="has steps already; give --resume"):
        train(config(steps=1))
    with pytest.raises(UserError, match="belongs to another configuration"):
        train(config(steps=1, learning_rate=2e-2), resume=True)
    with pytest.raises(UserError, match="this run has 1 in all"):
        train(config(steps=2), resume=True)
        train(config(steps=1), resume=True)


def test_a_checkpoint_that_was_broken_off_is_passed_over(config, tmp_path):
    assert train(config()) == 0
    newest = tmp_path / "run" / "trl" / "checkpoint-4"
    file = newest / "optimizer.pt"
    file.write_bytes(file.read_bytes()[:100])  # what a kill in the middle of a write leaves
    assert train(config(steps=5), resume=True) == 0
    run = Run.open(tmp_path / "run")
    ignored = next(e for e in run.events() if e["kind"] == "checkpoint_ignored")
    assert ignored["checkpoint"] == "checkpoint-4"
    assert "optimizer.pt has 100 bytes and should have" in ignored["reason"]
    resumed = next(e for e in run.events() if e["kind"] == "resumed")
    assert resumed["checkpoint"] == "checkpoint-2"
    assert [row["step"] for row in run.metrics()] == [1, 2, 3, 4, 5]


class Signals(TrainerCallback):
    """Sends this process signals in the middle of an update."""

    def __init__(self, built, step, count):
        self.built, self.step, self.count = built, step, count
        self.before = None

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step != self.step:
            return
        trained = self.built.policy.trainable()
        self.before = {name: p.detach().clone() for name, p in trained.items()}
        for number in range(self.count):
            if number:  # the second comes when some weights have moved already
                with torch.no_grad():
                    next(iter(trained.values())).add_(1.0)
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def interrupted(config, monkeypatch):
    """Runs with signals at the third update; gives status, what was built, and the signals."""

    def run(count):
        kept, made = building.build, []

        def build(settings, say):
            built = kept(settings, say)
            signals = Signals(built, 2, count)
            built.trainer.add_callback(signals)
            made.extend((built, signals))
            return built

        monkeypatch.setattr(building, "build", build)
        return train(config(steps=6)), *made

    return run


def test_ctrl_c_finishes_the_step_and_leaves_a_model(interrupted, config, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    status, built, _ = interrupted(1)
    assert status == 130
    assert signal.getsignal(signal.SIGINT) is before
    run = Run.open(tmp_path / "run")
    assert [row["step"] for row in run.metrics()] == [1, 2, 3]
    assert run.events()[-1]["kind"] == "interrupted"
    assert newest_checkpoint(built.output)[0].name == "checkpoint-3"
    saved = Policy.load(tmp_path / "run" / "model", quantize=None)
    assert saved.version == 3
    assert saved.fingerprint() == built.policy.fingerprint()


def test_a_second_ctrl_c_gives_the_step_up(interrupted, tmp_path):
    status, _, signals = interrupted(2)
    assert status == 130
    run = Run.open(tmp_path / "run")
    assert [row["step"] for row in run.metrics()] == [1, 2]
    assert run.events()[-1]["kind"] == "interrupted"
    saved = Policy.load(tmp_path / "run" / "model", quantize=None)
    assert saved.version == 2
    for name, parameter in saved.trainable().items():
        assert torch.equal(parameter, signals.before[name])  # the half of an update is undone


def test_trls_own_generator_and_all_weights(config, tmp_path):
    """`rollouts: trl` and `lora: null`: the other ends of both settings."""
    assert train(config(steps=2, rollouts="trl", lora=None, learning_rate=1e-4)) == 0
    run = Run.open(tmp_path / "run")
    assert len(run.metrics()) == 2
    assert run.config["policy"]["lora"] is None
    saved = Policy.load(tmp_path / "run" / "model", quantize=None)
    assert saved.parameter_counts()[0] == run.config["policy"]["parameters"]


def test_what_changed_in_a_library_stops_a_run_at_once(config, monkeypatch):
    import rlkit.scale.trl.hooks as hooks

    monkeypatch.setattr(hooks, "HOOKS", (hooks.Hook("x", "y", lambda: "it is gone"),))
    with pytest.raises(UserError, match="does not fit this version: x, used by y: it is gone"):
        train(config())


def test_the_command_line(capsys, tmp_path):
    assert main(["--accelerate", "fsdp2"]) == 0
    assert capsys.readouterr().out.strip() == str(accelerate_file("fsdp2"))
    assert main(["--accelerate", "fsdp3"]) == 2
    assert "known are ddp, fsdp2, zero3" in capsys.readouterr().err
    assert main([]) == 2
    assert "--config is missing" in capsys.readouterr().err
    file = tmp_path / "x.yaml"
    file.write_text("policy: tiny\nrun: a\ndomain: [arith]\n")
    assert main(["--config", str(file)]) == 2
    assert "unknown setting 'domain'; did you mean 'domains'?" in capsys.readouterr().err
    assert main(["--config", str(file), "--max-steps", "0"]) == 2


def test_complete_names_every_file(tmp_path):
    folder = tmp_path / "checkpoint-3"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"1234")
    (folder / "inner" / "b.bin").write_bytes(b"12")
    assert why_broken(folder) == "its marker COMPLETE is missing"
    mark_complete(folder)
    assert json.loads((folder / "COMPLETE").read_text()) == {"a.bin": 4, "inner/b.bin": 2}
    assert why_broken(folder) is None
    (tmp_path / "checkpoint-20").mkdir()
    (tmp_path / "checkpoint-x").mkdir()  # not a checkpoint's name
    newest, passed = newest_checkpoint(tmp_path)
    assert newest == folder and [p.name for p, _ in passed] == ["checkpoint-20"]
    assert remove_broken(tmp_path) == [("checkpoint-20", "its marker COMPLETE is missing")]
    assert not (tmp_path / "checkpoint-20").exists() and (tmp_path / "checkpoint-x").exists()
