"""The bandit's numbers, worked out by hand, and its panel with and without a front end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.lab.bandit import Bandit, advantages, probabilities, scores
from rlkit.lab.bandit_figures import path_figure, probability_figure, strip_figure
from rlkit.lab.bandit_panel import BanditPanel
from rlkit.lab.theme import table_of

four = st.lists(st.floats(-4, 4), min_size=4, max_size=4).map(np.array)


@given(four)
def test_scores_are_the_finite_differences_of_the_logarithm(theta):
    hair = 1e-5
    for arm in range(4):
        row = scores(theta, np.array([arm]))[0]
        assert row.sum() == pytest.approx(0, abs=1e-12)
        for j in range(4):
            up, down = theta.copy(), theta.copy()
            up[j] += hair
            down[j] -= hair
            slope = np.log(probabilities(up)[arm] / probabilities(down)[arm]) / (2 * hair)
            assert row[j] == pytest.approx(slope, abs=1e-6)


def test_the_exact_gradient_by_hand():
    # All alike: each 0.25. Mean reward (0.2 + 0.5 + 0.8 + 0.4) / 4 = 0.475.
    # Arm 3: 0.25 * (0.8 - 0.475) = 0.08125. A constant on top changes nothing.
    for added in (0.0, 10.0):
        gradient = Bandit(added=added).gradient(np.zeros(4))
        assert gradient == pytest.approx([-0.06875, 0.00625, 0.08125, -0.01875])
        assert Bandit(added=added).value(np.zeros(4)) == pytest.approx(0.475 + added)


def test_the_exact_variance_by_hand():
    # One draw's part for arm 3 is r (1 - 0.25) if it was drawn, else -0.25 r, and r^2 = r.
    # Mean square: 0.25 (0.5625 * 0.8 + 0.0625 * (0.2 + 0.5 + 0.4)) = 0.25 * 0.51875.
    # Minus the square of the mean, 0.08125^2 = 0.00660156: 0.1296875 - 0.00660156.
    assert Bandit().variance(np.zeros(4))[2] == pytest.approx(0.12308594)


def test_estimates_have_that_variance():
    rng = np.random.default_rng(0)
    drawn = Bandit(added=1.0).estimates(np.zeros(4), 1, "none", rng, 20_000)
    exact = Bandit(added=1.0).variance(np.zeros(4))
    assert drawn.var(0) == pytest.approx(exact, rel=0.05)
    assert drawn.mean(0) == pytest.approx(Bandit().gradient(np.zeros(4)), abs=0.02)


def test_the_mean_of_the_others_leaves_the_mean_as_it_is():
    bandit, theta = Bandit(added=3.0), np.array([0.3, -0.2, 0.0, 0.5])
    p = probabilities(theta)
    mean = np.zeros(4)
    for pair in itertools.product(itertools.product(range(4), (0, 1)), repeat=2):
        chance = 1.0
        for arm, paid in pair:
            chance *= p[arm] * (bandit.pays[arm] if paid else 1 - bandit.pays[arm])
        weights = advantages(np.array([3.0 + paid for _, paid in pair]), "others")
        rows = scores(theta, np.array([arm for arm, _ in pair]))
        mean += chance * (weights[:, None] * rows).mean(0)
    assert mean == pytest.approx(bandit.gradient(theta), abs=1e-12)


def test_advantages_by_hand_and_of_a_batch_of_one():
    # 1 minus the mean of 0 and 0.5; 0 minus that of 1 and 0.5; 0.5 minus that of 1 and 0.
    assert advantages(np.array([1.0, 0.0, 0.5]), "others") == pytest.approx([0.75, -0.75, 0.0])
    with pytest.raises(UserError, match="no others"):
        advantages(np.array([1.0]), "others")
    with pytest.raises(UserError, match="'none' or 'others'"):
        advantages(np.array([1.0, 0.0]), "mean")


@pytest.mark.parametrize("pays", [(0.5,), (0.2, 1.2), ()])
def test_arms_that_are_none_are_refused(pays):
    with pytest.raises(UserError, match="two or more arms"):
        Bandit(pays)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_a_path_starts_where_it_is_told_and_stays_a_policy(seed):
    path = Bandit().train(5, 0.5, 4, "others", np.random.default_rng(seed))
    assert path.shape == (6, 4)
    assert path[0] == pytest.approx([0.25] * 4)
    assert path.sum(1) == pytest.approx(np.ones(6))


# -- figures ------------------------------------------------------------------------------


def test_the_strip_holds_its_data_and_tells_its_spread():
    figure = strip_figure({"plain": [1.0, 3.0], "better": [2.0, 2.0]}, 2.0, "gradient")
    table = table_of(figure)
    assert table.columns == ["resample (number)", "plain", "better", "exact"]
    assert table.rows == [[1, 1.0, 2.0, 2.0], [2, 3.0, 2.0, 2.0]]
    # The spread of 1 and 3 with n - 1 below is sqrt(2).
    assert "plain: mean 2, spread 1.414; better: mean 2, spread 0" in figure.layout.meta["alt"]
    with pytest.raises(UserError, match="as many estimates"):
        strip_figure({"a": [1.0], "b": [1.0, 2.0]}, None, "gradient")


def test_every_figure_has_axis_titles_and_words():
    figures = [
        probability_figure([0.5, 0.5], ["<b>", "two"], [0.1, 0.2]),
        probability_figure([0.5, 0.5], ["one", "two"], before_K=[0.1, 0.9]),
        path_figure({"a": [0.1, 0.2]}, "Path", "probability"),
        strip_figure({"a": [0.1]}, None, "gradient"),
    ]
    for figure in figures:
        assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
        assert len(figure.layout.meta["caption"]) > 40
        assert len(figure.layout.meta["alt"]) > 30
        assert len(table_of(figure).rows) >= 1
    assert figures[0].data[0].x[0] == "&lt;b&gt;"


# -- the panel ----------------------------------------------------------------------------


def test_without_a_front_end_it_is_text_and_does_the_same(monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    panel = BanditPanel(seed=0)
    assert set(panel._repr_mimebundle_()) == {"text/plain", "text/html"}
    panel.step(50)
    assert panel.steps == 50 and panel.probabilities[2] > 0.6
    assert "Step 50" in str(panel) and "200 dots of each kind" in str(panel)
    once = panel.probabilities.copy()
    panel.start_afresh()
    assert panel.probabilities == pytest.approx([0.25] * 4)
    panel.step(50)
    assert panel.probabilities == pytest.approx(once)


def test_what_is_added_widens_one_strip_and_not_the_other(monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    panel = BanditPanel(seed=0)
    before = panel.estimates()
    panel.set(added=10.0)
    after = panel.estimates()
    assert after["no baseline"].std() > 8 * before["no baseline"].std()
    assert after["mean of the others"] == pytest.approx(before["mean of the others"])
    panel.set(batch=1)
    assert list(panel.estimates()) == ["no baseline"]
    with pytest.raises(UserError, match="no others"):
        panel.step()
    with pytest.raises(UserError, match="no setting"):
        panel.set(speed=3)
    with pytest.raises(UserError, match="above 0"):
        panel.set(learning_rate=0.0)


def test_buttons_and_sliders_do_it(monkeypatch):
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    monkeypatch.setattr("rlkit.lab.bandit_panel.PAUSE_S", 0.0)
    panel = BanditPanel(seed=0)
    c = panel._controls
    assert "Step 0" in c.status.value
    bars, strip = c.bars.shown, c.strip.shown
    c.one.click()
    assert "Step 1:" in c.status.value and c.bars.shown != bars and c.strip.shown != strip
    c.many.click()
    assert panel.steps == 51
    strip = c.strip.shown
    c.added.value = 10.0
    assert panel.settings.added == 10.0 and c.strip.shown != strip
    c.baseline.value = False
    assert panel.settings.kind == "none"
    c.afresh.click()
    assert "Step 0" in c.status.value
    panel.settings = type(panel.settings)(batch=1)
    c.one.click()
    assert 'role="alert"' in c.alert.box.value and "no others" in c.alert.box.value
    assert "application/vnd.jupyter.widget-view+json" in panel._repr_mimebundle_()
