"""What is drawn of a memory ledger: which part of the bytes is what, and how many they are."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.memory_ledger import PARTS
from rlkit.lab.theme import PALETTE, PATTERNS, Table, bar_pattern, describe, number, template

Ledger = Mapping[str, int]


def size(count: float) -> str:
    """Bytes in words.

    >>> size(8_861_536), size(6.4e9), size(12_300)
    ('8.9 MB', '6.4 GB', '12 kB')
    """
    for unit, each in (("GB", 1e9), ("MB", 1e6)):
        if count >= each:
            return (
                f"{count / each:.1f} {unit}" if count < 100 * each else f"{count / each:.0f} {unit}"
            )
    return f"{count / 1e3:.0f} kB"


def ledger_table(ledgers: Mapping[str, Ledger]) -> Table:
    """One row for each part, one column for each ledger, in megabytes."""
    parts = [part for part in PARTS if any(part in ledger for ledger in ledgers.values())]
    rows = [
        [part, *(round(ledger.get(part, 0) / 1e6, 3) for ledger in ledgers.values())]
        for part in parts
    ]
    totals = [round(sum(ledger.values()) / 1e6, 3) for ledger in ledgers.values()]
    return Table(["MB", *ledgers], [*rows, ["together", *totals]])


def ledger_figure(ledgers: Mapping[str, Ledger], title: str) -> go.Figure:
    """Which share of the bytes each part has; a bar for each ledger.

    Raises:
        UserError: no ledger.
    """
    if not ledgers:
        raise UserError("give at least one ledger to draw")
    figure = go.Figure(layout={"template": template()})
    names = [f"{name}<br>{size(sum(ledger.values()))}" for name, ledger in ledgers.items()]
    for index, part in enumerate(PARTS):
        shares = [100 * ledger.get(part, 0) / sum(ledger.values()) for ledger in ledgers.values()]
        figure.add_bar(
            y=names,
            x=[round(share, 2) for share in shares],
            name=part,
            orientation="h",
            customdata=[size(ledger.get(part, 0)) for ledger in ledgers.values()],
            hovertemplate="%{customdata}, %{x:.1f} %<extra>" + part + "</extra>",
            marker={
                "color": PALETTE[index % len(PALETTE)],
                "pattern": bar_pattern(PATTERNS[index % len(PATTERNS)]),
            },
        )
    figure.update_xaxes(title_text="share of all bytes (%)", range=[0, 100])
    figure.update_yaxes(title_text="model", autorange="reversed")
    # The legend has eight entries; below, it has room for as many lines as a phone needs.
    figure.update_layout(
        title=title,
        barmode="stack",
        hovermode="closest",
        height=290 + 46 * len(names),
        legend={"traceorder": "normal", "y": -0.16, "yanchor": "top", "yref": "paper"},
        margin={"t": 48, "b": 170},
    )
    told = []
    for name, ledger in ledgers.items():
        most = max(ledger, key=lambda part: ledger[part])
        share = number(round(100 * ledger[most] / sum(ledger.values())))
        told.append(f"{name}: {size(sum(ledger.values()))}, most of it {most} ({share} %)")
    caption = "; ".join(told) + "."
    return describe(
        figure,
        caption,
        f"Horizontal bars, cut into the parts of a ledger. {caption}",
        ledger_table(ledgers),
    )
