"""Sums, gates and clips: rewards made of rewards.

Every composed reward keeps two ledgers for each completion. `parts` are the values
of the plain rewards inside, unweighted, as each of them gave them. `contributions`
say what each adds to the total; they sum up to it, so that a dashboard can stack them.

A part that abstains (`None`) leaves a sum. A row whose parts all abstain has no value,
so it gets no advantage and stays out of mean and deviation. A part whose weight is
zero is measured and never counts as a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.reward import Reward, Score
from rlkit.rewards.values import check_bounds


class Composed(Reward):
    """A reward made of others."""

    #: Two rewards of one name would hide each other; where rows are disjoint they do not.
    names_must_differ = True

    def __init__(self, name: str, members: Sequence[Reward], extra_columns: Sequence[str] = ()):
        self.members = tuple(members)
        columns = dict.fromkeys([*extra_columns, *(c for m in self.members for c in m.columns)])
        super().__init__(self._parts_of, name, tuple(columns))
        _check_names(self)

    def children(self) -> tuple[Reward, ...]:
        return self.members

    def with_sandbox(self, sandbox: Any) -> Reward:
        copied = self.__copy__()
        copied.members = tuple(m.with_sandbox(sandbox) for m in self.members)
        return copied

    def _parts_of(self, *, completions: Any, prompts: Any = None, **columns: Any) -> list[Score]:
        return self._evaluate(completions, prompts, columns)

    def _scores(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[list[Score]]:
        """One list of scores for each member."""
        return [m.score(completions=texts, prompts=prompts, **columns) for m in self.members]


class WeightedSum(Composed):
    """A sum of rewards with weights. Its parts keep their unweighted values."""

    def __init__(self, terms: Sequence[tuple[float, Reward]]) -> None:
        names = [reward.name for _, reward in terms]
        if len(set(names)) < len(names):
            raise UserError(
                f"a reward stands twice in the sum of {', '.join(names)}; "
                "give each part its own name, or one weight"
            )
        self.weights = tuple(as_weight(weight) for weight, _ in terms)
        name = " + ".join(f"{w:g}*{r.name}" for w, (_, r) in zip(self.weights, terms, strict=True))
        super().__init__(name.replace("+ -", "- "), [reward for _, reward in terms])

    @property
    def terms(self) -> tuple[tuple[float, Reward], ...]:
        """(weight, reward) of each term."""
        return tuple(zip(self.weights, self.members, strict=True))

    def _evaluate(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[Score]:
        counts = [w != 0.0 and not m.is_off() for w, m in self.terms]
        scored = self._scores(texts, prompts, columns)
        return [self._total(row, counts) for row in zip(*scored, strict=True)]

    def _total(self, row: Sequence[Score], counts: Sequence[bool]) -> Score:
        value, unshaped, truth, known = 0.0, None, None, False
        parts: dict[str, float | None] = {}
        contributions: dict[str, float] = {}
        for weight, score, counted in zip(self.weights, row, counts, strict=True):
            parts.update(score.parts)
            truth = score.truth if truth is None else truth
            if score.value is None:
                continue
            value += weight * score.value
            known = known or counted
            for name, share in score.contributions.items():
                contributions[name] = contributions.get(name, 0.0) + weight * share
            if score.unshaped is not None and weight != 0.0:
                unshaped = (unshaped or 0.0) + weight * score.unshaped
        # The first part speaks for the row: it is the one that judges the task.
        first = row[0]
        if not known:
            return Score(None, first.status, parts, first.reason, truth=truth)
        return Score(value, first.status, parts, first.reason, contributions, unshaped, truth)


class Gate(Composed):
    """Pays a reward only where another one reaches a threshold.

    Where the gate's own reward abstains there is no verdict: it is not known whether
    it is open. Use a fact as the gate ("no test file was touched", "well formed").
    """

    def __init__(
        self,
        inner: Reward,
        by: Reward,
        threshold: float = 1.0,
        otherwise: float | None = 0.0,
    ) -> None:
        if not isinstance(by, Reward):
            raise UserError(f"a gate is opened by a reward, not by {type(by).__name__}")
        self.threshold = finite_number(threshold, "a gate's threshold")
        self.otherwise = (
            None if otherwise is None else finite_number(otherwise, "a gate's otherwise")
        )
        super().__init__(f"{bracketed(inner)}.gate({by.name})", [inner, by])

    def _evaluate(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[Score]:
        rows = zip(*self._scores(texts, prompts, columns), strict=True)
        return [self._gated(score, key) for score, key in rows]

    def _gated(self, score: Score, key: Score) -> Score:
        parts = {**key.parts, **score.parts}
        truth = key.truth if score.truth is None else score.truth
        by = self.members[1].name
        if key.value is None:
            reason = f"{by} gave no verdict: {key.reason}" if key.reason else f"{by} gave none"
            return Score(None, key.status, parts, reason, truth=truth)
        if key.value >= self.threshold:
            return with_changes(score, parts=parts, truth=truth)
        shares = dict.fromkeys(score.contributions, 0.0)
        if self.otherwise:
            shares["gate"] = shares.get("gate", 0.0) + self.otherwise
        # A gate that shapes (a length, say) is left out of the unshaped score.
        unshaped = score.unshaped if key.unshaped is None else self.otherwise
        reason = f"{by} gave {key.value:g}, below {self.threshold:g}"
        if key.reason:
            reason += f": {key.reason}"
        if self.otherwise is None:
            return Score(None, "GATED", parts, reason, {}, unshaped, truth)
        return Score(self.otherwise, "GATED", parts, reason, shares, unshaped, truth)


class Clip(Composed):
    """Holds a reward between two values. What is cut off is a contribution named `clip`."""

    def __init__(self, inner: Reward, low: float | None, high: float | None) -> None:
        if low is None and high is None:
            raise UserError("clip needs a low or a high value, as in .clip(0, 1)")
        self.limits = check_bounds((low, high))
        shown = ", ".join("None" if b is None else f"{b:g}" for b in self.limits)
        super().__init__(f"{bracketed(inner)}.clip({shown})", [inner])

    def _evaluate(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[Score]:
        (scores,) = self._scores(texts, prompts, columns)
        return [self._clipped(score) for score in scores]

    def _hold(self, value: float | None) -> float | None:
        if value is None:
            return None
        low, high = self.limits
        value = value if low is None else max(low, value)
        return value if high is None else min(high, value)

    def _clipped(self, score: Score) -> Score:
        if score.value is None:
            return score
        value = self._hold(score.value)
        shares = dict(score.contributions)
        if len(shares) == 1:
            shares = dict.fromkeys(shares, value)
        else:
            shares["clip"] = shares.get("clip", 0.0) + value - score.value
        return with_changes(
            score, value=value, contributions=shares, unshaped=self._hold(score.unshaped)
        )


# -- the operators of Reward -------------------------------------------------------------


def terms_of(reward: Reward) -> Sequence[tuple[float, Reward]]:
    """(weight, reward) of each term of a sum; anything else is one term of weight 1."""
    return reward.terms if isinstance(reward, WeightedSum) else [(1.0, reward)]


def added(left: Reward, right: Reward) -> WeightedSum:
    return WeightedSum([*terms_of(left), *terms_of(right)])


def weighted(reward: Reward, weight: Any) -> WeightedSum:
    factor = as_weight(weight)
    return WeightedSum([(factor * w, r) for w, r in terms_of(reward)])


def divided(reward: Reward, divisor: Any) -> WeightedSum:
    if as_weight(divisor) == 0.0:
        raise UserError("a reward cannot be divided by zero")
    return weighted(reward, 1.0 / as_weight(divisor))


def bracketed(reward: Reward) -> str:
    """The name of a reward as it may stand before a dot: a sum in brackets."""
    return f"({reward.name})" if isinstance(reward, WeightedSum) else reward.name


def with_changes(score: Score, **changes: Any) -> Score:
    """A copy of the score with other values in some fields."""
    return Score(**{**score.__dict__, **changes})


def _check_names(reward: Reward) -> None:
    """Two different rewards of one name would hide each other among the parts."""
    seen: dict[str, Reward] = {}
    for leaf in reward.leaves():
        other = seen.setdefault(leaf.name, leaf)
        if other is not leaf and reward.names_must_differ:
            raise UserError(
                f"two different rewards in {reward.name!r} are called {leaf.name!r}; rename one "
                "with .named('another name')"
            )


def finite_number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UserError(f"{what} must be a finite number, not {value!r}")
    return float(value)


def as_weight(weight: Any) -> float:
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise UserError(f"a reward can be multiplied by a number, not by {weight!r}")
    if not math.isfinite(weight):
        raise UserError(f"a reward's weight must be finite, not {weight}")
    return float(weight)
