"""Annealed: a reward whose weight follows a schedule over the run.

A format reward that fades once the format is learnt, a length penalty that grows: the
weight is a function of the step, so it needs to know the step. TRL hands it over with
every call; any other loop says it with `set_progress`. A checkpoint keeps it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.algebra import Composed, as_weight, bracketed, finite_number, with_changes
from rlkit.rewards.pickling import pack_function, unpack_function
from rlkit.rewards.reward import Reward
from rlkit.rewards.score import Score


class Annealed(Composed):
    """A reward whose weight follows a schedule over the run.

    The step comes from TRL's `trainer_state` when it is given, else from
    `set_progress`. The unshaped score does not follow the schedule, so that a filter
    means the same all through the run.

    Args:
        inner: the reward.
        schedule: `{step: weight}`, straight lines between, constant outside; or a
            function of the progress from 0 to 1.
    """

    def __init__(
        self, inner: Reward, schedule: Mapping[int, float] | Callable[[float], float]
    ) -> None:
        self.schedule: Any = schedule
        if isinstance(schedule, Mapping):
            if not schedule:
                raise UserError("a schedule needs at least one step, as in {0: 1.0, 100: 0.0}")
            points = ((finite_number(k, "a step"), as_weight(w)) for k, w in schedule.items())
            self.schedule = tuple(sorted(points))
        elif not callable(schedule):
            raise UserError(
                "a schedule is {step: weight} or a function of the progress from 0 to 1, "
                f"not {type(schedule).__name__}"
            )
        self.step, self.total = 0, None
        super().__init__(f"{bracketed(inner)}.anneal()", [inner])

    def set_progress(self, step: int, total: int | None = None) -> None:
        self.step = int(step)
        self.total = self.total if total is None else int(total)
        super().set_progress(step, total)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "step": self.step, "total": self.total}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.step, self.total = int(state.get("step", 0)), state.get("total")

    def weight(self) -> float:
        """The weight at the step the run has reached.

        Raises:
            UserError: the schedule is a function and nobody said how long the run is.
        """
        if isinstance(self.schedule, tuple):
            return _between(self.schedule, self.step)
        if not self.total:
            raise UserError(
                f"the schedule of {self.name!r} is a function of the progress, and the length of "
                "the run is not known; call set_progress(step, total) or use {step: weight}"
            )
        return as_weight(self.schedule(min(1.0, max(0.0, self.step / self.total))))

    def is_off(self) -> bool:
        return self.weight() == 0.0 or self.members[0].is_off()

    def _evaluate(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[Score]:
        weight = self.weight()
        (scores,) = self._scores(texts, prompts, columns)
        return [_scaled(score, weight) for score in scores]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "schedule": pack_function(self.schedule)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.schedule = unpack_function(state["schedule"])


def _scaled(score: Score, weight: float) -> Score:
    """The score with another weight; `unshaped` stays, for a schedule is no part of it."""
    if score.value is None:
        return score
    shares = {name: weight * share for name, share in score.contributions.items()}
    return with_changes(score, value=weight * score.value, contributions=shares)


def _between(points: Sequence[tuple[float, float]], step: float) -> float:
    """Straight lines between points, constant before the first and after the last.

    >>> _between([(0, 1.0), (100, 0.0)], 25)
    0.75
    """
    after = bisect_right([at for at, _ in points], step)
    if after == 0:
        return points[0][1]
    if after == len(points):
        return points[-1][1]
    (left, low), (right, high) = points[after - 1], points[after]
    return low + (high - low) * (step - left) / (right - left)
