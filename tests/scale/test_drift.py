"""The drift test: what the bridge stands on in TRL, transformers and torch is still there.

When this fails after an upgrade, the message names what changed and the module here that has to
be looked at. The second half changes each place on purpose: a check that could not fail would
be no check.
"""

from __future__ import annotations

import pytest
import torch
import transformers
import trl
from torch.distributed.fsdp import FSDPModule
from transformers import trainer_utils as names
from transformers.trainer_callback import CallbackHandler
from trl.trainer import utils

from rlkit.scale.trl import HOOKS, drift
from rlkit.scale.trl.hooks import Hook, missing_in_source, missing_parameters


def test_nothing_has_changed():
    changed = drift()
    assert not changed, "\n".join(changed)


def test_every_place_is_named_once_and_by_whom():
    names = [hook.name for hook in HOOKS]
    assert len(set(names)) == len(names)
    import importlib

    for hook in HOOKS:
        assert importlib.import_module(hook.used_by)


def test_nothing_of_trl_experimental_is_used():
    from pathlib import Path

    import rlkit.scale

    folder = Path(rlkit.scale.__file__).parent
    for file in folder.rglob("*.py"):
        assert "trl.experimental" not in file.read_text("utf-8"), file


def nothing(*args, **kwargs):
    """A method with no body and no parameters of its own."""


def shorter(self, model, reward_funcs, args, train_dataset, processing_class, callbacks):
    """In place of the trainer's constructor, which takes more."""


SAMPLER, NAMES = "GRPOTrainer._get_train_sampler", "names of reward functions"
UNWRAP = "unwrap_model_for_generation"
SCHEDULE = torch.optim.lr_scheduler.LambdaLR
TRAINER, HF = trl.GRPOTrainer, transformers.Trainer
SABOTAGE = [
    ("GRPOTrainer.__init__", TRAINER, "__init__", shorter, "['peft_config', 'rollout_func']"),
    ("rollout_func", TRAINER, "_generate", nothing, "self.rollout_func(prompts, self)"),
    ("reward_funcs", TRAINER, "_calculate_rewards", nothing, "trainer_state"),
    (SAMPLER, TRAINER, "_get_train_sampler", nothing, "mini_repeat_count"),
    ("RepeatSampler", utils, "RepeatSampler", lambda *a, **k: range(3), "it walks [0, 1, 2]"),
    (NAMES, utils, "get_callable_name", lambda f: "other", "logged as 'other'"),
    (NAMES, utils, "is_async_callable", lambda f: True, "now counts as async"),
    ("order of callbacks in Trainer", HF, "_run_epoch", nothing, "_clip_grad_norm"),
    ("log before save in Trainer", HF, "_maybe_log_save_evaluate", nothing, 'logs["loss"]'),
    ("arguments of callbacks", CallbackHandler, "call_event", nothing, "model=self.model"),
    ("names of checkpoints", names, "PREFIX_CHECKPOINT_DIR", "ckpt", "'ckpt' now"),
    (UNWRAP, trl.models, UNWRAP, nothing, "['model', 'accelerator'"),
    ("torch FSDPModule", FSDPModule, "set_reshard_after_forward", nothing, "['recurse']"),
    ("torch LRScheduler.base_lrs", SCHEDULE, "get_last_lr", lambda self: [9.0], "elsewhere"),
]


@pytest.mark.parametrize(
    ("place", "owner", "name", "other", "told"),
    SABOTAGE,
    ids=[f"{owner.__name__}.{name}" for _, owner, name, *_ in SABOTAGE],
)
def test_a_change_is_found_and_named(monkeypatch, place, owner, name, other, told):
    monkeypatch.setattr(owner, name, other)
    (sentence,) = drift([hook for hook in HOOKS if hook.name == place])
    assert sentence.startswith(f"{place}, used by rlkit.scale")
    assert told in sentence


def test_a_setting_that_is_gone(monkeypatch):
    from dataclasses import make_dataclass

    monkeypatch.setattr(trl, "GRPOConfig", make_dataclass("GRPOConfig", ["output_dir"]))
    (sentence,) = drift([hook for hook in HOOKS if hook.name == "GRPOConfig"])
    assert "num_generations" in sentence and "'output_dir'" not in sentence


def test_a_check_that_breaks_counts_as_a_change():
    def breaks():
        raise ImportError("no module")

    assert drift([Hook("x", "y", breaks)]) == [
        "x, used by y: looking at it failed with ImportError: no module"
    ]


def test_what_checks_are_made_of():
    def one(first, second):
        first = second
        return first

    assert missing_parameters(one, ["first", "third"]) == "the parameters ['third'] are gone"
    assert missing_in_source(one, ["first = second", "return first"]) is None
    order = missing_in_source(one, ["return first", "first = second"])
    assert order.startswith("'first = second' stands in another order")
