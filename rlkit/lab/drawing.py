"""Drawing: lines with gaps, stacked bars, bands, intervals, and the marks of events.

Every figure is finished with a title, a step axis, a caption and an alternative text
that tells its lines in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from rlkit.lab.rows import (
    Events,
    Line,
    Rows,
    evaluations,
    event_sentence,
    finite,
    step_of,
    steps_of,
    values_of,
)
from rlkit.lab.theme import (
    DECORATION,
    PALETTE,
    PATTERNS,
    bar_pattern,
    describe,
    line_style,
    number,
    plain,
    spaced,
    template,
)

STEP_TITLE = "step (one update each)"
#: Events that are marked on every curve, with the sign they are marked with.
EVENT_SIGNS = {
    "intervention": "▼",
    "warning": "▽",
    "resumed": "■",
    "checkpoint ignored": "✕",
    "interrupted": "◆",
}
#: So many steps with events are marked; of more, those where something was done, then the newest.
MOST_MARKS = 60
#: Beyond so many points, only some of them get a marker.
MANY_POINTS = 60
#: Places in the palette of the statuses that most runs have; green is what passed.
_STATUS_COLOURS = {"PASS": 2, "OK": 5, "FAIL": 1, "WRONG": 3, "NO_ANSWER": 4}


def has_values(figure: go.Figure) -> bool:
    """Whether at least one value is drawn."""
    return any(value is not None for trace in figure.data for value in trace.y or ())


def line_figure(
    rows: Rows,
    events: Events,
    title: str,
    unit: str,
    lines: Iterable[Line],
    caption: str,
    *,
    share: bool = False,
    first_style: int = 0,
) -> go.Figure:
    figure = go.Figure(layout={"template": template()})
    steps, stories = steps_of(rows), []
    for index, (name, key) in enumerate(lines):
        values = values_of(rows, key)
        if all(value is None for value in values):
            continue  # a line that is nowhere would only stand in the legend
        add_line(figure, name, steps, values, index + first_style)
        stories.append(story(name, steps, values))
    figure.update_yaxes(title_text=unit, range=[-0.03, 1.03] if share else None)
    figure.update_layout(showlegend=len(stories) > 1)
    return finish(figure, rows, events, title, caption, f"Line chart of {unit}", stories)


def bar_figure(
    rows: Rows,
    counted: Rows,
    events: Events,
    title: str,
    unit: str,
    lines: Sequence[Line],
    caption: str,
) -> go.Figure:
    figure = go.Figure(layout={"template": template(), "barmode": "stack"})
    steps, stories = steps_of(rows), []
    others = 0
    for name, key in lines:
        values = values_of(counted, key)
        style = _bar_style(name, others)
        others += bool(style["shape"])
        pattern = bar_pattern(style["shape"])
        figure.add_bar(
            x=steps,
            y=values,
            name=plain(name, 40),
            marker={"color": style["color"], "pattern": pattern, "line": {"width": 0}},
        )
        stories.append(story(name, steps, values))
    figure.update_yaxes(title_text=unit, rangemode="tozero")
    figure.update_layout(showlegend=True, bargap=0.15 if len(steps) <= MANY_POINTS else 0)
    return finish(figure, rows, events, title, caption, f"Stacked bars of {unit}", stories)


def _bar_style(name: str, others: int) -> dict[str, str]:
    """Colour and pattern of one part of a stack; the usual statuses always look the same.

    `others` counts the parts before it that are none of them. Those never get the green of
    what passed or the vermilion of what failed.
    """
    if name in _STATUS_COLOURS:
        return {"color": PALETTE[_STATUS_COLOURS[name]], "shape": ""}
    free = (0, 4, 5, 3)
    shape = PATTERNS[1 + others % (len(PATTERNS) - 1)]
    return {"color": PALETTE[free[others % len(free)]], "shape": shape}


def add_line(
    figure: go.Figure,
    name: str,
    steps: list[int],
    values: list[float | None],
    index: int,
    panel: int | None = None,
) -> None:
    style = line_style(index)
    trace = go.Scatter(
        x=steps,
        y=values,
        name=plain(name, 40),
        mode="lines+markers",
        connectgaps=False,
        line={"color": style["color"], "dash": style["dash"], "width": 2 if index else 2.5},
        # Without `line` and `opacity`, plotly outlines markers of several sizes as bubbles.
        marker={
            "symbol": style["symbol"],
            "size": _marker_sizes(values),
            "line": {"width": 0},
            "opacity": 1,
        },
    )
    figure.add_trace(trace, **({} if panel is None else {"row": panel, "col": 1}))


def _marker_sizes(values: list[float | None]) -> float | list[float]:
    """Every point of a short line; of a long one some, and those that stand alone.

    A point between two gaps has no line to either side and would not be seen.
    """
    if len(values) <= MANY_POINTS:
        return 6
    shown = set(spaced(len(values), 12))
    padded = [None, *values, None]
    alone = {i for i in range(len(values)) if padded[i] is None and padded[i + 2] is None}
    return [6 if i in shown or i in alone else 0 for i in range(len(values))]


def add_band(
    figure: go.Figure, steps: list[int], low: list[float | None], high: list[float | None]
) -> None:
    """A shaded band, a closed shape for each stretch without gaps."""
    x: list[int | None] = []
    y: list[float | None] = []
    stretch: list[tuple[int, float, float]] = []
    for step, down, up in [*zip(steps, low, high, strict=True), (None, None, None)]:
        if down is not None and up is not None:
            stretch.append((step, down, up))
        elif stretch:
            x += [s for s, _, _ in stretch] + [s for s, _, _ in reversed(stretch)] + [None]
            y += [d for _, d, _ in stretch] + [u for _, _, u in reversed(stretch)] + [None]
            stretch = []
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines",
        fill="toself",
        line={"width": 0, "color": PALETTE[0]},
        opacity=0.25,
        hoverinfo="skip",
        name="shortest to longest",
        meta=DECORATION,
    )
    figure.update_layout(showlegend=True)


def add_evaluations(
    figure: go.Figure, name: str, found: Sequence[Mapping[str, Any]], panel: int
) -> None:
    points = [
        (step_of(e), *(finite(e.get(key)) for key in ("pass_at_1", "low", "high"))) for e in found
    ]
    style = line_style(1)
    figure.add_trace(
        go.Scatter(
            x=[step for step, _, _, _ in points],
            y=[middle for _, middle, _, _ in points],
            name=plain(name, 40),
            mode="markers",
            marker={"symbol": style["symbol"], "size": 10, "color": style["color"]},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [_gap(high, middle) for _, middle, _, high in points],
                "arrayminus": [_gap(middle, low) for _, middle, low, _ in points],
                "width": 6,
            },
        ),
        row=panel,
        col=1,
    )


def _gap(high: float | None, low: float | None) -> float | None:
    return None if high is None or low is None else high - low


def finish(
    figure: go.Figure,
    rows: Rows,
    events: Events,
    title: str,
    caption: str,
    kind: str,
    stories: Sequence[str],
) -> go.Figure:
    """Title, step axis, marks of events, caption and alternative text."""
    figure.update_layout(title_text=title)
    steps = steps_of(rows) + [step_of(e) for found in evaluations(events).values() for e in found]
    if steps:
        margin = max(0.6, 0.02 * (max(steps) - min(steps)))
        figure.update_xaxes(range=[min(steps) - margin, max(steps) + margin])
        if max(steps) - min(steps) < 10:
            figure.update_xaxes(dtick=1)
    axes = list(figure.select_xaxes())
    axes[-1].title = STEP_TITLE
    marked = _mark_events(figure, events)
    if not has_values(figure):
        figure.add_annotation(
            text="no values yet", x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False
        )
        return describe(figure, caption + " There are no values yet.", f"{title}: no values yet.")
    shown = [story for story in stories if story]
    if len(shown) > 6:
        shown = [*shown[:6], f"and {len(shown) - 6} more, see the data table"]
    alt = f"{kind} over {STEP_TITLE.split()[0]}s {min(steps)} to {max(steps)}. {'; '.join(shown)}."
    return describe(figure, f"{caption}{marked}", alt)


def story(name: str, steps: Sequence[int], values: Sequence[float | None]) -> str:
    """A line in words; empty when it has no value."""
    known = [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
    if not known:
        return ""
    (first, start), (last, end) = known[0], known[-1]
    if first == last:
        text = f"{name} is {number(start)} at step {first}"
    else:
        low, high = (number(pick(v for _, v in known)) for pick in (min, max))
        text = (
            f"{name} goes from {number(start)} at step {first} to {number(end)} at step {last}, "
            f"lowest {low}, highest {high}"
        )
    missing = len(values) - len(known)
    return text + (f", without a value in {missing}" if missing else "")


def mark_of(event: Mapping[str, Any]) -> str:
    """What an event is marked as: its kind, or `warning` where the monitor did nothing."""
    if event.get("kind") == "intervention" and event.get("action") == "warn":
        return "warning"
    return str(event.get("kind", "")).replace("_", " ")


def _mark_events(figure: go.Figure, events: Events) -> str:
    """Marks what happened with a thin line and a sign; returns what the caption says of it."""
    notable = [e for e in events if mark_of(e) in EVENT_SIGNS]
    by_step: dict[int, list[Mapping[str, Any]]] = {}
    for event in notable:
        by_step.setdefault(step_of(event), []).append(event)

    def weight(step: int) -> tuple[bool, int]:
        return any(mark_of(e) != "warning" for e in by_step[step]), step

    chosen = sorted(by_step, key=weight, reverse=True)[:MOST_MARKS]
    for step in sorted(chosen):
        signs = "".join(dict.fromkeys(EVENT_SIGNS[mark_of(e)] for e in by_step[step]))
        told = "<br>".join(plain(event_sentence(e)) for e in by_step[step][:5])
        figure.add_shape(
            type="line",
            x0=step,
            x1=step,
            xref="x",
            y0=0,
            y1=1,
            yref="paper",
            line={"color": "#808080", "width": 1, "dash": "dot"},
        )
        figure.add_annotation(
            text=signs,
            hovertext=told,
            x=step,
            xref="x",
            y=1,
            yref="paper",
            yanchor="top",
            showarrow=False,
        )
    if not chosen:
        return ""
    kinds = dict.fromkeys(mark_of(e) for step in sorted(chosen) for e in by_step[step])
    legend = ", ".join(f"{EVENT_SIGNS[kind]} {kind}" for kind in kinds)
    left = len(by_step) - len(chosen)
    more = f"; {left} more steps with events are not marked, see the events" if left else ""
    return f" Marked: {legend}{more}."
