"""Scoring: what a reward gives to each stored completion, by part, and the advantages of it.

A reward is called as training calls it: once a domain, with that domain's columns. Where a
domain lacks a column that the reward needs, its completions get no verdict, and that is
said; the others are scored all the same.

The advantages are those of `rlkit.objectives.grpo_advantages` (GRPO, 2402.03300), written
in numpy so that no torch is loaded for a picture; a test holds the two together.

Axes: B groups, G rollouts of a group, N rollouts in all, K terms.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rlkit.errors import UserError
from rlkit.lab.stored import StoredRollouts
from rlkit.rewards import Reward, Score, get_reward
from rlkit.rewards.reward import ERROR

#: Status of a completion whose domain lacks a column that the reward needs.
NO_COLUMN = "NO_COLUMN"
#: As in `rlkit.objectives`: no more contrast than this is none.
DEAD_BELOW = 1e-6
#: Added to a group's deviation, as in `rlkit.objectives`.
EPS = 1e-4
#: How a reward says that a column is not there, see `Reward.score`.
_NEEDS_COLUMN = re.compile(r"needs the column '([^']+)'")
#: How exactly the terms must add up to the value.
ADDS_UP_WITHIN = 1e-6

Floats = Any  # np.ndarray of float64, NaN where there is no value


@dataclass(frozen=True)
class Scoring:
    """What a reward gave to N completions.

    Attributes:
        values: the rewards; NaN without a verdict.
        terms: what the rewards are sums of, by name, before weighting; NaN where a term
            says nothing.
        weights: what each term is multiplied by in the sum; `None` for a term that is 0
            everywhere, so that nobody can tell. Empty where the terms do not add up.
        scores: the scores as the reward gave them, with status, parts and reason.
        missing: the column that a domain lacks, by domain.
        seconds: how long it took.
    """

    values: Floats
    terms: Mapping[str, Floats]
    weights: Mapping[str, float | None]
    scores: Sequence[Score]
    missing: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def known(self) -> Any:
        """Which completions have a verdict: N truth values."""
        return np.isfinite(self.values)

    @property
    def errors(self) -> int:
        """How many completions the reward raised an exception for."""
        return sum(score.status == ERROR for score in self.scores)

    @property
    def paid_from(self) -> float:
        """From which value on a completion counts as paid: halfway from lowest to highest.

        Where all are worth the same, those above 0 are paid.
        """
        known = self.values[self.known]
        if not known.size:
            return 0.0
        low, high = float(known.min()), float(known.max())
        return (low + high) / 2 if high - low > DEAD_BELOW else max(low, DEAD_BELOW)

    @property
    def paid(self) -> Any:
        """Which completions are paid: N truth values; false without a verdict."""
        return self.known & (np.nan_to_num(self.values, nan=-np.inf) >= self.paid_from)

    def weighted(self, weights: Mapping[str, float]) -> Scoring:
        """The same completions with other weights of the terms, without scoring them again.

        Raises:
            UserError: the terms do not add up to the value, a term that is not here, or a
                weight that is not finite.
        """
        if not self.weights:
            raise UserError(
                "the parts of this reward do not add up to its value, so they cannot be "
                "weighed anew; change the source instead"
            )
        for name, weight in weights.items():
            if name not in self.weights:
                raise UserError(f"there is no part {name!r}; parts: {', '.join(self.weights)}")
            if not np.isfinite(weight):
                raise UserError(f"the weight of {name!r} must be a finite number, not {weight}")
        chosen = {**self.weights, **weights}
        return replace(self, weights=chosen, values=weighted_sum(self.terms, chosen))


def score_rollouts(reward: Any, stored: StoredRollouts) -> Scoring:
    """Scores all stored completions.

    Args:
        reward: a `Reward`, its name, a function with TRL's signature, or a mapping from
            domain to any of them.
        stored: the completions.

    Raises:
        UserError: the reward breaks its contract, or no domain has the columns it needs.

    >>> from rlkit.lab.stored import stored_rollouts
    >>> scoring = score_rollouts("format_reward", stored_rollouts())
    >>> len(scoring), sorted(set(scoring.values.tolist())), dict(scoring.weights)
    (2000, [0.0, 1.0], {'format_reward': 1.0})
    """
    started = time.perf_counter()
    scores: list[Score] = [Score(None, NO_COLUMN)] * len(stored)
    missing: dict[str, str] = {}
    for numbers, columns in stored.calls:
        domain = columns["domain"][0]
        given, lacking = _score(_reward_for(reward, domain), columns)
        if lacking is not None:
            missing[domain] = lacking
            reason = f"the problems of {domain} have no column {lacking!r}"
            given = [Score(None, NO_COLUMN, reason=reason)] * len(numbers)
        for number, score in zip(numbers, given, strict=True):
            scores[number] = score
    if len(missing) == len(stored.domains):
        domain, column = next(iter(missing.items()))
        raise UserError(
            f"the reward needs the column {column!r}, which no domain here has; {domain} has "
            f"{', '.join(sorted(stored.calls[0][1]))}"
        )
    values = _floats([score.value for score in scores])
    terms, weights = terms_of(scores, values)
    return Scoring(values, terms, weights, scores, missing, time.perf_counter() - started)


def terms_of(
    scores: Sequence[Score], values: Floats
) -> tuple[dict[str, Floats], dict[str, float | None]]:
    """What the values are sums of, and with which weights.

    A term whose weight is the same everywhere is told before weighting; one whose weight
    changes from row to row, as behind a gate, is told as what it adds, with weight 1.

    >>> scores = [Score(0.5, parts={"a": 1.0, "b": 0.0}, contributions={"a": 0.5, "b": 0.0})]
    >>> terms_of(scores, np.array([0.5]))[1]
    {'a': 0.5, 'b': None}
    """
    names = dict.fromkeys(name for score in scores for name in score.contributions)
    added = {n: _floats([score.contributions.get(n) for score in scores]) for n in names}
    terms: dict[str, Floats] = {}
    weights: dict[str, float | None] = {}
    for name, added_N in added.items():
        part_N = _floats([score.parts.get(name) for score in scores])
        weight = _weight_of(added_N, part_N)
        if weight is None and np.nan_to_num(added_N).any():
            terms[name], weights[name] = added_N, 1.0
        else:
            terms[name], weights[name] = part_N, weight
    if terms and not np.allclose(
        weighted_sum(terms, weights), values, atol=ADDS_UP_WITHIN, rtol=0, equal_nan=True
    ):
        return added, {}
    return terms, weights


def _weight_of(added_N: Floats, part_N: Floats) -> float | None:
    """The factor between a part and what it adds, if it is one and the same everywhere."""
    both = np.isfinite(added_N) & np.isfinite(part_N) & (np.abs(part_N) > 1e-12)
    if not both.any():
        return None
    factors = added_N[both] / part_N[both]
    middle = float(np.median(factors))
    return round(middle, 9) if np.abs(factors - middle).max() < 1e-9 + 1e-9 * abs(middle) else None


def weighted_sum(terms: Mapping[str, Floats], weights: Mapping[str, float | None]) -> Floats:
    """Sum of the terms with their weights; a term that says nothing leaves the sum.

    A term without a known weight adds nothing, because it is 0 wherever it says anything.
    """
    table_KN = np.stack([terms[name] for name in weights])
    factors_K = np.array([0.0 if w is None else w for w in weights.values()])
    sums_N = (np.nan_to_num(table_KN) * factors_K[:, None]).sum(0)
    return np.where(np.isfinite(table_KN).any(0), sums_N, np.nan)


def advantages(values: Floats, stored: StoredRollouts) -> tuple[Floats, Any]:
    """GRPO's advantage of each completion within its group, and which groups have contrast.

    `(r - mean) / (std + 1e-4)` with the Bessel-corrected deviation. Without a verdict, or
    without contrast in the group, the advantage is 0 and nothing is learned.

    Returns:
        N advantages, and B truth values.
    """
    group_N = np.asarray(stored.group_of)
    return group_advantages(values, group_N, len(stored.groups))


def group_advantages(values: Floats, group_N: Any, groups: int) -> tuple[Floats, Any]:
    """`advantages` for completions whose groups are given by number.

    >>> given, alive = group_advantages(np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(4, int), 1)
    >>> given.round(4).tolist(), alive.tolist()
    ([1.4997, -0.4999, -0.4999, -0.4999], [True])
    """
    known_N = np.isfinite(values)
    filled_N = np.where(known_N, values, 0.0)
    count_B = np.bincount(group_N, known_N, groups)
    mean_B = np.bincount(group_N, filled_N, groups) / np.maximum(count_B, 1)
    centred_N = np.where(known_N, filled_N - mean_B[group_N], 0.0)
    variance_B = np.bincount(group_N, centred_N**2, groups) / np.maximum(count_B - 1, 1)
    high_B, low_B = np.full(groups, -np.inf), np.full(groups, np.inf)
    np.maximum.at(high_B, group_N[known_N], values[known_N])
    np.minimum.at(low_B, group_N[known_N], values[known_N])
    with np.errstate(invalid="ignore"):  # a group without a verdict has no highest and lowest
        alive_B = (count_B >= 2) & (high_B - low_B > DEAD_BELOW)
    scaled_N = centred_N / (np.sqrt(variance_B)[group_N] + EPS)
    return np.where(alive_B[group_N], scaled_N, 0.0), alive_B


def most_common_reason(scoring: Scoring, status: str) -> str:
    """The reason given most often with this status; empty when there is none."""
    counted = Counter(s.reason for s in scoring.scores if s.status == status and s.reason)
    return counted.most_common(1)[0][0] if counted else ""


def _score(reward: Reward, columns: Mapping[str, Any]) -> tuple[Sequence[Score], str | None]:
    """The scores of one domain, or else the column that it lacks."""
    lacking = [name for name in reward.columns if name not in columns]
    if lacking:
        return [], lacking[0]
    try:
        return reward.score(**columns), None
    except UserError as error:
        # Which columns source text needs is known where it runs, and its complaint comes back.
        needed = _NEEDS_COLUMN.search(str(error))
        if needed is None or needed[1] in columns:
            raise
        return [], needed[1]


def _reward_for(reward: Any, domain: str) -> Reward:
    if not isinstance(reward, Mapping):
        return get_reward(reward)
    if domain not in reward:
        raise UserError(f"no reward for domain {domain!r}; there are {', '.join(reward)}")
    return get_reward(reward[domain])


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
