"""Advantages: how much better an answer was than its baseline.

Sources: GRPO (Shao et al., 2402.03300), RLOO (Ahmadian et al., 2402.14740), Dr. GRPO
(Liu et al., 2503.20783), GDPO (2601.05242), MaxRL (2602.02710). Three rules come from
public bug reports: a group whose rewards are all equal has no signal, whatever a
floating-point residue says; a row without a verdict stays out of mean and deviation;
deviations are Bessel-corrected. All sums are taken in float64.

Left out: baselines weighted by length, the greedy answer as a baseline, set-level
rewards such as pass@k.

Axes: B problems, G rollouts a problem, K parts of a reward.
"""

from __future__ import annotations

import warnings

import torch

from rlkit.errors import UserError

#: A group whose rewards differ by no more than this carries no signal.
DEAD_BELOW = 1e-6
#: What an answer can be compared with.
BASELINES = ("group", "leave_one_out", "running", "none", "value")
#: What an advantage can be divided by.
SCALES = ("group", "batch", "mean", "none", "whiten")


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


def group_advantages(
    rewards_BG: torch.Tensor,
    *,
    baseline: str = "group",
    scale: str = "group",
    eps: float = 1e-4,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rewards minus a baseline from their own group, divided by a scale.

    | baseline | what is taken off |
    |---|---|
    | `group` | the mean of the group |
    | `leave_one_out` | the mean of the others in the group (RLOO) |

    | scale | what it is divided by |
    |---|---|
    | `group` | the deviation of the group, plus `eps` (GRPO) |
    | `batch` | the deviation of all rewards in the batch, plus `eps` |
    | `mean` | the mean of the group, plus `eps` (MaxRL) |
    | `none` | nothing (Dr. GRPO, RLOO) |

    Rows without a verdict (NaN) get advantage 0 and stay out of every mean and
    deviation; so does every row of a group without contrast get advantage 0.

    Args:
        rewards_BG: rewards, NaN where there is no verdict.
        baseline: `group` or `leave_one_out`.
        scale: `group`, `batch`, `mean` or `none`.
        eps: added to what is divided by.

    Returns:
        advantages_BG in float32, and alive_B: which groups carry a signal.

    Raises:
        UserError: an unknown baseline or scale, or `mean` for rewards below 0.

    >>> rewards_BG = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    >>> group_advantages(rewards_BG, baseline="leave_one_out", scale="none")[0][0, 0].item()
    1.0
    """
    if baseline not in ("group", "leave_one_out"):
        raise UserError(f"baseline must be 'group' or 'leave_one_out', not {baseline!r}")
    if scale not in ("group", "batch", "mean", "none"):
        raise UserError(f"scale must be 'group', 'batch', 'mean' or 'none', not {scale!r}")
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
    advantages_BG = centred_BG
    if baseline == "leave_one_out":
        # r_i - mean of the others = n / (n - 1) (r_i - mean of all)
        advantages_BG = centred_BG * count_B1 / (count_B1 - 1).clamp(min=1)
    if scale == "group":
        variance_B1 = centred_BG.square().sum(-1, keepdim=True) / (count_B1 - 1).clamp(min=1)
        advantages_BG = advantages_BG / (variance_B1.sqrt() + eps)
    elif scale == "batch":
        advantages_BG = advantages_BG / (_deviation(rewards_BG[known_BG]) + eps)
    elif scale == "mean":
        if bool((mean_B1 < 0).any()):
            raise UserError(
                "scale='mean' divides by the group's mean reward, which is below 0 here; use "
                "rewards from 0 upwards, such as 0 and 1"
            )
        advantages_BG = advantages_BG / (mean_B1 + eps)
    return torch.where(alive_B[:, None], advantages_BG, 0.0).float(), alive_B


def _deviation(values: torch.Tensor) -> torch.Tensor:
    """Bessel-corrected deviation of a flat tensor; 0 for fewer than two values."""
    return values.std() if values.numel() > 1 else values.new_zeros(())


def grpo_advantages(
    rewards_BG: torch.Tensor, eps: float = 1e-4, scale: str = "group"
) -> tuple[torch.Tensor, torch.Tensor]:
    """GRPO's group-normalised advantages: `(r - mean) / (std + eps)`.

    Args:
        rewards_BG: rewards, NaN where there is no verdict.
        eps: added to the standard deviation.
        scale: see `group_advantages`; `none` is Dr. GRPO's.

    Returns:
        advantages_BG in float32, and alive_B: which groups carry a signal.

    Raises:
        UserError: an unknown scale.

    >>> advantages_BG, _ = grpo_advantages(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    >>> [round(a, 4) for a in advantages_BG[0].tolist()]
    [1.4997, -0.4999, -0.4999, -0.4999]
    """
    return group_advantages(rewards_BG, scale=scale, eps=eps)


def rloo_advantages(rewards_BG: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """RLOO's: each reward minus the mean of the others in its group.

    Returns:
        advantages_BG in float32, and alive_B.

    >>> rloo_advantages(torch.tensor([[1.0, 0.0, 0.5]]))[0]
    tensor([[ 0.7500, -0.7500,  0.0000]])
    """
    return group_advantages(rewards_BG, baseline="leave_one_out", scale="none")


def maxrl_advantages(
    rewards_BG: torch.Tensor, eps: float = 1e-4
) -> tuple[torch.Tensor, torch.Tensor]:
    """MaxRL's: `(r - mean) / mean`, so that a rare success weighs as much as it is rare.

    For rewards 0 and 1 its mean approaches the gradient of the log of the pass rate,
    where GRPO's follows the pass rate itself.

    Returns:
        advantages_BG in float32, and alive_B.

    Raises:
        UserError: a group's mean reward is below 0.
    """
    return group_advantages(rewards_BG, scale="mean", eps=eps)


def gdpo_advantages(
    parts_BGK: torch.Tensor, weights_K: torch.Tensor | None = None, eps: float = 1e-4
) -> tuple[torch.Tensor, torch.Tensor]:
    """GDPO's: each part is normalised over its group, then summed, then whitened.

    Summing first lets two answers with different parts look alike when their totals
    agree; normalising first keeps each part's own contrast.

    Args:
        parts_BGK: K parts of each reward, NaN where a part abstains. A row of which
            every part abstains gets advantage 0 and stays out of all means.
        weights_K: weight of each part, 1 when not given.
        eps: added to each deviation.

    Returns:
        advantages_BG in float32, and alive_B: groups in which some part has contrast.

    >>> parts = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    >>> [round(a, 3) for a in gdpo_advantages(parts)[0][0].tolist()]
    [0.577, 0.577, -1.155]
    """
    parts_BGK = parts_BGK.double()
    known_BGK = torch.isfinite(parts_BGK)
    weights_K = parts_BGK.new_ones(parts_BGK.shape[-1]) if weights_K is None else weights_K.double()
    normal_BGK = torch.zeros_like(parts_BGK)
    alive_B = torch.zeros(len(parts_BGK), dtype=torch.bool)
    for k in range(parts_BGK.shape[-1]):
        # Kept in float64: the whitening below would otherwise blow up a rounding residue.
        normal_BGK[..., k], alive_k = _normalised(parts_BGK[..., k], eps)
        alive_B |= alive_k
    total_BG = (normal_BGK * weights_K).sum(-1)
    scored_BG = known_BGK.any(-1)
    known = total_BG[scored_BG]
    if known.numel() < 2 or float(known.max() - known.min()) <= DEAD_BELOW:
        return torch.zeros_like(total_BG).float(), torch.zeros_like(alive_B)
    whitened_BG = (total_BG - known.mean()) / (_deviation(known) + eps)
    return whitened_BG.masked_fill(~scored_BG, 0.0).float(), alive_B


def _normalised(rewards_BG: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    known_BG = torch.isfinite(rewards_BG)
    alive_B = alive_groups(rewards_BG)
    count_B1 = known_BG.sum(-1, keepdim=True)
    filled_BG = rewards_BG.masked_fill(~known_BG, 0.0)
    centred_BG = filled_BG - filled_BG.sum(-1, keepdim=True) / count_B1.clamp(min=1)
    centred_BG = centred_BG.masked_fill(~known_BG, 0.0)
    variance_B1 = centred_BG.square().sum(-1, keepdim=True) / (count_B1 - 1).clamp(min=1)
    return torch.where(alive_B[:, None], centred_BG / (variance_B1.sqrt() + eps), 0.0), alive_B


def running_advantages(
    rewards_BG: torch.Tensor, baseline: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """REINFORCE's: each reward minus a number that was known before it was drawn.

    Works for groups of one. Before anything is known (`None`) the mean of this batch
    stands in; see `next_baseline` for what follows.

    Args:
        rewards_BG: rewards, NaN where there is no verdict.
        baseline: running mean of earlier rewards, or `None`.

    Returns:
        advantages_BG in float32, and alive_B: groups with an advantage that is not 0.

    >>> running_advantages(torch.tensor([[1.0], [0.0]]), 0.25)[0]
    tensor([[ 0.7500],
            [-0.2500]])
    """
    rewards_BG = rewards_BG.double()
    known_BG = torch.isfinite(rewards_BG)
    if baseline is None:
        known = rewards_BG[known_BG]
        baseline = float(known.mean()) if known.numel() else 0.0
    advantages_BG = (rewards_BG - baseline).masked_fill(~known_BG, 0.0)
    advantages_BG = torch.where(advantages_BG.abs() > DEAD_BELOW, advantages_BG, 0.0)
    return advantages_BG.float(), (advantages_BG != 0).any(-1)


def next_baseline(baseline: float | None, rewards_BG: torch.Tensor, decay: float) -> float | None:
    """The running mean after one more batch; unchanged by a batch without verdicts.

    >>> next_baseline(0.5, torch.tensor([[1.0, 0.0], [1.0, 1.0]]), decay=0.9)
    0.525
    """
    known = rewards_BG.double()[torch.isfinite(rewards_BG)]
    if not known.numel():
        return baseline
    mean = float(known.mean())
    return mean if baseline is None else decay * baseline + (1 - decay) * mean
