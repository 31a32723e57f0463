"""The rules: what counts as trouble, and what each asks to be done about it.

A rule sees one record after the other and says nothing, or why it would act.
It holds no policy and no file, so it can be replayed from `metrics.jsonl`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlkit.monitor.record import StepRecord

Action = Literal["skip_step", "rollback", "warn"]


@dataclass(frozen=True)
class Finding:
    """Why a rule would act: a sentence, and the numbers behind it."""

    reason: str
    evidence: dict[str, float | None]


class Rule:
    """One kind of trouble. Subclasses set `name` and `action` and write `check`."""

    name: str = ""
    action: Action = "warn"

    def check(self, record: StepRecord) -> Finding | None:
        """Looks at the next record; gives a finding when there is trouble."""
        raise NotImplementedError(f"{type(self).__name__} must define check()")

    def after_action(self) -> None:
        """Called when the loop has acted on this rule's finding."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError(f"{self.name} has no state, but was given {sorted(state)}")


@dataclass
class NonFiniteGradient(Rule):
    """A gradient with NaN or infinity in it: the update is skipped, weights stay whole."""

    name = "nonfinite_gradient"
    action = "skip_step"

    def check(self, record: StepRecord) -> Finding | None:
        if "grad_norm" not in record.nonfinite:
            return None
        return Finding(
            "the gradient is not finite; stepping would ruin every weight",
            {"loss": record["loss"], "grad_norm": None},
        )


@dataclass
class RewardCollapse(Rule):
    """The reward's average has fallen far below its best: go back and go slower.

    Attributes:
        window: steps in an average.
        min_drop: least fall that counts, in units of the reward.
        sigmas: the fall must also exceed this many deviations of the best window.
        patience: steps in a row that the fall must last.
    """

    window: int = 5
    min_drop: float = 0.2
    sigmas: float = 3.0
    patience: int = 2
    recent: list[float] = field(default_factory=list)
    best: float | None = None
    best_deviation: float = 0.0
    best_step: int | None = None
    suspect: int = 0

    name = "reward_collapse"
    action = "rollback"

    def check(self, record: StepRecord) -> Finding | None:
        reward = record["sampling/reward"]
        if reward is None:  # nothing was thrown away, so the batch is all that was drawn
            reward = record["reward"]
        if reward is None:  # no value: neither good nor bad, and no patience is used
            return None
        self.recent = [*self.recent, reward][-self.window :]
        if len(self.recent) < self.window:
            return None
        average = statistics.fmean(self.recent)
        if self.best is None or average > self.best:
            self.best, self.best_step = average, record.step
            self.best_deviation = statistics.stdev(self.recent)
        drop = self.best - average
        allowed = max(self.min_drop, self.sigmas * self.best_deviation)
        self.suspect = self.suspect + 1 if drop > allowed else 0
        if self.suspect < self.patience:
            return None
        return Finding(
            f"the average reward of {self.window} steps fell to {average:.3f}, "
            f"{drop:.3f} below its best of {self.best:.3f} at step {self.best_step}",
            {"average": average, "best": self.best, "drop": drop, "allowed": allowed},
        )

    def after_action(self) -> None:
        # What was measured before the rollback says nothing about the policy now.
        self.recent, self.suspect = [], 0

    def state_dict(self) -> dict[str, Any]:
        return {
            "recent": list(self.recent),
            "best": self.best,
            "best_deviation": self.best_deviation,
            "best_step": self.best_step,
            "suspect": self.suspect,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.recent = list(state["recent"])
        self.best, self.best_deviation = state["best"], state["best_deviation"]
        self.best_step, self.suspect = state["best_step"], state["suspect"]


@dataclass
class EntropyCollapse(Rule):
    """The entropy has fallen to a small share of where it began: groups go silent next.

    Attributes:
        share: of the first entropy seen; below it is trouble.
        patience: steps in a row before the warning.
    """

    share: float = 0.1
    patience: int = 2
    first: float | None = None
    suspect: int = 0

    name = "entropy_collapse"
    action = "warn"

    def check(self, record: StepRecord) -> Finding | None:
        entropy = record["entropy"]
        if entropy is None:
            return None
        if self.first is None:
            self.first = entropy
        below = entropy < self.share * self.first
        self.suspect = self.suspect + 1 if below else 0
        if self.suspect != self.patience:  # said once, until it has recovered
            return None
        return Finding(
            f"the entropy is {entropy:.3f} nats, under {self.share:.0%} of the "
            f"{self.first:.3f} it began with; answers in a group will soon be all alike",
            {"entropy": entropy, "first": self.first},
        )

    def state_dict(self) -> dict[str, Any]:
        return {"first": self.first, "suspect": self.suspect}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.first, self.suspect = state["first"], state["suspect"]


def default_rules() -> list[Rule]:
    """A fresh set of the three rules."""
    return [NonFiniteGradient(), RewardCollapse(), EntropyCollapse()]
