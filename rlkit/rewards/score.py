"""Score: what one completion is worth, with its parts, and what a batch of them says.

Nothing here knows how a score came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Score:
    """What one completion is worth, and why.

    Attributes:
        value: the reward, or `None` when there is no verdict.
        status: one word: `OK`, `WRONG`, `NO_ANSWER`, a sandbox status, or `REWARD_ERROR`.
        parts: value of each part by name, unweighted; a plain reward is its own part.
        reason: a short sentence for a person.
        contributions: what each part adds to `value`, weighted; they sum up to it.
        unshaped: the value with shaping parts and schedules left out, for filtering and
            curricula; `None` where nothing but shaping is left.
        truth: what the held-out truth says, see `Reward.with_truth`; never trained on.
    """

    value: float | None
    status: str = "OK"
    parts: dict[str, float | None] = field(default_factory=dict)
    reason: str = ""
    contributions: dict[str, float] = field(default_factory=dict)
    unshaped: float | None = None
    truth: float | None = None


def verifier_gap(scores: Sequence[Score]) -> dict[str, float | None]:
    """Means of reward and held-out truth over the rows that have both, and their difference.

    >>> verifier_gap([Score(1.0, truth=0.0), Score(1.0, truth=1.0), Score(None, truth=1.0)])
    {'truth': 0.5, 'reward': 1.0, 'verifier_gap': 0.5}
    >>> verifier_gap([Score(1.0)])
    {'truth': None, 'reward': None, 'verifier_gap': None}
    """
    rows = [(s.value, s.truth) for s in scores if s.value is not None and s.truth is not None]
    if not rows:
        return {"truth": None, "reward": None, "verifier_gap": None}
    proxy = sum(value for value, _ in rows) / len(rows)
    truth = sum(right for _, right in rows) / len(rows)
    return {"truth": truth, "reward": proxy, "verifier_gap": proxy - truth}


def log_scores(name: str, scores: list[Score], log_metric: Any, log_extra: Any) -> None:
    """Parts and truth to a trainer's own log; nothing that has no number.

    Args:
        name: the reward's own name, under which the trainer logs the total itself.
        scores: of one batch.
        log_metric: TRL's `log_metric(name, value)`, or `None`.
        log_extra: TRL's `log_extra(column, values)`, or `None`.
    """
    if callable(log_metric):
        parts: dict[str, list[float]] = {}
        for score in scores:
            for part, value in score.parts.items():
                if value is not None and part != name:
                    parts.setdefault(part, []).append(value)
        for part, values in parts.items():
            log_metric(f"rewards/{part}/mean", sum(values) / len(values))
        gap = verifier_gap(scores)
        if gap["verifier_gap"] is not None:
            log_metric("truth", gap["truth"])
            log_metric("verifier_gap", gap["verifier_gap"])
    if callable(log_extra) and any(score.truth is not None for score in scores):
        log_extra("truth", [score.truth for score in scores])
