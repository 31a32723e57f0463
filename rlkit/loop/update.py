"""The update: score, check the ratio, backward, clip, ask the monitor, step.

Rollouts without an advantage are left out of the backward pass where nothing else pulls
on them; they are scored without gradient, so that entropy is that of the whole batch.

Several inner epochs take several optimizer steps on the same rollouts. The behaviour
log-probabilities stay those of sampling; only at the first inner step is the ratio 1.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from rlkit.loop.config import LoopConfig
from rlkit.loop.metrics import Batch
from rlkit.loop.micro_batches import budget_of, split
from rlkit.loop.preparation import Row, prepare
from rlkit.monitor import Intervention
from rlkit.objectives import (
    Objective,
    ObjectiveState,
    TokenLoss,
    Window,
    normalise,
    value_loss,
)
from rlkit.policy import Group, Policy
from rlkit.policy.scoring import Scored
from rlkit.policy.value_head import parameter_groups, score_values

#: Mean distance (nats a token) between sampler and learner that rounding can explain.
MAX_GAP = 0.25


class RatioMismatch(RuntimeError):
    """Sampler and learner disagree about what was just sampled."""


@dataclass
class Update:
    """What an update did.

    Attributes:
        stepped: whether the weights were changed.
        skipped: the decision that forbade it, or `None`.
        loss: the objective's value, mean over inner steps; near 0 by construction, see
            `grad_norm` instead.
        grad_norm: length of the gradient before clipping, the longest of the inner
            steps; `None` when there was no gradient.
        inner_steps: backward passes over the batch that were begun.
        sums: sums over tokens at the first inner step, see `TokenLoss`.
        max_ratio_error: largest |ratio - 1| at the first inner step.
        max_logprob_difference: largest difference between learner's and sampler's
            log-probability of a token, in nats.
        clipped: tokens without gradient by the clip, summed over all inner steps.
        explained_variance: of the values before the update; `None` without a value head.
        mean_advantages: of each rollout over its tokens, in the batch's order.
        value_loss: of the value head, at the first inner step; `None` without one.
    """

    stepped: bool = False
    skipped: Intervention | None = None
    loss: float = 0.0
    grad_norm: float | None = None
    inner_steps: int = 0
    max_ratio_error: float = 0.0
    max_logprob_difference: float = 0.0
    clipped: float | None = None
    explained_variance: float | None = None
    value_loss: float | None = None
    mean_advantages: list[float] = field(default_factory=list)
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
        """The update's numbers, under TRL's names where the meaning is the same."""
        passes = max(1.0, self.sums.get("tokens", 0.0)) * max(1, self.inner_steps)
        shown = {
            "loss": self.loss,
            "grad_norm": self.grad_norm,
            "entropy": self.per_token("entropy"),
            "kl": self.per_token("kl"),
            "clip_ratio/region_mean": None if self.clipped is None else self.clipped / passes,
            "sampling/sampling_logp_difference/mean": self.per_token("logprob_difference"),
            "sampling/sampling_logp_difference/max": self.max_logprob_difference,
            "nonfinite_ratio": self.sums.get("nonfinite_ratio", 0.0),
            "stepped": float(self.stepped),
        }
        if "weight" in self.sums:
            tokens, squares = self.sums["weighed"], self.sums["weight_squared"]
            total = self.sums["weight"]
            shown["sampling/importance_sampling_ratio/mean"] = total / max(1.0, tokens)
            shown["sampling/ess"] = total**2 / (tokens * squares) if squares else None
            shown["sampling/mismatch_kl"] = self.sums["mismatch_kl"] / max(1.0, tokens)
            shown["sampling/dropped"] = self.sums["weight_zero"] / max(1.0, tokens)
        if self.value_loss is not None:
            shown["value/loss"] = self.value_loss
            shown["value/explained_variance"] = self.explained_variance
        return shown


def update_policy(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    objective: Objective,
    batch: Batch,
    config: LoopConfig,
    may_step: Callable[[float, float], Intervention | None],
    *,
    state: ObjectiveState | None = None,
    max_length: int | None = None,
) -> Update:
    """Some optimizer steps on a batch, or a reasoned refusal.

    Denominators are those of the whole batch: how it is split into micro-batches changes
    nothing but memory.

    Args:
        may_step: called with gradient norm and loss before the optimizer steps; a
            decision that it gives forbids the step, and those that would follow.
        state: of the objective; fresh when not given.
        max_length: completion budget in tokens; the longest rollout when not given.

    Raises:
        RatioMismatch: the learner's probability of what was just sampled is not the
            sampler's, so the gradient would be wrong.
    """
    state = objective.start() if state is None else state
    ready = prepare(policy, objective, batch, config, state, max_length)
    budget = budget_of(config, policy)
    update = Update(
        explained_variance=ready.explained_variance, mean_advantages=ready.mean_advantages
    )
    rows = ready.learning
    for _ in range(config.inner_epochs):
        optimizer.zero_grad(set_to_none=True)
        first = update.inner_steps == 0
        update.inner_steps += 1
        loss, seen = 0.0, []
        for part in split(rows, config.micro_batch, budget):
            found = _backward(policy, objective, part, ready.window, state, update, first)
            loss += float(found.token_loss.loss.detach())
            if first and objective.off_policy is not None:
                seen += _with_proximal(part, found.scored)
        if first:
            rows = seen or rows
            _look_at_the_rest(policy, split(ready.resting, config.micro_batch, budget), update)
            fresh = all(row.rollout.policy_version == policy.version for row in rows)
            _check_ratio(optimizer, update, config.ratio_tolerance, fresh)
        if not rows:
            break
        update.loss += (loss - update.loss) / update.inner_steps  # the mean so far
        norm = clip_gradients(policy, config.max_grad_norm)
        if update.grad_norm is None or not norm <= update.grad_norm:  # also when it is NaN
            update.grad_norm = norm
        update.skipped = may_step(norm, loss)
        if update.skipped is not None:
            break
        optimizer.step()
        policy.version += 1
        update.stepped = True
    optimizer.zero_grad(set_to_none=True)
    return update


def reference_logprobs(
    policy: Policy, groups: Sequence[Group], config: LoopConfig
) -> list[list[torch.Tensor]]:
    """Log-probabilities of each rollout's tokens under the reference, group by group."""
    rollouts = [r for group in groups for r in group.rollouts]
    rows: list[torch.Tensor] = []
    with torch.no_grad(), policy.reference():
        for part in split(rollouts, config.micro_batch, budget_of(config, policy)):
            scored = policy.score(part).logprobs_NT.cpu()
            rows += [scored[i, : len(r)].clone() for i, r in enumerate(part)]
    kept = iter(rows)
    return [[next(kept) for _ in group.rollouts] for group in groups]


@dataclass(frozen=True)
class PartLoss:
    """The loss of one micro-batch, as its share in the loss of the window.

    Attributes:
        token_loss: the objective's own loss and sums.
        scored: the log-probabilities that it has its gradient through.
        value_loss: of the value head; `None` without one.
        total: what is differentiated.
    """

    token_loss: TokenLoss
    scored: Scored
    value_loss: torch.Tensor | None
    total: torch.Tensor


def part_loss(
    policy: Policy,
    objective: Objective,
    part: Sequence[Row],
    window: Window,
    state: ObjectiveState,
) -> PartLoss:
    """Scores some prepared rows and computes their share of the loss, with gradient."""
    rollouts = [row.rollout for row in part]
    scored = policy.score(rollouts)
    shape, device = scored.mask_NT.shape, scored.mask_NT.device

    def padded(name: str) -> torch.Tensor | None:
        if getattr(part[0], name) is None:
            return None
        kept = [getattr(row, name) for row in part]
        out = torch.zeros(shape, dtype=kept[0].dtype)
        for i, values_T in enumerate(kept):
            out[i, : len(values_T)] = values_T
        return out.to(device)

    proximal_NT = padded("proximal_T")
    if objective.off_policy is not None and proximal_NT is None:
        proximal_NT = scored.logprobs_NT.detach()  # the update begins here
    token_loss = objective.loss(
        scored.logprobs_NT,
        scored.behaviour_NT,
        padded("advantages_T"),
        scored.mask_NT,
        window=window,
        reference_NT=padded("reference_T"),
        proximal_NT=proximal_NT,
        entropy_NT=scored.entropy_NT,
        chosen_NT=padded("chosen_T"),
        state=state,
    )
    if not objective.needs_value:
        return PartLoss(token_loss, scored, None, token_loss.loss)
    loss_NT = value_loss(
        score_values(policy, rollouts),
        padded("values_T"),
        padded("returns_T"),
        objective.value_clip,
    )
    error = normalise(loss_NT, scored.mask_NT & padded("judged_T"), "token", window)
    total = token_loss.loss + objective.value_coef * error
    return PartLoss(token_loss, scored, error, total)


def _backward(
    policy: Policy,
    objective: Objective,
    part: Sequence[Row],
    window: Window,
    state: ObjectiveState,
    update: Update,
    first: bool,
) -> PartLoss:
    """Gradients of one micro-batch are added; its share of the loss is returned."""
    found = part_loss(policy, objective, part, window, state)
    found.total.backward()
    token_loss = found.token_loss
    update.clipped = (update.clipped or 0.0) + token_loss.sums["clipped"]
    if first:
        if found.value_loss is not None:
            update.value_loss = (update.value_loss or 0.0) + float(found.value_loss.detach())
        update.max_ratio_error = max(update.max_ratio_error, token_loss.max_ratio_error)
        sums = {n: v for n, v in token_loss.sums.items() if n not in ("tokens", "clipped")}
        if "weight" in sums:
            sums["weighed"] = token_loss.sums["tokens"]
        update.add(sums)
        _take_stock(update, found.scored)
    return found


def _with_proximal(part: Sequence[Row], scored: Scored) -> list[Row]:
    """Rows that know their log-probabilities from the beginning of the update."""
    logprobs_NT = scored.logprobs_NT.detach().cpu()
    return [
        replace(row, proximal_T=logprobs_NT[i, : len(row.rollout)].clone())
        for i, row in enumerate(part)
    ]


def _look_at_the_rest(policy: Policy, parts: Sequence[Sequence[Row]], update: Update) -> None:
    """Rows without a gradient are scored too, so that the numbers are the whole batch's."""
    with torch.no_grad():
        for part in parts:
            scored = policy.score([row.rollout for row in part])
            _take_stock(update, scored)
            if part[0].reference_T is None:
                continue
            for i, row in enumerate(part):
                taken_T = scored.mask_NT[i, : len(row.reference_T)].cpu()
                gap_T = row.reference_T - scored.logprobs_NT[i, : len(taken_T)].cpu()
                k3_T = torch.expm1(gap_T) - gap_T
                update.add({"kl": float(torch.where(taken_T, k3_T, 0.0).sum())})


def _check_ratio(
    optimizer: torch.optim.Optimizer, update: Update, tolerance: float, fresh: bool
) -> None:
    """Sampler and learner must agree at the first inner step.

    Where an off-policy correction takes up the difference, the ratio is 1 by construction.
    What was just sampled must be near all the same: rounding moves a log-probability by some
    hundredths of a nat in the mean, a mistake by far more.
    """
    gap = update.per_token("logprob_difference") or 0.0
    if fresh and gap > MAX_GAP:
        optimizer.zero_grad(set_to_none=True)
        raise RatioMismatch(
            f"the learner's log-probabilities of tokens that were just sampled are {gap:.3g} nats "
            f"from the sampler's in the mean (rounding explains {MAX_GAP:g} at most); they see "
            "different weights, positions, masks or temperatures"
        )
    if update.max_ratio_error <= tolerance:
        return
    optimizer.zero_grad(set_to_none=True)
    raise RatioMismatch(
        f"the probability ratio differs from 1 by {update.max_ratio_error:.3g} on tokens that "
        f"were just sampled (allowed: {tolerance:g}); sampler and learner see "
        "different weights, positions, masks or temperatures"
    )


def clip_gradients(policy: Policy, longest: float) -> float:
    """Clips the gradients, the value head's apart from the policy's; returns the policy's."""
    norms = [
        torch.nn.utils.clip_grad_norm_(group["params"], longest)
        for group in parameter_groups(policy)
    ]
    # A value head whose gradient is not finite must stop the step too.
    return float(norms[0]) if all(torch.isfinite(norm) for norm in norms) else float("nan")


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
