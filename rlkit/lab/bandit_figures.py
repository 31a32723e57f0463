"""The figures of lesson 04: bars of probabilities, a path of them, and a strip of estimates.

Pure functions from numbers to plotly figures, each with its caption and its alternative
text. The strip shows one dot for each resample, so that a learner sees the spread before it
gets a name.

Left out on purpose: how the numbers come about, see `rlkit.lab.bandit`.

Axes: K arms, R resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.theme import (
    PALETTE,
    PATTERNS,
    bar_pattern,
    describe,
    line_style,
    number,
    plain,
    template,
)


def probability_figure(
    probabilities_K: Sequence[float],
    names: Sequence[str],
    pays: Sequence[float] | None = None,
    *,
    title: str = "The policy",
    before_K: Sequence[float] | None = None,
) -> go.Figure:
    """The probability of each choice as a bar; what each pays as a marker.

    Args:
        probabilities_K: probabilities now.
        names: what each choice is called.
        pays: mean reward of each, from 0 to 1, where it is known.
        title: above the figure.
        before_K: probabilities at an earlier time, as bars beside them.
    """
    figure = go.Figure(layout={"template": template(), "title": title})
    shown = [plain(name, 24) for name in names]
    told = []
    if before_K is not None:
        figure.add_bar(
            x=shown,
            y=list(before_K),
            name="probability before",
            marker={"color": PALETTE[4], "pattern": bar_pattern(PATTERNS[1])},
        )
    figure.add_bar(
        x=shown,
        y=list(probabilities_K),
        name="probability" if before_K is None else "probability after",
        marker={"color": PALETTE[0]},
    )
    for k, name in enumerate(names):
        change = "" if before_K is None else f"{number(float(before_K[k]))} before, "
        told.append(f"{name}: {change}{number(float(probabilities_K[k]))}")
    caption = "How likely the policy is to draw each of the choices"
    if before_K is not None:
        caption += ", before and after"
    if pays is not None:
        figure.add_scatter(
            x=shown,
            y=list(pays),
            name="mean pay",
            mode="markers",
            marker={"symbol": "diamond", "size": 12, "color": PALETTE[1], "line": {"width": 0}},
        )
        told.append("mean pay " + ", ".join(number(float(p)) for p in pays))
        caption += " (bars), and what it pays on average (diamonds), which the policy never sees"
    figure.update_xaxes(title_text="choice")
    unit = "probability" if pays is None else "probability, mean pay"
    figure.update_yaxes(title_text=f"{unit} (0 to 1)", range=[0, 1.03])
    figure.update_layout(showlegend=len(figure.data) > 1)
    return describe(figure, f"{caption}.", f"Bars of probabilities. {'; '.join(told)}.")


def path_figure(paths: Mapping[str, Sequence[float]], title: str, unit: str) -> go.Figure:
    """Lines over steps, from step 0 on.

    Args:
        paths: name of a line -> its values, the first of them before any step.
        title: above the figure.
        unit: of the values.
    """
    figure = go.Figure(layout={"template": template(), "title": title})
    told = []
    for index, (name, values) in enumerate(paths.items()):
        style = line_style(index)
        figure.add_scatter(
            x=list(range(len(values))),
            y=[float(value) for value in values],
            name=plain(name, 40),
            mode="lines",
            line={"color": style["color"], "dash": style["dash"], "width": 2},
        )
        told.append(f"{name}: from {number(float(values[0]))} to {number(float(values[-1]))}")
    figure.update_xaxes(title_text="step (one update each)")
    figure.update_yaxes(title_text=unit)
    figure.update_layout(showlegend=len(paths) > 1)
    caption = f"{title}: {unit}, from before the first step to after the last."
    return describe(figure, caption, f"Lines over steps. {'; '.join(told)}.")


def strip_figure(
    estimates: Mapping[str, Sequence[float]],
    exact: float | None,
    unit: str,
    *,
    title: str = "Many estimates",
) -> go.Figure:
    """One dot for each estimate of one number, kind beside kind.

    Args:
        estimates: name of a kind of estimate -> its R values.
        exact: the number that is estimated, drawn as a line; `None` where nobody knows it.
        unit: of the estimates, for the axis.
        title: above the figure.

    Raises:
        UserError: kinds with different numbers of estimates.
    """
    counts = {len(values) for values in estimates.values()}
    if len(counts) != 1 or counts == {0}:
        raise UserError(f"give as many estimates of each kind, not {sorted(counts)}")
    (count,) = counts
    figure = go.Figure(layout={"template": template(), "title": title})
    told = []
    for index, (name, values) in enumerate(estimates.items()):
        values = np.asarray(values, dtype=float)
        style = line_style(index)
        figure.add_scatter(
            x=list(range(1, count + 1)),
            y=values.tolist(),
            name=plain(name, 40),
            mode="markers",
            marker={
                "symbol": style["symbol"],
                "size": 6,
                "color": style["color"],
                "opacity": 0.75,
                "line": {"width": 0},
            },
        )
        spread = values.std(ddof=1) if count > 1 else 0.0
        told.append(f"{name}: mean {number(float(values.mean()))}, spread {number(float(spread))}")
    if exact is not None:
        figure.add_scatter(
            x=[1, count],
            y=[exact, exact],
            name="exact",
            mode="lines",
            line={"color": PALETTE[4], "width": 2.5, "dash": "dash"},
        )
        told.append(f"exact {number(float(exact))}")
    # Room for a legend that stands in rows below each other on a phone.
    figure.update_layout(margin_t=56 + 20 * len(figure.data), height=300 + 20 * len(figure.data))
    figure.update_xaxes(title_text="resample (number)", range=[-1, count + 2])
    figure.update_yaxes(title_text=unit)
    caption = (
        f"{count} estimates of the same number, each from a batch of its own; "
        f"{'; '.join(told)}. The nearer the dots lie to each other, the more one step can be "
        "trusted."
    )
    return describe(figure, caption, f"A strip of {count} dots of each kind. {'; '.join(told)}.")
