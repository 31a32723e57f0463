"""GRPO as one frozen object: an advantage estimator, a token loss, a normaliser."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from rlkit.objectives.advantages import grpo_advantages
from rlkit.objectives.losses import TokenLoss, clipped_token_loss


@dataclass(frozen=True)
class GRPO:
    """Group-relative policy optimisation (2402.03300), with the token mean of DAPO.

    Attributes:
        epsilon: clip range below 1; lower it when the policy jumps about.
        epsilon_high: clip range above 1; raise it when the entropy falls too fast.
        beta: weight of k3 against the reference; raise it when the policy drifts.
        scale_rewards: `group` or `none`; `none` when easy groups pull too hard.
        eps: added to the group's deviation.
    """

    epsilon: float = 0.2
    epsilon_high: float | None = None
    beta: float = 0.0
    scale_rewards: str = "group"
    eps: float = 1e-4

    #: The baseline is the group's mean, so a group needs two rollouts at least.
    needs_group = True

    def advantages(self, rewards_BG: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Advantages of shape (B, G) and which of the B groups carry a signal."""
        return grpo_advantages(rewards_BG, self.eps, self.scale_rewards)

    def loss(
        self,
        logprobs_NT: torch.Tensor,
        behaviour_NT: torch.Tensor,
        advantages_N: torch.Tensor,
        mask_NT: torch.Tensor,
        *,
        total_tokens: int,
        reference_NT: torch.Tensor | None = None,
    ) -> TokenLoss:
        """The clipped token loss of these rollouts; see `clipped_token_loss`."""
        return clipped_token_loss(
            logprobs_NT,
            behaviour_NT,
            advantages_N,
            mask_NT,
            total_tokens=total_tokens,
            epsilon=self.epsilon,
            epsilon_high=self.epsilon_high,
            beta=self.beta,
            reference_NT=reference_NT,
        )

    def describe(self) -> dict[str, Any]:
        """What a run's `config.json` keeps of the objective."""
        return {"name": type(self).__name__, **asdict(self)}
