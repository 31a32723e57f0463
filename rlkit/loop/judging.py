"""Judging: from groups of rollouts to scores, and whether each problem was solved.

Training follows the reward that the user chose. Whether a problem counts as solved
is decided by the domain's own verifier alone, so that a pass rate means the same
whatever the reward is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlkit.policy import Group, Rollout, flatten
from rlkit.rewards import Reward, Score, get_reward
from rlkit.tasks import Domain


@dataclass(frozen=True)
class Judged:
    """Scores of B groups of G rollouts.

    Attributes:
        scores: one list of G scores for each group.
        solved: whether each rollout solved its problem; `None` without a verdict.
    """

    scores: list[list[Score]]
    solved: list[list[bool | None]]


class Judge:
    """The rewards of several domains.

    Args:
        domains: the domains whose problems come up.
        reward: one reward for all of them, a mapping from domain name to reward, or
            `None` for each domain's own.
        sandbox: where code is run; each reward's own sandbox when not given.
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        reward: Reward | Mapping[str, Any] | None = None,
        sandbox: Any = None,
    ) -> None:
        self.rewards: dict[str, Reward] = {}
        self.verifiers: dict[str, Reward] = {}
        self._verifier_inside: dict[str, bool] = {}
        for domain in domains:
            chosen = reward.get(domain.name) if isinstance(reward, Mapping) else reward
            training = get_reward(domain.reward if chosen is None else chosen)
            verifier = get_reward(domain.success)
            # Only the verifier itself counts as one, never another reward of its name.
            inside = any(leaf is verifier for leaf in training.leaves())
            self._verifier_inside[domain.name] = inside
            if sandbox is not None:
                training = training.with_sandbox(sandbox)
                verifier = verifier.with_sandbox(sandbox)
            self.rewards[domain.name] = training
            self.verifiers[domain.name] = verifier

    def judge(self, groups: Sequence[Group]) -> Judged:
        """Scores all rollouts, one call of a reward for each domain."""
        rollouts = flatten(groups)
        scores: list[Score | None] = [None] * len(rollouts)
        solved: list[bool | None] = [None] * len(rollouts)
        for name in dict.fromkeys(r.problem.domain for r in rollouts):
            rows = [i for i, r in enumerate(rollouts) if r.problem.domain == name]
            columns = reward_columns([rollouts[i] for i in rows])
            given = self.rewards[name].score(**columns)
            truth = self._verify(name, given, columns)
            for i, score, right in zip(rows, given, truth, strict=True):
                scores[i], solved[i] = score, right
        flat_scores = [s for s in scores if s is not None]
        return Judged(_regroup(flat_scores, groups), _regroup(solved, groups))

    def set_progress(self, step: int, total: int | None = None) -> None:
        """Tells schedules inside the rewards how far the run is.

        Args:
            step: steps done.
            total: steps in all; `None` while nobody has said.
        """
        for reward in self.rewards.values():
            reward.set_progress(step, total)

    def verify(self, groups: Sequence[Group]) -> Judged:
        """Scores by the domains' own verifiers alone; for held-out problems."""
        own = Judge([], None)
        own.rewards = own.verifiers = self.verifiers
        own._verifier_inside = dict.fromkeys(self.verifiers, True)
        return own.judge(groups)

    def isolation(self) -> dict[str, str] | None:
        """Backend, level and sentence of the first sandbox in use; `None` when no code is run."""
        rewards = [*self.rewards.values(), *self.verifiers.values()]
        sandboxes = [sandbox for reward in rewards for sandbox in reward.sandboxes()]
        return sandboxes[0].record() if sandboxes else None

    def _verify(
        self, name: str, given: Sequence[Score], columns: dict[str, Any]
    ) -> list[bool | None]:
        verifier = self.verifiers[name]
        inside = self._verifier_inside.get(name, False)
        if inside and all(verifier.name in score.parts for score in given):
            values = [score.parts[verifier.name] for score in given]
        else:
            values = verifier(**columns)
        return [None if value is None else value >= 1.0 for value in values]


def reward_columns(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """The keyword columns that a reward is called with, one row for each rollout."""
    names = dict.fromkeys(name for r in rollouts for name in r.problem.columns)
    columns = {name: [r.problem.columns.get(name) for r in rollouts] for name in names}
    return {
        **columns,
        "completions": [r.text for r in rollouts],
        "prompts": [[dict(m) for m in r.problem.prompt] for r in rollouts],
        "completion_ids": [list(r.completion_ids) for r in rollouts],
        "finish_reason": [r.finish_reason for r in rollouts],
        "domain": [r.problem.domain for r in rollouts],
        "difficulty": [r.problem.difficulty for r in rollouts],
    }


def _regroup(flat: Sequence[Any], groups: Sequence[Group]) -> list[list[Any]]:
    rows = iter(flat)
    return [[next(rows) for _ in group.rollouts] for group in groups]
