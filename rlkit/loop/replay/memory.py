"""Replay of a batch in memory: `Replay.from_batch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.loop.config import LoopConfig
from rlkit.loop.judging import Judge, Judged
from rlkit.loop.metrics import Batch
from rlkit.loop.replay.measure import Subject, measure, moments_of, ratio_error
from rlkit.loop.replay.result import Replay, labelled
from rlkit.objectives import Objective
from rlkit.policy import Group, Policy
from rlkit.tasks import get_domain


def replay_batch(
    policy: Policy,
    groups: Batch | Sequence[Group],
    objectives: Sequence[str | Objective] | Mapping[str, str | Objective],
    *,
    config: LoopConfig | None = None,
    reward: Any = None,
    optimizer: Any = None,
    ahead: int = 0,
    held_out: int = 64,
    samples: int = 4,
) -> Replay:
    """See `Replay.from_batch`."""
    wanted = labelled(objectives)
    config = config or LoopConfig()
    step = None
    if isinstance(groups, Batch):
        step, judged = groups.step, Judged(groups.scores, groups.solved)
        groups = groups.groups
    else:
        groups, judged = list(groups), None
    if not groups or not all(len(group) for group in groups):
        raise UserError("there are no rollouts to replay; give groups with at least one answer")
    if not policy.trainable():
        raise UserError("the policy has nothing to train; load it with lora=LoraSpec()")
    domains = [get_domain(n) for n in dict.fromkeys(g.problem.domain for g in groups)]
    if judged is None:
        judged = Judge(domains, reward).judge(groups)
    budget = config.max_new_tokens or max(domain.max_new_tokens for domain in domains)
    subject = Subject(
        policy,
        groups,
        judged,
        config,
        max(budget, max(len(r) for group in groups for r in group.rollouts)),
        step=step,
        moments={} if optimizer is None else moments_of(policy, optimizer),
    )
    error = ratio_error(policy, groups, config)
    exact = error <= config.ratio_tolerance
    weights = "the policy as it is now, which drew the batch"
    if not exact:
        weights = (
            "the policy as it is now; it has changed since it drew the batch (ratios differ "
            f"from 1 by up to {error:.3g})"
        )
    return measure(
        subject,
        wanted,
        weights=weights,
        exact=exact,
        ahead=ahead,
        held_out=held_out,
        samples=samples,
    )
