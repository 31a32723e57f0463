"""Figures: gaps stay gaps, nothing hides, and what is drawn is also told and tabled."""

from __future__ import annotations

import itertools
import json
import math

import pytest

from rlkit.lab import figures, theme
from rlkit.lab.rows import event_sentence

ROWS = [
    {
        "step": step,
        "reward": reward,
        "reward/arith": reward,
        "reward/sort": 0.25,
        "pass_rate": 0.5,
        "pass_rate/arith": 0.5,
        "pass_rate/sort": None,
        "frac_reward_zero_std": 0.5,
        "entropy": math.nan,
        "grad_norm": 1.5,
        "kl": None,
        "completions/mean_length": 20.0,
        "completions/min_length": None if step == 3 else 10,
        "completions/max_length": 30,
        "completions/clipped_ratio": 0.0,
        "curriculum/probability/arith": 0.75,
        "curriculum/probability/sort": 0.25,
        "learning_rate": 1e-3,
        "time/generate": 0.5,
        **({"status/PASS": 3, "status/FAIL": 1} if step < 3 else {}),
        **({"status/PASS": 4} if step == 4 else {}),
    }
    for step, reward in [(1, 0.1), (2, None), (3, 0.3), (4, 0.4)]
]
EVENTS = [
    {"kind": "evaluation", "step": 0, "split": "held_out", "domain": "arith"}
    | {"pass_at_1": 0.25, "low": 0.125, "high": 0.5, "problems": 8},
    {"kind": "evaluation", "step": 4, "split": "held_out", "domain": "arith"}
    | {"pass_at_1": None, "low": None, "high": None, "problems": 0},
    {"kind": "intervention", "step": 3, "rule": "r", "action": "rollback", "reason": "<b>why</b>"},
    {"kind": "resumed", "step": 2, "checkpoint": "step-000002"},
]


def trace(figure, name):
    """The values of the trace with this name, by step."""
    found = [t for t in figure.data if name in (t.name, t.meta)]
    assert len(found) == 1, f"{name}: {[t.name for t in figure.data]}"
    return dict(zip(found[0].x, found[0].y, strict=True))


def test_a_missing_value_is_a_gap_and_never_zero():
    figure = figures.reward_figure(ROWS)
    assert trace(figure, "all domains") == {1: 0.1, 2: None, 3: 0.3, 4: 0.4}
    assert all(t.connectgaps is False for t in figure.data)
    assert not figures.has_values(figures.entropy_figure(ROWS))  # NaN in every step
    assert "kl" not in figures.run_figures(ROWS)


def test_a_point_between_two_gaps_is_seen_in_a_long_line():
    rows = [{"step": s, "grad_norm": None if s in (499, 501) else 1.0} for s in range(1, 1001)]
    sizes = figures.grad_norm_figure(rows).data[0].marker.size
    assert sizes[500 - 1] > 0
    assert sum(size > 0 for size in sizes) < 20  # all the others are told by the line alone


def test_domains_have_their_own_lines_and_a_single_one_has_none():
    assert [t.name for t in figures.reward_figure(ROWS).data] == ["all domains", "arith", "sort"]
    one = [{k: v for k, v in row.items() if not k.endswith("/sort")} for row in ROWS]
    assert [t.name for t in figures.reward_figure(one).data] == ["mean reward"]
    assert "curriculum" in figures.run_figures(ROWS)
    assert "curriculum" not in figures.run_figures(one)


def test_pass_rate_has_held_out_markers_with_their_interval():
    figure = figures.pass_rate_figure(ROWS, EVENTS)
    held_out = next(t for t in figure.data if t.meta == "arith: held-out")
    assert (held_out.mode, held_out.x, held_out.y) == ("markers", (0, 4), (0.25, None))
    # [0.125, 0.5] around 0.25 reaches 0.25 up and 0.125 down.
    assert held_out.error_y.array == (0.25, None)
    assert held_out.error_y.arrayminus == (0.125, None)
    table = theme.table_of(figure)
    by_name = dict(zip(table.columns, table.rows[0], strict=True))
    assert (by_name["arith: held-out, low"], by_name["arith: held-out, high"]) == (0.125, 0.5)


def test_an_evaluation_done_twice_counts_once_and_the_later_wins():
    again = {**EVENTS[0], "pass_at_1": 0.375}
    figure = figures.pass_rate_figure(ROWS, [*EVENTS, again])
    assert trace(figure, "arith: held-out")[0] == 0.375


def test_a_status_that_did_not_occur_is_zero_and_a_step_without_statuses_is_a_gap():
    figure = figures.status_figure(ROWS)
    assert trace(figure, "FAIL") == {1: 1, 2: 1, 3: None, 4: 0}
    assert [t.name for t in figure.data] == ["PASS", "FAIL"]


def test_the_band_of_lengths_breaks_where_a_value_is_missing():
    band = next(t for t in figures.length_figure(ROWS).data if t.fill == "toself")
    # Steps 1 and 2 there and back, a break at step 3, and step 4 there and back.
    assert band.x == (1, 2, 2, 1, None, 4, 4, None)
    assert band.y == (10, 10, 30, 30, None, 10, 30, None)


def test_events_are_marked_and_their_text_is_no_markup():
    figure = figures.reward_figure(ROWS, EVENTS)
    marks = {a.x: a for a in figure.layout.annotations}
    assert {step: mark.text for step, mark in marks.items()} == {2: "■", 3: "▼"}
    assert "&lt;b&gt;why" in marks[3].hovertext
    assert "▼ intervention" in figure.layout.meta["caption"]
    assert [shape.x0 for shape in figure.layout.shapes] == [2, 3]


def test_of_very_many_events_those_where_something_was_done_are_marked_and_the_rest_counted():
    warned = {"kind": "intervention", "action": "warn", "rule": "entropy", "reason": "low"}
    events = [{**warned, "step": step} for step in range(10, 210)] + [EVENTS[2]]
    figure = figures.reward_figure(ROWS, events)
    assert len(figure.layout.shapes) == 60
    assert any(shape.x0 == 3 for shape in figure.layout.shapes)  # the rollback
    # 200 steps with warnings and one with a rollback, 60 of them marked
    assert "141 more steps" in figure.layout.meta["caption"]


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_figure_is_titled_captioned_told_and_has_units(name):
    figure = figures.FIGURES[name](ROWS, EVENTS)
    assert figure.layout.title.text
    assert len(figure.layout.meta["caption"].split()) > 5
    for axis in figure.select_yaxes():
        assert "(" in axis.title.text  # the unit
    assert any("step" in (axis.title.text or "") for axis in figure.select_xaxes())
    if figures.has_values(figure):
        assert " over steps " in figure.layout.meta["alt"]


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_figure_says_so_when_it_has_no_values(name):
    figure = figures.FIGURES[name]([], [])
    assert not figures.has_values(figure)
    assert "no values yet" in figure.layout.meta["alt"]
    assert any(a.text == "no values yet" for a in figure.layout.annotations)


def test_the_alternative_text_tells_the_line():
    alt = figures.reward_figure(ROWS).layout.meta["alt"]
    told = "all domains goes from 0.1 at step 1 to 0.4 at step 4, lowest 0.1, highest 0.4"
    assert f"{told}, without a value in 1" in alt


def test_a_hostile_name_of_a_domain_reaches_no_figure_as_markup():
    name = '<img src=x onerror="x()">\x1b[31m'
    rows = [{"step": 1, f"reward/{name}": 1.0, "reward/b": 0.0, "reward": 0.5}]
    figure = figures.reward_figure(rows)
    assert not any("<" in t.name or "\x1b" in t.name for t in figure.data)
    assert any(column.startswith("<img") for column in theme.table_of(figure).columns)
    assert "<img" not in theme.figure_block(figure)


# -- the theme ---------------------------------------------------------------------------


def test_a_block_has_drawing_alternative_text_caption_and_a_table_to_open():
    block = theme.figure_block(figures.reward_figure(ROWS), heading="h3")
    assert block.startswith('<figure class="rlkit-figure"><h3>Reward</h3>')
    assert 'role="img" aria-label="Line chart of' in block
    assert "<figcaption>The mean reward" in block
    assert "<details><summary>Data of this figure</summary>" in block
    assert '<th scope="row">2</th><td>–</td><td>–</td><td>0.25</td>' in block
    data = block.split('class="rlkit-figure-data">')[1].split("</script>")[0]
    assert json.loads(data)["data"][0]["y"] == [0.1, None, 0.3, 0.4]


def test_a_block_for_a_place_without_plotly_brings_it_along():
    figure = figures.reward_figure(ROWS)
    assert len(theme.figure_block(figure)) < 50_000
    assert "Plotly.newPlot" in theme.figure_block(figure, plotlyjs=True)


def test_a_figure_without_words_is_refused():
    import plotly.graph_objects as go

    with pytest.raises(ValueError, match="caption"):
        theme.figure_block(go.Figure())


def test_a_long_table_is_thinned_out_and_says_so():
    table = theme.Table(["step", "value"], [[step, step] for step in range(1, 1001)])
    text = theme.table_html(table, "Values.", most=11)
    assert "11 of 1,000 rows, evenly spaced" in text
    assert text.count("<tr>") == 1 + 11
    assert 'scope="row">1<' in text and 'scope="row">1,000<' in text


def relative_luminance(colour):
    """WCAG 2: relative luminance of a colour such as #0072B2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted(map(relative_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", ["#FFFFFF", "#111111"])
def test_colours_are_readable_on_light_and_on_dark(page):
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)  # the measure itself
    for colour in theme.PALETTE:
        assert contrast(colour, page) >= 3, f"{colour} on {page}"
    assert contrast(theme.TEXT, page) >= 4


def test_no_two_lines_look_alike():
    styles = [tuple(theme.line_style(i).values()) for i in range(40)]
    assert len(set(styles)) == 40
    # Without colour, too, as long as there are as many domains as a run may sensibly have.
    plain = [style[1:] for style in styles[:9]]
    assert all(one != other for one, other in itertools.combinations(plain, 2))


def test_an_event_is_told_in_one_line():
    assert event_sentence(EVENTS[2]) == "step 3: intervention, rollback by r: <b>why</b>"
    assert event_sentence({}) == "step ?: ?"
