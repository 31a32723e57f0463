"""Micro-batches: how many rollouts are scored with gradient at once.

What a token leaves for its way back decides how much memory an update takes, so the budget
is in tokens. Answers of one problem share its prompt, which is read once in each part, so
groups are cut only where a whole one does not fit. Denominators are those of the whole
batch: how it is cut changes memory and time, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlkit.policy import Policy, Rollout


def split(rows: Sequence[Any], size: int, tokens: int | None = None) -> list[Sequence[Any]]:
    """Rows in parts of at most `size` rows, and of at most `tokens` tokens where one row fits.

    Args:
        rows: rollouts, or rows with an attribute `rollout`, group after group.
        tokens: prompts, each once in a part, and completions; `None` for no limit.

    >>> split([1, 2, 3], 2)
    [[1, 2], [3]]
    """
    if tokens is None:
        return [rows[start : start + size] for start in range(0, len(rows), size)]
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
        parts += _pieces(group, size, tokens)
    return parts


def budget(config: Any, policy: Policy) -> int | None:
    """Tokens of a micro-batch: the configured ones, else what the policy itself can bear."""
    asked = config.micro_batch_tokens
    return policy.scorer.tokens_at_once() if asked is None else asked


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
