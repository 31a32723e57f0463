"""Batch: one step's rollouts with what became of them; and its numbers by name.

Names are TRL's where the meaning is the same; a suffix `/<domain>` gives the same
number for one domain.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from rlkit.loop.judging import Judged
from rlkit.loop.reward_parts import reward_parts
from rlkit.objectives import Objective, ObjectiveState, alive_groups
from rlkit.policy import Group, Rollout
from rlkit.rewards import Score, verifier_gap

if TYPE_CHECKING:
    from rlkit.loop.update import Update


@dataclass(frozen=True)
class Batch:
    """B groups of G rollouts, their scores and advantages.

    Attributes:
        step: number of the step.
        groups: the rollouts.
        scores: a score for each rollout.
        solved: whether the domain's own verifier says so; `None` without a verdict.
        rewards_BG: the scores' values; `None` without a verdict.
        advantages_BG: the advantages the objective made of them.
        alive_B: whether each group has contrast: in the reward, or in any of its parts
            where the objective normalises them one by one.
        reference: log-probabilities of each rollout's tokens under the reference, where
            the objective needs them.
    """

    step: int
    groups: list[Group]
    scores: list[list[Score]]
    solved: list[list[bool | None]]
    rewards_BG: list[list[float | None]]
    advantages_BG: list[list[float]]
    alive_B: list[bool]
    reference: list[list[torch.Tensor]] | None = None

    @classmethod
    def of(
        cls,
        step: int,
        groups: list[Group],
        judged: Judged,
        objective: Any,
        state: Any = None,
        reference: list[list[torch.Tensor]] | None = None,
    ) -> Batch:
        """Computes the advantages of freshly judged groups."""
        rewards_BG = [[score.value for score in row] for row in judged.scores]
        filled = [[float("nan") if r is None else r for r in row] for row in rewards_BG]
        rewards = torch.tensor(filled, dtype=torch.float64)
        divergence_BG = None if reference is None else _divergence(groups, reference)
        alive_B = alive_groups(rewards)
        if objective.parts == "normalise":
            # Answers that are worth the same for different reasons have contrast, too.
            parts_BGK, weights_K = reward_parts(groups, judged.scores)
            advantages_BG, alive_B = objective.advantages(
                rewards, state, parts_BGK=parts_BGK, weights_K=weights_K
            )
        else:
            advantages_BG, _ = objective.advantages(rewards, state, divergence_BG)
        return cls(
            step,
            groups,
            judged.scores,
            judged.solved,
            rewards_BG,
            advantages_BG.tolist(),
            alive_B.tolist(),
            reference,
        )

    def with_advantages(self, advantages: Sequence[float]) -> Batch:
        """The same batch with these advantages, one for each rollout in order."""
        kept = iter(advantages)
        rows = [[next(kept) for _ in group.rollouts] for group in self.groups]
        return replace(self, advantages_BG=rows)

    @property
    def tokens(self) -> int:
        """Completion tokens of all rollouts."""
        return sum(len(r) for group in self.groups for r in group.rollouts)

    def rows(self) -> Iterable[tuple[int, int, Rollout, Score, bool | None, float]]:
        """(group, index, rollout, score, solved, advantage) of each rollout."""
        for b, group in enumerate(self.groups):
            for g, rollout in enumerate(group.rollouts):
                yield (
                    b,
                    g,
                    rollout,
                    self.scores[b][g],
                    self.solved[b][g],
                    self.advantages_BG[b][g],
                )


def _divergence(groups: list[Group], reference: list[list[torch.Tensor]]) -> torch.Tensor:
    """k1 against the reference, summed over the tokens of each rollout."""
    return torch.tensor(
        [
            [
                float(token_divergence(r, kept).sum())
                for r, kept in zip(g.rollouts, row, strict=True)
            ]
            for g, row in zip(groups, reference, strict=True)
        ],
        dtype=torch.float64,
    )


def token_divergence(rollout: Rollout, reference_T: torch.Tensor) -> torch.Tensor:
    """k1 of each token against the reference; 0 where the policy did not choose it."""
    behaviour_T = torch.tensor(rollout.behaviour_logprobs, dtype=torch.float64)
    taken_T = torch.tensor(rollout.trainable, dtype=torch.bool) & torch.isfinite(behaviour_T)
    return torch.where(taken_T, behaviour_T - reference_T.double(), 0.0)


def build_metrics(batch: Batch, update: Update) -> dict[str, float | None]:
    """All numbers of one step but times, curriculum and learning rate."""
    rows = list(batch.rows())
    metrics: dict[str, float | None] = {
        **_reward_metrics(batch, range(len(batch.groups)), ""),
        "frac_unscored": sum(score.value is None for _, _, _, score, _, _ in rows) / len(rows),
        **_length_metrics([rollout for _, _, rollout, _, _, _ in rows], ""),
        **update.metrics(),
    }
    domains = dict.fromkeys(group.problem.domain for group in batch.groups)
    for name in domains:
        here = [b for b, group in enumerate(batch.groups) if group.problem.domain == name]
        metrics.update(_reward_metrics(batch, here, f"/{name}"))
        rollouts = [r for b in here for r in batch.groups[b].rollouts]
        metrics.update(_length_metrics(rollouts, f"/{name}"))
    parts: dict[str, list[float]] = {}
    for _, _, _, score, _, _ in rows:
        for name, value in score.parts.items():
            parts.setdefault(name, []).extend([] if value is None else [value])
    for name, values in parts.items():
        metrics[f"rewards/{name}/mean"] = statistics.fmean(values) if values else None
    metrics.update(_truth_metrics([score for _, _, _, score, _, _ in rows]))
    for status, count in sorted(Counter(score.status for _, _, _, score, _, _ in rows).items()):
        metrics[f"status/{status}"] = count
    return metrics


def objective_metrics(objective: Objective, state: ObjectiveState) -> dict[str, float | None]:
    """What the objective carried into a step, where it carries anything."""
    shown: dict[str, float | None] = {}
    if objective.baseline == "running":
        shown["baseline"] = state.baseline
    if objective.kl_target is not None:
        shown["kl_coef"] = state.beta
    if objective.entropy_coef or objective.entropy_target is not None:
        shown["entropy_coef"] = state.entropy_coef
    return shown


def _reward_metrics(batch: Batch, groups: Iterable[int], suffix: str) -> dict[str, float | None]:
    here = list(groups)
    known = [r for b in here for r in batch.rewards_BG[b] if r is not None]
    solved = [s for b in here for s in batch.solved[b] if s is not None]
    spreads = [
        statistics.stdev(values)
        for values in ([r for r in batch.rewards_BG[b] if r is not None] for b in here)
        if len(values) >= 2
    ]
    return {
        f"reward{suffix}": statistics.fmean(known) if known else None,
        f"reward_std{suffix}": statistics.fmean(spreads) if spreads else None,
        f"frac_reward_zero_std{suffix}": sum(not batch.alive_B[b] for b in here) / len(here),
        f"pass_rate{suffix}": statistics.fmean(map(float, solved)) if solved else None,
    }


def _truth_metrics(scores: Sequence[Score]) -> dict[str, float | None]:
    """The held-out truth beside the reward, where a reward carries one."""
    if all(score.truth is None for score in scores):
        return {}
    gap = verifier_gap(scores)
    return {"truth": gap["truth"], "verifier_gap": gap["verifier_gap"]}


def _length_metrics(rollouts: Sequence[Rollout], suffix: str) -> dict[str, float | None]:
    lengths = [len(r) for r in rollouts]
    cut = sum(r.finish_reason == "length" for r in rollouts)
    return {
        f"completions/mean_length{suffix}": statistics.fmean(lengths),
        f"completions/min_length{suffix}": min(lengths),
        f"completions/max_length{suffix}": max(lengths),
        f"completions/clipped_ratio{suffix}": cut / len(rollouts),
    }


def rollout_rows(batch: Batch) -> list[dict[str, Any]]:
    """What `rollouts.jsonl.gz` keeps of each rollout."""
    return [
        {
            "step": batch.step,
            "group": b,
            "index": g,
            "key": rollout.problem.key,
            "domain": rollout.problem.domain,
            "difficulty": rollout.problem.difficulty,
            "question": rollout.problem.question,
            "text": rollout.text,
            "reward": score.value,
            "parts": dict(score.parts),
            "contributions": dict(score.contributions),
            "unshaped": score.unshaped,
            "truth": score.truth,
            "status": score.status,
            "reason": score.reason,
            "solved": solved,
            "advantage": advantage,
            "finish_reason": rollout.finish_reason,
            "length": len(rollout),
            "policy_version": rollout.policy_version,
        }
        for b, g, rollout, score, solved, advantage in batch.rows()
    ]
