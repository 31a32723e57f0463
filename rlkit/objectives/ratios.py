"""Ratios: how much likelier a token, or an answer, is now than it was then.

Three levels: `token` (PPO, GRPO), `sequence`, the geometric mean over an answer's tokens
(GSPO, 2507.18071), and `product`, the probability of the whole answer (RLOO).

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

import torch

from rlkit.errors import UserError

LEVELS = ("token", "sequence", "product")


def log_ratios(
    logprobs_NT: torch.Tensor, behaviour_NT: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log of the ratio of now to then, token by token, and where it is neutral.

    A behaviour log-probability that is not finite says nothing about the past; its
    token gets a log-ratio of 0 without gradient.

    Returns:
        log_ratio_NT, and unknown_NT: where it had to be set to 0.
    """
    unknown_NT = ~torch.isfinite(behaviour_NT)
    safe_NT = torch.where(unknown_NT, logprobs_NT.detach(), behaviour_NT)
    difference_NT = logprobs_NT - safe_NT
    return torch.where(unknown_NT, torch.zeros_like(difference_NT), difference_NT), unknown_NT


def token_ratios(
    logprobs_NT: torch.Tensor, behaviour_NT: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Probability ratio of now to then, token by token, and where it is neutral.

    Returns:
        ratio_NT, and unknown_NT: where the ratio had to be set to 1.
    """
    log_NT, unknown_NT = log_ratios(logprobs_NT, behaviour_NT)
    return log_NT.exp(), unknown_NT


def ratios(log_ratio_NT: torch.Tensor, mask_NT: torch.Tensor, level: str) -> torch.Tensor:
    """The ratio at a level, from log-ratios of tokens.

    Args:
        log_ratio_NT: from `log_ratios`.
        mask_NT: true where a token takes part; others count for nothing in an answer.
        level: `token`, `sequence` or `product`.

    Returns:
        ratio of shape (N, T) for `token`, else (N, 1).

    Raises:
        UserError: an unknown level.

    >>> log_ratio = torch.tensor([[0.1, 0.1, -0.3]])
    >>> ratios(log_ratio, torch.ones(1, 3, dtype=torch.bool), "sequence")
    tensor([[0.9672]])
    """
    if level == "token":
        return log_ratio_NT.exp()
    mask_NT = mask_NT.bool()
    total_N1 = torch.where(mask_NT, log_ratio_NT, 0.0).sum(-1, keepdim=True)
    if level == "sequence":
        return (total_N1 / mask_NT.sum(-1, keepdim=True).clamp(min=1)).exp()
    if level == "product":
        return total_N1.exp()
    raise UserError(f"unknown level {level!r} of the ratio; choose {', '.join(LEVELS)}")
