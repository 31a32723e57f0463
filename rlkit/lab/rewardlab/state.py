"""RewardLabState: what the Reward Lab knows, without a widget.

`apply(source)` makes a reward of the source, scores all stored completions with it in a
process that can be killed, and only then takes it over. Source that does not parse, raises,
or never ends changes nothing and comes back as a sentence. What was taken over can be
undone and redone.

Left out on purpose: an editor. A text area is enough, and `%%reward` has the notebook's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.rewardlab.comparison import Comparison
from rlkit.lab.rewardlab.scoring import Scoring, most_common_reason, score_rollouts
from rlkit.lab.rewardlab.source import STARTING_SOURCE, make_reward, reweighed, reweighed_source
from rlkit.lab.stored import StoredRollouts, stored_rollouts
from rlkit.rewards import Reward
from rlkit.rewards.reward import ERROR
from rlkit.rewards.source import RewardSourceError

#: Seconds that scoring all stored completions may take.
TIME_LIMIT_S = 5.0
#: Versions that can be undone.
MOST_VERSIONS = 100


@dataclass(frozen=True)
class Outcome:
    """What became of something that was asked for.

    Attributes:
        ok: whether it was done; otherwise nothing has changed.
        sentence: what happened, for a person.
    """

    ok: bool
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Version:
    """One reward that was taken over.

    Attributes:
        source: its source as it stands in the box.
        reward: the reward made of it, before the sliders.
        scored: what that gives to the stored completions.
        factors: what the sliders multiply each part's addition by; empty when untouched.
    """

    source: str
    reward: Reward
    scored: Scoring
    factors: Mapping[str, float]

    @cached_property
    def scoring(self) -> Scoring:
        """What the reward gives, sliders included."""
        first = self.scored.weights
        weights = {name: first[name] * factor for name, factor in self.factors.items()}
        return self.scored.weighted(weights) if weights else self.scored


class RewardLabState:
    """A reward's source, what it gives to stored completions, and the way back.

    Args:
        rollouts: anything that `stored_rollouts` takes.
        reward: source text, a `Reward`, its name or a function to begin with; the lab's
            own starting source when not given.
        time_limit_s: seconds that scoring all completions may take.

    Raises:
        UserError: no rollouts, or a reward that cannot be made or cannot score them.

    >>> lab = RewardLabState(stored_rollouts().where(domain="sort"), "exact_answer")
    >>> print(lab.apply("def broken(completions:"))
    Nothing has changed: ...
    >>> lab.reward.name
    'exact_answer'
    """

    def __init__(
        self,
        rollouts: Any = None,
        reward: Any = None,
        *,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        self.stored: StoredRollouts = stored_rollouts(rollouts)
        self.time_limit_s = time_limit_s
        source = STARTING_SOURCE if reward is None else reward
        self._versions: list[Version] = [self._make(source)]
        self._at = 0
        self._listeners: list[Callable[[], None]] = []

    # -- what it is now ---------------------------------------------------------------------

    @property
    def version(self) -> Version:
        """The version in force."""
        return self._versions[self._at]

    @property
    def source(self) -> str:
        """The source in force, which is not what stands half-typed in the box."""
        return self.version.source

    @property
    def reward(self) -> Reward:
        """The reward in force, the sliders' weights included."""
        return reweighed(self.version.reward, self.version.factors)

    @property
    def scoring(self) -> Scoring:
        """What it gives to the stored completions."""
        return self.version.scoring

    @property
    def before(self) -> Scoring:
        """What the version before it gave; its own at the beginning."""
        return self._versions[max(0, self._at - 1)].scoring

    @property
    def comparison(self) -> Comparison:
        """The version in force against the one before."""
        return self._compared

    @cached_property
    def _compared(self) -> Comparison:
        return Comparison(self.stored, self.before, self.scoring)

    @property
    def opening(self) -> str:
        """What the version in force did, in one or a few sentences."""
        return " ".join(filter(None, [self._applied(self.version), self.stored.left_out]))

    @property
    def weights(self) -> dict[str, float | None]:
        """Weight of each term of the sum; empty when the reward is no sum."""
        return dict(self.scoring.weights)

    # -- what may be asked of it ------------------------------------------------------------

    def apply(self, source: Any) -> Outcome:
        """Scores everything with another reward, and takes it over if that works.

        Args:
            source: source text, or a `Reward`, its name, or a function.
        """
        try:
            version = self._make(source)
        except UserError as error:
            return Outcome(False, f"Nothing has changed: {self._fault(error)}")
        self._take(version)
        return Outcome(True, self._applied(version))

    def set_weight(self, name: str, weight: float) -> Outcome:
        """Weighs one term of the sum anew, without scoring again.

        Several such changes in a row are one version, so that one undo takes them back.
        """
        version = self.version
        try:
            self.scoring.weighted({name: float(weight)})
        except (UserError, TypeError, ValueError) as error:
            return Outcome(False, f"Nothing has changed: {error}")
        first = version.scored.weights[name]
        if not first:
            return Outcome(False, f"Nothing has changed: {name} adds nothing to any completion.")
        factors = {**version.factors, name: float(weight) / first}
        self._take(replace(version, factors=factors), instead=bool(version.factors))
        return Outcome(True, f"{name} now weighs {weight:g}.")

    def undo(self) -> Outcome:
        """Goes back to the version before."""
        if not self.can_undo:
            return Outcome(False, "There is nothing to undo.")
        return self._go(self._at - 1, "Back to the version before")

    def redo(self) -> Outcome:
        """Takes the last undo back."""
        if not self.can_redo:
            return Outcome(False, "There is nothing to redo.")
        return self._go(self._at + 1, "On to the version after")

    @property
    def can_undo(self) -> bool:
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        return self._at < len(self._versions) - 1

    def save(self, path: str | Path, *, overwrite: bool = False) -> Outcome:
        """Writes the source in force, sliders included, into a Python file.

        Raises:
            UserError: no such folder, another kind of file, or a file that is there
                already when `overwrite` is off.
        """
        path = Path(path).expanduser()
        if path.suffix != ".py":
            raise UserError(f"a reward is saved as a Python file, so {path.name!r} must end in .py")
        if path.exists() and not overwrite:
            raise UserError(f"{str(path)!r} exists already; choose another name")
        try:
            path.write_text(self.saved_source(), encoding="utf-8")
        except OSError as error:
            raise UserError(f"{str(path)!r} cannot be written: {error.strerror}") from error
        return Outcome(True, f"Saved in {path}.")

    def saved_source(self) -> str:
        """The source in force, with the sliders' weights written below it."""
        return reweighed_source(self.version.source, self.version.factors)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Has `listener()` called after each change of the version in force."""
        self._listeners.append(listener)

    # -- how it is done ---------------------------------------------------------------------

    def _make(self, source: Any) -> Version:
        text, reward = make_reward(source, self.time_limit_s)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a reward warns of is told by the outcome
            scoring = score_rollouts(reward, self.stored)
        if not scoring.known.any():
            raise UserError(_why_nothing(scoring))
        return Version(text, reward, scoring, {})

    def _fault(self, error: UserError) -> str:
        if not (isinstance(error, RewardSourceError) and error.kind == "timeout"):
            return str(error)
        where = f" in line {error.line}" if error.line else ""
        return (
            f"the reward was still running{where} after {self.time_limit_s:g} s and was stopped; "
            "look for a loop that does not end, or open the lab with a larger time_limit_s"
        )

    def _take(self, version: Version, instead: bool = False) -> None:
        kept = self._versions[: self._at + (0 if instead else 1)]
        self._versions = [*kept, version][-MOST_VERSIONS:]
        self._at = len(self._versions) - 1
        self._changed()

    def _go(self, place: int, sentence: str) -> Outcome:
        self._at = place
        self._changed()
        return Outcome(True, f"{sentence} ({place + 1} of {len(self._versions)}).")

    def _changed(self) -> None:
        self.__dict__.pop("_compared", None)
        for listener in self._listeners:
            listener()

    def _applied(self, version: Version) -> str:
        scoring = version.scoring
        known = int(scoring.known.sum())
        text = f"{known:,} completions scored in {scoring.seconds * 1000:,.0f} ms."
        if scoring.missing:
            lacking = [f"{d} has no column {c!r}" for d, c in scoring.missing.items()]
            text += f" Left without a verdict: {'; '.join(lacking)}."
        if scoring.errors:
            reason = most_common_reason(scoring, ERROR)
            text += f" {scoring.errors:,} have no verdict because the reward failed: {reason}."
        return text


def _why_nothing(scoring: Scoring) -> str:
    reason = most_common_reason(scoring, ERROR)
    if reason:
        return reason
    return "the reward gave no verdict on any completion; give a number where there is one"
