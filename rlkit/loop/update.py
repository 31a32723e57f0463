"""The update: score, check the ratio, backward, clip, ask the monitor, step.

Groups without contrast have advantage 0 and are left out of the backward pass;
they are scored without gradient, so that entropy is that of the whole batch.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from rlkit.loop.config import LoopConfig
from rlkit.loop.metrics import Batch
from rlkit.monitor import Intervention
from rlkit.policy import Policy, Rollout


class RatioMismatch(RuntimeError):
    """Sampler and learner disagree about what was just sampled."""


@dataclass
class Update:
    """What an update did.

    Attributes:
        stepped: whether the weights were changed.
        skipped: the decision that forbade it, or `None`.
        loss: the objective's value; near 0 by construction, see `grad_norm` instead.
        grad_norm: length of the gradient before clipping; `None` when no group had
            contrast and there was no gradient.
        sums: sums over tokens, see `TokenLoss`.
        max_ratio_error: largest |ratio - 1| at the first inner step.
        max_logprob_difference: largest difference between learner's and sampler's
            log-probability of a token, in nats.
    """

    stepped: bool = False
    skipped: Intervention | None = None
    loss: float = 0.0
    grad_norm: float | None = None
    max_ratio_error: float = 0.0
    max_logprob_difference: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, sums: dict[str, float]) -> None:
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def per_token(self, name: str) -> float | None:
        """A sum divided by the tokens it runs over; `None` where it was not taken."""
        if name not in self.sums:
            return None
        return self.sums[name] / max(1.0, self.sums["tokens"])

    def metrics(self) -> dict[str, float | None]:
        """The update's numbers under TRL's names."""
        return {
            "loss": self.loss,
            "grad_norm": self.grad_norm,
            "entropy": self.per_token("entropy"),
            "kl": self.per_token("kl"),
            "clip_ratio/region_mean": self.per_token("clipped"),
            "sampling/sampling_logp_difference/mean": self.per_token("logprob_difference"),
            "sampling/sampling_logp_difference/max": self.max_logprob_difference,
            "nonfinite_ratio": self.sums.get("nonfinite_ratio", 0.0),
            "stepped": float(self.stepped),
        }


def update_policy(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    objective: Any,
    batch: Batch,
    config: LoopConfig,
    may_step: Callable[[float, float], Intervention | None],
) -> Update:
    """One optimizer step on a batch, or a reasoned refusal.

    The loss is a token mean over the whole batch: how it is split into micro-batches
    changes nothing but memory.

    Args:
        may_step: called with gradient norm and loss before the optimizer steps; a
            decision that it gives forbids the step.

    Raises:
        RatioMismatch: the learner's probability of what was just sampled is not the
            sampler's, so the gradient would be wrong.
    """
    rows = [(r, advantage, batch.alive_B[b]) for b, _, r, _, _, advantage in batch.rows()]
    total_tokens = sum(sum(r.trainable) for r, _, _ in rows)
    # The divergence pulls on every rollout, also where the reward does not.
    learning = [(r, a) for r, a, alive in rows if alive or objective.beta]
    resting = [r for r, _, alive in rows if not (alive or objective.beta)]
    update = Update()
    optimizer.zero_grad(set_to_none=True)
    for part in _split(learning, config.micro_batch):
        _backward(policy, objective, part, total_tokens, update)
    with torch.no_grad():
        for part in _split(resting, config.micro_batch):
            scored = policy.score(part)
            _take_stock(update, scored)
    if update.max_ratio_error > config.ratio_tolerance:
        optimizer.zero_grad(set_to_none=True)
        raise RatioMismatch(
            f"the probability ratio differs from 1 by {update.max_ratio_error:.3g} on tokens that "
            f"were just sampled (allowed: {config.ratio_tolerance:g}); sampler and learner see "
            "different weights, positions, masks or temperatures"
        )
    if not learning:
        return update
    norm = torch.nn.utils.clip_grad_norm_(policy.trainable().values(), config.max_grad_norm)
    update.grad_norm = float(norm)
    update.skipped = may_step(update.grad_norm, update.loss)
    if update.skipped is None:
        optimizer.step()
        policy.version += 1
        update.stepped = True
    optimizer.zero_grad(set_to_none=True)
    return update


def _backward(
    policy: Policy,
    objective: Any,
    part: Sequence[tuple[Rollout, float]],
    total_tokens: int,
    update: Update,
) -> None:
    rollouts = [r for r, _ in part]
    reference_NT = None
    if objective.beta:
        with torch.no_grad(), policy.reference():
            reference_NT = policy.score(rollouts).logprobs_NT
    scored = policy.score(rollouts)
    advantages_N = torch.tensor([a for _, a in part], device=scored.logprobs_NT.device)
    token_loss = objective.loss(
        scored.logprobs_NT,
        scored.behaviour_NT,
        advantages_N,
        scored.mask_NT,
        total_tokens=total_tokens,
        reference_NT=reference_NT,
    )
    token_loss.loss.backward()
    update.loss += float(token_loss.loss.detach())
    update.max_ratio_error = max(update.max_ratio_error, token_loss.max_ratio_error)
    sums = {n: v for n, v in token_loss.sums.items() if n != "tokens"}
    update.add(sums)
    _take_stock(update, scored)


def _take_stock(update: Update, scored: Any) -> None:
    """Adds tokens, entropy and the gap between sampler and learner."""
    mask_NT = scored.mask_NT
    gap_NT = (scored.logprobs_NT.detach() - scored.behaviour_NT).abs()
    gap_NT = torch.where(mask_NT & torch.isfinite(gap_NT), gap_NT, 0.0)
    update.add(
        {
            "tokens": float(mask_NT.sum()),
            "entropy": float(scored.entropy_NT.detach().sum()),
            "logprob_difference": float(gap_NT.sum()),
        }
    )
    update.max_logprob_difference = max(update.max_logprob_difference, float(gap_NT.max()))


def _split(rows: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
