"""The panel of lesson 00: one observer, honest buttons, escaped text, a static fallback."""

from __future__ import annotations

import html.parser
import itertools
import json
import sys

import pytest

from rlkit import UserError
from rlkit.lab.controls import Pace
from rlkit.lab.dashboard import Dashboard
from rlkit.lab.group_view import GroupView
from rlkit.lab.live import current, start
from rlkit.loop.evaluation import Evaluation, evaluate_domain

WIDGET = "application/vnd.jupyter.widget-view+json"
PLOTLY = "application/vnd.plotly.v1+json"


@pytest.fixture
def front_end(monkeypatch):
    """As in a notebook: widgets are built, runs go to the background."""
    monkeypatch.setenv("RLKIT_HEADLESS", "0")


@pytest.fixture
def no_front_end(monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")


def press(panel: Dashboard, name: str) -> None:
    """Presses a button and waits until what it began has ended."""
    getattr(panel._controls, name).click()
    panel.wait()


class Outline(html.parser.HTMLParser):
    """Collects the tags, the attributes and the text of some HTML, and checks its nesting."""

    VOID = ("br", "img", "input", "hr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data


# -- buttons -----------------------------------------------------------------------------


def test_one_click_is_one_step_however_often_the_panel_was_built(build_loop, front_end):
    # public case g_observer_twice
    loop = build_loop()
    panels = [Dashboard(loop) for _ in range(3)]
    press(panels[-1], "one")
    assert loop.steps_done == 1
    assert [row["step"] for row in panels[-1].rows] == [1]
    assert [c for c in loop.callbacks if isinstance(c, Dashboard)] == [panels[-1]]
    assert "built again" in panels[0]._controls.box.children[0].value


def test_a_newer_panel_keeps_what_the_older_one_saw(build_loop, front_end):
    loop = build_loop()
    older = Dashboard(loop)
    press(older, "one")
    older._controls.rate.value = "÷4"
    newer = Dashboard(loop)
    assert [row["step"] for row in newer.rows] == [1]
    assert newer._controls.rate.value == "÷4"
    press(newer, "afresh")
    assert loop.steps_done == 0


def test_ten_steps_and_what_the_panel_then_shows(build_loop, front_end):
    loop = build_loop()
    panel = Dashboard(loop)
    assert "no step yet" in panel._controls.counter.value
    press(panel, "ten")
    assert loop.steps_done == 10
    assert "Step 10" in panel._controls.counter.value
    assert "finished" in panel._controls.counter.value
    (shown,) = panel._controls.plot.outputs
    assert set(shown["data"]) == {PLOTLY, "text/plain"}  # not the page of several megabytes
    assert len(json.dumps(shown, default=str)) < 60_000
    training = shown["data"][PLOTLY]["data"][0]
    assert list(training["x"]) == list(range(1, 11))
    assert "to step" in shown["data"]["text/plain"] or "at step 10" in shown["data"]["text/plain"]
    assert "<table>" in panel._controls.notes.value  # the data of the figure


def test_buttons_can_be_pressed_when_they_make_sense(build_loop, front_end):
    loop = build_loop()
    panel = Dashboard(loop)
    controls = panel._controls
    seen = []
    loop.callbacks.append(
        lambda record, batch: seen.append(
            [b.disabled for b in (controls.one, controls.ten, controls.afresh, controls.halt)]
        )
    )
    assert (controls.one.disabled, controls.halt.disabled) == (False, True)
    press(panel, "one")
    assert seen == [[True, True, True, False]]
    assert (controls.one.disabled, controls.halt.disabled) == (False, True)


def test_stop_ends_a_run_after_the_step_under_way(build_loop, front_end):
    loop = build_loop()
    panel = Dashboard(loop)
    loop.callbacks.append(
        lambda record, batch: panel._controls.halt.click() if record.step == 3 else None
    )
    press(panel, "ten")
    assert loop.steps_done == 3
    assert current(loop).state == "stopped"
    press(panel, "one")
    assert loop.steps_done == 4


def test_a_run_that_rests_goes_on_with_the_buttons(build_loop, front_end):
    loop = build_loop()
    panel = Dashboard(loop)
    run = start(loop, 5, paused=True).wait()
    press(panel, "one")
    assert (loop.steps_done, run.state) == (1, "paused")
    panel._controls.halt.click()
    assert run.wait().state == "stopped"


def test_start_afresh_takes_policy_and_curves_back(build_loop, front_end):
    loop = build_loop()
    panel = Dashboard(loop)
    before = loop.policy.fingerprint()
    panel.add_evaluation(loop.evaluate(4))
    press(panel, "ten")
    panel.add_evaluation(loop.evaluate(4))
    assert loop.policy.fingerprint() != before
    panel._controls.rate.value = "×2"
    press(panel, "afresh")
    assert loop.policy.fingerprint() == before
    assert panel.rows == []
    assert [event["step"] for event in panel.events] == [0]
    assert panel._controls.rate.value == "×1"
    assert "Step 0" in panel._controls.counter.value
    assert "Run one step" in panel._controls.group.value


def test_a_fresh_start_from_a_cell_clears_the_panel_too(build_loop, front_end):
    loop = build_loop()
    panel = Dashboard(loop)
    press(panel, "ten")
    start(loop, 2, fresh=True).wait()
    assert [row["step"] for row in panel.rows] == [1, 2]


def test_the_slider_changes_the_rate_of_the_next_step(build_loop, front_end):
    loop = build_loop()
    panel = Dashboard(loop)
    press(panel, "ten")
    panel._controls.rate.value = "÷4"
    press(panel, "one")
    full, quarter = (row["learning_rate"] for row in panel.rows[-2:])
    assert quarter == pytest.approx(full / 4)
    assert f"{quarter:g}" in panel._controls.rate_text.value


def test_what_ends_a_run_is_shown_in_the_panel(build_loop, front_end):
    loop = build_loop()
    panel = Dashboard(loop)

    def callback(record, batch):
        raise ValueError("<b>no such thing</b>")

    loop.callbacks.append(callback)
    panel._controls.one.click()
    with pytest.raises(ValueError, match="no such thing"):
        panel.wait()
    shown = panel._controls.error.value
    assert "ValueError: &lt;b&gt;no such thing" in shown
    assert 'role="alert"' in shown
    loop.callbacks.remove(callback)
    press(panel, "one")
    assert panel._controls.error.value == ""


def test_a_button_that_cannot_do_its_work_says_why(build_loop, front_end, tmp_path, caplog):
    panel = Dashboard(build_loop(run=tmp_path / "run"))
    press(panel, "afresh")
    assert "another run directory" in panel._controls.error.value
    assert "another run directory" in caplog.text  # ipywidgets has it, too, with its traceback


def test_a_panel_shows_what_a_run_directory_already_holds(build_loop, front_end, tmp_path):
    build_loop(run=tmp_path / "run").run(3, progress=False)
    resumed = build_loop(run=tmp_path / "run")
    panel = Dashboard(resumed)
    assert [row["step"] for row in panel.rows] == [1, 2, 3]


def test_evaluations_come_with_ten_steps_and_not_with_each_one(build_loop, front_end):
    loop = build_loop()
    panel = Dashboard(loop, evaluate_every=10, problems=4)
    press(panel, "one")
    press(panel, "one")
    assert panel.events == []
    press(panel, "ten")
    assert [event["step"] for event in panel.events] == [10, 12]


# -- drawing -------------------------------------------------------------------------------


def test_pace_draws_at_most_three_times_a_second_and_always_the_last_state():
    now, drawn = [100.0], []

    def sleep(seconds):
        now[0] += seconds

    pace = Pace(lambda: drawn.append(now[0]), clock=lambda: now[0], sleep=sleep)
    for _ in range(100):  # ten seconds of steps, a tenth of a second each
        now[0] += 0.1
        pace.ask()
    pace.now()
    gaps = [b - a for a, b in itertools.pairwise(drawn)]
    assert min(gaps) >= 1 / 3 - 1e-9
    assert len(drawn) == 26  # at every fourth step, and once more at the end
    assert drawn[-1] == now[0]


# -- a group --------------------------------------------------------------------------------


def test_model_text_is_escaped_and_its_control_characters_are_visible():
    nasty = "</pre><script>alert(1)</script>\x1b[31m\u202e & 'x' \x00"
    view = GroupView(nasty, [nasty], [1.0], [0.0], [True], [nasty + '" onmouseover="x'])
    page = Outline(view._repr_html_())
    assert "script" not in page.tags
    assert {name for name, _ in page.attributes} <= {
        *("style", "tabindex", "role", "aria-label", "scope", "title"),
    }
    for shown in (page.text, str(view)):
        assert "⟨ESC⟩[31m" in shown
        assert "⟨U+202E⟩" in shown
        assert "⟨NUL⟩" in shown
    assert "\x1b" not in str(view) + view._repr_html_()


def test_marks_and_numbers_say_the_same_in_text_and_html():
    view = GroupView(
        "q", ["a", "b", "c", "d"], [1.0, 0.25, None, 0.0], [1.2, -0.2, 0.0, -1.0],
        [True, False, None, False],
    )  # fmt: skip
    lines = str(view).splitlines()
    assert lines[0] == "Problem: q"
    assert [line.split()[0] for line in lines[1:]] == ["✓", "✗", "–", "✗"]
    # Bars of eight characters: 1.0 fills them, 0.25 two; 1.0 of 1.2 is seven (6.7).
    assert lines[1] == "  ✓ reward 1.00 ████████  advantage +1.20 ████████  a"
    assert lines[2] == "  ✗ reward 0.25 ██        advantage -0.20 ░         b"
    assert lines[3] == "  – reward    –           advantage +0.00           c"
    assert lines[4] == "  ✗ reward 0.00           advantage -1.00 ░░░░░░░   d"
    page = Outline(view._repr_html_())
    labels = [value for name, value in page.attributes if name == "aria-label"][1:]
    assert labels == ["solved", "not solved", "no verdict", "not solved"]
    for number in ("1.00", "0.25", "–", "+1.20", "-0.20", "+0.00"):
        assert number in page.text


def test_a_group_needs_one_value_for_each_answer():
    with pytest.raises(UserError, match="2 rewards for 1 answers"):
        GroupView("q", ["a"], [1.0, 0.0])
    with pytest.raises(UserError, match="1 advantages for 2 answers"):
        GroupView("q", ["a", "b"], [1.0, 0.0], [0.5])


def test_the_group_shown_is_one_with_contrast(build_loop, no_front_end):
    loop = build_loop()
    loop.step()
    loop.batch.alive_B[:] = [False, True]
    assert GroupView.of(loop.batch).heading == "Step 1, group 2 of 2"
    assert GroupView.of(loop.batch, 0).heading == "Step 1, group 1 of 2, no contrast"
    with pytest.raises(UserError, match="no group 2; this batch has groups 0 to 1"):
        GroupView.of(loop.batch, 2)


# -- without widgets --------------------------------------------------------------------------


def test_without_a_front_end_the_panel_is_text_and_tables(build_loop, no_front_end):
    loop = build_loop()
    panel = Dashboard(loop)
    assert set(panel._repr_mimebundle_()) == {"text/plain", "text/html"}
    panel.run(2)
    shown = panel._repr_mimebundle_()
    assert shown["text/plain"].startswith("Step 2: reward ")
    assert "group 1 of 2" in shown["text/plain"]
    assert "training" in shown["text/plain"]  # the figure in words
    page = Outline(shown["text/html"])
    assert page.tags.count("table") == 2  # the group, and the data of the figure
    assert "caption" in page.tags


def test_with_widgets_there_is_a_static_form_beside_them(build_loop, front_end):
    panel = Dashboard(build_loop())
    bundle = panel._repr_mimebundle_()
    assert bundle[WIDGET]["model_id"] == panel._controls.box.model_id
    assert "enable_custom_widget_manager" in bundle["text/plain"]
    assert "enable_custom_widget_manager" in bundle["text/html"]


def test_only_core_widgets_are_used(build_loop, front_end):
    panel = Dashboard(build_loop())
    modules, waiting = set(), [panel._controls.box]
    while waiting:
        widget = waiting.pop()
        modules.add(widget._view_module)
        waiting += getattr(widget, "children", ())
    assert modules == {"@jupyter-widgets/controls", "@jupyter-widgets/output"}
    assert "anywidget" not in sys.modules


def test_an_evaluation_without_any_verdict_is_no_point(build_loop, no_front_end):
    panel = Dashboard(build_loop())
    nothing = evaluate_domain("arith", [[None]], 1)
    panel.add_evaluation(Evaluation.of(0, [nothing]))
    held_out = next(t for t in panel.figure().data if "held-out" in t.name)
    assert list(held_out.y) == [None]
