"""The widgets of a `BanditPanel`: sliders, buttons, bars and a strip.

Only core ipywidgets and static plotly figures. Widgets hold no state of the policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w

from rlkit.lab.figure_box import Alert, FigureBox, button, checkbox, panel, row, slider, status

if TYPE_CHECKING:
    from rlkit.lab.bandit_panel import BanditPanel

RATES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
BATCHES = (2, 4, 8, 16, 32, 64)
ADDED = (0.0, 1.0, 3.0, 10.0)


class Controls:
    """The widgets of one panel."""

    def __init__(self, owner: BanditPanel) -> None:
        self.owner = owner
        now = owner.settings
        self.one = button("Run one step", "play", "Draw a batch and follow its gradient", True)
        self.many = button("Run 50 steps", "forward", "Fifty batches, one after the other")
        self.afresh = button("Start afresh", "undo", "All preferences back to 0")
        self.rate = slider("Learning rate", RATES, now.learning_rate)
        self.batch = slider("Batch (draws a step)", BATCHES, now.batch)
        added = ADDED if now.added in ADDED else (*ADDED, now.added)
        self.added = slider("Added to every reward", sorted(added), now.added)
        self.baseline = checkbox("Baseline (the mean of the others)", now.baseline)
        self.status, self.alert = w.HTML(), Alert()
        self.bars, self.strip = FigureBox(), FigureBox()
        self.box = panel(
            row(self.one, self.many, self.afresh),
            row(self.rate, self.batch, self.added, self.baseline),
            self.status,
            self.alert.box,
            row(self.bars.box, self.strip.box),
        )
        for pressed, act in (
            (self.one, lambda: owner.step(1)),
            (self.many, lambda: owner.step(50)),
            (self.afresh, owner.start_afresh),
        ):
            pressed.on_click(self.alert.guarded(act))
        for name, widget in (
            ("learning_rate", self.rate),
            ("batch", self.batch),
            ("added", self.added),
            ("baseline", self.baseline),
        ):
            widget.observe(self.alert.guarded(self._setter(name, widget)), "value")
        self.draw()

    def _setter(self, name: str, widget: w.Widget):
        return lambda: self.owner.set(**{name: widget.value})

    def draw(self) -> None:
        """Shows the policy and the strip as they are now."""
        self.draw_bars()
        self.strip.show(self.owner.strip())

    def draw_bars(self) -> None:
        """Shows the policy alone, which is all that moves within a row of steps."""
        self.status.value = status(self.owner.status())
        self.bars.show(self.owner.figure())
