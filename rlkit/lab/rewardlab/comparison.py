"""Comparison: what a change of the reward does to learning, and where it leaves the truth.

Three questions. Which groups lost their contrast, so that nothing is learned from them any
more, and which gained one? How often is a wrong completion paid, or a right one refused?
Which completions show it?

Axes: B groups, N rollouts in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlkit.errors import UserError
from rlkit.lab.rewardlab.scoring import Scoring, advantages
from rlkit.lab.stored import StoredRollouts

#: The kinds of examples, and how each is called.
EXAMPLES = {
    "paid_wrong": "Paid though wrong",
    "refused_right": "Refused though right",
    "pushed_wrong": "Wrong, yet made likelier",
    "changed": "Most changed",
    "unscored": "Without a verdict",
}
#: Examples of a kind that are listed at most.
MOST_EXAMPLES = 100


@dataclass(frozen=True)
class Confusion:
    """Completions by truth and pay.

    Attributes:
        right_paid, right_refused, wrong_paid, wrong_refused: how many there are.
        unknown: those without a verdict of the reward, or of the truth.
    """

    right_paid: int
    right_refused: int
    wrong_paid: int
    wrong_refused: int
    unknown: int

    @property
    def precision(self) -> float | None:
        """Share of what is paid that is right; `None` when nothing is paid."""
        paid = self.right_paid + self.wrong_paid
        return self.right_paid / paid if paid else None

    @property
    def recall(self) -> float | None:
        """Share of what is right that is paid; `None` when nothing is right."""
        right = self.right_paid + self.right_refused
        return self.right_paid / right if right else None


@dataclass(frozen=True)
class Comparison:
    """Two scorings of the same completions.

    Attributes:
        stored: the completions.
        before, after: what the two rewards gave.
    """

    stored: StoredRollouts
    before: Scoring
    after: Scoring

    @cached_property
    def right(self) -> Any:
        """N values: 1 for right, 0 for wrong, NaN when nobody knows."""
        return np.array([np.nan if s is None else float(s) for s in self.stored.solved])

    # -- groups ---------------------------------------------------------------------------

    @cached_property
    def advantages_before(self) -> Any:
        """N advantages under the reward before."""
        return advantages(self.before.values, self.stored)[0]

    @cached_property
    def advantages(self) -> Any:
        """N advantages that the completions would get now."""
        return advantages(self.after.values, self.stored)[0]

    @cached_property
    def contrast(self) -> dict[str, list[int]]:
        """Numbers of the groups that `kept`, `gained`, `lost` or `never` had contrast."""
        before = advantages(self.before.values, self.stored)[1]
        after = advantages(self.after.values, self.stored)[1]
        found = {
            "kept": before & after,
            "gained": ~before & after,
            "lost": before & ~after,
            "never": ~before & ~after,
        }
        return {name: np.flatnonzero(groups).tolist() for name, groups in found.items()}

    # -- truth ----------------------------------------------------------------------------

    def confusion(self, scoring: Scoring | None = None) -> Confusion:
        """Completions by truth and pay, of the reward after unless another is given."""
        scoring = scoring or self.after
        known = scoring.known & np.isfinite(self.right)
        right, paid = known & (self.right == 1), scoring.paid
        wrong = known & (self.right == 0)
        return Confusion(
            right_paid=int((right & paid).sum()),
            right_refused=int((right & ~paid).sum()),
            wrong_paid=int((wrong & paid).sum()),
            wrong_refused=int((wrong & ~paid).sum()),
            unknown=int((~known).sum()),
        )

    @cached_property
    def agreement(self) -> float | None:
        """Correlation of reward and truth, from -1 to 1; `None` where one never differs."""
        known = self.after.known & np.isfinite(self.right)
        values, right = self.after.values[known], self.right[known]
        if values.size < 2 or np.ptp(values) == 0 or np.ptp(right) == 0:
            return None
        return float(np.corrcoef(values, right)[0, 1])

    # -- examples ---------------------------------------------------------------------------

    def examples(self, kind: str, most: int = MOST_EXAMPLES) -> list[int]:
        """Numbers of completions of a kind, the most telling first, no text of a problem twice.

        Raises:
            UserError: a kind that is not in `EXAMPLES`.
        """
        order, chosen = self._ranked(kind)
        numbers = [int(n) for n in np.argsort(-order, kind="stable") if chosen[n]]
        return self._different(numbers)[:most]

    def count(self, kind: str) -> int:
        """How many completions are of this kind, repeated texts included."""
        return int(self._ranked(kind)[1].sum())

    def _ranked(self, kind: str) -> tuple[Any, Any]:
        values = np.nan_to_num(self.after.values)
        confused = self.after.known & np.isfinite(self.right)
        if kind == "paid_wrong":
            return values, confused & (self.right == 0) & self.after.paid
        if kind == "refused_right":
            return -values, confused & (self.right == 1) & ~self.after.paid
        if kind == "pushed_wrong":
            return self.advantages, (self.right == 0) & (self.advantages > 0)
        if kind == "changed":
            one_unknown = self.before.known != self.after.known
            change = np.abs(values - np.nan_to_num(self.before.values))
            change = np.where(one_unknown, np.inf, change)
            return change, change > 1e-9
        if kind == "unscored":
            return np.zeros(len(values)), ~self.after.known
        raise UserError(f"no kind of examples {kind!r}; choose from {', '.join(EXAMPLES)}")

    def _different(self, numbers: Sequence[int]) -> list[int]:
        seen: set[tuple[str, str]] = set()
        kept = []
        for number in numbers:
            group = self.stored.groups[self.stored.group_of[number]]
            said = (group.key, self.stored.rollouts[number].text)
            if said not in seen:
                seen.add(said)
                kept.append(number)
        return kept
