"""expert_panel: every kind of rollouts, the file, and the widgets without a browser."""

from __future__ import annotations

import pytest

from rlkit.errors import UserError
from rlkit.lab import expert_panel, stored_rollouts
from rlkit.rewards import ExpertScores, exact_answer
from rlkit.rewards.audit import audit

PAIRS = [("2 + 2?", "4"), ("2 + 2?", "5"), ("2 + 2?", "four")]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "scores.jsonl"


def test_scores_skips_and_progress(file):
    panel = expert_panel(PAIRS, file)
    assert panel.progress == "0 of 3 scored"
    panel.answer(1.0)
    assert panel.at == 1
    panel.give(2, 0.5)
    panel.skip(1)
    assert panel.counts == {"scored": 2, "skipped": 1, "open": 0}
    assert panel.said(1).score is None and panel.said(2).score == 0.5
    assert panel.reward()(prompts=["2 + 2?"] * 3, completions=["4", "5", "four"]) == [1, None, 0.5]
    assert [label.value for label in panel.labels] == [1.0, 0.5]


def test_it_goes_on_where_it_was_left_and_raters_are_apart(file):
    expert_panel(PAIRS, file, rater="ann").answer(1.0)
    again = expert_panel(PAIRS, file, rater="ann")
    assert again.at == 1 and again.counts["scored"] == 1
    assert expert_panel(PAIRS, file, rater="bo").counts["open"] == 3


def test_equal_answers_are_shown_once(file):
    panel = expert_panel([*PAIRS, PAIRS[0], PAIRS[0]], file)
    assert len(panel) == 3 and panel.merged == 2
    assert "2 that are the same as others" in panel.progress
    assert [item.completion for item in panel.items] == ["4", "5", "four"]


def test_stored_rollouts_bring_their_columns_so_they_can_be_audited(file):
    stored = stored_rollouts().where(domain="arith", step=0)
    panel = expert_panel(stored, file, limit=40)
    assert len(panel) + panel.merged == 40
    truth = {r.text: r.truth for g in stored.groups for r in g.rollouts}
    for n, item in enumerate(panel.items):
        # A person who agrees with the domain's own verifier.
        key = next(g for g in stored.groups if [dict(m) for m in g.prompt] == item.prompt)
        own = {r.text: r.truth for r in key.rollouts}
        panel.give(n, own.get(item.completion, truth[item.completion]))
    section = audit(exact_answer, labels=file).section("labels of people")
    assert section.passed, section
    assert section.figures["labels"] == len(panel)


def test_rollouts_groups_and_batches_of_a_loop(file, build_loop):
    loop = build_loop()
    loop.step()
    batch = loop.batch
    texts = {r.text for group in batch.groups for r in group.rollouts}
    for given in (batch, batch.groups, [r for g in batch.groups for r in g.rollouts]):
        panel = expert_panel(given, file)
        assert {item.completion for item in panel.items} == texts
        assert panel.items[0].columns["answer"]


def test_mappings_order_and_limit(file):
    rows = [{"prompt": "q", "completion": str(n), "answer": "7"} for n in range(20)]
    panel = expert_panel(rows, file, limit=5, shuffle=1)
    assert len(panel) == 5 and panel.items[0].columns == {"answer": "7"}
    shown = [item.completion for item in panel.items]
    assert shown != ["0", "1", "2", "3", "4"]
    assert shown == [i.completion for i in expert_panel(rows, file, limit=5, shuffle=1).items]


def test_model_text_is_escaped_and_nothing_is_hidden(file):
    panel = expert_panel([("<b>q</b>", "<script>x()</script>\u202e")], file)
    html = panel._repr_mimebundle_()["text/html"]
    assert "<script>" not in html and "&lt;script&gt;" in html and "⟨U+202E⟩" in html
    assert "<b>q</b>" not in html
    assert "panel.give(0, score)" in repr(panel)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda f: expert_panel([], f), "nothing to score"),
        (lambda f: expert_panel(7, f), "rollouts are a list"),
        (lambda f: expert_panel(["text"], f), "rollout 0 is str"),
        (lambda f: expert_panel(PAIRS, f, limit=0), "limit"),
        (lambda f: expert_panel(PAIRS, f).give(3, 1.0), "no item 3"),
        (lambda f: expert_panel(PAIRS, f).go(-1), "no item -1"),
        (lambda f: expert_panel(PAIRS, f).give(0, 2.0), "from 0 to 1"),
        (lambda f: expert_panel(PAIRS, f, scale=(1, 0)).give(0, 1), "a scale is"),
    ],
)
def test_what_cannot_be(file, made, says):
    with pytest.raises(UserError, match=says):
        made(file)
    assert not file.exists()


# -- the widgets -----------------------------------------------------------------------------


@pytest.fixture
def panel(file, monkeypatch):
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    return expert_panel(PAIRS, file, scale=(0, 10))


def press(button):
    assert not button.disabled
    button.click()


def test_buttons_score_skip_and_move(panel, file):
    c = panel._controls
    assert "Answer 1 of 3" in c.item.value and c.previous.disabled
    press(c.choices["right"])
    assert "Answer 2 of 3" in c.item.value and c.bar.value == 1
    press(c.skip)
    press(c.previous)
    assert "You skipped it." in c.said.value
    press(c.previous)
    assert "You gave it 10 of 10." in c.said.value and c.slider.value == 10
    press(c.next)
    press(c.next)
    assert c.next.disabled
    c.slider.value = 3.5
    press(c.give)
    assert "2 of 3 scored, 1 skipped: nothing is open" in c.counter.value
    assert [label.value for label in ExpertScores(file).labels()] == [1.0, 0.35]


def test_the_keyboard_line(panel):
    c = panel._controls
    c.keys.value = "7,5"
    assert panel.said(0).score == 7.5 and panel.at == 1 and c.keys.value == ""
    c.keys.value = "s"
    c.keys.value = "p"
    assert panel.at == 1 and panel.said(1).score is None
    c.keys.value = "n"
    assert panel.at == 2
    for wrong in ("great", "11"):
        c.keys.value = wrong
        assert 'role="alert"' in c.message.value and panel.said(2) is None
    c.keys.value = "0"
    assert panel.said(2).score == 0 and c.message.value == ""


def test_every_control_says_what_it_is_for(panel):
    c = panel._controls
    for button in (*c.choices.values(), c.give, c.skip, c.previous, c.next):
        assert button.description and button.tooltip
    assert c.slider.description and c.keys.description and c.keys.placeholder
    bundle = panel._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle and "text/plain" in bundle
