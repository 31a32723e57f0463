"""Surrogates: what stands in for the reward, token by token, so that it has a gradient.

All take a ratio and an advantage and give a loss to minimise, of the shape that both
broadcast to. At a ratio of 1 all of them have the gradient `-A * grad log p`; they
differ in what they do with a ratio that has moved away.

| name | loss | source |
|---|---|---|
| `clip` | -min(r A, clip(r) A) | PPO, 1707.06347 |
| dual clip | for A < 0 no larger than -c A | 1912.09729 |
| `cispo` | -sg(min(r, cap)) A log p | 2506.13585 |
| `sapo` | -(4 / tau) sigmoid(tau (r - 1)) A | 2511.20347 |
| `plain` | -A log p | Williams 1992 |

sg means: taken as a number, without gradient.
"""

from __future__ import annotations

import torch

SURROGATES = ("clip", "cispo", "sapo", "plain", "kl_cov")


def ppo_clip(
    ratio: torch.Tensor,
    advantage: torch.Tensor,
    low: float = 0.2,
    high: float = 0.2,
    *,
    dual: float | None = None,
    cap: float | None = None,
) -> torch.Tensor:
    """PPO's pessimistic bound: no gain from a ratio beyond `1 - low` and `1 + high`.

    Args:
        ratio: now to then.
        advantage: of the same shape, or one that broadcasts.
        low: how far the ratio may fall below 1.
        high: how far it may rise above 1; larger than `low` is DAPO's clip-higher.
        dual: where the advantage is below 0, the loss is held below `-dual * A`, so that
            one token that has become much likelier does not drown the rest.
        cap: an upper bound of the ratio in the unclipped branch (TRL's `delta`).

    >>> advantage = torch.tensor([1.0, -1.0])
    >>> ppo_clip(torch.tensor([1.5, 1.5]), advantage)
    tensor([-1.2000,  1.5000])
    >>> ppo_clip(torch.tensor([9.0, 9.0]), advantage, dual=3.0)
    tensor([-1.2000,  3.0000])
    """
    bounded = ratio.clamp(1 - low, 1 + high) * advantage
    plain = (ratio if cap is None else ratio.clamp(max=cap)) * advantage
    loss = -torch.minimum(plain, bounded)
    if dual is not None:
        loss = torch.where(advantage < 0, torch.minimum(loss, -dual * advantage), loss)
    return loss


def clipped(
    ratio: torch.Tensor,
    advantage: torch.Tensor,
    low: float = 0.2,
    high: float = 0.2,
    *,
    dual: float | None = None,
    cap: float | None = None,
) -> torch.Tensor:
    """Where `ppo_clip` takes the gradient away.

    >>> clipped(torch.tensor([1.5, 1.5]), torch.tensor([1.0, -1.0]))
    tensor([ True, False])
    """
    above = (ratio > 1 + high) & (advantage > 0)
    below = (ratio < 1 - low) & (advantage < 0)
    held = torch.zeros_like(above)
    for bound in (b for b in (dual, cap) if b is not None):
        held = held | ((ratio > bound) & (advantage < 0))
    return above | below | held


def cispo(
    logprobs: torch.Tensor, ratio: torch.Tensor, advantage: torch.Tensor, cap: float = 5.0
) -> torch.Tensor:
    """CISPO: the ratio is a weight that is truncated, and no token loses its gradient.

    >>> cispo(torch.tensor(-2.0), torch.tensor(9.0), torch.tensor(1.0), cap=5.0)
    tensor(10.)
    """
    return -ratio.clamp(max=cap).detach() * advantage * logprobs


def sapo(
    ratio: torch.Tensor,
    advantage: torch.Tensor,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
) -> torch.Tensor:
    """SAPO: a soft gate in place of a clip; the gradient fades as the ratio moves away.

    The gradient is weighted by `4 p (1 - p)` with `p = sigmoid(tau (r - 1))`, which is
    1 at r = 1.

    >>> sapo(torch.tensor(1.0), torch.tensor(1.0))  # (4 / 1) * sigmoid(0) = 2
    tensor(-2.)
    """
    tau = torch.where(advantage > 0, tau_positive, tau_negative)
    return -4 / tau * torch.sigmoid(tau * (ratio - 1)) * advantage


def score_function(logprobs: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    """REINFORCE: `-A log p`, right as long as the answers are the policy's own.

    >>> score_function(torch.tensor(-2.0), torch.tensor(0.5))
    tensor(1.)
    """
    return -advantage * logprobs


def covariance(
    logprobs_NT: torch.Tensor, advantages_NT: torch.Tensor, mask_NT: torch.Tensor
) -> torch.Tensor:
    """Each token's share in the covariance of log-probability and advantage.

    Likely tokens with high advantages are those that let the entropy fall (2505.22617).
    0 outside the mask.
    """
    mask_NT = mask_NT.bool()
    logprobs_NT, advantages_NT = logprobs_NT.detach().double(), advantages_NT.double()
    advantages_NT = advantages_NT.expand_as(logprobs_NT)
    count = mask_NT.sum().clamp(min=1)
    centred = [x - torch.where(mask_NT, x, 0.0).sum() / count for x in (logprobs_NT, advantages_NT)]
    return torch.where(mask_NT, centred[0] * centred[1], 0.0)


def top_covariance(
    logprobs_NT: torch.Tensor,
    advantages_NT: torch.Tensor,
    mask_NT: torch.Tensor,
    fraction: float = 2e-3,
) -> torch.Tensor:
    """True for the `fraction` of tokens (at least one) with the largest covariance.

    >>> logprobs = torch.tensor([[-0.1, -3.0, -3.0, -3.0]])
    >>> top_covariance(logprobs, torch.tensor([[1.0, 0.0, 0.0, 0.0]]), torch.ones(1, 4)).int()
    tensor([[1, 0, 0, 0]], dtype=torch.int32)
    """
    mask_NT = mask_NT.bool()
    count = int(mask_NT.sum())
    chosen_NT = torch.zeros_like(mask_NT)
    if not count:
        return chosen_NT
    share_NT = covariance(logprobs_NT, advantages_NT, mask_NT).masked_fill(~mask_NT, -torch.inf)
    wanted = max(1, int(fraction * count))
    chosen_NT.view(-1)[share_NT.flatten().topk(wanted).indices] = True
    return chosen_NT & mask_NT


def kl_cov(
    log_ratio: torch.Tensor,
    advantage: torch.Tensor,
    chosen: torch.Tensor,
    coefficient: float = 1.0,
) -> torch.Tensor:
    """KL-Cov: the plain ratio loss, and a pull back to the past for a few tokens.

    `-r A`, plus `coefficient * (r - 1 - log r)` where `chosen`: k3 of KL(then, now), whose
    gradient is right because the tokens were drawn from then. (The paper's code takes
    `|log r|` there.)

    Args:
        log_ratio: log of now to then.
        advantage: of the same shape, or one that broadcasts.
        chosen: from `top_covariance`.
        coefficient: weight of the pull.

    >>> kl_cov(torch.tensor(0.5), torch.tensor(1.0), torch.tensor(True))  # 1.6487 - 1.5 - 1.6487
    tensor(-1.5000)
    """
    ratio = log_ratio.exp()
    pull = torch.expm1(log_ratio) - log_ratio
    return -ratio * advantage + coefficient * torch.where(chosen, pull, 0.0)
