"""BanditPanel: a policy of four numbers to be trained by hand, with its gradient's spread.

Bars of probabilities move with each step; beside them stands a strip of 200 estimates of
the gradient for the best arm, with and without a baseline, at the policy as it is now.

Without a front end the same is shown as text; `step`, `set` and `start_afresh` do what
buttons and sliders do.

Left out on purpose: a thread. A step takes microseconds, so the buttons work at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.bandit import Bandit, probabilities
from rlkit.lab.bandit_figures import probability_figure, strip_figure
from rlkit.lab.live_run import check_steps
from rlkit.lab.panel_settings import Adjustable
from rlkit.lab.theme import figure_notes, number

#: Estimates of one strip.
RESAMPLES = 200
#: Drawings while some steps are taken, and the pause after each, in seconds.
FRAMES, PAUSE_S = 10, 0.15


@dataclass(frozen=True)
class Settings:
    """What the sliders say.

    Attributes:
        learning_rate: what the gradient is multiplied by.
        batch: draws for one step.
        baseline: whether the mean of the other draws is taken away.
        added: a constant on top of every reward.
    """

    learning_rate: float = 0.5
    batch: int = 8
    baseline: bool = True
    added: float = 0.0

    def __post_init__(self) -> None:
        if not self.learning_rate > 0:
            raise UserError(f"the learning rate must be above 0, not {self.learning_rate}")
        check_steps(self.batch, "the batch")

    @property
    def kind(self) -> str:
        """The baseline's name in `rlkit.lab.bandit`."""
        return "others" if self.baseline else "none"


class BanditPanel(Adjustable):
    """Four arms, four preferences, and sliders. Make it the last line of a cell to see it.

    Args:
        bandit: the arms; the usual four when not given.
        seed: of everything that is drawn.

    Attributes:
        settings: learning rate, batch, baseline, and what is added to every reward.
        preferences: the policy, K numbers.
        steps: how many were taken.

    >>> panel = BanditPanel(seed=0)
    >>> panel.step(50)
    >>> bool(panel.probabilities[2] > 0.6)
    True
    """

    def __init__(self, bandit: Bandit | None = None, *, seed: int = 0) -> None:
        self.arms = bandit or Bandit()
        self.seed = seed
        self._reset()
        self._begin(Settings(added=self.arms.added), "rlkit.lab.bandit_controls")

    def _reset(self) -> None:
        self.preferences = np.zeros(len(self.arms.pays))
        self.steps = 0
        self._rng = np.random.default_rng(self.seed)

    # -- what may be asked of it ---------------------------------------------------------

    @property
    def bandit(self) -> Bandit:
        """The arms, with what the slider adds to every reward."""
        return replace(self.arms, added=self.settings.added)

    @property
    def probabilities(self) -> np.ndarray:
        """How likely each arm is now."""
        return probabilities(self.preferences)

    def step(self, count: int = 1) -> None:
        """Takes so many steps with the settings in force; in a front end it is drawn meanwhile.

        Raises:
            UserError: a count below 1, or a baseline with a batch of one.
        """
        check_steps(count)
        shown = self._controls is not None and count > 1
        every = max(1, count // FRAMES)
        for done in range(1, count + 1):
            estimate_K = self.bandit.estimates(
                self.preferences, self.settings.batch, self.settings.kind, self._rng
            )[0]
            self.preferences = self.preferences + self.settings.learning_rate * estimate_K
            self.steps += 1
            if shown and done % every == 0 and done < count:
                self._controls.draw_bars()
                time.sleep(PAUSE_S)
        self._draw()

    def start_afresh(self) -> None:
        """All preferences back to 0, and the same draws again."""
        self._reset()
        self._draw()

    # -- what it shows --------------------------------------------------------------------

    def status(self) -> str:
        """Where the policy stands, in one line."""
        best = self.arms.best
        return (
            f"Step {self.steps}: mean reward {number(self.bandit.value(self.preferences))}, "
            f"probability of the best arm {number(float(self.probabilities[best]))}"
        )

    def figure(self) -> go.Figure:
        """The probabilities now, and what each arm pays."""
        names = [f"arm {k + 1}" for k in range(len(self.arms.pays))]
        return probability_figure(
            self.probabilities, names, self.arms.pays, title=f"The policy after step {self.steps}"
        )

    def estimates(self) -> dict[str, np.ndarray]:
        """200 estimates of the best arm's gradient, without and with a baseline.

        With a batch of one there are none with a baseline.
        """
        kinds = {"no baseline": "none", "mean of the others": "others"}
        if self.settings.batch < 2:
            del kinds["mean of the others"]
        found = {}
        for name, kind in kinds.items():
            rng = np.random.default_rng(self.seed)  # the same draws for both
            drawn_RK = self.bandit.estimates(
                self.preferences, self.settings.batch, kind, rng, RESAMPLES
            )
            found[name] = drawn_RK[:, self.arms.best]
        return found

    def strip(self) -> go.Figure:
        """The 200 estimates as a strip, with the exact gradient."""
        exact = float(self.bandit.gradient(self.preferences)[self.arms.best])
        return strip_figure(
            self.estimates(),
            exact,
            "gradient for the best arm",
            title=f"{RESAMPLES} estimates, batch of {self.settings.batch}",
        )

    def __str__(self) -> str:
        figures = (self.figure(), self.strip())
        return "\n".join([self.status(), *(figure.layout.meta["alt"] for figure in figures)])

    __repr__ = __str__

    def _page(self) -> str:
        notes = "".join(figure_notes(figure) for figure in (self.figure(), self.strip()))
        return f"<p><b>{self.status()}</b></p>{notes}"
