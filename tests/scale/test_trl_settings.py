"""trl_settings: our objectives as TRL's settings, the same that the parity test compares."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from trl import GRPOConfig

from rlkit.errors import UserError
from rlkit.objectives import (
    CISPO,
    DAPO,
    GDPO,
    GRPO,
    GSPO,
    PPO,
    RLOO,
    SAPO,
    DrGRPO,
    KLCov,
    MaxRL,
    Reinforce,
    ReinforcePlusPlus,
    SequenceMask,
    Truncate,
)
from rlkit.scale.trl import trl_settings


def _pairs():
    """The pairs of `tests/objectives/trl_parity.py`: equal to 1e-5 in loss and gradient."""
    file = Path(__file__).parents[1] / "objectives" / "trl_parity.py"
    spec = importlib.util.spec_from_file_location("trl_parity_for_scale", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return [p for p in module.PAIRS if p.kind == "grpo" and p.advantages is None]


#: TRL's names on the trainer, where its config has others.
_CONFIG_NAMES = {"epsilon_low": "epsilon"}
_TRAINER_ONLY = ("_entropy_bonus_enabled", "use_vllm")


@pytest.mark.parametrize("pair", _pairs(), ids=lambda pair: pair.name)
def test_they_are_the_settings_that_parity_was_shown_for(pair):
    made = trl_settings(pair.objective)
    defaults = {f.name: f.default for f in fields(GRPOConfig)}
    for name, wanted in pair.trl.items():
        name = _CONFIG_NAMES.get(name, name)
        if name in _TRAINER_ONLY:
            continue
        got = made.get(name, defaults.get(name))
        if name == "epsilon_high" and got is None:  # TRL takes epsilon then
            got = made["epsilon"]
        if name == "epsilon" and pair.objective.surrogate != "clip":
            continue  # unused
        if name == "loss_type" and (got, wanted) == ("dapo", "bnpo"):
            continue  # of a whole batch they mean the same
        assert got == wanted, name


def test_grpoconfig_takes_them_all(tmp_path):
    for preset in (GRPO(), DrGRPO(), DAPO(), GSPO(), CISPO(), SAPO(), GDPO()):
        made = trl_settings(preset)
        args = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to=[], **made)
        assert all(getattr(args, name) == value for name, value in made.items())
    assert trl_settings(GDPO())["multi_objective_aggregation"] == "normalize_then_sum"


@pytest.mark.parametrize(
    ("objective", "told"),
    [
        (RLOO(), "use trl.RLOOTrainer"),
        (PPO(), "no baseline 'value'"),
        (Reinforce(), "no baseline 'running'"),
        (ReinforcePlusPlus(), "no baseline 'none'"),
        (MaxRL(), "cannot divide rewards by 'mean'"),
        (KLCov(), "no surrogate 'kl_cov'"),
        (GRPO(dual_clip=3.0), "no dual_clip=3.0"),
        (GRPO(beta=0.1, kl_estimator="k2"), "divergence is k3"),
        (GRPO(beta=0.1, kl_target=0.1), "no kl_target=0.1"),
        (CISPO(normaliser="sequence"), "cispo loss has the normaliser 'token'"),
        (GRPO(off_policy=SequenceMask(level="sequence")), "nothing like the correction"),
    ],
)
def test_what_trl_cannot_do_is_refused(objective, told):
    with pytest.raises(UserError, match=told):
        trl_settings(objective)


def test_a_correction_is_given_to_trl_for_its_server():
    made = trl_settings(GRPO(off_policy=Truncate(2.0, "sequence")))
    assert made["vllm_importance_sampling_mode"] == "sequence_truncate"
    assert made["vllm_importance_sampling_clip_max"] == 2.0
    assert trl_settings(GRPO())["vllm_importance_sampling_correction"] is False
