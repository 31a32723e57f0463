"""The Reward Lab's widgets, driven through their own messages, without a browser."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("ipywidgets")

from rlkit.lab import reward_lab, stored_rollouts

SUM = (
    "from rlkit.rewards import exact_answer, format_reward\n"
    "reward = 0.9 * exact_answer + 0.1 * format_reward\n"
)


@pytest.fixture
def lab(monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    return reward_lab(stored_rollouts().where(domain="arith"), "format_reward")


def press(button):
    assert not button.disabled
    button.click()


def test_apply_draws_what_is_in_force(lab):
    c = lab._controls
    assert "get_reward" in c.code.value and c.back.disabled
    before = c.plot.outputs
    c.code.value = SUM
    press(c.apply)
    assert "504 completions scored" in c.message.value
    assert c.plot.outputs != before
    assert not c.back.disabled and c.forth.disabled
    assert [s.description for s in c.sliders.children[1:]] == ["exact_answer", "format_reward"]


def test_what_does_not_parse_is_an_alert_and_the_text_stays(lab):
    c = lab._controls
    shown = (c.plot.outputs, c.head.value, c.listed.options)
    c.code.value = "def reward(completions:"
    press(c.apply)
    assert 'role="alert"' in c.message.value
    assert c.code.value == "def reward(completions:"
    assert (c.plot.outputs, c.head.value, c.listed.options) == shown
    assert not c.apply.disabled


def test_undo_and_redo_move_the_text(lab):
    c = lab._controls
    first = c.code.value
    c.code.value = SUM
    press(c.apply)
    press(c.back)
    assert c.code.value == first and c.back.disabled
    press(c.forth)
    assert c.code.value == SUM


def test_an_example_is_shown_with_its_group(lab):
    c = lab._controls
    assert c.listed.index is None
    c.listed.index = 0
    assert "Completion " in c.shown.value and "<caption" in c.shown.value
    c.kind.value = "refused_right"
    assert not c.listed.options and "no such completion" in c.shown.value


def test_a_slider_moves_the_reward_and_undo_moves_the_slider(lab):
    c = lab._controls
    c.code.value = SUM
    press(c.apply)
    slider = c.sliders.children[2]
    slider.value = 0.5
    assert lab.state.weights["format_reward"] == pytest.approx(0.5)
    slider.value = 0.7
    press(c.back)
    assert slider.value == pytest.approx(0.1)
    assert c.code.value == SUM


def test_one_view_is_drawn_at_a_time(lab):
    c = lab._controls
    for view in ("parts", "contrast", "truth", "advantages", "rewards"):
        c.views.value = view
        (shown,) = c.plot.outputs
        assert shown["data"]["text/plain"] == lab.figure(view).layout.meta["alt"]


def test_a_file_that_cannot_be_saved_is_an_alert(lab, tmp_path):
    c = lab._controls
    c.file.value = str(tmp_path / "mine.txt")
    press(c.save)
    assert 'role="alert"' in c.message.value and "must end in .py" in c.message.value
    c.file.value = str(tmp_path / "mine.py")
    press(c.save)
    assert (tmp_path / "mine.py").read_text() == lab.state.source


def test_training_can_be_stopped_from_the_panel(lab):
    c = lab._controls
    lab.train(500)
    assert c.train.disabled and not c.halt.disabled
    end = time.monotonic() + 120
    while not lab.training.rows:
        assert time.monotonic() < end and lab.training.error is None
        time.sleep(0.1)
    press(c.halt)
    lab.training.wait()
    assert lab.training.state == "stopped" and len(lab.training.rows) < 500
    end = time.monotonic() + 30
    while c.train.disabled:  # the training's own thread draws its end
        assert time.monotonic() < end
        time.sleep(0.05)
    assert c.halt.disabled and "stopped" in c.progress.value
    assert c.training_plot.outputs


def test_all_controls_have_a_name(lab):
    import ipywidgets as w

    def every(widget):
        yield widget
        for child in getattr(widget, "children", ()):
            yield from every(child)

    named = (w.Button, w.Textarea, w.Select, w.Dropdown, w.Text, w.FloatSlider)
    found = [widget for widget in every(lab._controls.box) if isinstance(widget, named)]
    assert len(found) >= 10
    assert all(widget.description.strip() for widget in found)
