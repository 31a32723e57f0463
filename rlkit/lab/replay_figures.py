"""What is drawn of a replay: tokens in colour, cosines of gradients, changes of answers.

A token that an objective pushes up is blue and underlined, one that it pushes down is
vermilion and underlined with dots, one that it leaves alone has neither; the stronger the
push, the stronger the colour, against the largest of the same objective. The number is in
the token's tooltip.

Axes: N rollouts, T completion tokens, K objectives.
"""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.theme import (
    MISSING,
    PALETTE,
    Table,
    describe,
    escape,
    line_style,
    number,
    plain,
    table_html,
    template,
    visible,
)
from rlkit.loop.replay.result import Replay, ReplayedObjective

#: What tokens can be coloured by, and what it is called.
SHOWN = {
    "weights": "push on each token (minus the derivative of the loss by its log-probability)",
    "changes": "change of each token's log-probability by one step, in nats",
}
#: Strongest background of a token, as opacity: the text stays readable on it.
MOST = 0.55


def tokens_html(
    replay: Replay,
    rollout: int,
    objective: ReplayedObjective,
    show: str = "weights",
    compact: bool = False,
) -> str:
    """The tokens of one answer, coloured, as HTML; the model's text is escaped.

    Args:
        rollout: its number in the batch, from 0.
        objective: one of `replay.objectives`.
        show: `weights` or `changes`.
        compact: marks line breaks and does not take them, to compare many rows.

    Raises:
        UserError: no such rollout, or something else to show.
    """
    if show not in SHOWN:
        raise UserError(f"tokens are coloured by {' or '.join(SHOWN)}, not by {show!r}")
    checked(replay, rollout)
    rows: Sequence[Sequence[float]] = getattr(objective, show)
    largest = max((abs(v) for row in rows for v in row), default=0.0)
    spans = [
        _token(text, value, largest, "⏎ " if compact else "⏎\n")
        for text, value in zip(replay.rollouts[rollout].tokens, rows[rollout], strict=True)
    ]
    return (
        '<span style="white-space:pre-wrap;overflow-wrap:anywhere;font-family:monospace;'
        f'line-height:1.9">{"".join(spans)}</span>'
    )


def _token(text: str, value: float, largest: float, line_end: str = "⏎\n") -> str:
    shown = escape(text).replace("\n", line_end).replace("\t", "⇥\t") or "∅"
    label = f"{visible(text)!r}: {number(float(f'{value:.4g}'))}"
    share = abs(value) / largest if largest else 0.0
    if not share:
        return f'<span title="{escape(label)}">{shown}</span>'
    red, green, blue = (
        int(PALETTE[0 if value > 0 else 1][1 + 2 * i : 3 + 2 * i], 16) for i in range(3)
    )
    line = "solid" if value > 0 else "dotted"
    return (
        f'<span title="{escape(label)}" style="background:rgba({red},{green},{blue},'
        f'{MOST * share:.2f});border-bottom:2px {line} rgb({red},{green},{blue})">{shown}</span>'
    )


def answer_html(
    replay: Replay, rollout: int, names: Sequence[str] | None = None, show: str = "weights"
) -> str:
    """One answer with a row of coloured tokens for each objective named."""
    answer = replay.rollouts[checked(replay, rollout)]
    chosen = [o for o in replay.objectives if names is None or o.name in names]
    compact = len(chosen) > 1
    mark = {True: "solved", False: "not solved", None: "no verdict"}[answer.solved]
    cell = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"
    rows = "".join(
        f'<tr style="background:none"><th scope="row" style="{cell};white-space:nowrap">'
        f'{escape(o.name)}</th><td style="{cell};white-space:nowrap">'
        f"{escape(number(round(o.advantages[rollout], 3)))}</td>"
        f'<td style="{cell};white-space:nowrap">'
        f"{escape(number(round(o.rollout_changes[rollout], 4)))}</td>"
        f'<td style="{cell}">{tokens_html(replay, rollout, o, show, compact)}</td></tr>'
        for o in chosen
    )
    heads = ("objective", "advantage", "change, nats", "tokens")
    head = "".join(f'<th scope="col" style="{cell}">{h}</th>' for h in heads)
    return (
        '<div style="overflow-x:auto" tabindex="0" role="region" '
        f'aria-label="Answer {rollout}"><table style="border-collapse:collapse">'
        '<caption style="caption-side:top;text-align:left;padding:4px 0">'
        f"<b>Answer {rollout}</b> (group {answer.group}, {mark}, reward "
        f"{escape(number(answer.reward))}) to: {escape(answer.question)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def legend_html(show: str) -> str:
    """What the colours say, in a sentence with an example of each."""
    up, down = _token("pushed up", 1.0, 1.0), _token("pushed down", -1.0, 1.0)
    return (
        f"<p>Shown: {escape(SHOWN[show])}. {up} (solid line), {down} (dotted line), "
        "left alone (no line). The number is in each token's tooltip; strength is against the "
        "largest of the same objective.</p>"
    )


def cosine_figure(replay: Replay) -> go.Figure:
    """Heat map of the cosines of the objectives' gradients."""
    names = [plain(o.name, 40) for o in replay.objectives]
    values = [[None if c is None else round(c, 4) for c in row] for row in replay.cosines]
    figure = go.Figure(layout={"template": template()})
    figure.add_heatmap(
        x=names,
        y=names,
        z=values,
        zmin=-1,
        zmax=1,
        colorscale=[[0, PALETTE[1]], [0.5, "#F7F7F7"], [1, PALETTE[0]]],
        text=[[MISSING if c is None else f"{c:.2f}" for c in row] for row in values],
        texttemplate="%{text}",
        hovertemplate="%{y} and %{x}: %{z}<extra></extra>",
        colorbar={"title": {"text": "cosine (−1 to 1)"}},
        xgap=1,
        ygap=1,
    )
    figure.update_layout(title_text="Do the gradients agree?", height=170 + 34 * len(names))
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(title_text="objective", showgrid=False)
    figure.update_yaxes(title_text="objective", autorange="reversed", showgrid=False)
    pairs = [
        (c, names[i], names[k])
        for i, row in enumerate(values)
        for k, c in enumerate(row)
        if k > i and c is not None
    ]
    told = "There is one objective only."
    if pairs:
        low, high = min(pairs), max(pairs)
        told = (
            f"Lowest {low[0]:.2f} between {low[1]} and {low[2]}, highest {high[0]:.2f} between "
            f"{high[1]} and {high[2]}."
        )
    caption = (
        "Cosine of the gradients over the trained parameters: 1, the same direction; 0, nothing "
        "in common; below 0, against each other. A dash: one gradient is 0."
    )
    return describe(figure, caption, f"Heat map of cosines. {told}")


def change_figure(replay: Replay) -> go.Figure:
    """What one step does to the log-probability of each answer."""
    figure = go.Figure(layout={"template": template()})
    places = list(range(len(replay.rollouts)))
    stories = []
    for k, objective in enumerate(replay.objectives):
        style = line_style(k)
        values = [round(change, 5) for change in objective.rollout_changes]
        figure.add_scatter(
            x=places,
            y=values,
            name=plain(objective.name, 40),
            mode="markers",
            marker={"symbol": style["symbol"], "size": 8, "color": style["color"]},
        )
        up = sum(v > 0 for v in values)
        stories.append(f"{objective.name} makes {up} of {len(values)} answers likelier")
    figure.update_layout(title_text="What one step does to each answer", showlegend=True)
    figure.update_xaxes(title_text="answer (number in the batch)")
    figure.update_yaxes(title_text="change of log-probability (nats)")
    solved = [str(n) for n, r in enumerate(replay.rollouts) if r.solved]
    caption = (
        "The change of each whole answer's log-probability by one optimizer step. Solved "
        f"answers: {', '.join(solved) or 'none'}."
    )
    return describe(figure, caption, f"Points, one an answer. {'; '.join(stories)}.")


def summary_html(replay: Replay) -> str:
    """The table of all objectives, and what has to be known before it is read."""
    rows = replay.table()
    heads = list(rows[0])
    # Whole numbers such as a share of 1.0 are no counts: four digits are enough for all.
    table = Table(heads, [[row[h] for h in heads] for row in rows])
    told = "".join(f"<li>{escape(sentence)}</li>" for sentence in replay.sentences())
    return f"<ul>{told}</ul>{table_html(table, 'The update that each objective would make.')}"


def checked(replay: Replay, rollout: int) -> int:
    """A number of an answer that is there.

    Raises:
        UserError: it is not.
    """
    whole = isinstance(rollout, int) and not isinstance(rollout, bool)
    if not whole or not 0 <= rollout < len(replay.rollouts):
        raise UserError(
            f"there is no answer {rollout!r}; the batch has 0 to {len(replay.rollouts) - 1}"
        )
    return rollout
