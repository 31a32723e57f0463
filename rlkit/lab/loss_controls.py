"""The widgets of a `LossPanel`: five controls, a table of numbers, and a figure.

Only core ipywidgets and static plotly figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w

from rlkit.lab.figure_box import FigureBox, checkbox, panel, row, slider
from rlkit.lab.settings_controls import SettingsControls

if TYPE_CHECKING:
    from rlkit.lab.loss_panel import LossPanel

EPSILONS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
BETAS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
TEMPERATURES = (0.6, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)


class Controls(SettingsControls):
    """The widgets of one panel."""

    def __init__(self, owner: LossPanel) -> None:
        super().__init__(owner)
        now = owner.settings
        self.group_size = slider("Answers a group (G)", range(2, owner.most + 1), now.group_size)
        self.epsilon = slider("Clip range (epsilon)", EPSILONS, now.epsilon)
        self.beta = slider("Weight of the KL (beta)", BETAS, now.beta)
        self.temperature = slider("Temperature of the scorer", TEMPERATURES, now.temperature)
        self.std = checkbox("Divide by the spread (off: Dr. GRPO)", now.std)
        self.table = w.HTML(layout=w.Layout(flex="1 1 320px", min_width="0"))
        self.plot = FigureBox(420)
        self.box = panel(
            row(self.group_size, self.epsilon, self.beta, self.temperature, self.std),
            self.alert.box,
            row(self.table, self.plot.box),
        )
        self._bind()
        self.draw()

    def draw(self) -> None:
        """Shows the batch under the settings in force."""
        self._show_settings()
        self.table.value = f'<div role="status" aria-live="polite">{self.owner.html()}</div>'
        self.plot.show(self.owner.figure())
