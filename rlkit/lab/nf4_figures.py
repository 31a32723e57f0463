"""What is drawn of a matrix in four bits: the levels that are used, and error against size."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import torch

from rlkit.lab.nf4 import FourBit, bits_a_weight, error, nf4_levels, quantise
from rlkit.lab.theme import DECORATION, PALETTE, Table, describe, line_style, number, template

BLOCKS = (16, 32, 64, 128, 256, 512, 1024)


def blocks_of(matrix: torch.Tensor, blocks: Sequence[int] = BLOCKS) -> list[int]:
    """The block sizes that fill this matrix."""
    return [block for block in blocks if matrix.numel() % block == 0]


def size_figure(matrix: torch.Tensor, block: int, double: bool) -> go.Figure:
    """Error against bits a weight, for each size of a block, with plain and with 8-bit scales."""
    figure = go.Figure(layout={"template": template()})
    sizes = blocks_of(matrix, sorted({*BLOCKS, block}))
    errors: dict[bool, list[float]] = {}
    for index, twice in enumerate((False, True)):
        coded = [quantise(matrix, size) for size in sizes]
        coded = [c.double() for c in coded] if twice else coded
        errors[twice] = [100 * error(matrix, c.matrix()) for c in coded]
        style = line_style(index)
        figure.add_scatter(
            x=[bits_a_weight(size, twice) - 4 for size in sizes],
            y=errors[twice],
            text=[str(size) for size in sizes],
            name="scales in 8 bits" if twice else "scales in 32 bits",
            mode="lines+markers+text" if not twice else "lines+markers",
            textposition="top center",
            cliponaxis=False,
            line={"color": style["color"], "dash": style["dash"], "width": 2},
            marker={"symbol": style["symbol"], "size": 8},
        )
    here = errors[double][sizes.index(block)]
    figure.add_scatter(
        x=[bits_a_weight(block, double) - 4],
        y=[here],
        name="here",
        showlegend=False,
        mode="markers",
        marker={"symbol": "circle-open", "size": 18, "color": PALETTE[3], "line": {"width": 3}},
        meta=DECORATION,
    )
    least, most = min(errors[False]), max(errors[False])
    figure.update_xaxes(
        title_text="bits for scales (log scale)",
        type="log",
        tickvals=[0.01, 0.03, 0.1, 0.3, 1, 3],
    )
    room = 0.15 * (most - least)
    figure.update_yaxes(title_text="error (%)", range=[least - room, most + 2 * room])
    figure.update_layout(title="Error by block size", hovermode="closest")
    rows = [
        [size, bits_a_weight(size, False), plain, bits_a_weight(size, True), twice]
        for size, plain, twice in zip(sizes, errors[False], errors[True], strict=True)
    ]
    table = Table(["block", "bits", "error, %", "bits, scales in 8", "error, %, scales in 8"], rows)
    told = (
        f"Blocks of {block} take {number(round(bits_a_weight(block, double), 3))} bits a weight "
        f"and are off by {number(round(here, 2))} %"
    )
    caption = (
        f"{told} (circle). The numbers at the points are sizes of a block. Double quantisation "
        "moves each point to the left and hardly up."
    )
    alt = f"Two falling curves of error against bits. {told}."
    return describe(figure, caption, alt, table)


def level_figure(coded: FourBit) -> go.Figure:
    """How many weights have each of the 16 levels."""
    figure = go.Figure(layout={"template": template()})
    counts = torch.bincount(coded.codes_KS.flatten().long(), minlength=16).tolist()
    levels = [round(level, 4) for level in nf4_levels().tolist()]
    shares = [100 * count / sum(counts) for count in counts]
    figure.add_bar(x=levels, y=shares, width=0.03, name="weights, %", marker={"color": PALETTE[0]})
    figure.update_xaxes(title_text="level (share of the largest)")
    figure.update_yaxes(title_text="weights (%)")
    figure.update_layout(title="Which levels are used", showlegend=False, hovermode="closest")
    least, most = min(shares), max(shares)
    told = (
        f"In blocks of {coded.block} the levels hold {number(round(least, 2))} % to "
        f"{number(round(most, 2))} % of the weights each; alike would be 6.25 %"
    )
    caption = f"{told}. Levels stand close together where weights are many, that is, near 0."
    rows = [[k, level, share] for k, (level, share) in enumerate(zip(levels, shares, strict=True))]
    return describe(
        figure,
        caption,
        f"Sixteen bars, close together in the middle. {told}.",
        Table(["code", "level", "weights, %"], rows),
    )
