"""GroupPanel: one group of answers whose rewards are toggled by hand; what becomes of them.

Each answer is a button, right or wrong. Switches choose whether advantages are divided by
the group's spread (GRPO) or not (Dr. GRPO), and what the loss is divided by; two sliders
set the lengths of right and of wrong answers. A second figure says how often a group of
this size has contrast at all, for a share of right answers that a slider chooses.

Without a front end the same is shown as text, and `set` does what the controls do.

Left out on purpose: rewards between 0 and 1, and lengths of single answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.group_numbers import BUDGET, GroupNumbers, group_figure, group_numbers
from rlkit.lab.panel_settings import Adjustable
from rlkit.lab.theme import DECORATION, PALETTE, describe, escape, figure_notes, number, template
from rlkit.objectives.normalisers import NORMALISERS

#: Smallest and largest group.
SIZES = (2, 16)


def contrast(p: float, group_size: int) -> float:
    """The probability that a group is neither all right nor all wrong: 1 - p^G - (1 - p)^G.

    >>> round(contrast(0.02, 8), 3), contrast(0.5, 2), contrast(0.0, 8)
    (0.149, 0.5, 0.0)
    """
    if not 0 <= p <= 1 or group_size < 1:
        raise UserError(f"p must lie in 0 to 1 and a group has at least 1, not {p}, {group_size}")
    return 1 - p**group_size - (1 - p) ** group_size


def contrast_figure(p: float, group_size: int) -> go.Figure:
    """How often a group has contrast, over the share of right answers."""
    figure = go.Figure(layout={"template": template()})
    shares = [i / 50 for i in range(51)]
    curve = [contrast(share, group_size) for share in shares]
    figure.add_scatter(
        x=shares, y=curve, name=f"groups of {group_size}", mode="lines", line={"color": PALETTE[0]}
    )
    here = contrast(p, group_size)
    figure.add_scatter(
        x=[p],
        y=[here],
        name="here",
        mode="markers",
        marker={"symbol": "diamond", "size": 13, "color": PALETTE[1], "line": {"width": 0}},
        meta=DECORATION,
    )
    figure.update_xaxes(title_text="share of right answers (0 to 1)", range=[-0.02, 1.02])
    figure.update_yaxes(title_text="groups with contrast (0 to 1)", range=[-0.03, 1.05])
    figure.update_layout(title="How often a group teaches", showlegend=False)
    sentence = (
        f"Where {number(100 * p)} % of the answers are right, {number(100 * here)} % of the groups "
        f"of {group_size} have contrast"
    )
    caption = f"{sentence} (diamond). The others are all right or all wrong, and teach nothing."
    alt = f"A curve that is 0 at both ends and highest in the middle, {number(max(curve))}. "
    return describe(figure, caption, f"{alt}{sentence}.")


@dataclass(frozen=True)
class Settings:
    """What the controls of a `GroupPanel` say.

    Attributes:
        rewards: 1 for a right answer, 0 for a wrong one; their number is the group's size.
        std: whether advantages are divided by the group's spread.
        normaliser: `token`, `sequence` or `constant`.
        right_length, wrong_length: tokens of a right and of a wrong answer.
        p: share of right answers, for how often a group has contrast.
    """

    rewards: tuple[int, ...] = (1, 0, 0, 0, 0, 0, 0, 0)
    std: bool = True
    normaliser: str = "token"
    right_length: int = 10
    wrong_length: int = 10
    p: float = 0.05

    def __post_init__(self) -> None:
        if not SIZES[0] <= len(self.rewards) <= SIZES[1] or set(self.rewards) - {0, 1}:
            raise UserError(
                f"rewards must be {SIZES[0]} to {SIZES[1]} numbers, each 0 or 1, not "
                f"{list(self.rewards)}"
            )
        if self.normaliser not in NORMALISERS:
            raise UserError(
                f"normaliser={self.normaliser!r} is unknown; choose {', '.join(NORMALISERS)}"
            )
        if not all(1 <= n <= BUDGET for n in (self.right_length, self.wrong_length)):
            raise UserError(f"lengths must be 1 to {BUDGET} tokens")
        contrast(self.p, len(self.rewards))  # p in range

    @property
    def lengths(self) -> list[int]:
        """Tokens of each answer."""
        return [self.right_length if r else self.wrong_length for r in self.rewards]

    def sentence(self) -> str:
        """The settings in words."""
        divided = "divided by the spread" if self.std else "not divided by the spread"
        return f"advantages {divided}, mean by {self.normaliser}"


class GroupPanel(Adjustable):
    """A group to play with. Make it the last line of a cell to see it.

    Args:
        settings: to begin with, by name, as in `Settings`.

    Attributes:
        settings: what the controls say.
        found: what comes of it, see `rlkit.lab.group_numbers.GroupNumbers`.

    >>> panel = GroupPanel(rewards=(1, 0, 0, 0))
    >>> [round(a, 2) for a in panel.found.advantages]
    [1.5, -0.5, -0.5, -0.5]
    """

    def __init__(self, **settings: Any) -> None:
        self._begin(Settings(**settings), "rlkit.lab.group_controls")

    def resize(self, group_size: int) -> None:
        """Makes the group larger, by wrong answers, or smaller, from its end.

        Raises:
            UserError: a size out of range.
        """
        kept = self.settings.rewards[:group_size]
        self.set(rewards=kept + (0,) * (group_size - len(kept)))

    @property
    def found(self) -> GroupNumbers:
        s = self.settings
        return group_numbers(s.rewards, s.lengths, std=s.std, normaliser=s.normaliser)

    def figure(self) -> go.Figure:
        """Advantages, and the pull on a token, of each answer."""
        s = self.settings
        return group_figure(s.rewards, s.lengths, self.found, s.sentence())

    def chances(self) -> go.Figure:
        """How often a group of this size has contrast, at the share that the slider says."""
        return contrast_figure(self.settings.p, len(self.settings.rewards))

    def status(self) -> str:
        """The group in one line."""
        s, found = self.settings, self.found
        up = sum(w for w in found.whole if w > 0)
        shape = f"{sum(s.rewards)} of {len(s.rewards)} right; printed loss "
        text = (
            shape + f"{number(round(found.loss, 6) + 0.0)}, pull on all right answers {number(up)}"
        )
        return text if found.alive else f"{text}: no contrast, so nothing is learned"

    def __str__(self) -> str:
        figures = (self.figure(), self.chances())
        return "\n".join([self.status(), *(figure.layout.meta["alt"] for figure in figures)])

    __repr__ = __str__

    def _page(self) -> str:
        notes = "".join(figure_notes(figure) for figure in (self.figure(), self.chances()))
        return f"<p><b>{escape(self.status())}</b></p>{notes}"
