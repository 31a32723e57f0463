"""Objectives: pure functions of tensors that turn rewards into a gradient."""

from rlkit.objectives.advantages import DEAD_BELOW, alive_groups, grpo_advantages
from rlkit.objectives.grpo import GRPO
from rlkit.objectives.losses import TokenLoss, clipped_token_loss, k3, token_ratios

__all__ = [
    "DEAD_BELOW",
    "GRPO",
    "TokenLoss",
    "alive_groups",
    "clipped_token_loss",
    "grpo_advantages",
    "k3",
    "token_ratios",
]
