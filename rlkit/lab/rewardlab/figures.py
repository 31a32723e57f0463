"""The figures of the Reward Lab: pure functions from a `Comparison` to plotly figures.

Each carries its caption and its alternative text, see `rlkit.lab.theme`. What is drawn is
counted here, so a figure stays small however many completions there are.

Left out on purpose: smoothed densities. Rewards are mostly a few values, and counts say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from rlkit.lab.rewardlab.comparison import Comparison
from rlkit.lab.rewardlab.scoring import Scoring
from rlkit.lab.theme import PALETTE, PATTERNS, bar_pattern, describe, number, plain, template

#: So many different values get a bar each; more are put into so many bins.
FEW_VALUES, BINS = 12, 20
#: Width of a bin of advantages.
ADVANTAGE_BIN = 0.25
BEFORE, AFTER = "before", "now"
_GREY, _BLUE = PALETTE[4], PALETTE[0]
_TRUTHS = ("right", "wrong")
_NAMES = {
    "kept": "has contrast as before",
    "gained": "gained contrast",
    "lost": "lost contrast",
    "never": "has none, as before",
}
_CONTRAST_STYLES = {"kept": (0, ""), "gained": (2, "+"), "lost": (1, "x"), "never": (4, "/")}


def rewards_figure(compared: Comparison) -> go.Figure:
    """How many completions get which reward, before and now."""
    edges, shown, discrete = _bins([compared.before, compared.after])
    figure = _figure("Rewards", "reward (no unit)", "completions (count)")
    stories = []
    for name, scoring, colour, shape in (
        (BEFORE, compared.before, _GREY, "/"),
        (AFTER, compared.after, _BLUE, ""),
    ):
        counts = np.histogram(scoring.values[scoring.known], edges)[0] if len(edges) else []
        _bars(figure, name, shown, counts, colour, shape)
        parts = [
            f"{count:,} at {number(round(float(x), 6))}"
            for x, count in zip(shown, counts, strict=True)
            if count
        ]
        unknown = int((~scoring.known).sum())
        parts += [f"{unknown:,} without a verdict"] if unknown else []
        stories.append(f"{name}: {_listed(parts)}")
    if discrete and len(shown) > 1:
        figure.update_xaxes(tickvals=shown, ticktext=[number(round(float(x), 4)) for x in shown])
        _category_axis(figure)
    caption = "How many completions get which reward, before and now."
    if not discrete:
        caption += f" Values are put into {BINS} bins, named by their middle."
    return describe(figure, caption, f"Histogram of rewards. {'; '.join(stories)}.")


def parts_figure(compared: Comparison) -> go.Figure:
    """What each part adds to the reward, for right and for wrong answers of each domain."""
    figure = _figure("Parts of the reward", "", "mean addition (no unit)")
    figure.update_layout(barmode="relative")
    scoring, stored = compared.after, compared.stored
    domain_N = np.array([stored.groups[b].domain for b in stored.group_of])
    places = [(d, truth) for d in stored.domains for truth in _TRUTHS]
    shown = [f"{d}, {truth}" for d, truth in places]
    stories = []
    for index, (name, term) in enumerate(scoring.terms.items()):
        weight = scoring.weights.get(name)
        added_N = term * (1.0 if not scoring.weights else 0.0 if weight is None else weight)
        means = [
            _mean(added_N, (domain_N == d) & (compared.right == (truth == "right")) & scoring.known)
            for d, truth in places
        ]
        colour = PALETTE[index % len(PALETTE)]
        _bars(figure, name, shown, means, colour, PATTERNS[index % len(PATTERNS)])
        stories.append(f"{name}: " + ", ".join(
            f"{number(m)} for {p}" for p, m in zip(shown, means, strict=True) if m is not None
        ))  # fmt: skip
    figure.update_xaxes(
        title_text="domain, and whether the answer is right",
        tickvals=shown,
        ticktext=[f"{plain(d)}<br>{truth}" for d, truth in places],
        tickangle=0,
        tickfont={"size": 11},
    )
    caption = (
        "What each part adds to the reward on average, for the right and the wrong answers of "
        "each domain. A tall bar over wrong answers is pay for the wrong thing."
    )
    if not scoring.weights:
        caption += " The parts of this reward do not add up to its value."
    return describe(figure, caption, f"Stacked bars of parts. {'; '.join(stories)}.")


def contrast_figure(compared: Comparison) -> go.Figure:
    """Which groups have contrast, gained it or lost it, by domain."""
    figure = _figure("Contrast in the groups", "domain", "groups (count)")
    figure.update_layout(barmode="stack")
    domains = compared.stored.domains
    stories = []
    for kind, groups in compared.contrast.items():
        found = [compared.stored.groups[b].domain for b in groups]
        place, shape = _CONTRAST_STYLES[kind]
        _bars(figure, _NAMES[kind], domains, list(map(found.count, domains)), PALETTE[place], shape)
        stories.append(f"{_NAMES[kind]}: {len(groups)}")
    caption = (
        "A group whose answers all earn the same teaches nothing. What the change of the reward "
        "did to the groups, by domain."
    )
    return describe(figure, caption, f"Stacked bars of groups. {'; '.join(stories)}.")


def truth_figure(compared: Comparison) -> go.Figure:
    """Right and wrong answers that are paid and refused, before and now."""
    figure = _figure("Reward and truth", "truth and reward", "completions (count)")
    stories = []
    for name, scoring, colour, shape in (
        (BEFORE, compared.before, _GREY, "/"),
        (AFTER, compared.after, _BLUE, ""),
    ):
        c = compared.confusion(scoring)
        counts = {
            "right, paid": c.right_paid,
            "right, refused": c.right_refused,
            "wrong, refused": c.wrong_refused,
            "wrong, paid": c.wrong_paid,
            "no verdict": c.unknown,
        }
        _bars(figure, name, list(counts), list(counts.values()), colour, shape)
        stories.append(f"{name}: " + ", ".join(f"{n:,} {what}" for what, n in counts.items()))
    caption = (
        "The reward against the truth, which is what the domain's own verifier says. Paid means "
        f"a reward of at least {number(round(compared.after.paid_from, 4))}, halfway from the "
        "lowest to the highest."
    )
    return describe(figure, caption, f"Bars of truth and reward. {'; '.join(stories)}.")


def advantages_figure(compared: Comparison) -> go.Figure:
    """The advantages that right and wrong completions would get now."""
    figure = _figure("Advantages now", "advantage (deviations)", "completions (count)")
    figure.update_layout(barmode="stack")
    values = compared.advantages
    most = max(1.0, float(np.abs(values).max()))
    half = int(np.ceil(most / ADVANTAGE_BIN - 0.5))
    edges = (np.arange(-half, half + 2) - 0.5) * ADVANTAGE_BIN
    middles = (edges[:-1] + edges[1:]) / 2
    stories = []
    for name, truth, colour, shape in (
        ("right answers", 1.0, PALETTE[2], ""),
        ("wrong answers", 0.0, PALETTE[1], "x"),
    ):
        mine = values[compared.right == truth]
        _bars(figure, name, middles, np.histogram(mine, edges)[0], colour, shape)
        up, down = int((mine > 0).sum()), int((mine < 0).sum())
        stories.append(f"{name}: {up:,} made likelier, {down:,} less likely, "
                       f"{len(mine) - up - down:,} left alone")  # fmt: skip
    figure.update_layout(bargap=0.05)
    caption = (
        "How far each completion stands above its group, in deviations of the group. Learning "
        "makes what stands right of 0 likelier, and leaves alone what stands at 0."
    )
    return describe(figure, caption, f"Histogram of advantages. {'; '.join(stories)}.")


#: The views of the lab by name, in the order in which one reads them.
VIEWS: dict[str, tuple[str, Callable[[Comparison], go.Figure]]] = {
    "rewards": ("Rewards", rewards_figure),
    "parts": ("Parts", parts_figure),
    "contrast": ("Contrast", contrast_figure),
    "truth": ("Truth", truth_figure),
    "advantages": ("Advantages", advantages_figure),
}


# -- drawing --------------------------------------------------------------------------------


def _figure(title: str, x: str, y: str) -> go.Figure:
    figure = go.Figure(layout={"template": template(), "barmode": "group"})
    figure.update_layout(title_text=title, showlegend=True, bargap=0.2)
    figure.update_xaxes(title_text=x)
    figure.update_yaxes(title_text=y)
    return figure


def _bars(
    figure: go.Figure, name: str, x: Sequence[Any], y: Sequence[Any], colour: str, shape: str
) -> None:
    pattern = bar_pattern(shape)
    figure.add_bar(
        x=_python(x),
        y=_python(y),
        name=plain(name, 40),
        marker={"color": colour, "pattern": pattern, "line": {"width": 0}},
    )


def _category_axis(figure: go.Figure) -> None:
    """Few values stand side by side, each with its name, however far apart they are."""
    for trace in figure.data:
        trace.x = [number(round(float(x), 4)) for x in trace.x]
    figure.update_xaxes(type="category", tickvals=None, ticktext=None)


def _bins(scorings: Sequence[Scoring]) -> tuple[Any, Any, bool]:
    """Edges of the bins, what names each, and whether each is one value."""
    known = np.concatenate([scoring.values[scoring.known] for scoring in scorings])
    values = np.unique(known.round(9))
    if not values.size:
        return np.array([]), np.array([]), True
    if values.size <= FEW_VALUES:
        between = (values[:-1] + values[1:]) / 2
        return np.concatenate([[values[0] - 1], between, [values[-1] + 1]]), values, True
    edges = np.linspace(values[0], values[-1], BINS + 1)
    edges[-1] = np.nextafter(edges[-1], np.inf)
    return edges, (edges[:-1] + edges[1:]) / 2, False


def _mean(values: Any, chosen: Any) -> float | None:
    chosen = chosen & np.isfinite(values)
    return float(values[chosen].mean()) if chosen.any() else None


def _python(values: Sequence[Any]) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _listed(parts: Sequence[str], most: int = 12) -> str:
    if len(parts) <= most:
        return ", ".join(parts) or "none"
    return f"{', '.join(parts[:most])} and {len(parts) - most} more, see the data"
