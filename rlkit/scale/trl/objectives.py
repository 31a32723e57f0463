"""trl_settings: an objective of ours as the settings of TRL that mean the same.

`tests/objectives/trl_parity.py` holds both sides equal to 1e-5 for every pair of settings
that is written here. What TRL cannot do is refused with the reason, never left out.

Left out: objectives without a group (PPO, Reinforce, ReinforcePlusPlus), which TRL 1.16 has no
trainer for, and RLOO, which has a trainer of its own (`trl.RLOOTrainer`).
"""

from __future__ import annotations

from typing import Any

from rlkit.errors import UserError
from rlkit.objectives import Band, Objective, SequenceMask, Truncate

#: TRL's `loss_type` for a clip, by normaliser.
_CLIPPED = {"token": "dapo", "sequence": "grpo", "constant": "dr_grpo"}
_PARTS = {"sum": "sum_then_normalize", "normalise": "normalize_then_sum"}
_OURS_ALONE = {
    "dual_clip": None,
    "kl_target": None,
    "entropy_target": None,
    "returns": "sequence",
    "eps": 1e-4,
}


def trl_settings(objective: Objective) -> dict[str, Any]:
    """Keyword arguments of `GRPOConfig` that make TRL train with this objective.

    Args:
        objective: a preset of `rlkit.objectives`, changed or not.

    Raises:
        UserError: TRL 1.16 has nothing that means the same.

    >>> from rlkit.objectives import DAPO, DrGRPO
    >>> found = trl_settings(DAPO())
    >>> found["loss_type"], found["epsilon"], found["epsilon_high"]
    ('dapo', 0.2, 0.28)
    >>> trl_settings(DrGRPO())["scale_rewards"]
    'none'
    """
    name = type(objective).__name__
    _refuse(objective, name)
    settings: dict[str, Any] = {
        "scale_rewards": objective.scale_rewards,
        "epsilon": objective.epsilon,
        "epsilon_high": objective.epsilon_high,
        "importance_sampling_level": objective.ratio,
        "beta": objective.beta,
        "use_bias_correction_kl": objective.kl_weighted,
        "entropy_coef": objective.entropy_coef,
        "top_entropy_quantile": objective.top_entropy,
        "mask_truncated_completions": objective.mask_truncated,
        # The parts that TRL normalises are its reward functions, each a part.
        "multi_objective_aggregation": _PARTS[objective.parts],
    }
    if objective.surrogate == "clip":
        settings["loss_type"] = _CLIPPED[objective.normaliser]
        settings["delta"] = objective.ratio_cap
    elif objective.surrogate == "cispo":
        # TRL reads the cap of the weight from the upper clip.
        settings |= {"loss_type": "cispo", "epsilon_high": objective.ratio_cap}
    else:
        settings |= {
            "loss_type": "sapo",
            "sapo_temperature_pos": objective.tau_positive,
            "sapo_temperature_neg": objective.tau_negative,
        }
    return settings | _correction(objective.off_policy)


def _refuse(objective: Objective, name: str) -> None:
    if not objective.needs_group or objective.baseline != "group":
        other = "; use trl.RLOOTrainer" if objective.baseline == "leave_one_out" else ""
        raise UserError(f"TRL's GRPOTrainer has no baseline {objective.baseline!r} ({name}){other}")
    if objective.scale_rewards not in ("group", "batch", "none"):
        raise UserError(
            f"TRL cannot divide rewards by {objective.scale_rewards!r} ({name}); it knows group, "
            "batch and none"
        )
    if objective.surrogate not in ("clip", "cispo", "sapo"):
        raise UserError(f"TRL has no surrogate {objective.surrogate!r} ({name})")
    if objective.ratio not in ("token", "sequence"):
        raise UserError(f"TRL has no ratio {objective.ratio!r} ({name})")
    fits = {"cispo": "token", "sapo": "sequence"}.get(objective.surrogate, objective.normaliser)
    if objective.normaliser != fits:
        raise UserError(
            f"TRL's {objective.surrogate} loss has the normaliser {fits!r}, not "
            f"{objective.normaliser!r} ({name})"
        )
    if objective.beta and (objective.kl_in != "loss" or objective.kl_estimator != "k3"):
        raise UserError(f"TRL's divergence is k3 in the loss ({name}); set beta=0 or use that")
    for field, neutral in _OURS_ALONE.items():
        if getattr(objective, field) != neutral:
            raise UserError(f"TRL has no {field}={getattr(objective, field)!r} ({name})")


def _correction(correction: Any) -> dict[str, Any]:
    """The correction for a sampler that is not quite the policy; TRL has it for vLLM alone."""
    if correction is None:
        return {"vllm_importance_sampling_correction": False}
    if isinstance(correction, Truncate):
        mode, low, high = f"{correction.level}_truncate", None, correction.cap
    elif isinstance(correction, Band):
        mode, low, high = "token_mask", correction.low, correction.high
    elif isinstance(correction, SequenceMask) and correction.level == "product":
        mode, low, high = "sequence_mask", correction.low, correction.high
    else:
        raise UserError(f"TRL has nothing like the correction {correction}")
    return {
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": mode,
        "vllm_importance_sampling_clip_min": low,
        "vllm_importance_sampling_clip_max": high,
    }
