"""The Reward type: a callable with TRL's signature whose every result keeps its parts.

A reward takes keyword columns and gives `list[float | None]`, so it goes to
`GRPOTrainer(reward_funcs=[...])` as it is. `None` means "no verdict": it leaves
the group's baseline and is never turned into a zero.

Everything that comes in or goes out is checked here, at the border. A mistake that
concerns the whole call (a missing column, a wrong length, a wrong type) is an error
at once. What concerns single rows (an exception on odd text, a NaN, a value out of
the declared range) leaves those rows without a verdict, is counted, and is shown the
first time, so that a long run survives it and nobody overlooks it.

Sums, gates, clips and schedules are in `rlkit.rewards.algebra`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from types import MethodType
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.calling import EachRow, RowError, call_now
from rlkit.rewards.completions import completion_rows, completion_text
from rlkit.rewards.operators import Operators
from rlkit.rewards.pickling import pack_function, unpack_function
from rlkit.rewards.score import Score, log_scores
from rlkit.rewards.values import Bounds, as_number, check_bounds, fault

__all__ = ["BAD_VALUE", "ERROR", "Reward", "RewardWarning", "Score", "completion_text", "reward"]

#: Status of a score whose reward raised an exception.
ERROR = "REWARD_ERROR"
#: Status of a score whose value was not finite or outside the declared range.
BAD_VALUE = "BAD_VALUE"
#: What a trainer hands over beside the columns; a function may ask for it and get `None`.
TRAINER_ARGUMENTS = ("trainer_state", "log_extra", "log_metric", "environments")


class RewardWarning(UserWarning):
    """Shown once for a reward: rows of it were left without a verdict, and why."""


class Reward(Operators):
    """A reward function with a name.

    Args:
        function: called as `function(completions=[text, ...], **columns)`, with those
            columns only that it names unless it takes `**columns`; it gives one value
            for each completion: a float, `None`, or a `Score`. It may be `async`.
        name: name of the part in records and logs; the function's own by default.
        columns: columns that must be there, beside those that the function's signature
            demands; a missing one is an error that lists those that are.
        bounds: the declared range `(low, high)`; a value outside is no verdict.
        shaping: whether it shapes behaviour (length, repetition) rather than judging
            the task; such a part is left out of `Score.unshaped`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        columns: Sequence[str] = (),
        *,
        bounds: Bounds = (None, None),
        shaping: bool = False,
    ) -> None:
        if not callable(function):
            raise UserError(f"a reward is made of a function, not of {type(function).__name__}")
        self.function = function
        self.__name__ = name or getattr(function, "__name__", type(function).__name__)
        self.bounds = check_bounds(bounds)
        self.shaping = shaping
        self._accepted, required = _signature(function)
        self.columns = tuple(dict.fromkeys([*columns, *required]))
        self._errors = 0
        self._first: tuple[str, str | None] | None = None

    @property
    def name(self) -> str:
        return self.__name__

    @property
    def errors(self) -> int:
        """How many rows an exception or a bad value left without a verdict, parts included."""
        return self._errors + sum(child.errors for child in self.children())

    @property
    def first_fault(self) -> str | None:
        """The first of these faults in one sentence; `None` when there was none."""
        first = [self._first[0]] if self._first else []
        return next(filter(None, [*first, *(c.first_fault for c in self.children())]), None)

    @property
    def first_traceback(self) -> str | None:
        """The first exception's traceback; `None` when there was none."""
        first = [self._first[1]] if self._first else []
        return next(filter(None, [*first, *(c.first_traceback for c in self.children())]), None)

    def __repr__(self) -> str:
        return f"Reward({self.name})"

    def __call__(
        self, prompts: Any = None, completions: Any = None, **columns: Any
    ) -> list[float | None]:
        """One value for each completion, in TRL's shape.

        Parts and the held-out truth go to TRL's `log_metric` and `log_extra` when given.

        Args:
            prompts: the prompts, as texts or chats; needed by few rewards.
            completions: texts, or chat messages as TRL passes them.
            columns: lists as long as `completions`.
        """
        scores = self.score(completions=completions, prompts=prompts, **columns)
        log_scores(self.name, scores, columns.get("log_metric"), columns.get("log_extra"))
        return [s.value for s in scores]

    def score(self, *, completions: Any, prompts: Any = None, **columns: Any) -> list[Score]:
        """One `Score` for each completion.

        An exception in the function is counted, its first traceback is kept and shown,
        and the rows are left without a verdict.

        Raises:
            UserError: a missing column, or a result of the wrong length or type.
        """
        texts = completion_rows(completions)
        self._check_columns(columns, prompts, len(texts))
        trainer = columns.get("trainer_state")
        if getattr(trainer, "global_step", None) is not None:
            self.set_progress(trainer.global_step, getattr(trainer, "max_steps", None) or None)
        scores = self._evaluate(texts, prompts, columns) if texts else []
        return [replace(s, unshaped=None) for s in scores] if self.shaping else scores

    # -- what a composed reward overrides --------------------------------------------

    def children(self) -> tuple[Reward, ...]:
        """The rewards that this one is made of; none for a plain reward."""
        return ()

    def leaves(self) -> list[Reward]:
        """The plain rewards at the bottom of the expression, each once."""
        found = [leaf for child in self.children() for leaf in child.leaves()] or [self]
        return list({id(leaf): leaf for leaf in found}.values())

    def with_sandbox(self, sandbox: Any) -> Reward:
        """The same reward with its code run in this sandbox; itself when it runs none."""
        return self

    def sandboxes(self) -> list[Any]:
        """The sandboxes that this reward runs code in."""
        return [sandbox for child in self.children() for sandbox in child.sandboxes()]

    def set_progress(self, step: int, total: int | None = None) -> None:
        """Tells every schedule inside how far the run is; a trainer's own state does it too."""
        for child in self.children():
            child.set_progress(step, total)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must keep: the progress of the schedules inside."""
        return {"children": [child.state_dict() for child in self.children()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes up what `state_dict` gave.

        Raises:
            UserError: the state belongs to a reward of another shape.
        """
        kept, children = state.get("children", []), self.children()
        if len(kept) != len(children):
            raise UserError(
                f"this state belongs to another reward: it has {len(kept)} parts and "
                f"{self.name!r} has {len(children)}"
            )
        for child, part in zip(children, kept, strict=True):
            child.load_state_dict(part)

    def is_off(self) -> bool:
        """Whether a schedule holds it at weight zero just now."""
        return False

    def _evaluate(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[Score]:
        passed = {"completions": texts, "prompts": prompts, **columns}
        if self._accepted is not None:
            passed = {name: passed.get(name) for name in self._accepted if name in passed}
        for name in TRAINER_ARGUMENTS:
            if self._accepted is not None and name in self._accepted:
                passed.setdefault(name, None)
        try:
            values = call_now(self.function, passed)
        except UserError:
            raise
        except Exception as error:
            failed = RowError.of(error)
            reason = f"{self.name} raised {failed.fault}"
            self._note(len(texts), reason, failed.trace)
            return [Score(None, ERROR, {self.name: None}, reason) for _ in texts]
        return self._checked(values, len(texts))

    # -- the border ------------------------------------------------------------------

    def _check_columns(self, columns: Mapping[str, Any], prompts: Any, rows: int) -> None:
        given = columns if prompts is None else {**columns, "prompts": prompts}
        for column in self.columns:
            if column not in given:
                here = sorted(set(given) - set(TRAINER_ARGUMENTS))
                raise UserError(
                    f"reward {self.name!r} needs the column {column!r}; "
                    f"the columns here are {', '.join(here) or 'none'}"
                )
            values = given[column]
            if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
                raise UserError(
                    f"column {column!r} of reward {self.name!r} must be a list with one entry "
                    f"for each completion, not {type(values).__name__}"
                )
            if len(values) != rows:
                raise UserError(
                    f"column {column!r} of reward {self.name!r} has {len(values)} rows for "
                    f"{rows} completions; give one row for each completion"
                )

    def _checked(self, values: Any, expected: int) -> list[Score]:
        if isinstance(values, (str, bytes, Mapping, set)) or not hasattr(values, "__len__"):
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

    def _score_of(self, given: Any, row: int) -> Score:
        if isinstance(given, RowError):
            reason = f"{self.name} raised {given.fault}"
            self._note(1, reason, given.trace)
            return Score(None, ERROR, {self.name: None}, reason)
        score = given if isinstance(given, Score) else Score(given, "")
        number, status, reason = score.value, score.status, score.reason
        if number is not None:
            number = as_number(number)
            if number is None:
                raise UserError(
                    f"reward {self.name!r} gave {given!r} for completion {row}; "
                    "it must be a number, or None for 'no verdict'"
                )
            wrong = fault(number, self.bounds)
            if wrong is not None:
                number, status, reason = None, BAD_VALUE, f"{self.name} gave {wrong}"
                self._note(1, f"{reason} (completion {row})")
        name = self.name
        return Score(
            number,
            status or ("NO_VERDICT" if number is None else "OK"),
            {name: number, **score.parts} if score.parts else {name: number},
            reason,
            {} if number is None else (score.contributions or {name: number}),
            None if number is None else _first(score.unshaped, number),
            score.truth,
        )

    def _note(self, rows: int, what: str, trace: str | None = None) -> None:
        """Counts rows without a verdict; the first fault is kept and shown."""
        self._errors += rows
        if self._first is None or (self._first[1] is None and trace is not None):
            self._first = (what, trace)
            warnings.warn(
                f"{what}; such rows have no verdict and are counted in .errors"
                + (f". The first traceback:\n{trace}" if trace else ""),
                RewardWarning,
                stacklevel=2,
            )

    def forget_faults(self) -> None:
        """The next fault is the first again, and is shown; the count stays."""
        self._first = None
        for child in self.children():
            child.forget_faults()

    # -- pickling: by reference where it can be imported, else by source --------------

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "function": pack_function(self.function, owner=self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.function = unpack_function(state["function"], owner=self)

    def __copy__(self) -> Reward:
        return self._copied(dict(self.__dict__))

    def __deepcopy__(self, memo: dict[int, Any]) -> Reward:
        rest = {key: value for key, value in self.__dict__.items() if key != "function"}
        return self._copied({"function": self.function, **deepcopy(rest, memo)})

    def _copied(self, state: dict[str, Any]) -> Reward:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(state)
        if isinstance(self.function, MethodType) and self.function.__self__ is self:
            copied.function = MethodType(self.function.__func__, copied)
        return copied

    def named(self, name: str) -> Reward:
        """The same reward under another name.

        >>> reward(lambda completions: [1.0] * len(completions)).named("always").name
        'always'
        """
        copied = self.__copy__()
        copied.__name__ = name
        return copied

    def as_shaping(self) -> Reward:
        """The same reward, left out of `Score.unshaped`."""
        copied = self.__copy__()
        copied.shaping = True
        return copied

    @staticmethod
    def from_source(text: str, name: str | None = None, **options: Any) -> Reward:
        """A reward from the text of a program; run in a process of its own that can be killed.

        Args:
            text: Python that defines a reward function, see `rlkit.rewards.SourceReward`.
            name: its name; the function's own by default.
            options: `timeout_s`, `memory_mb`, `strict` of `SourceReward`.
        """
        from rlkit.rewards.source import SourceReward

        return SourceReward(text, name, **options)


def reward(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    columns: Sequence[str] = (),
    bounds: Bounds = (None, None),
    shaping: bool = False,
    each: bool = False,
) -> Any:
    """Makes a `Reward` of a function; use it with or without arguments.

    Args:
        function: a function of all completions, or of one when `each` is set.
        name, columns, bounds, shaping: as for `Reward`.
        each: call it once for each completion, as `function(completion, **row)`; an
            exception then costs one row its verdict, not all of them.

    >>> @reward
    ... def short(completions, **columns):
    ...     return [1.0 if len(text) < 20 else 0.0 for text in completions]
    >>> short(completions=["brief", "a rather longer completion"])
    [1.0, 0.0]
    >>> @reward(each=True)
    ... def same(completion, answer):
    ...     return float(completion == answer)
    >>> same(completions=["4", "5"], answer=["4", "4"])
    [1.0, 0.0]
    """
    if function is None:
        return lambda f: reward(
            f, name=name, columns=columns, bounds=bounds, shaping=shaping, each=each
        )
    if isinstance(function, Reward):
        return function if name is None else function.named(name)
    if each:
        row = EachRow(function)
        return Reward(
            row, name or row.__name__, (*columns, *row.required), bounds=bounds, shaping=shaping
        )
    return Reward(function, name, columns, bounds=bounds, shaping=shaping)


def _signature(function: Callable[..., Any]) -> tuple[tuple[str, ...] | None, list[str]]:
    """Names a function takes (`None`: any), and those columns it cannot do without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None, []
    kinds = inspect.Parameter
    keywords = [
        p for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    ]
    required = [
        p.name
        for p in keywords
        if p.default is kinds.empty and p.name not in ("completions", *TRAINER_ARGUMENTS)
    ]
    if "prompts" in required:  # TRL always passes it, and so may anyone else, as None
        required.remove("prompts")
    if any(p.kind is kinds.VAR_KEYWORD for p in parameters):
        return None, required
    return tuple(p.name for p in keywords), required


def _first(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value
