"""The widgets of a `RatioPanel`: updates, two walls, whose ratio, the clip; two figures, a table.

Only core ipywidgets and static plotly figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w

from rlkit.lab.figure_box import FigureBox, checkbox, panel, row, slider, status
from rlkit.lab.settings_controls import SettingsControls

if TYPE_CHECKING:
    from rlkit.lab.ratio_panel import RatioPanel

LOWS = (0.0003, 0.01, 0.05, 0.1, 0.2, 0.4)
HIGHS = (0.0004, 0.01, 0.05, 0.1, 0.2, 0.28, 0.4, 0.8)
NAMES = {"a token (PPO, GRPO, DAPO)": "token", "the whole answer (GSPO)": "sequence"}


class Controls(SettingsControls):
    """The widgets of one panel."""

    def __init__(self, owner: RatioPanel) -> None:
        super().__init__(owner)
        now = owner.settings
        self.updates = slider("Updates on this batch", range(owner.most + 1), now.updates)
        self.low = slider("Wall below, 1 minus", sorted({*LOWS, now.low}), now.low)
        self.high = slider("Wall above, 1 plus", sorted({*HIGHS, now.high}), now.high)
        self.level = w.Dropdown(
            options=list(NAMES.items()),
            value=now.level,
            description="The ratio is of",
            tooltip="Whose ratio is held between the walls",
            style={"description_width": "initial"},
            layout=w.Layout(width="330px", max_width="100%"),
        )
        self.clip = checkbox("Clip (off: the walls only mark)", now.clip)
        self.status = w.HTML()
        self.plot, self.drift = FigureBox(440), FigureBox(320)
        self.table = w.HTML()
        self.box = panel(
            row(self.updates, self.low, self.high, self.level, self.clip),
            self.status,
            self.alert.box,
            row(self.plot.box, self.drift.box),
            self.table,
        )
        self._bind()
        self.draw()

    def draw(self) -> None:
        """Shows the walk of the settings in force."""
        self._show_settings()
        self.status.value = status(self.owner.status())
        self.plot.show(self.owner.figure())
        self.drift.show(self.owner.drift())
        self.table.value = self.owner.html()
