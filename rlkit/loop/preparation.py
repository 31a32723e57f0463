"""Preparation: what an update has to know about the whole batch before it is cut up.

Denominators, advantages token by token, values, and tokens that an
objective picks out: none of them may depend on the micro-batches.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from rlkit.loop.config import LoopConfig
from rlkit.loop.metrics import Batch, token_divergence
from rlkit.loop.micro_batches import budget_of, split
from rlkit.objectives import Objective, ObjectiveState, Window, explained_variance
from rlkit.policy import Policy, Rollout
from rlkit.policy.value_head import score_values


@dataclass(frozen=True)
class Row:
    """One rollout with all that its loss needs, token by token; `None` where unused.

    Attributes:
        number: place of the rollout in the batch.
        rollout: the rollout; where it takes no part, none of its tokens is trainable.
        advantages_T: its advantages.
        judged_T: false everywhere when there is no verdict.
        reference_T: log-probabilities under the reference.
        proximal_T: log-probabilities when the update began, which its first inner step finds
            out; `None` before it.
        chosen_T: tokens that the objective picked out.
        values_T, returns_T: values before the update, and what they should have been.
    """

    number: int
    rollout: Rollout
    advantages_T: torch.Tensor
    judged_T: torch.Tensor
    reference_T: torch.Tensor | None = None
    proximal_T: torch.Tensor | None = None
    chosen_T: torch.Tensor | None = None
    values_T: torch.Tensor | None = None
    returns_T: torch.Tensor | None = None


@dataclass(frozen=True)
class Prepared:
    """Rows that have a gradient, rows that have none, and the denominators of all.

    Attributes:
        learning, resting: the rows.
        window: the denominators.
        explained_variance: of the values; `None` without a value head.
        mean_advantages: of each rollout, over its tokens, in the batch's order.
    """

    learning: list[Row]
    resting: list[Row]
    window: Window
    explained_variance: float | None
    mean_advantages: list[float]


def prepare(
    policy: Policy,
    objective: Objective,
    batch: Batch,
    config: LoopConfig,
    state: ObjectiveState,
    max_length: int | None,
) -> Prepared:
    """Looks at the whole batch once."""
    flat = list(batch.rows())
    references = None if batch.reference is None else [t for row in batch.reference for t in row]
    rollouts = [_taking_part(r, objective) for _, _, r, _, _, _ in flat]
    known_N = torch.tensor([score.value is not None for _, _, _, score, _, _ in flat])
    advantages_N = torch.tensor([a for *_, a in flat], dtype=torch.float32)
    mask_NT = pad([torch.tensor(r.trainable, dtype=torch.bool) for r in rollouts])

    parts = split(rollouts, config.micro_batch, budget_of(config, policy))
    values_NT = returns_NT = logprobs_NT = entropy_NT = explained = None
    with torch.no_grad():
        if objective.needs_value:
            values_NT = _in_parts(parts, lambda p: [score_values(policy, p)])[0]
        if objective.needs_choice:
            logprobs_NT, entropy_NT = _in_parts(parts, lambda p: _logprobs_and_entropy(policy, p))
    if objective.token_level:
        divergence_NT = None
        if references is not None and objective.kl_in == "reward":
            pairs = zip(rollouts, references, strict=True)
            divergence_NT = pad([token_divergence(r, kept).float() for r, kept in pairs])
        advantages_NT, returns_NT = objective.token_advantages(
            advantages_N,
            mask_NT,
            known_N=known_N,
            divergence_NT=divergence_NT,
            values_NT=values_NT,
            state=state,
        )
    else:
        advantages_NT = torch.where(mask_NT, advantages_N[:, None], 0.0)
    if values_NT is not None and returns_NT is not None:
        explained = explained_variance(values_NT, returns_NT, mask_NT & known_N[:, None])
    chosen_NT = None
    if objective.needs_choice:
        chosen_NT = objective.choose(logprobs_NT, entropy_NT, advantages_NT, mask_NT)
    length = mask_NT.shape[-1] if max_length is None else max_length
    window = Window.of(mask_NT, length, chosen_NT)

    learning: list[Row] = []
    resting: list[Row] = []
    for i, rollout in enumerate(rollouts):

        def cut(tensor_NT: torch.Tensor | None, i: int = i, n: int = len(rollout)):
            return None if tensor_NT is None else tensor_NT[i, :n]

        row = Row(
            i,
            rollout,
            cut(advantages_NT),
            known_N[i].expand(len(rollout)),
            None if references is None else references[i],
            chosen_T=cut(chosen_NT),
            values_T=cut(values_NT),
            returns_T=cut(returns_NT),
        )
        pulled = objective.pulls_always or bool((row.advantages_T != 0).any())
        (learning if pulled and any(rollout.trainable) else resting).append(row)
    length_N = mask_NT.sum(-1).clamp(min=1)
    means = (advantages_NT.double().sum(-1) / length_N).tolist()
    return Prepared(learning, resting, window, explained, means)


def pad(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Rows of different lengths as one tensor, 0 on the right."""
    width = max(1, *(len(row) for row in rows)) if rows else 1
    out = torch.zeros(len(rows), width, dtype=rows[0].dtype)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


def _taking_part(rollout: Rollout, objective: Objective) -> Rollout:
    if objective.mask_truncated and rollout.finish_reason == "length":
        return replace(rollout, trainable=(0,) * len(rollout))
    return rollout


def _logprobs_and_entropy(policy: Policy, part: Sequence[Rollout]) -> list[torch.Tensor]:
    scored = policy.score(part)
    return [scored.logprobs_NT, scored.entropy_NT]


def _in_parts(parts: Sequence[Sequence[Rollout]], score) -> list[torch.Tensor]:
    """What `score` gives for all rollouts, made part by part and padded to one width."""
    columns: list[list[torch.Tensor]] = []
    for part in parts:
        for k, scored_NT in enumerate(score(part)):
            if k == len(columns):
                columns.append([])
            columns[k] += list(_unpadded(scored_NT.cpu(), part))
    return [pad(rows) for rows in columns]


def _unpadded(scored_NT: torch.Tensor, part: Sequence[Rollout]) -> Iterable[torch.Tensor]:
    for i, rollout in enumerate(part):
        yield scored_NT[i, : len(rollout)]
