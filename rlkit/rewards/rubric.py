"""Rubric: what a judge is asked about an answer, and what its marks are worth.

A criterion has a name, a question, a weight and a scale of whole numbers. Each mark is
brought to 0..1 by its scale; the value of the answer is their weighted mean.

Left out on purpose: criteria that depend on each other. A gate is what `.gate` of a
reward is for.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from rlkit.errors import UserError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class Criterion:
    """One question of a rubric.

    Attributes:
        name: one word; the name of the part in the score.
        asks: what the judge is to look at, in a sentence.
        weight: how much it counts beside the others; above 0.
        low, high: the scale, as whole numbers; `high` is best.

    Raises:
        UserError: a name that is no word, an empty question, a weight or scale out of range.

    >>> Criterion("right", "Does the answer agree with the reference?", weight=2.0).share(7.5)
    0.75
    """

    name: str
    asks: str
    weight: float = 1.0
    low: int = 0
    high: int = 10

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UserError(
                f"a criterion's name is one word of letters, digits and _, not {self.name!r}"
            )
        if not isinstance(self.asks, str) or not self.asks.strip():
            raise UserError(f"criterion {self.name!r} asks nothing; give a sentence")
        number = isinstance(self.weight, (int, float)) and not isinstance(self.weight, bool)
        if not number or not math.isfinite(self.weight) or self.weight <= 0:
            raise UserError(f"the weight of {self.name!r} is a number above 0, not {self.weight!r}")
        whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (self.low, self.high))
        if not whole or not -1000 <= self.low < self.high <= 1000:
            raise UserError(
                f"the scale of {self.name!r} goes from a whole number up to a larger one (within "
                f"±1000), not from {self.low!r} to {self.high!r}"
            )

    def share(self, mark: float) -> float:
        """The mark as a share of its scale, from 0 to 1."""
        return (mark - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Rubric:
    """Criteria that are answered together, in one reply.

    Attributes:
        criteria: at least one, with different names.
        intro: what the judge should know before it reads, such as what the task is about.

    Raises:
        UserError: no criteria, or two of one name.

    >>> rubric = Rubric.of({"right": "Is it right?", "brief": "Is it brief?"})
    >>> [c.name for c in rubric.criteria], rubric.value({"right": 10, "brief": 5})
    (['right', 'brief'], 0.75)
    """

    criteria: tuple[Criterion, ...]
    intro: str = ""

    def __post_init__(self) -> None:
        names = [criterion.name for criterion in self.criteria]
        if not names:
            raise UserError("a rubric needs at least one criterion")
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise UserError(f"the rubric has two criteria of the name {double!r}")

    @classmethod
    def of(cls, given: Any) -> Rubric:
        """A rubric from what is easy to write.

        Args:
            given: a `Rubric`; one sentence (then the criterion is called `quality`);
                `{name: sentence}`; or `Criterion`s in a list.

        Raises:
            UserError: anything else.
        """
        if isinstance(given, Rubric):
            return given
        if isinstance(given, str):
            return cls((Criterion("quality", given),))
        if isinstance(given, Criterion):
            return cls((given,))
        if isinstance(given, Mapping):
            return cls(tuple(Criterion(name, asks) for name, asks in given.items()))
        if isinstance(given, Sequence) and all(isinstance(c, Criterion) for c in given):
            return cls(tuple(given))
        raise UserError(
            "a rubric is a sentence, {name: sentence}, a list of Criterion(…), or a Rubric, "
            f"not {type(given).__name__}"
        )

    @property
    def key(self) -> str:
        """Equal for equal rubrics, different after any change (16 hex digits)."""
        content = json.dumps([self.intro, [astuple(c) for c in self.criteria]])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def shares(self, marks: Mapping[str, float]) -> dict[str, float]:
        """Each mark as a share of its scale, by the criterion's name."""
        return {c.name: c.share(marks[c.name]) for c in self.criteria}

    def contributions(self, marks: Mapping[str, float]) -> dict[str, float]:
        """What each criterion adds to the value."""
        total = math.fsum(c.weight for c in self.criteria)
        return {c.name: c.share(marks[c.name]) * c.weight / total for c in self.criteria}

    def value(self, marks: Mapping[str, float]) -> float:
        """The weighted mean of the shares, from 0 to 1."""
        return min(1.0, max(0.0, math.fsum(self.contributions(marks).values())))
