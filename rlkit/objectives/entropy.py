"""Entropy: how undecided the policy is, a bonus for it, and the tokens where it forks.

High-entropy tokens only: Wang et al., 2506.01939. The bonus with a target follows
Skywork-OR1 (2505.22312): the coefficient takes small steps up while the entropy is at or
below the target, and down above it.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

import torch


def masked_mean(values_NT: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
    """Mean over the tokens that take part; padding never counts. 0 without tokens.

    >>> masked_mean(torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[True, True, False]]))
    tensor(1.5000)
    """
    mask_NT = mask_NT.bool()
    return torch.where(mask_NT, values_NT, 0.0).sum() / mask_NT.sum().clamp(min=1)


def sampled_entropy(logprobs_NT: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
    """Entropy estimated from what was sampled: minus the mean log-probability (nats)."""
    return -masked_mean(logprobs_NT, mask_NT)


def entropy_threshold(entropies_NT: torch.Tensor, mask_NT: torch.Tensor, fraction: float) -> float:
    """The entropy that the top `fraction` of the tokens that take part reach.

    Linear between neighbours, as `torch.quantile`. Minus infinity without tokens.
    """
    taken = entropies_NT.detach()[mask_NT.bool()].double()
    return float(taken.quantile(1 - fraction)) if taken.numel() else float("-inf")


def high_entropy_mask(
    entropies_NT: torch.Tensor, mask_NT: torch.Tensor, fraction: float
) -> torch.Tensor:
    """True for the top `fraction` of tokens by entropy, padding never among them.

    >>> entropies = torch.tensor([[1.0, 2.0, 3.0, 4.0, 0.5]])
    >>> high_entropy_mask(entropies, torch.tensor([[1, 1, 1, 1, 0]]), 0.5).int()
    tensor([[0, 0, 1, 1, 0]], dtype=torch.int32)
    """
    threshold = entropy_threshold(entropies_NT, mask_NT, fraction)
    return (entropies_NT.double() >= threshold) & mask_NT.bool()


def next_entropy_coefficient(
    coefficient: float, entropy: float, target: float, step: float, low: float, high: float
) -> float:
    """The coefficient of the bonus after a step with this entropy.

    >>> next_entropy_coefficient(0.01, entropy=0.1, target=0.2, step=0.005, low=0.0, high=1.0)
    0.015
    """
    moved = coefficient + step if entropy <= target else coefficient - step
    return min(high, max(low, moved))
