"""Micro-batches: how many rollouts are scored with gradient at once.

What a token leaves for its way back decides how much memory an update takes, so the budget
is in tokens. Answers of one problem share its prompt, which is read once in each part, so
groups are cut only where a whole one does not fit, and only where to read a long prompt again
and again costs less than to keep less of it. Denominators are those of the whole batch: how
it is cut changes memory and time, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlkit.policy import Policy, Rollout
from rlkit.policy.scorer import AGAIN, KEPT_WHOLE, LONGEST

#: What a longer part must save to be worth its memory.
SAVES = 0.1


@dataclass(frozen=True)
class Budget:
    """Tokens of a micro-batch: prompts, each once in a part, and completions.

    Attributes:
        tokens: at most so many, where one row fits.
        strict: whether that holds even where a group in one part would cost less.
    """

    tokens: int
    strict: bool = True

    @classmethod
    def of(cls, asked: int | None, bearable: int | None) -> Budget | None:
        """What was asked for, strictly; else what a policy can bear; `None` for no limit."""
        if asked is not None:
            return cls(asked)
        return None if bearable is None else cls(bearable, strict=False)


def split(rows: Sequence[Any], size: int, budget: Budget | None = None) -> list[Sequence[Any]]:
    """Rows in parts of at most `size` rows, within a budget of tokens.

    Args:
        rows: rollouts, or rows with an attribute `rollout`, group after group.
        budget: `None` for no limit of tokens.

    >>> split([1, 2, 3], 2)
    [[1, 2], [3]]
    """
    if budget is None:
        return [rows[start : start + size] for start in range(0, len(rows), size)]
    tokens = budget.tokens
    parts: list[list[Any]] = []
    for group in _groups(rows):
        whole = _tokens(group)
        if parts and parts[-1]:
            last = parts[-1]
            if len(last) + len(group) <= size and _tokens(last) + whole <= tokens:
                last += group
                continue
        if len(group) <= size and whole <= tokens:
            parts.append(list(group))
            continue
        pieces = _pieces(group, size, tokens)
        if not budget.strict:
            longer = _pieces(group, size, int(LONGEST * tokens))
            if _cost(longer, tokens) < (1 - SAVES) * _cost(pieces, tokens):
                pieces = longer
        parts += pieces
    return parts


def budget_of(config: Any, policy: Policy) -> Budget | None:
    """The configured budget, else what the policy itself can bear."""
    return Budget.of(config.micro_batch_tokens, policy.scorer.tokens_at_once())


def _rollout(row: Any) -> Rollout:
    return getattr(row, "rollout", row)


def _groups(rows: Sequence[Any]) -> list[list[Any]]:
    """Neighbours with one prompt."""
    groups: list[list[Any]] = []
    before: tuple[int, ...] | None = None
    for row in rows:
        prompt = _rollout(row).prompt_ids
        if prompt != before:
            groups.append([])
            before = prompt
        groups[-1].append(row)
    return groups


def _tokens(rows: Sequence[Any]) -> int:
    prompts = {_rollout(row).prompt_ids for row in rows}
    return sum(map(len, prompts)) + sum(len(_rollout(row)) for row in rows)


def _cost(pieces: list[list[Any]], tokens: int) -> float:
    """Tokens that are computed, forward and backward; more where each block is done twice."""
    counts = [_tokens(piece) for piece in pieces]
    return sum(n * (AGAIN if n > KEPT_WHOLE * tokens else 1.0) for n in counts)


def _pieces(group: list[Any], size: int, tokens: int) -> list[list[Any]]:
    """One group in as few pieces as fit, about equally long; the prompt counts in each."""
    prompt = len(_rollout(group[0]).prompt_ids)
    answers = sum(len(_rollout(row)) for row in group)
    room = max(1, tokens - prompt)
    count = min(len(group), max(-(-answers // room), -(-len(group) // size)))
    share = answers / count
    pieces: list[list[Any]] = [[]]
    taken, inside = 0, prompt
    for row in group:
        length = len(_rollout(row))
        full = len(pieces[-1]) == size or inside + length > tokens
        done = taken >= share * len(pieces)
        if pieces[-1] and (full or done):
            pieces.append([])
            inside = prompt
        pieces[-1].append(row)
        inside += length
        taken += length
    return pieces
