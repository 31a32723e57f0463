"""Rollout and Group: what a policy answered, exactly as it was sampled.

Token ids are kept as they were drawn and are never re-tokenised from text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rlkit.tasks import Problem

FinishReason = Literal["stop", "length", "error"]


@dataclass(frozen=True)
class Rollout:
    """One sampled completion.

    Attributes:
        problem: the problem that was asked.
        prompt_ids: token ids of the rendered prompt, without padding.
        completion_ids: the sampled ids, the end-of-sequence id included.
        behaviour_logprobs: log-probability (nats) of each sampled id under the
            distribution it was really drawn from, temperature included.
        trainable: 1 for each completion token that the policy chose itself.
        text: the completion decoded without special tokens.
        finish_reason: `stop` (end of sequence), `length` (budget used up) or `error`.
        policy_version: how many updates the policy had seen when it answered.
        temperature: the temperature the tokens were drawn at.
    """

    problem: Problem
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    behaviour_logprobs: tuple[float, ...]
    trainable: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    policy_version: int
    temperature: float = 1.0

    def __len__(self) -> int:
        return len(self.completion_ids)


@dataclass(frozen=True)
class Group:
    """The G rollouts of one problem."""

    problem: Problem
    rollouts: tuple[Rollout, ...]

    def __len__(self) -> int:
        return len(self.rollouts)


def flatten(groups: Sequence[Group]) -> list[Rollout]:
    """The N = B x G rollouts of B groups, group after group."""
    return [rollout for group in groups for rollout in group.rollouts]
