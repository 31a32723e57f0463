"""The Reward type: a callable with TRL's signature that keeps its parts.

A reward takes keyword columns and gives `list[float | None]`, so it goes to
`GRPOTrainer(reward_funcs=[...])` as it is. `None` means "no verdict": it leaves
the group's baseline and is never turned into a zero.

Rewards add and scale: `0.9 * tests_pass + 0.1 * format_reward`. A part that
abstains leaves the sum; a row whose parts all abstain gets `None`.

Left out on purpose: gates, schedules and rewards from source text; they come
with the rewards' own depth.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlkit.errors import UserError

#: Status of a score whose reward raised an exception.
ERROR = "REWARD_ERROR"


@dataclass(frozen=True)
class Score:
    """What one completion is worth, and why.

    Attributes:
        value: the reward, or `None` when there is no verdict.
        status: one word: `OK`, `WRONG`, `NO_ANSWER`, a sandbox status, or `REWARD_ERROR`.
        parts: value of each part by name; a plain reward has itself as its only part.
        reason: a short sentence for a person.
    """

    value: float | None
    status: str = "OK"
    parts: dict[str, float | None] = field(default_factory=dict)
    reason: str = ""


class Reward:
    """A reward function with a name.

    Args:
        function: called as `function(completions=[text, ...], **columns)`; it gives one
            value for each completion: a float, `None`, or a `Score`.
        name: name of the part in records and logs; the function's own by default.
        columns: columns that must be there; a missing one is an error that lists
            those that are.
    """

    def __init__(
        self,
        function: Callable[..., Sequence[float | Score | None]],
        name: str | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.function = function
        self.__name__ = name or getattr(function, "__name__", type(function).__name__)
        self.columns = tuple(columns)
        #: How many rows an exception left without a verdict, and the first traceback.
        self.errors = 0
        self.first_traceback: str | None = None

    @property
    def name(self) -> str:
        return self.__name__

    def __repr__(self) -> str:
        return f"Reward({self.name})"

    def __call__(
        self, prompts: Any = None, completions: Any = None, **columns: Any
    ) -> list[float | None]:
        """One value for each completion, in TRL's shape.

        Args:
            prompts: not needed; taken because TRL passes it.
            completions: texts, or chat messages as TRL passes them.
            columns: lists as long as `completions`.
        """
        return [s.value for s in self.score(completions=completions, prompts=prompts, **columns)]

    def score(self, *, completions: Any, prompts: Any = None, **columns: Any) -> list[Score]:
        """One `Score` for each completion.

        An exception in the function is counted, its first traceback is kept, and the
        rows are left without a verdict.

        Raises:
            UserError: a missing column, or a result of the wrong length, type, or not finite.
        """
        texts = [completion_text(c) for c in _as_rows(completions)]
        missing = [c for c in self.columns if c not in columns]
        if missing:
            raise UserError(
                f"reward {self.name!r} needs the column {missing[0]!r}; "
                f"the columns here are {', '.join(sorted(columns)) or 'none'}"
            )
        for column in self.columns:
            if len(columns[column]) != len(texts):
                raise UserError(
                    f"column {column!r} has {len(columns[column])} rows for "
                    f"{len(texts)} completions; give one row for each completion"
                )
        if not texts:
            return []
        try:
            values = self.function(completions=texts, prompts=prompts, **columns)
        except UserError:
            raise
        except Exception as error:
            self.errors += len(texts)
            if self.first_traceback is None:
                self.first_traceback = traceback.format_exc()
            reason = f"{self.name} raised {type(error).__name__}: {error}"
            return [Score(None, ERROR, {self.name: None}, reason) for _ in texts]
        return self._checked(values, len(texts))

    def with_sandbox(self, sandbox: Any) -> Reward:
        """The same reward with its code run in this sandbox; itself when it runs none."""
        return self

    def sandboxes(self) -> list[Any]:
        """The sandboxes that this reward runs code in."""
        return []

    def _checked(self, values: Any, expected: int) -> list[Score]:
        if not isinstance(values, (list, tuple)) and not hasattr(values, "__len__"):
            raise UserError(
                f"reward {self.name!r} gave {type(values).__name__}; it must give a list with one "
                "value for each completion"
            )
        if len(values) != expected:
            raise UserError(
                f"reward {self.name!r} gave {len(values)} values for {expected} completions; "
                "it must give exactly one value for each"
            )
        return [self._score_of(value, row) for row, value in enumerate(values)]

    def _score_of(self, value: Any, row: int) -> Score:
        score = value if isinstance(value, Score) else None
        number = score.value if score is not None else value
        if number is not None:
            try:
                number = float(number)
            except (TypeError, ValueError):
                raise UserError(
                    f"reward {self.name!r} gave {value!r} for completion {row}; "
                    "it must be a number, or None for 'no verdict'"
                ) from None
            if not math.isfinite(number):
                raise UserError(
                    f"reward {self.name!r} gave {number} for completion {row}; "
                    "use None where there is no verdict"
                )
        if score is None:
            status = "NO_VERDICT" if number is None else "OK"
            return Score(number, status, {self.name: number})
        parts = score.parts or {self.name: number}
        return Score(number, score.status, parts, score.reason)

    # -- algebra --------------------------------------------------------------------

    def __mul__(self, weight: float) -> WeightedSum:
        return WeightedSum([(_weight(weight), self)])

    __rmul__ = __mul__

    def __add__(self, other: Reward) -> WeightedSum:
        if not isinstance(other, Reward):
            return NotImplemented
        return WeightedSum([*_terms(self), *_terms(other)])


class WeightedSum(Reward):
    """A sum of rewards with weights. Its parts keep their unweighted values."""

    def __init__(self, terms: Sequence[tuple[float, Reward]]) -> None:
        names = [reward.name for _, reward in terms]
        if len(set(names)) < len(names):
            raise UserError(
                f"a reward stands twice in the sum of {', '.join(names)}; "
                "give each part its own name, or one weight"
            )
        columns = dict.fromkeys(c for _, reward in terms for c in reward.columns)
        name = " + ".join(f"{weight:g}*{reward.name}" for weight, reward in terms)
        super().__init__(self._sum, name, tuple(columns))
        self.terms = tuple(terms)

    def _sum(self, *, completions: Any, prompts: Any = None, **columns: Any) -> list[Score]:
        scored = [
            (weight, reward.score(completions=completions, prompts=prompts, **columns))
            for weight, reward in self.terms
        ]
        rows = []
        for row in range(len(completions)):
            scores = [(weight, scores[row]) for weight, scores in scored]
            known = [weight * s.value for weight, s in scores if s.value is not None]
            parts: dict[str, float | None] = {}
            for _, s in scores:
                parts.update(s.parts)
            # The first part speaks for the row: it is the one that judges the task.
            first = scores[0][1]
            rows.append(Score(sum(known) if known else None, first.status, parts, first.reason))
        return rows

    def with_sandbox(self, sandbox: Any) -> WeightedSum:
        return WeightedSum([(weight, r.with_sandbox(sandbox)) for weight, r in self.terms])

    def sandboxes(self) -> list[Any]:
        return [sandbox for _, r in self.terms for sandbox in r.sandboxes()]

    def __mul__(self, weight: float) -> WeightedSum:
        return WeightedSum([(_weight(weight) * w, reward) for w, reward in self.terms])

    __rmul__ = __mul__


def reward(
    function: Callable[..., Sequence[float | None]] | None = None,
    *,
    name: str | None = None,
    columns: Sequence[str] = (),
) -> Any:
    """Makes a `Reward` of a function; use it with or without arguments.

    >>> @reward
    ... def short(completions, **columns):
    ...     return [1.0 if len(text) < 20 else 0.0 for text in completions]
    >>> short(completions=["brief", "a rather longer completion"])
    [1.0, 0.0]
    """
    if function is None:
        return lambda f: Reward(f, name, columns)
    return Reward(function, name, columns)


def completion_text(completion: Any) -> str:
    """The text of a completion, whatever shape it comes in.

    >>> completion_text([{"role": "assistant", "content": "hello"}])
    'hello'
    """
    if completion is None:
        return ""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, dict):
        return completion_text(completion.get("text", completion.get("content")))
    if isinstance(completion, (list, tuple)):
        # Only what the assistant wrote is judged, never a tool's answer.
        spoken = [
            c
            for c in completion
            if not isinstance(c, dict) or c.get("role", "assistant") == "assistant"
        ]
        return "".join(completion_text(c) for c in spoken)
    raise UserError(f"a completion must be text or chat messages, not {type(completion).__name__}")


def _as_rows(completions: Any) -> list[Any]:
    if completions is None or isinstance(completions, (str, dict)):
        raise UserError("completions must be a list with one entry for each completion")
    return list(completions)


def _terms(reward: Reward) -> Sequence[tuple[float, Reward]]:
    return reward.terms if isinstance(reward, WeightedSum) else [(1.0, reward)]


def _weight(weight: Any) -> float:
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise UserError(f"a reward can be multiplied by a number, not by {weight!r}")
    if not math.isfinite(weight):
        raise UserError(f"a reward's weight must be finite, not {weight}")
    return float(weight)
