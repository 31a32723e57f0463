"""The widgets of a `GroupPanel`: a button for each answer, switches, sliders, two figures.

Only core ipywidgets and static plotly figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w

from rlkit.lab.figure_box import Alert, FigureBox, checkbox, panel, row, slider, status
from rlkit.lab.group_panel import SIZES

if TYPE_CHECKING:
    from rlkit.lab.group_panel import GroupPanel

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.98)
LENGTHS = (1, 2, 5, 10, 20, 40, 64)
NAMES = {
    "mean over all tokens (DAPO, the kit's GRPO)": "token",
    "mean of each answer first (GRPO's paper)": "sequence",
    "by a constant (Dr. GRPO)": "constant",
}


class Controls:
    """The widgets of one panel."""

    def __init__(self, owner: GroupPanel) -> None:
        self.owner = owner
        self._quiet = False  # while widgets are set from here, their handlers rest
        now = owner.settings
        self.size = slider("Answers (G)", range(SIZES[0], SIZES[1] + 1), len(now.rewards))
        self.answers = [
            w.ToggleButton(layout=w.Layout(width="92px"), tooltip="Right or wrong")
            for _ in range(SIZES[1])
        ]
        self.std = checkbox("Divide by the spread (off: Dr. GRPO)", now.std)
        self.normaliser = w.Dropdown(
            options=list(NAMES.items()),
            value=now.normaliser,
            description="The loss is a",
            style={"description_width": "initial"},
            layout=w.Layout(width="430px", max_width="100%"),
        )
        self.right = slider("Tokens of a right answer", _with(now.right_length), now.right_length)
        self.wrong = slider("Tokens of a wrong answer", _with(now.wrong_length), now.wrong_length)
        self.share = slider("Share of right answers (p)", sorted({*SHARES, now.p}), now.p)
        self.status, self.alert = w.HTML(), Alert()
        self.plot, self.chances = FigureBox(440), FigureBox(320)
        self.box = panel(
            row(self.size, self.std, self.normaliser),
            row(*self.answers),
            row(self.right, self.wrong, self.share),
            self.status,
            self.alert.box,
            row(self.plot.box, self.chances.box),
        )
        self._on(self.size, lambda: owner.resize(self.size.value))
        self._on(self.std, lambda: owner.set(std=self.std.value))
        self._on(self.normaliser, lambda: owner.set(normaliser=self.normaliser.value))
        self._on(self.right, lambda: owner.set(right_length=self.right.value))
        self._on(self.wrong, lambda: owner.set(wrong_length=self.wrong.value))
        self._on(self.share, lambda: owner.set(p=self.share.value))
        for answer in self.answers:
            self._on(answer, self._toggled)
        self.draw()

    def _on(self, widget: w.Widget, act) -> None:
        guarded = self.alert.guarded(act)
        widget.observe(lambda change: None if self._quiet else guarded(change), "value")

    def _toggled(self) -> None:
        size = len(self.owner.settings.rewards)
        self.owner.set(rewards=tuple(int(answer.value) for answer in self.answers[:size]))

    def draw(self) -> None:
        """Shows the group as it is now."""
        rewards = self.owner.settings.rewards
        self._quiet = True
        try:
            for i, answer in enumerate(self.answers):
                there = i < len(rewards)
                answer.layout.display = None if there else "none"
                answer.value = there and bool(rewards[i])
                answer.description = f"{i + 1}: {'right' if answer.value else 'wrong'}"
                answer.icon = "check" if answer.value else "times"
        finally:
            self._quiet = False
        self.status.value = status(self.owner.status())
        self.plot.show(self.owner.figure())
        self.chances.show(self.owner.chances())


def _with(length: int) -> list[int]:
    return sorted({*LENGTHS, length})
