"""A walk: several updates on one frozen batch, and where every token's ratio is on the way.

PPO (1707.06347) takes several optimizer steps on the same answers. At the first of them each
ratio, now to then, is 1. With each further one the policy moves away from the one that drew
the answers, and the clip takes the gradient of tokens away that have moved far enough.

Whether a token has a gradient is not derived from the walls but measured: the loss is
differentiated by its log-probability. The policy is put back at the end.

Left out: a value head; all tokens of an answer share one advantage here.

Axes: B problems, G answers a problem, N = B x G, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from rlkit.loop.optimizers import build_optimizer
from rlkit.loop.state import untouched
from rlkit.loop.update import clip_gradients
from rlkit.objectives import GRPO, Objective, ratios
from rlkit.policy.value_head import parameter_groups

if TYPE_CHECKING:
    from rlkit.policy import Policy, Rollout

#: Walls so far away that no ratio reaches them.
NO_WALLS = 1e9


@dataclass(frozen=True)
class Place:
    """Where the tokens of a batch are after some updates on it.

    Attributes:
        updates: optimizer steps taken so far.
        ratios: of each token, or of the answer it is in where that is what is clipped.
        silent: whether the loss has no gradient by the token's log-probability.
        dead: whether its advantage is 0, so that it never had one.
        kl: divergence of the policy now from the one that drew, nats a token, by k3.
    """

    updates: int
    ratios: tuple[float, ...]
    silent: tuple[bool, ...]
    dead: tuple[bool, ...]
    kl: float

    @property
    def silent_share(self) -> float:
        """Share of tokens without gradient, for whatever reason."""
        return sum(self.silent) / len(self.silent)

    @property
    def held_share(self) -> float:
        """Share of tokens whose gradient the clip took away."""
        held = sum(s and not d for s, d in zip(self.silent, self.dead, strict=True))
        return held / len(self.silent)

    def outside(self, low: float, high: float) -> float:
        """Share of tokens whose ratio is below `1 - low` or above `1 + high`."""
        return sum(not 1 - low <= r <= 1 + high for r in self.ratios) / len(self.ratios)


def clip_objective(low: float, high: float, level: str = "token") -> Objective:
    """GRPO with these walls; for whole answers the mean of each answer first, as in GSPO.

    >>> from rlkit.objectives import GSPO
    >>> clip_objective(3e-4, 4e-4, "sequence").difference(GSPO())
    {}
    """
    normaliser = "token" if level == "token" else "sequence"
    return GRPO(epsilon=low, epsilon_high=high, ratio=level, normaliser=normaliser)


def walk(
    policy: Policy,
    rollouts: Sequence[Rollout],
    rewards_BG: torch.Tensor,
    objective: Objective,
    updates: int,
    learning_rate: float,
    max_grad_norm: float = 1.0,
) -> list[Place]:
    """Takes `updates` optimizer steps on a batch, and gives `updates + 1` places.

    Args:
        policy: as it was when it drew the batch, for ratios that begin at 1; put back.
        rollouts: N answers, group after group.
        rewards_BG: what each was worth.
        objective: without a value head, and without a divergence.
        updates: optimizer steps.
        learning_rate, max_grad_norm: of AdamW, as in `LoopConfig`.
    """
    advantages_N = objective.advantages(rewards_BG)[0].flatten()
    places: list[Place] = []
    with untouched(policy):
        optimizer = build_optimizer("adamw", parameter_groups(policy), learning_rate, 0.0)
        weights = list(policy.trainable().values())
        for number in range(updates + 1):
            scored = policy.score(rollouts)
            found = objective.loss(
                scored.logprobs_NT, scored.behaviour_NT, advantages_N, scored.mask_NT
            )
            # A value head, where there is one, has no part in this loss.
            pull_NT, *by_weight = torch.autograd.grad(
                found.loss, [scored.logprobs_NT, *weights], allow_unused=True
            )
            places.append(_place(number, scored, advantages_N, pull_NT, objective.ratio))
            if number == updates:
                break
            for weight, gradient in zip(weights, by_weight, strict=True):
                weight.grad = gradient
            clip_gradients(policy, max_grad_norm)
            optimizer.step()
    return places


def _place(number: int, scored, advantages_N, pull_NT: torch.Tensor, level: str) -> Place:
    mask_NT = scored.mask_NT
    log_ratio_NT = torch.where(mask_NT, scored.logprobs_NT.detach() - scored.behaviour_NT, 0.0)
    ratio_NT = ratios(log_ratio_NT, mask_NT, level).expand_as(log_ratio_NT)
    # Drawn by the policy then: E[ratio - 1 - log ratio] is how far now is from then.
    gap = log_ratio_NT[mask_NT].double()
    dead_NT = (advantages_N == 0)[:, None].expand_as(mask_NT)
    return Place(
        number,
        tuple(ratio_NT[mask_NT].tolist()),
        tuple((pull_NT == 0)[mask_NT].tolist()),
        tuple(dead_NT[mask_NT].tolist()),
        float((torch.expm1(gap) - gap).mean()),
    )
