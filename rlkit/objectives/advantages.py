"""Advantages: how much better an answer was than its group.

GRPO's group-normalised advantage (Shao et al., 2402.03300), with the three rules
that public bug reports teach: a group whose rewards are all equal has no signal,
whatever a floating-point residue says; a row without a verdict stays out of mean
and deviation; the deviation is Bessel-corrected.

Axes: B problems, G rollouts a problem.
"""

from __future__ import annotations

import warnings

import torch

#: A group whose rewards differ by no more than this carries no signal.
DEAD_BELOW = 1e-6


def alive_groups(rewards_BG: torch.Tensor) -> torch.Tensor:
    """Which groups have contrast: at least two verdicts that differ.

    Args:
        rewards_BG: rewards, NaN where there is no verdict.

    Returns:
        alive_B, boolean.

    >>> alive_groups(torch.tensor([[0.7, 0.7], [1.0, 0.0], [1.0, float("nan")]]))
    tensor([False,  True, False])
    """
    known_BG = torch.isfinite(rewards_BG)
    high_B = rewards_BG.masked_fill(~known_BG, -torch.inf).amax(-1)
    low_B = rewards_BG.masked_fill(~known_BG, torch.inf).amin(-1)
    return (known_BG.sum(-1) >= 2) & (high_B - low_B > DEAD_BELOW)


def grpo_advantages(
    rewards_BG: torch.Tensor, eps: float = 1e-4, scale: str = "group"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Group-normalised advantages: `(r - mean) / (std + eps)`.

    Computed in float64, so that equal rewards cannot leave a residue that the
    division blows up. Rows without a verdict (NaN) get advantage 0 and stay out
    of mean and deviation; so does every row of a group without contrast.

    Args:
        rewards_BG: rewards, NaN where there is no verdict.
        eps: added to the standard deviation.
        scale: `group` divides by the group's Bessel-corrected deviation, `none`
            does not divide (Dr. GRPO, 2503.20783).

    Returns:
        advantages_BG in float32, and alive_B: which groups carry a signal.

    Raises:
        ValueError: `scale` is neither `group` nor `none`.

    >>> advantages_BG, _ = grpo_advantages(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    >>> [round(a, 4) for a in advantages_BG[0].tolist()]
    [1.4997, -0.4999, -0.4999, -0.4999]
    """
    if scale not in ("group", "none"):
        raise ValueError(f"scale must be 'group' or 'none', not {scale!r}")
    if rewards_BG.shape[-1] == 1:
        warnings.warn(
            "a group of one has no baseline but itself: every advantage is 0 and nothing is "
            "learned; use group_size >= 2",
            stacklevel=2,
        )
    rewards_BG = rewards_BG.double()
    known_BG = torch.isfinite(rewards_BG)
    alive_B = alive_groups(rewards_BG)
    count_B1 = known_BG.sum(-1, keepdim=True)
    filled_BG = rewards_BG.masked_fill(~known_BG, 0.0)
    mean_B1 = filled_BG.sum(-1, keepdim=True) / count_B1.clamp(min=1)
    centred_BG = (filled_BG - mean_B1).masked_fill(~known_BG, 0.0)
    if scale == "group":
        variance_B1 = centred_BG.square().sum(-1, keepdim=True) / (count_B1 - 1).clamp(min=1)
        centred_BG = centred_BG / (variance_B1.sqrt() + eps)
    return torch.where(alive_B[:, None], centred_BG, 0.0).float(), alive_B
