"""Token losses: ratio, clip, normaliser, and the k3 divergence.

The clipped surrogate is PPO's (Schulman et al., 1707.06347); k3 is Schulman's
low-variance estimator of KL. Every sum uses one mask for numerator and
denominator, and the token mean runs over the whole batch of an update, however
many micro-batches it is split into.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class TokenLoss:
    """The loss of some rollouts, and what happened on the way.

    Attributes:
        loss: scalar with gradient: the sum over tokens divided by `total_tokens`.
        sums: plain sums over these tokens (`clipped`, `kl`, `entropy`, `tokens`,
            `nonfinite_ratio`), so that micro-batches add up exactly.
        max_ratio_error: largest |ratio - 1| among these tokens.
    """

    loss: torch.Tensor
    sums: dict[str, float]
    max_ratio_error: float


def token_ratios(
    logprobs_NT: torch.Tensor, behaviour_NT: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Probability ratio of now to then, token by token, and where it is neutral.

    A behaviour log-probability that is not finite says nothing about the past; its
    token gets the neutral ratio 1 with no gradient and is counted.

    Returns:
        ratio_NT, and unknown_NT: where the ratio had to be set to 1.
    """
    unknown_NT = ~torch.isfinite(behaviour_NT)
    safe_NT = torch.where(unknown_NT, logprobs_NT.detach(), behaviour_NT)
    ratio_NT = torch.exp(logprobs_NT - safe_NT)
    return torch.where(unknown_NT, torch.ones_like(ratio_NT), ratio_NT), unknown_NT


def k3(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """Schulman's k3 estimator of KL(policy || reference), never negative.

    `exp(ref - logp) - (ref - logp) - 1`, computed with `expm1` so that it does not
    lose its digits near 0.

    >>> round(k3(torch.tensor(-1.0), torch.tensor(-1.5)).item(), 6)
    0.106531
    """
    difference = reference_logprobs - logprobs
    return torch.expm1(difference) - difference


def clipped_token_loss(
    logprobs_NT: torch.Tensor,
    behaviour_NT: torch.Tensor,
    advantages_N: torch.Tensor,
    mask_NT: torch.Tensor,
    *,
    total_tokens: int,
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
    beta: float = 0.0,
    reference_NT: torch.Tensor | None = None,
) -> TokenLoss:
    """PPO's clipped surrogate with a token mean, and k3 against a reference.

    `-min(ratio * A, clip(ratio, 1 - epsilon, 1 + epsilon_high) * A) + beta * k3`,
    summed over the masked tokens and divided by `total_tokens`.

    Args:
        logprobs_NT: log-probabilities now, with gradient.
        behaviour_NT: log-probabilities when the tokens were drawn.
        advantages_N: one advantage a rollout, for all of its tokens.
        mask_NT: true where a token takes part.
        total_tokens: masked tokens of the whole update, other micro-batches included.
        epsilon: how far the ratio may fall below 1.
        epsilon_high: how far it may rise above 1; `epsilon` when not given.
        beta: weight of the divergence; 0 leaves it out.
        reference_NT: the reference's log-probabilities; needed when beta is not 0.

    Raises:
        ValueError: beta is not 0 and there is no reference.
    """
    if beta and reference_NT is None:
        raise ValueError("beta is not 0, so reference_NT is needed")
    high = epsilon if epsilon_high is None else epsilon_high
    ratio_NT, unknown_NT = token_ratios(logprobs_NT, behaviour_NT)
    advantage_N1 = advantages_N[:, None]
    plain_NT = ratio_NT * advantage_N1
    bounded_NT = ratio_NT.clamp(1 - epsilon, 1 + high) * advantage_N1
    loss_NT = -torch.minimum(plain_NT, bounded_NT)
    sums = {
        "tokens": float(mask_NT.sum()),
        # The clip acts only where it takes the gradient away.
        "clipped": float(((bounded_NT < plain_NT) & mask_NT).sum()),
        "nonfinite_ratio": float((unknown_NT & mask_NT).sum()),
    }
    if reference_NT is not None:
        divergence_NT = k3(logprobs_NT, reference_NT)
        sums["kl"] = float(torch.where(mask_NT, divergence_NT.detach(), 0.0).sum())
        if beta:
            loss_NT = loss_NT + beta * divergence_NT
    error_NT = torch.where(mask_NT, ratio_NT.detach() - 1, 0.0).abs()
    loss = torch.where(mask_NT, loss_NT, 0.0).sum() / max(1, total_tokens)
    return TokenLoss(loss, sums, float(error_NT.max()) if error_NT.numel() else 0.0)
