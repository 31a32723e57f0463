"""Reweighed: a reward whose contributions count more or less than it says itself.

What the sliders of the Reward Lab do, as a reward that can be trained with and saved. It
knows nothing of how the reward inside comes about: it multiplies what each part adds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards import Reward, Score


class Reweighed(Reward):
    """A reward with other weights of its parts.

    Args:
        inner: the reward.
        factors: what the contribution of each part is multiplied by; a part that is not
            named counts as before.

    Raises:
        UserError: a factor that is not a finite number.

    >>> from rlkit.rewards import exact_answer, format_reward
    >>> inner = 0.9 * exact_answer + 0.1 * format_reward
    >>> doubled = Reweighed(inner, {"format_reward": 2.0})
    >>> doubled(completions=["<answer>4</answer>", "<answer>5</answer>"], answer=["4", "4"])
    [1.1, 0.2]
    """

    def __init__(self, inner: Reward, factors: Mapping[str, float]) -> None:
        for name, factor in factors.items():
            if isinstance(factor, bool) or not isinstance(factor, (int, float)):
                raise UserError(f"the factor of {name!r} must be a number, not {factor!r}")
            if not math.isfinite(factor):
                raise UserError(f"the factor of {name!r} must be finite, not {factor}")
        self.inner = inner
        self.factors = dict(factors)
        super().__init__(self._reweighed, f"{inner.name}, reweighed", inner.columns)

    def children(self) -> tuple[Reward, ...]:
        return (self.inner,)

    def with_sandbox(self, sandbox: Any) -> Reweighed:
        return Reweighed(self.inner.with_sandbox(sandbox), self.factors)

    def _reweighed(self, *, completions: Any, prompts: Any = None, **columns: Any) -> list[Score]:
        return [
            self._total(score)
            for score in self.inner.score(completions=completions, prompts=prompts, **columns)
        ]

    def _total(self, score: Score) -> Score:
        if score.value is None:
            return score
        shares = {n: self.factors.get(n, 1.0) * share for n, share in score.contributions.items()}
        return replace(score, value=sum(shares.values()), contributions=shares)
