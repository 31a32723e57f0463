"""What one update of each objective would do, measured on the policy itself.

For each objective: gradient, weight of each token, one step of the optimizer, the
log-probabilities after it, held-out problems after it; then everything is put back.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.loop.config import LoopConfig
from rlkit.loop.evaluation import Z95
from rlkit.loop.judging import Judge, Judged
from rlkit.loop.metrics import Batch
from rlkit.loop.micro_batches import budget_of, split
from rlkit.loop.optimizers import build_optimizer
from rlkit.loop.preparation import prepare
from rlkit.loop.replay.result import Replay, ReplayedObjective, ReplayedRollout
from rlkit.loop.state import put_back, restore_moments, untouched
from rlkit.loop.update import (
    clip_gradients,
    part_loss,
    reference_logprobs,
    update_policy,
)
from rlkit.objectives import GRPO, Objective, ObjectiveState
from rlkit.policy import Group, Policy, Rollout, flatten
from rlkit.policy.value_head import borrowed_value_head, parameter_groups
from rlkit.tasks import get_domain

#: Held-out answers are drawn from streams of their own, the same before and after.
_DRAWS = (1 << 30) + (1 << 28)


@dataclass
class Subject:
    """A batch and all that an update of it needs.

    Attributes:
        policy: as it is when the replay begins.
        groups, judged: the batch.
        config: learning rate, clips and sizes.
        max_length: completion budget in tokens.
        step: its number, or `None`.
        moments: tensors `optimizer/<key>/<parameter>`; empty for a fresh optimizer.
        states: what each objective carries into the step, by label.
    """

    policy: Policy
    groups: list[Group]
    judged: Judged
    config: LoopConfig
    max_length: int
    step: int | None = None
    moments: dict[str, torch.Tensor] = field(default_factory=dict)
    states: dict[str, ObjectiveState] = field(default_factory=dict)

    def batch(self, objective: Objective, state: ObjectiveState, reference: Any) -> Batch:
        return Batch.of(self.step or 0, self.groups, self.judged, objective, state, reference)

    def optimizer(self, moments: Mapping[str, torch.Tensor]) -> torch.optim.Optimizer:
        """A new optimizer with these moments, as far as the policy has their parameters."""
        config = self.config
        optimizer = build_optimizer(
            config.optimizer,
            parameter_groups(self.policy),
            config.learning_rate,
            config.weight_decay,
        )
        for group in optimizer.param_groups:
            group["lr"] = config.value_learning_rate if group["value"] else config.learning_rate
        names = self.policy.trainable()
        kept = {name: t for name, t in moments.items() if name.split("/", 2)[2] in names}
        restore_moments(self.policy, optimizer, kept)
        return optimizer


def measure(
    subject: Subject,
    objectives: Mapping[str, Objective],
    *,
    weights: str,
    exact: bool,
    ahead: int = 0,
    held_out: int = 64,
    samples: int = 4,
) -> Replay:
    """Tries one update of each objective; see `Replay`."""
    if min(ahead, held_out) < 0 or samples < 1:
        raise UserError(
            f"ahead={ahead} and held_out={held_out} must not be negative, and "
            f"samples={samples} at least 1"
        )
    policy, rollouts = subject.policy, flatten(subject.groups)
    with untouched(policy):
        moments = subject.moments
        if ahead:
            moments = _go_ahead(subject, ahead)
            weights += f", and {ahead} step{'s' if ahead > 1 else ''} of GRPO on this batch"
        before = token_logprobs(policy, rollouts, subject.config)
        error = _ratio_error(before, rollouts)
        asked = _Examination(subject, held_out, samples)
        rates = asked.rates()
        reference = None
        if any(o.needs_reference for o in objectives.values()):
            reference = reference_logprobs(policy, subject.groups, subject.config)
        found, gradients = [], []
        for name, objective in objectives.items():
            made, gradient = _try(
                subject, name, objective, reference, moments, before, asked, rates
            )
            found.append(made)
            gradients.append(gradient)
    return Replay(
        step=subject.step,
        policy=policy.name,
        weights=weights,
        exact=exact and not ahead,
        max_ratio_error=error,
        learning_rate=subject.config.learning_rate,
        optimizer=_moments_in_words(subject, moments),
        pass_rate=_mean(rates),
        problems=len(rates),
        samples=samples,
        rollouts=tuple(_described(subject)),
        objectives=tuple(found),
        cosines=cosines(gradients),
    )


def token_logprobs(
    policy: Policy, rollouts: Sequence[Rollout], config: LoopConfig
) -> list[torch.Tensor]:
    """Log-probability of each token of each rollout under the policy as it is now."""
    rows: list[torch.Tensor] = []
    with torch.no_grad():
        for part in split(rollouts, config.micro_batch, budget_of(config, policy)):
            scored_NT = policy.score(part).logprobs_NT.cpu()
            rows += [scored_NT[i, : len(r)].clone() for i, r in enumerate(part)]
    return rows


def ratio_error(policy: Policy, groups: Sequence[Group], config: LoopConfig) -> float:
    """Largest |ratio - 1| of a token: near 0 for the weights that drew these rollouts."""
    rollouts = flatten(groups)
    return _ratio_error(token_logprobs(policy, rollouts, config), rollouts)


def _ratio_error(logprobs: Sequence[torch.Tensor], rollouts: Sequence[Rollout]) -> float:
    worst = 0.0
    for now_T, rollout in zip(logprobs, rollouts, strict=True):
        gap_T = now_T.double() - torch.tensor(rollout.behaviour_logprobs, dtype=torch.float64)
        taken_T = torch.tensor(rollout.trainable, dtype=torch.bool) & torch.isfinite(gap_T)
        if taken_T.any():
            worst = max(worst, float(gap_T[taken_T].expm1().abs().max()))
    return worst


def cosines(gradients: Sequence[torch.Tensor]) -> tuple[tuple[float | None, ...], ...]:
    """Cosine of each pair of gradients; `None` where one of them is 0.

    >>> rows = cosines([torch.tensor([1.0, 0.0]), torch.tensor([-2.0, 0.0]), torch.zeros(2)])
    >>> rows[0]
    (1.0, -1.0, None)
    """
    lengths = [float(g.double().norm()) for g in gradients]

    def cosine(i: int, k: int) -> float | None:
        if not lengths[i] or not lengths[k]:
            return None
        inner = float(gradients[i].double() @ gradients[k].double())
        return max(-1.0, min(1.0, inner / (lengths[i] * lengths[k])))

    count = range(len(gradients))
    return tuple(tuple(cosine(i, k) for k in count) for i in count)


def _try(
    subject: Subject,
    name: str,
    objective: Objective,
    reference: Any,
    moments: Mapping[str, torch.Tensor],
    before: Sequence[torch.Tensor],
    asked: _Examination,
    rates: Sequence[float],
) -> tuple[ReplayedObjective, torch.Tensor]:
    """One objective's update, and the policy put back behind it."""
    policy, config = subject.policy, subject.config
    rollouts = flatten(subject.groups)
    state = subject.states.get(name) or objective.start()
    start = policy.snapshot()
    head = nullcontext(False)
    if objective.needs_value:
        head = borrowed_value_head(policy, objective.value_trunk, config.seed)
    with head as fresh:
        try:
            batch = subject.batch(
                objective, state, reference if objective.needs_reference else None
            )
            ready = prepare(policy, objective, batch, config, state, subject.max_length)
            optimizer = subject.optimizer(moments)
            optimizer.zero_grad(set_to_none=True)
            loss, clipped, weights = 0.0, 0.0, {}
            for part in split(ready.learning, config.micro_batch, budget_of(config, policy)):
                made = part_loss(policy, objective, part, ready.window, state)
                made.scored.logprobs_NT.retain_grad()
                made.total.backward()
                loss += float(made.token_loss.loss.detach())
                clipped += made.token_loss.sums["clipped"]
                push_NT = -made.scored.logprobs_NT.grad.cpu()
                for i, row in enumerate(part):
                    weights[row.number] = push_NT[i, : len(row.rollout)] + 0.0
            own = parameter_groups(policy)[0]["params"]
            gradient = torch.cat(
                [
                    (torch.zeros_like(p) if p.grad is None else p.grad).detach().flatten().cpu()
                    for p in own
                ]
            )
            clip_gradients(policy, config.max_grad_norm)
            if not torch.isfinite(gradient).all():
                raise UserError(f"the gradient of {name} is not finite on this batch")
            if ready.learning:
                optimizer.step()
            moved = policy.snapshot()
            squares = [(moved[n] - start[n]).double().square().sum() for n in start]
            after = token_logprobs(policy, rollouts, config)
            then = asked.rates()
        finally:
            put_back(policy, start)
    gains = [b - a for a, b in zip(rates, then, strict=True)]
    low, high = _interval(gains)
    rows = [weights.get(i, torch.zeros(len(r))) for i, r in enumerate(rollouts)]
    norm = float(gradient.double().norm())
    found = ReplayedObjective(
        name=name,
        loss=loss,
        grad_norm=norm,
        update_norm=math.sqrt(float(sum(squares))),
        clipped=clipped / max(1, ready.window.tokens),
        advantages=tuple(ready.mean_advantages),
        weights=tuple(tuple(row.tolist()) for row in rows),
        changes=tuple(tuple((b - a).tolist()) for a, b in zip(before, after, strict=True)),
        pass_rate=_mean(then),
        gain=_mean(gains),
        low=low,
        high=high,
        note=_note(bool(fresh), norm, bool(moments)),
    )
    return found, gradient


def _note(fresh: bool, norm: float, moments: bool) -> str:
    notes = ["its value head is a fresh one, which says 0 everywhere"] if fresh else []
    if not norm:
        notes.append(
            "its gradient is 0 here"
            + (", so that the step is what the optimizer's moments carry on" if moments else "")
        )
    return "; ".join(notes)


def _go_ahead(subject: Subject, steps: int) -> dict[str, torch.Tensor]:
    """GRPO takes some steps on the batch; the optimizer's moments after them."""
    optimizer = subject.optimizer(subject.moments)
    objective = GRPO()
    state = objective.start()
    update_policy(
        subject.policy,
        optimizer,
        objective,
        subject.batch(objective, state, None),
        replace(subject.config, inner_epochs=steps, ratio_tolerance=math.inf),
        lambda norm, loss: None,
        state=state,
        max_length=subject.max_length,
    )
    return moments_of(subject.policy, optimizer)


def moments_of(policy: Policy, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Copies of an optimizer's moments, by parameter."""
    return {
        f"optimizer/{key}/{name}": torch.as_tensor(value).detach().clone()
        for name, parameter in policy.trainable().items()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


class _Examination:
    """Held-out problems that are asked again and again, with the same random numbers."""

    def __init__(self, subject: Subject, problems: int, samples: int) -> None:
        self.policy, self.samples = subject.policy, samples
        self.temperature = subject.groups[0].rollouts[0].temperature
        self.sittings: list[tuple[list[Any], int]] = []
        if not problems:
            return
        levels: dict[str, int] = {}
        for group in subject.groups:
            levels.setdefault(group.problem.domain, group.problem.difficulty)
        domains = [get_domain(name) for name in levels]
        self.judge = Judge(domains)
        for domain in domains:
            budget = subject.config.max_new_tokens or domain.max_new_tokens
            self.sittings.append((domain.held_out(problems, levels[domain.name]), budget))

    def rates(self) -> list[float]:
        """Share solved of each problem that got a verdict; empty when none are asked."""
        state = self.policy.state_dict()
        self.policy.load_state_dict({**state, "draws": _DRAWS})
        rates = []
        try:
            for problems, budget in self.sittings:
                groups = self.policy.generate(problems, self.samples, budget, self.temperature)
                for row in self.judge.verify(groups).solved:
                    # Without a verdict it counts as not solved: pairs must stay pairs.
                    rates.append(sum(map(bool, row)) / len(row))
        finally:
            self.policy.load_state_dict(state)
        return rates


def _interval(gains: Sequence[float]) -> tuple[float | None, float | None]:
    """95 % interval of the mean of paired differences."""
    if len(gains) < 2:
        return None, None
    mean = sum(gains) / len(gains)
    variance = sum((gain - mean) ** 2 for gain in gains) / (len(gains) - 1)
    half = Z95 * math.sqrt(variance / len(gains))
    return mean - half, mean + half


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _moments_in_words(subject: Subject, moments: Mapping[str, torch.Tensor]) -> str:
    if moments:
        return f"{subject.config.optimizer} and the moments it had"
    return (
        f"a fresh {subject.config.optimizer}, whose first step has about the same length "
        "whatever the gradient's"
    )


def _described(subject: Subject) -> Iterator[ReplayedRollout]:
    decode = subject.policy.tokenizer.decode
    for b, group in enumerate(subject.groups):
        for g, rollout in enumerate(group.rollouts):
            yield ReplayedRollout(
                b,
                g,
                group.problem.question,
                rollout.text,
                tuple(decode([token]) for token in rollout.completion_ids),
                subject.judged.scores[b][g].value,
                subject.judged.solved[b][g],
            )
