"""Divergence from a reference: three estimators, three places, one controller.

With d = log p(token) - log p_ref(token) for a token drawn from p (Schulman's note on
approximating KL):

| name | value | right in the mean? | gradient in the loss, on-policy |
|---|---|---|---|
| k1 | d | yes, but it jumps about | 0 in the mean: use it in the reward |
| k2 | d^2 / 2 | no, but near | that of KL(p, ref) |
| k3 | exp(-d) - 1 + d | yes, and never negative | that of KL(ref, p), unless weighted |

k3 weighted by the ratio p / p_old (that is 1 in value at the first inner step, but has a
gradient) gives the gradient of KL(p, ref) again; TRL calls it bias correction.

Left out: the exact divergence over the whole vocabulary.
"""

from __future__ import annotations

import torch

from rlkit.errors import UserError

ESTIMATORS = ("k1", "k2", "k3")


def k1(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """The plain log-ratio: right in the mean, negative at times.

    >>> k1(torch.tensor(-1.0), torch.tensor(-1.5)).item()
    0.5
    """
    return logprobs - reference_logprobs


def k2(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """Half the squared log-ratio: its gradient is right where its value is only near.

    >>> k2(torch.tensor(-1.0), torch.tensor(-1.5)).item()
    0.125
    """
    return 0.5 * (logprobs - reference_logprobs).square()


def k3(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """Schulman's low-variance estimator of KL(policy, reference), never negative.

    `exp(ref - logp) - (ref - logp) - 1`, computed with `expm1` so that it does not
    lose its digits near 0.

    >>> round(k3(torch.tensor(-1.0), torch.tensor(-1.5)).item(), 6)
    0.106531
    """
    difference = reference_logprobs - logprobs
    return torch.expm1(difference) - difference


def divergence(name: str, logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """The estimator of that name.

    Raises:
        UserError: there is none of that name.
    """
    if name not in ESTIMATORS:
        raise UserError(f"unknown estimator {name!r}; choose {', '.join(ESTIMATORS)}")
    return {"k1": k1, "k2": k2, "k3": k3}[name](logprobs, reference_logprobs)


def next_beta(beta: float, kl: float, target: float, count: int, horizon: int) -> float:
    """The adaptive controller: raises beta while the divergence is above its target.

    `beta * (1 + clip(kl / target - 1, -0.2, 0.2) * count / horizon)` (Ziegler et al.,
    1909.08593, section 2.2).

    Args:
        beta: the weight now.
        kl: divergence measured in this step.
        target: divergence that is wanted, above 0.
        count: rollouts of this step.
        horizon: rollouts over which beta may change by a fifth.

    >>> next_beta(0.1, kl=0.2, target=0.1, count=100, horizon=1000)
    0.10200000000000001
    """
    error = min(0.2, max(-0.2, kl / target - 1))
    return beta * (1 + error * min(1.0, count / horizon))
