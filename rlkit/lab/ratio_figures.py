"""What is drawn of a walk on one batch: a histogram of ratios between walls, and the drift.

The bars of the histogram end at the walls, so that none lies across one. Their borders are
those of the whole walk: they stay where they are while one goes through the updates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import plotly.graph_objects as go

from rlkit.lab.ratio_walk import Place
from rlkit.lab.theme import (
    PALETTE,
    PATTERNS,
    Table,
    bar_pattern,
    describe,
    line_style,
    number,
    template,
)

#: Ratios beyond these are counted in the outermost bars.
FARTHEST = (0.25, 4.0)
#: Bars between the walls, and on each side of them.
INSIDE, BESIDE = 8, 6
#: Kinds of tokens, their colour and their pattern.
KINDS = {
    "has a gradient": (0, 0),
    "none: held by the clip": (1, 1),
    "none: advantage 0": (4, 4),
}


def borders(places: Sequence[Place], low: float, high: float) -> list[float]:
    """Ratios at which the bars begin and end; both walls are among them.

    >>> place = Place(0, (0.5, 1.0, 1.1), (False,) * 3, (False,) * 3, 0.0)
    >>> found = borders([place], 0.2, 0.2)
    >>> [round(b, 2) for b in found[::7]]
    [0.5, 0.84, 1.2]
    """
    seen = [r for place in places for r in place.ratios]
    ends = (max(min(seen), FARTHEST[0]), min(max(seen), FARTHEST[1]))
    walls = (math.log(max(1 - low, FARTHEST[0] / 2)), math.log(1 + high))
    way = walls[1] - walls[0]
    # Walls that are nearly one line have one bar between them.
    inside = INSIDE if 20 * way > math.log(ends[1] / ends[0]) else 1
    step = way / inside
    # Of equal width inside; outside as wide as it takes to reach the ends, and no thinner.
    down = max(step, (walls[0] - math.log(ends[0])) / BESIDE)
    up = max(step, (math.log(ends[1]) - walls[1]) / BESIDE)
    far = [walls[0] - down * k for k in range(_bars(walls[0] - math.log(ends[0]), down), 0, -1)]
    near = [walls[0] + step * k for k in range(inside + 1)]
    beyond = [walls[1] + up * k for k in range(1, _bars(math.log(ends[1]) - walls[1], up) + 1)]
    return [math.exp(b) for b in (*far, *near, *beyond)]


def _bars(way: float, width: float) -> int:
    """Bars on one side: at least one, so that a wall is never the end of the drawing."""
    return max(1, math.ceil(round(way / width, 6)))


def counts(place: Place, edges: Sequence[float]) -> dict[str, list[int]]:
    """Tokens of each kind in each bar; the outermost ones take what is beyond them."""
    found = {kind: [0] * (len(edges) - 1) for kind in KINDS}
    names = list(KINDS)
    for ratio, silent, dead in zip(place.ratios, place.silent, place.dead, strict=True):
        bar = next((k for k in range(len(edges) - 2) if ratio < edges[k + 1]), len(edges) - 2)
        found[names[2 if dead else 1 if silent else 0]][bar] += 1
    return found


def histogram(
    places: Sequence[Place], updates: int, low: float, high: float, level: str, clip: bool
) -> go.Figure:
    """The ratios after some updates, and the walls."""
    edges = borders(places, low, high)
    by_kind = counts(places[updates], edges)
    ever = [k for k in KINDS if any(any(counts(place, edges)[k]) for place in places)]
    figure = go.Figure(layout={"template": template(), "barmode": "overlay"})
    logs = [math.log(edge) for edge in edges]
    for slot, kind in enumerate(ever):
        colour, pattern = KINDS[kind]
        widths = [(b - a) / len(ever) for a, b in itertools.pairwise(logs)]
        figure.add_bar(
            x=[a + (slot + 0.5) * w for a, w in zip(logs, widths, strict=False)],
            y=by_kind[kind],
            width=[0.92 * w for w in widths],
            name=kind,
            marker={
                "color": PALETTE[colour],
                "pattern": bar_pattern(PATTERNS[pattern]),
            },
            customdata=[f"{a:.5g} to {b:.5g}" for a, b in itertools.pairwise(edges)],
            hovertemplate="ratio %{customdata}: %{y} tokens<extra>" + kind + "</extra>",
        )
    for side, wall in (("left", 1 - low), ("right", 1 + high)):
        figure.add_vline(
            x=math.log(wall),
            line={"color": "#808080", "width": 2, "dash": "dash" if clip else "dot"},
            annotation={
                "text": f"{wall:.5g}",
                "yanchor": "top",
                "y": 1.0,
                "yref": "paper",
                "xanchor": "right" if side == "left" else "left",
            },
        )
    ticks = _ticks(edges)
    whose = "a token" if level == "token" else "an answer"
    figure.update_xaxes(
        title_text=f"ratio of {whose} (log scale)",
        tickvals=[math.log(t) for t in ticks],
        ticktext=[f"{t:.5g}" for t in ticks],
        range=[logs[0], logs[-1]],
    )
    most = max(1, *(max(row) for place in places for row in counts(place, edges).values()))
    figure.update_yaxes(
        title_text="tokens (number, log scale)",
        type="log",
        # The walls' labels stand on top.
        range=[math.log10(0.6), math.log10(4 * most)],
        dtick=1,
    )
    figure.update_layout(title=f"Ratios after {_updates(updates)}", hovermode="closest")
    rows = [
        [f"{a:.5g} to {b:.5g}", *(by_kind[kind][k] for kind in ever)]
        for k, (a, b) in enumerate(itertools.pairwise(edges))
    ]
    place, walls = places[updates], f"{1 - low:.5g} and {1 + high:.5g}"
    told = (
        f"{number(100 * place.outside(low, high))} % of the tokens are outside of the walls at "
        f"{walls}, and {number(100 * place.held_share)} % have no gradient because of the clip"
    )
    caption = f"{told}. The dashed lines are the walls; the outermost bars hold all beyond them."
    alt = f"A histogram of {len(place.ratios)} ratios after {_updates(updates)}. {told}."
    return describe(figure, caption, alt, Table(["ratio", *ever], rows))


def drift_figure(
    places: Sequence[Place], free: Sequence[Place], updates: int, clip: bool
) -> go.Figure:
    """How far the policy is from the one that drew the batch, with the walls and without."""
    figure = go.Figure(layout={"template": template()})
    curves = [("with these walls", places, 0)] if clip else []
    for name, walked, index in (*curves, ("without a clip", free, 1)):
        style = line_style(index)
        figure.add_scatter(
            x=[place.updates for place in walked],
            y=[round(place.kl, 6) for place in walked],
            name=name,
            mode="lines+markers",
            line={"color": style["color"], "dash": style["dash"], "width": 2},
            marker={"symbol": style["symbol"], "size": 7},
        )
    figure.add_vline(x=updates, line={"color": "#808080", "width": 1})
    figure.update_xaxes(title_text="updates (number)", dtick=1)
    figure.update_yaxes(title_text="divergence (nats a token)", rangemode="tozero")
    figure.update_layout(title="How far it has drifted", showlegend=True)
    here, there = (round(walked[updates].kl, 6) for walked in (places, free))
    told = (
        f"After {_updates(updates)} the divergence is {number(there)} nats a token without a clip"
    )
    if clip:
        told = f"{told} and {number(here)} with these walls"
    caption = f"{told}. The clip slows the drift down; it does not stop it."
    if not clip:
        caption = f"{told}."
    return describe(figure, caption, f"Rising curves. {told}.")


def _ticks(edges: Sequence[float]) -> list[float]:
    known = [t for t in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0) if edges[0] <= t <= edges[-1]]
    if len(known) >= 3:
        return known
    return [math.ceil(100 * edges[0]) / 100, 1.0, math.floor(100 * edges[-1]) / 100]


def _updates(count: int) -> str:
    return f"{count} update{'' if count == 1 else 's'}"
