"""The widgets of an `Nf4Panel`: block size, 8-bit scales, rank; two figures and a table.

Only core ipywidgets and static plotly figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as w

from rlkit.lab.figure_box import Alert, FigureBox, checkbox, panel, row, slider, status
from rlkit.lab.nf4_figures import blocks_of

if TYPE_CHECKING:
    from rlkit.lab.nf4_panel import Nf4Panel

RANKS = (0, 1, 2, 4, 8, 16, 32, 64, 128)


class Controls:
    """The widgets of one panel."""

    def __init__(self, owner: Nf4Panel) -> None:
        self.owner = owner
        self._quiet = False  # while widgets are set from here, their handlers rest
        now, most = owner.settings, min(owner.matrix.shape)
        sizes = sorted({*blocks_of(owner.matrix), now.block})
        ranks = sorted({*(rank for rank in RANKS if rank < most), most, now.rank})
        self.block = slider("Weights of a block", sizes, now.block)
        self.rank = slider("Rank of an adapter", ranks, now.rank)
        self.double = checkbox("Scales in 8 bits (double quantisation)", now.double)
        self.status, self.alert = w.HTML(), Alert()
        self.plot, self.levels = FigureBox(440), FigureBox(320)
        self.table = w.HTML()
        self.box = panel(
            row(self.block, self.rank, self.double),
            self.status,
            self.alert.box,
            row(self.plot.box, self.levels.box),
            self.table,
        )
        for name in ("block", "rank", "double"):
            self._on(name)
        self.draw()

    def _on(self, name: str) -> None:
        widget = getattr(self, name)
        guarded = self.alert.guarded(lambda: self.owner.set(**{name: widget.value}))
        widget.observe(lambda change: None if self._quiet else guarded(change), "value")

    def draw(self) -> None:
        """Shows the matrix by the settings in force."""
        self._quiet = True
        try:
            for name, value in vars(self.owner.settings).items():
                widget = getattr(self, name)
                if isinstance(widget, w.SelectionSlider) and value not in widget.options:
                    widget.options = sorted({*widget.options, value})
                widget.value = value
        finally:
            self._quiet = False
        self.status.value = status(self.owner.status())
        self.plot.show(self.owner.figure())
        self.levels.show(self.owner.levels())
        self.table.value = self.owner.html()
