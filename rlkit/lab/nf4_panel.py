"""Nf4Panel: one matrix in four bits; block size, double quantisation, and rank by hand.

Sliders choose how many weights share a scale and the rank of an adapter. The panel draws
error against bits a weight, and which of the 16 levels are used, and says how much of the
rounding the best adapter of that rank could take back, and what both cost in bytes.

Without a front end the same is shown as text, and `set` does what the controls do.

Left out on purpose: training; the adapter here is the best one for this matrix alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import torch

from rlkit.errors import UserError
from rlkit.lab.nf4 import FourBit, bits_a_weight, error, quantise, repaired
from rlkit.lab.nf4_figures import blocks_of, level_figure, size_figure
from rlkit.lab.panel_settings import Adjustable
from rlkit.lab.theme import Table, escape, figure_notes, number, table_html


@dataclass(frozen=True)
class Settings:
    """What the controls of an `Nf4Panel` say.

    Attributes:
        block: weights that share a scale.
        double: whether the scales are kept in 8 bits.
        rank: of the adapter; 0 for none.
    """

    block: int = 64
    double: bool = True
    rank: int = 16


class Nf4Panel(Adjustable):
    """A matrix to put into four bits. Make it the last line of a cell to see it.

    Args:
        matrix: shape (out, in), float.
        settings: to begin with, by name, as in `Settings`.

    Attributes:
        settings: what the controls say.

    Raises:
        UserError: no matrix, or settings that do not fit it.

    >>> panel = Nf4Panel(torch.eye(16), block=16, rank=0)
    >>> panel.error, panel.set(rank=16), round(panel.left, 6)
    (0.0, None, 0.0)
    """

    def __init__(self, matrix: torch.Tensor, **settings: Any) -> None:
        if matrix.dim() != 2 or not float(matrix.detach().float().norm()):
            raise UserError(
                f"give a matrix that is not 0 everywhere, not a shape of {tuple(matrix.shape)}"
            )
        self.matrix = matrix.detach().float()
        self._begin(Settings(**settings), "rlkit.lab.nf4_controls")

    def _checked(self, wanted: Settings) -> Settings:
        if wanted.block not in blocks_of(self.matrix, [wanted.block]):
            raise UserError(
                f"blocks of {wanted.block} do not fill a matrix of {self.matrix.numel():,} weights"
            )
        if not 0 <= wanted.rank <= min(self.matrix.shape):
            raise UserError(f"rank must be 0 to {min(self.matrix.shape)}, not {wanted.rank}")
        return wanted

    # -- what it measures -----------------------------------------------------------------

    @property
    def coded(self) -> FourBit:
        """The matrix in four bits."""
        coded = quantise(self.matrix, self.settings.block)
        return coded.double() if self.settings.double else coded

    @property
    def error(self) -> float:
        """Of what comes back, as a share of the matrix."""
        return error(self.matrix, self.coded.matrix())

    @property
    def left(self) -> float:
        """The error that the best adapter of this rank leaves."""
        return repaired(self.matrix, self.coded.matrix(), self.settings.rank)

    def table(self) -> Table:
        """Bytes of the matrix as it was, in four bits, and of the adapter."""
        s, count = self.settings, self.matrix.numel()
        bits = bits_a_weight(s.block, s.double)
        adapter = 4 * s.rank * sum(self.matrix.shape)
        rows = [
            ["16 bits", 2 * count, 16, None],
            ["four bits, with scales", round(count * bits / 8), bits, round(100 * self.error, 2)],
            [
                f"the same, and the best adapter of rank {s.rank}",
                round(count * bits / 8) + adapter,
                bits + 8 * adapter / count,
                round(100 * self.left, 2),
            ],
        ]
        return Table(["this matrix in", "bytes", "bits a weight", "error, %"], rows)

    # -- what it shows --------------------------------------------------------------------

    def figure(self) -> go.Figure:
        """Error against bits a weight."""
        return size_figure(self.matrix, self.settings.block, self.settings.double)

    def levels(self) -> go.Figure:
        """Which of the 16 levels are used."""
        return level_figure(self.coded)

    def status(self) -> str:
        """All of it in one line."""
        s = self.settings
        scales = "scales in 8 bits" if s.double else "scales in 32 bits"
        bits = number(round(bits_a_weight(s.block, s.double), 3))
        return (
            f"blocks of {s.block}, {scales}: {bits} bits a weight, error "
            f"{number(round(100 * self.error, 2))} %; with the best adapter of rank {s.rank} "
            f"{number(round(100 * self.left, 2))} %"
        )

    def __str__(self) -> str:
        lines = ["  ".join(map(number, row)) for row in self.table().rows]
        notes = [figure.layout.meta["alt"] for figure in (self.figure(), self.levels())]
        return "\n".join([self.status(), *lines, *notes])

    __repr__ = __str__

    def html(self) -> str:
        """The table of bytes."""
        return table_html(self.table(), "What the matrix takes.")

    def _page(self) -> str:
        notes = "".join(figure_notes(figure) for figure in (self.figure(), self.levels()))
        return f"<p><b>{escape(self.status())}</b></p>{self.html()}{notes}"
