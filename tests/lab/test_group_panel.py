"""A group's numbers, worked out by hand, and its panel with and without a front end."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.lab.group_numbers import group_figure, group_numbers
from rlkit.lab.group_panel import GroupPanel, contrast
from rlkit.lab.theme import table_of

groups = st.lists(st.integers(0, 1), min_size=2, max_size=12)


def test_one_right_of_four_by_hand():
    # Rewards 1, 0, 0, 0: mean 0.25, spread sqrt((0.75^2 + 3 * 0.25^2) / 3) = 0.5.
    # Advantages 1.5 and three times -0.5 (1e-4 below the line takes off 0.0003).
    found = group_numbers([1, 0, 0, 0], [2, 2, 2, 4])
    assert found.advantages == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-3)
    # 10 tokens: the loss is -(1.5 * 2 - 0.5 * (2 + 2 + 4)) / 10 = 0.1, a pull is A / 10.
    assert found.loss == pytest.approx(0.1, abs=1e-3)
    assert found.pulls == pytest.approx([0.15, -0.05, -0.05, -0.05], abs=1e-4)
    assert found.whole == pytest.approx([0.3, -0.1, -0.1, -0.2], abs=1e-3)


def test_the_three_means_by_hand():
    # Without the spread: 0.5 and -0.5. Two answers of 5 and 40 tokens.
    lengths = [5, 40]
    token = group_numbers([1, 0], lengths, std=False)
    assert token.pulls == pytest.approx([0.5 / 45, -0.5 / 45])
    # Each answer by its own length, then by 2: 0.5 / 5 / 2 and -0.5 / 40 / 2.
    sequence = group_numbers([1, 0], lengths, std=False, normaliser="sequence")
    assert sequence.pulls == pytest.approx([0.05, -0.00625])
    assert sequence.pulls[0] / -sequence.pulls[1] == pytest.approx(8)
    assert sequence.loss == pytest.approx(0)
    # By 2 answers of at most 64 tokens.
    constant = group_numbers([1, 0], lengths, std=False, normaliser="constant")
    assert constant.pulls == pytest.approx([0.5 / 128, -0.5 / 128])


@given(groups)
def test_rare_answers_are_pulled_hardest_with_the_spread(rewards):
    lengths = [7] * len(rewards)
    found = group_numbers(rewards, lengths)
    assert sum(found.advantages) == pytest.approx(0, abs=1e-4)
    assert found.loss == pytest.approx(0, abs=1e-6)
    right, size = sum(rewards), len(rewards)
    assert found.alive == (0 < right < size)
    if found.alive:
        # (1 - k/G) / sqrt(k (G - k) / (G (G - 1))) for a right one, k of G.
        spread = math.sqrt(right * (size - right) / (size * (size - 1)))
        wanted = (1 - right / size) / spread
        best = max(found.advantages)
        assert best == pytest.approx(wanted, abs=2e-3)


def test_a_group_that_is_none_is_refused():
    for rewards, lengths in (([1], [3]), ([1, 0], [3]), ([1, 0], [3, 0])):
        with pytest.raises(UserError, match="at least two answers"):
            group_numbers(rewards, lengths)


def test_contrast_by_hand():
    assert contrast(0.05, 14) == pytest.approx(1 - 0.95**14 - 0.05**14)
    assert contrast(0.05, 13) < 0.5 < contrast(0.05, 14)
    assert contrast(1.0, 8) == contrast(0.0, 8) == contrast(0.5, 1) == 0
    with pytest.raises(UserError, match="p must lie"):
        contrast(1.5, 8)


def test_the_figure_tells_right_from_wrong_and_keeps_its_data():
    found = group_numbers([1, 0], [5, 5])
    table = table_of(group_figure([1, 0], [5, 5], found, "test"))
    assert table.columns[0] == "answer (number)"
    assert set(table.columns[1:]) == {
        f"{unit}, {kind}"
        for unit in ("advantage", "pull on a token")
        for kind in ("right", "wrong")
    }
    assert [row[0] for row in table.rows] == [1, 2]


def test_without_a_front_end_it_is_text_and_does_the_same(monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    panel = GroupPanel(rewards=(1, 0, 0, 0))
    assert set(panel._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert "1 of 4 right; printed loss 0," in str(panel)
    panel.set(rewards=(1, 1, 1, 1))
    assert "no contrast, so nothing is learned" in panel.status()
    assert panel.found.pulls == [0, 0, 0, 0]
    panel.resize(6)
    assert panel.settings.rewards == (1, 1, 1, 1, 0, 0)
    panel.resize(2)
    assert panel.settings.rewards == (1, 1)
    panel.set(p=0.5)
    assert "50 % of the groups of 2" in panel.chances().layout.meta["alt"]
    for changes, words in (
        ({"rewards": (1,)}, "2 to 16"),
        ({"rewards": (1, 2)}, "each 0 or 1"),
        ({"normaliser": "median"}, "unknown"),
        ({"wrong_length": 0}, "1 to 64"),
        ({"p": -1}, "p must lie"),
        ({"colour": 1}, "no setting"),
    ):
        with pytest.raises(UserError, match=words):
            panel.set(**changes)


def test_buttons_switches_and_sliders_do_it(monkeypatch):
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    panel = GroupPanel()
    c = panel._controls
    assert [a.description for a in c.answers[:2]] == ["1: right", "2: wrong"]
    plot = c.plot.shown
    c.answers[1].value = True
    assert panel.settings.rewards[:3] == (1, 1, 0) and c.answers[1].description == "2: right"
    assert c.plot.shown != plot and "2 of 8 right" in c.status.value
    c.size.value = 4
    assert panel.settings.rewards == (1, 1, 0, 0)
    assert [a.layout.display for a in c.answers[3:5]] == [None, "none"]
    c.std.value = False
    assert panel.found.advantages == pytest.approx([0.5, 0.5, -0.5, -0.5])
    c.normaliser.value = "sequence"
    c.wrong.value = 40
    assert panel.settings.lengths == [10, 10, 40, 40]
    chances = c.chances.shown
    c.share.value = 0.5
    assert c.chances.shown != chances
    assert "application/vnd.jupyter.widget-view+json" in panel._repr_mimebundle_()
