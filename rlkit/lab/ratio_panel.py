"""RatioPanel: several updates on one batch, and which of its tokens still have a gradient.

A batch is frozen. A slider says how many updates are taken on it; the panel draws the ratio
of every token between the walls of the clip, the share without gradient, and how far the
policy has drifted. The walls can be moved, the ratio can be that of a token or of the whole
answer, and the clip can be taken away. Each setting is a walk of its own, really trained
(`rlkit.lab.ratio_walk`), and kept, so that the slider of updates only looks.

Without a front end the same is shown as text, and `set` does what the controls do.

Left out on purpose: a value head, and a change of the policy, which is put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
import torch

from rlkit.errors import UserError
from rlkit.lab.panel_settings import Adjustable
from rlkit.lab.ratio_figures import drift_figure, histogram
from rlkit.lab.ratio_walk import NO_WALLS, Place, clip_objective, walk
from rlkit.lab.theme import Table, escape, figure_notes, number, table_html
from rlkit.policy.rollout import flatten

if TYPE_CHECKING:
    from rlkit.policy import Group, Policy

LEVELS = ("token", "sequence")


@dataclass(frozen=True)
class Settings:
    """What the controls of a `RatioPanel` say.

    Attributes:
        updates: optimizer steps taken on the batch.
        low, high: how far the walls are below and above 1.
        level: whose ratio is clipped, that of a `token` or of the whole `sequence`.
        clip: whether there is a clip at all; without one the walls only mark.
    """

    updates: int = 0
    low: float = 0.2
    high: float = 0.2
    level: str = "token"
    clip: bool = True

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UserError(f"level={self.level!r} is unknown; choose {' or '.join(LEVELS)}")
        if not (0 < self.low < 1 and 0 < self.high < 10):
            raise UserError(
                f"low must lie between 0 and 1 and high between 0 and 10, not {self.low} and "
                f"{self.high}"
            )


class RatioPanel(Adjustable):
    """A frozen batch to take updates on. Make it the last line of a cell to see it.

    Args:
        policy: it drew the answers, as it is now; put back after each walk.
        groups: B groups of G answers.
        rewards_BG: what each was worth.
        most: most updates on the batch.
        learning_rate: of AdamW.
        settings: to begin with, by name, as in `Settings`.

    Attributes:
        settings: what the controls say.

    Raises:
        UserError: not one reward for each answer, groups of different sizes, or no group
            with contrast.
    """

    def __init__(
        self,
        policy: Policy,
        groups: Sequence[Group],
        rewards_BG: Sequence[Sequence[float]],
        *,
        most: int = 8,
        learning_rate: float = 2e-3,
        **settings: Any,
    ) -> None:
        sizes = {len(group) for group in groups} | {len(row) for row in rewards_BG}
        if len(sizes) != 1 or len(groups) != len(rewards_BG) or min(sizes) < 2:
            raise UserError(
                "give groups of one size, at least 2, and one reward for each answer; not "
                f"{len(groups)} groups and {len(rewards_BG)} rows, of the sizes {sorted(sizes)}"
            )
        if not any(len(set(row)) > 1 for row in rewards_BG):
            raise UserError("no group has contrast, so no update would move anything")
        if most < 1:
            raise UserError(f"most must be at least 1 update, not {most}")
        self.policy, self.rollouts = policy, flatten(groups)
        self.rewards_BG = torch.tensor([list(row) for row in rewards_BG], dtype=torch.float32)
        self.groups, self.most, self.learning_rate = len(groups), most, learning_rate
        self._walks: dict[tuple, list[Place]] = {}
        self._begin(Settings(**settings), "rlkit.lab.ratio_controls")

    def _checked(self, wanted: Settings) -> Settings:
        if not 0 <= wanted.updates <= self.most:
            raise UserError(f"updates must be 0 to {self.most}, not {wanted.updates}")
        return wanted

    # -- what it measures -----------------------------------------------------------------

    @property
    def places(self) -> list[Place]:
        """The walk of the settings: where all ratios are after 0, 1, ... updates."""
        s = self.settings
        if s.clip:
            return self._walk(s.low, s.high, s.level)
        return self._walk(NO_WALLS, NO_WALLS, s.level)

    @property
    def free(self) -> list[Place]:
        """The walk without a clip."""
        return self._walk(NO_WALLS, NO_WALLS, self.settings.level)

    @property
    def found(self) -> Place:
        """The place that the slider of updates is at."""
        return self.places[self.settings.updates]

    def _walk(self, low: float, high: float, level: str) -> list[Place]:
        key = (low, high, level)
        if key not in self._walks:
            self._walks[key] = walk(
                self.policy,
                self.rollouts,
                self.rewards_BG,
                clip_objective(low, high, level),
                self.most,
                self.learning_rate,
            )
        return self._walks[key]

    # -- what it shows --------------------------------------------------------------------

    def table(self) -> Table:
        """One row for each number of updates."""
        s = self.settings
        rows = [
            [
                place.updates,
                round(100 * place.outside(s.low, s.high), 1),
                round(100 * place.held_share, 1),
                round(100 * place.silent_share, 1),
                min(place.ratios),
                max(place.ratios),
                round(place.kl, 6),
            ]
            for place in self.places
        ]
        heads = ["updates", "outside, %", "held by the clip, %", "no gradient, %"]
        return Table([*heads, "least ratio", "largest ratio", "drift, nats a token"], rows)

    def figure(self) -> go.Figure:
        """The histogram of ratios, its walls, and who has no gradient."""
        s = self.settings
        return histogram(self.places, s.updates, s.low, s.high, s.level, s.clip)

    def drift(self) -> go.Figure:
        """The divergence from the policy that drew, with the walls and without."""
        return drift_figure(self.places, self.free, self.settings.updates, self.settings.clip)

    def status(self) -> str:
        """The place in one line."""
        s, place = self.settings, self.found
        walls = f"walls at {1 - s.low:.5g} and {1 + s.high:.5g}" if s.clip else "no clip"
        whose = "token" if s.level == "token" else "answer"
        return (
            f"{s.updates} update{'' if s.updates == 1 else 's'} on one batch of "
            f"{len(self.rollouts)} answers, ratio of the {whose}, {walls}: "
            f"{100 * place.silent_share:.1f} % of the tokens have no gradient, "
            f"{100 * place.outside(s.low, s.high):.1f} % are outside"
        )

    def __str__(self) -> str:
        table = self.table()
        shown = [list(map(str, table.columns))]
        shown += [[number(value) for value in row] for row in table.rows]
        widths = [max(len(row[k]) for row in shown) for k in range(len(table.columns))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in shown]
        notes = [figure.layout.meta["alt"] for figure in (self.figure(), self.drift())]
        return "\n".join([self.status(), *lines, *notes])

    __repr__ = __str__

    def html(self) -> str:
        """The table of the walk."""
        return table_html(self.table(), "The walk, update by update.")

    def _page(self) -> str:
        notes = "".join(figure_notes(figure) for figure in (self.figure(), self.drift()))
        return f"<p><b>{escape(self.status())}</b></p>{self.html()}{notes}"
