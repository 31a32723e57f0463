"""The figures of a run: pure functions from rows of `metrics.jsonl` to plotly figures.

Each takes `rows` (one mapping a step, from `Run.metrics()` or `StepRecord.to_dict()`) and
`events` (from `Run.events()`), and gives a `go.Figure` that carries its caption and its
alternative text, see `rlkit.lab.theme.figure_block`. The report, the dashboard and the
lessons use the same ones.

A missing value is a gap in the line, never a zero. Events that explain a bend are
marked: interventions, resumes, ignored checkpoints, interruptions.

Left out on purpose: smoothing. What is drawn is what was measured.
"""

from __future__ import annotations

from collections.abc import Callable

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from rlkit.lab.drawing import (
    add_band,
    add_evaluations,
    add_line,
    bar_figure,
    finish,
    has_values,
    line_figure,
    story,
)
from rlkit.lab.rows import (
    PROBABILITY,
    Events,
    Rows,
    domains_of,
    evaluations,
    finite,
    keys_of,
    lines_of,
    step_of,
    steps_of,
    values_of,
)
from rlkit.lab.theme import PALETTE, plain, template

#: Statuses from best to worst, as they are stacked; others follow by name.
STATUS_ORDER = ("PASS", "OK", "FAIL", "WRONG", "NO_ANSWER")


def reward_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Mean reward of each step, and of each domain when there are several."""
    return line_figure(
        rows,
        events,
        "Reward",
        "mean reward (no unit)",
        lines_of(rows, "reward", "mean reward"),
        "The mean reward of all answers of a step that got a verdict.",
    )


def parts_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Mean of each part of the reward; empty when the reward has fewer than two parts."""
    keys = keys_of(rows, "rewards/", "/mean")
    lines = [(key[len("rewards/") : -len("/mean")], key) for key in keys]
    return line_figure(
        rows,
        events,
        "Parts of the reward",
        "mean value of the part (no unit)",
        lines if len(lines) > 1 else [],
        "The mean of each part of the reward, before weighting.",
    )


def pass_rate_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Share solved in training, and on held-out problems with its 95 % interval.

    One panel a domain. Held-out values are read from the `evaluation` events.
    """
    domains = domains_of(rows, events) or [""]
    several = len(domains) > 1
    height = 150 + 190 * len(domains)
    figure = make_subplots(
        rows=len(domains),
        shared_xaxes=True,
        vertical_spacing=44 / height,
        subplot_titles=[plain(domain) for domain in domains] if several else None,
    )
    figure.update_layout(template=template(), height=height)
    if several:  # the legend stands above the first panel's name
        figure.update_layout(legend_y=1 + 26 / (height - 100))
    stories = []
    for panel, domain in enumerate(domains, start=1):
        prefix = f"{domain}: " if several else ""
        steps = steps_of(rows)
        values = values_of(rows, f"pass_rate/{domain}" if several else "pass_rate")
        found = evaluations(events).get(domain, [])
        add_line(figure, "training", steps, values, 0, panel)
        add_evaluations(figure, "held-out", found, panel)
        for trace in figure.data[-2:]:
            trace.update(meta=prefix + trace.name, showlegend=panel == 1, legendgroup=trace.name)
        measured = [finite(event.get("pass_at_1")) for event in found]
        stories.append(story(f"{prefix}training", steps, values))
        stories.append(story(f"{prefix}held-out", [step_of(e) for e in found], measured))
    figure.update_yaxes(title_text="share solved (0 to 1)", range=[-0.03, 1.03])
    caption = (
        "The share of answers that solve their problem: of each training step, and on held-out "
        "problems that are never trained on (markers, with their 95 % interval)."
    )
    return finish(figure, rows, events, "Pass rate", caption, "Line chart of pass rates", stories)


def contrast_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Share of groups without contrast: all their answers earned the same."""
    return line_figure(
        rows,
        events,
        "Groups without contrast",
        "share of groups (0 to 1)",
        lines_of(rows, "frac_reward_zero_std", "without contrast"),
        "The share of groups whose answers all earned the same reward. Such a group says "
        "nothing about which answer is better, so nothing is learned from it.",
        share=True,
    )


def entropy_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Mean entropy of the policy's next-token distribution."""
    return line_figure(
        rows,
        events,
        "Entropy",
        "entropy (nats a token)",
        [("entropy", "entropy")],
        "How undecided the policy is about the next token, on average. Near 0 it always "
        "writes the same, and there is nothing left to compare.",
    )


def grad_norm_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Length of the gradient before clipping."""
    return line_figure(
        rows,
        events,
        "Gradient norm",
        "length of the gradient (no unit)",
        [("gradient norm", "grad_norm")],
        "The length of the gradient before clipping. A gap is a step without a gradient, "
        "because no group had contrast or because it was not finite.",
    )


def kl_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Divergence of the policy from its reference."""
    return line_figure(
        rows,
        events,
        "Distance from the reference",
        "KL divergence (nats a token)",
        [("KL divergence", "kl")],
        "How far the policy has moved from where it started, measured on its own answers.",
    )


def length_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Lengths of the answers: mean, shortest and longest."""
    lines = lines_of(rows, "completions/mean_length", "mean length")
    caption = (
        "The mean length of a step's answers, in tokens; the band runs from the shortest to "
        "the longest."
    )
    figure = line_figure(rows, events, "Length of the answers", "length (tokens)", lines, caption)
    steps = steps_of(rows)
    low, high = (values_of(rows, f"completions/{end}_length") for end in ("min", "max"))
    add_band(figure, steps, low, high)
    for name, values in (("shortest", low), ("longest", high)):
        figure.add_scatter(
            x=steps,
            y=values,
            name=name,
            mode="lines",
            line={"color": PALETTE[0], "width": 1, "dash": "dot"},
            showlegend=False,
        )
    return figure.update_yaxes(rangemode="tozero")


def clipped_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Share of answers that were cut off at the token budget."""
    return line_figure(
        rows,
        events,
        "Answers cut off",
        "share of answers (0 to 1)",
        lines_of(rows, "completions/clipped_ratio", "cut off"),
        "The share of answers that used up their token budget before they ended.",
        share=True,
    )


def status_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """How many answers got which status, stacked."""
    keys = keys_of(rows, "status/")
    known = {f"status/{name}": place for place, name in enumerate(STATUS_ORDER)}
    keys.sort(key=lambda key: (known.get(key, len(known)), key))
    # A step names only the statuses that occurred, so one it does not name is a true 0;
    # a step that names none at all knows nothing.
    counted = [
        {key: 0 if row.get(key, 0) == 0 else row[key] for key in keys}
        if any(key in row for key in keys)
        else {}
        for row in rows
    ]
    lines = [(key.removeprefix("status/"), key) for key in keys]
    caption = (
        "What became of the answers of each step: the status of their score, which for code is "
        "what the sandbox saw."
    )
    return bar_figure(rows, counted, events, "Statuses", "answers (count)", lines, caption)


def time_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Seconds of each stage of a step, stacked."""
    lines = [(key.removeprefix("time/"), key) for key in keys_of(rows, "time/")]
    return bar_figure(
        rows,
        rows,
        events,
        "Where the time goes",
        "time (seconds a step)",
        lines,
        "The seconds that each stage of a step took.",
    )


def curriculum_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """Probability of each domain; empty when there is only one."""
    keys = keys_of(rows, PROBABILITY)
    lines = [(key.removeprefix(PROBABILITY), key) for key in keys] if len(keys) > 1 else []
    return line_figure(
        rows,
        events,
        "Curriculum",
        "probability (0 to 1)",
        lines,
        "How likely the next problem is to come from each domain.",
        share=True,
        first_style=1,
    )


def learning_rate_figure(rows: Rows, events: Events = ()) -> go.Figure:
    """The learning rate that each step was taken with."""
    figure = line_figure(
        rows,
        events,
        "Learning rate",
        "learning rate (no unit)",
        [("learning rate", "learning_rate")],
        "The learning rate of each step: a warm-up first, and half as much after each rollback.",
    )
    return figure.update_yaxes(rangemode="tozero", exponentformat="power")


#: All figures of a run by name, in the order in which one reads them.
FIGURES: dict[str, Callable[[Rows, Events], go.Figure]] = {
    "reward": reward_figure,
    "pass_rate": pass_rate_figure,
    "parts": parts_figure,
    "contrast": contrast_figure,
    "entropy": entropy_figure,
    "grad_norm": grad_norm_figure,
    "kl": kl_figure,
    "length": length_figure,
    "clipped": clipped_figure,
    "status": status_figure,
    "curriculum": curriculum_figure,
    "learning_rate": learning_rate_figure,
    "time": time_figure,
}


def run_figures(rows: Rows, events: Events = ()) -> dict[str, go.Figure]:
    """All figures of a run that have anything to show."""
    figures = {name: make(rows, events) for name, make in FIGURES.items()}
    return {name: figure for name, figure in figures.items() if has_values(figure)}
