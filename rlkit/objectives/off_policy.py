"""Off-policy: when what was sampled does not quite come from the policy that learns.

The sampler may be older, quantised, merged or in another precision. With p_prox the
policy at the start of the update (recomputed by the learner) and mu the sampler,
`w = p_prox / mu` says how far they are apart; it never has a gradient.

| correction | weight of a token | source |
|---|---|---|
| `Truncate(cap)` | min(w, cap) | TIS |
| `Truncate(cap, level="sequence")` | min(prod w, cap) | TIS over the answer |
| `Truncate(None)` | w | decoupled PPO, 2505.24298 |
| `Band(low, high)` | w within the band, else 0 | IcePop |
| `SequenceMask(low, high)` | prod w within, else 0 for the answer | masked sampling |

With a correction the ratio of the loss is taken against p_prox, not against mu.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rlkit.errors import UserError
from rlkit.objectives.ratios import log_ratios, ratios
from rlkit.objectives.surrogates import ppo_clip


@dataclass(frozen=True)
class Truncate:
    """Truncated importance sampling; without a cap it is decoupled PPO's plain weight.

    Attributes:
        cap: largest weight, or `None` for no bound.
        level: `token`, or `sequence` for the probability of the whole answer.
    """

    cap: float | None = 2.0
    level: str = "token"

    def __post_init__(self) -> None:
        _check_level(self.level, ("token", "sequence"))
        if self.cap is not None and self.cap <= 0:
            raise UserError(f"the cap of a weight must be above 0, not {self.cap}")

    def weights(self, log_weight_NT: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
        """Weights of shape (N, T) or (N, 1)."""
        level = "token" if self.level == "token" else "product"
        weight = ratios(log_weight_NT.detach(), mask_NT, level)
        return weight if self.cap is None else weight.clamp(max=self.cap)


@dataclass(frozen=True)
class Band:
    """IcePop: tokens whose weight leaves the band are dropped, the others keep it.

    Attributes:
        low: least weight that is kept.
        high: largest weight that is kept.
    """

    low: float = 0.5
    high: float = 5.0

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)

    def weights(self, log_weight_NT: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
        """Weights of shape (N, T)."""
        weight_NT = log_weight_NT.detach().exp()
        return torch.where((weight_NT >= self.low) & (weight_NT <= self.high), weight_NT, 0.0)


@dataclass(frozen=True)
class SequenceMask:
    """Answers whose weight leaves the bounds are dropped whole.

    Attributes:
        low: least weight that is kept.
        high: largest weight that is kept.
        level: `product` over the tokens, or `sequence` for their geometric mean.
    """

    low: float = 0.0
    high: float = 3.0
    level: str = "product"

    def __post_init__(self) -> None:
        _check_level(self.level, ("product", "sequence"))
        _check_bounds(self.low, self.high)

    def weights(self, log_weight_NT: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
        """Weights of shape (N, 1)."""
        weight_N1 = ratios(log_weight_NT.detach(), mask_NT, self.level)
        return torch.where((weight_N1 >= self.low) & (weight_N1 <= self.high), weight_N1, 0.0)


#: Any of the corrections.
Correction = Truncate | Band | SequenceMask


def decoupled_clip(
    logprobs_NT: torch.Tensor,
    proximal_NT: torch.Tensor,
    behaviour_NT: torch.Tensor,
    advantages: torch.Tensor,
    low: float = 0.2,
    high: float = 0.2,
) -> torch.Tensor:
    """Decoupled PPO, token by token: `w * clip loss`, the clip around the proximal policy.

    PPO's clip around an old sampler would leave no room to move; here the sampler only
    weighs, and the trust region is where the update began.
    """
    weight_NT = log_ratios(proximal_NT.detach(), behaviour_NT)[0].exp()
    ratio_NT = (logprobs_NT - proximal_NT.detach()).exp()
    return weight_NT * ppo_clip(ratio_NT, advantages, low, high)


def effective_sample_size(weights: torch.Tensor) -> float | None:
    """How many equally weighted samples these are worth, as a share: 1 all, 1/n one.

    `(sum w)^2 / (n sum w^2)`; `None` where no weight is above 0.

    >>> effective_sample_size(torch.tensor([1.0, 1.0, 0.0, 0.0]))
    0.5
    """
    weights = weights.double().flatten()
    squares = float(weights.square().sum())
    return float(weights.sum()) ** 2 / (weights.numel() * squares) if squares else None


def mismatch_kl(log_weight: torch.Tensor) -> torch.Tensor:
    """k3 of KL(sampler, learner), token by token: `w - log w - 1`, never negative.

    >>> round(mismatch_kl(torch.tensor(0.5)).item(), 4)  # 1.6487 - 0.5 - 1
    0.1487
    """
    return torch.expm1(log_weight) - log_weight


def _check_level(level: str, known: tuple[str, ...]) -> None:
    if level not in known:
        raise UserError(f"level must be {' or '.join(map(repr, known))}, not {level!r}")


def _check_bounds(low: float, high: float) -> None:
    if not 0 <= low < high:
        raise UserError(f"the bounds of a weight must rise from 0: low={low}, high={high}")
