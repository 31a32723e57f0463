"""The widgets of an `Nf4Panel`: block size, 8-bit scales, rank; two figures and a table.

Only core ipywidgets and static plotly figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w

from rlkit.lab.figure_box import FigureBox, checkbox, panel, row, slider, status
from rlkit.lab.nf4_figures import blocks_of
from rlkit.lab.settings_controls import SettingsControls

if TYPE_CHECKING:
    from rlkit.lab.nf4_panel import Nf4Panel

RANKS = (0, 1, 2, 4, 8, 16, 32, 64, 128)


class Controls(SettingsControls):
    """The widgets of one panel."""

    def __init__(self, owner: Nf4Panel) -> None:
        super().__init__(owner)
        now, most = owner.settings, min(owner.matrix.shape)
        sizes = sorted({*blocks_of(owner.matrix), now.block})
        ranks = sorted({*(rank for rank in RANKS if rank < most), most, now.rank})
        self.block = slider("Weights of a block", sizes, now.block)
        self.rank = slider("Rank of an adapter", ranks, now.rank)
        self.double = checkbox("Scales in 8 bits (double quantisation)", now.double)
        self.status = w.HTML()
        self.plot, self.levels = FigureBox(440), FigureBox(320)
        self.table = w.HTML()
        self.box = panel(
            row(self.block, self.rank, self.double),
            self.status,
            self.alert.box,
            row(self.plot.box, self.levels.box),
            self.table,
        )
        self._bind()
        self.draw()

    def draw(self) -> None:
        """Shows the matrix by the settings in force."""
        self._show_settings()
        self.status.value = status(self.owner.status())
        self.plot.show(self.owner.figure())
        self.levels.show(self.owner.levels())
        self.table.value = self.owner.html()
