"""replay_view: coloured tokens, figures with their words, and the widgets without a browser."""

from __future__ import annotations

import re

import pytest

from rlkit.errors import UserError
from rlkit.lab import replay_view
from rlkit.lab.replay_figures import MOST, change_figure, cosine_figure, tokens_html
from rlkit.lab.replay_page import replay_html, write_replay
from rlkit.lab.replay_panel import ALL
from rlkit.lab.theme import table_of
from rlkit.loop.replay.result import Replay, ReplayedObjective, ReplayedRollout


def small() -> Replay:
    """Two answers, one token of which is hostile; weights chosen by hand."""
    rollouts = (
        ReplayedRollout(0, 0, "What is 2 + 2?", "4", ("4", "\n", "<script>"), 1.0, True),
        ReplayedRollout(0, 1, "What is 2 + 2?", "5", ("5", "!", ""), 0.0, False),
    )
    common = {"loss": 0.1, "update_norm": 0.3, "clipped": 0.0}
    one = ReplayedObjective(
        name="GRPO",
        grad_norm=1.0,
        advantages=(0.7, -0.7),
        weights=((0.2, 0.1, 0.0), (-0.2, -0.1, 0.0)),
        changes=((0.5, 0.25, 0.0), (-0.25, -0.5, 0.0)),
        **common,
    )
    two = ReplayedObjective(
        name="Flat",
        grad_norm=0.0,
        advantages=(0.0, 0.0),
        weights=((0.0,) * 3,) * 2,
        changes=((0.0,) * 3,) * 2,
        note="its gradient is 0 here",
        **common,
    )
    return Replay(
        step=7,
        policy="tiny",
        weights="the checkpoint after step 6; they drew the batch",
        exact=True,
        max_ratio_error=0.0,
        learning_rate=1e-3,
        optimizer="adamw and the moments it had",
        pass_rate=None,
        problems=0,
        samples=4,
        rollouts=rollouts,
        objectives=(one, two),
        cosines=((1.0, None), (None, None)),
    )


def test_a_token_says_direction_and_strength_by_more_than_colour() -> None:
    replay = small()
    up = tokens_html(replay, 0, replay["GRPO"])
    down = tokens_html(replay, 1, replay["GRPO"])
    # 0.2 is the largest: full strength; 0.1 is half of it.
    assert f"rgba(0,114,178,{MOST:.2f})" in up and f"rgba(0,114,178,{MOST / 2:.2f})" in up
    assert f"rgba(213,94,0,{MOST:.2f})" in down
    assert "border-bottom:2px solid" in up and "border-bottom:2px dotted" in down
    assert "&#x27;4&#x27;: 0.2" in up
    # A token with weight 0 has no mark; what a model wrote is never markup.
    assert "<script>" not in up and "&lt;script&gt;" in up
    assert up.count("background") == 2 and "⏎" in up
    assert "background" not in tokens_html(replay, 0, replay["Flat"])
    with pytest.raises(UserError, match="coloured by weights or changes"):
        tokens_html(replay, 0, replay["GRPO"], "advantages")
    with pytest.raises(UserError, match="no answer 2; the batch has 0 to 1"):
        tokens_html(replay, 2, replay["GRPO"])


def test_figures_carry_words_and_data() -> None:
    cosines, changes = cosine_figure(small()), change_figure(small())
    assert "There is one objective only" in cosines.layout.meta["alt"]
    assert "GRPO makes 1 of 2 answers likelier" in changes.layout.meta["alt"]
    table = table_of(cosines)
    assert list(table.columns) == ["", "GRPO", "Flat"]
    assert table.rows == [["GRPO", 1.0, None], ["Flat", None, None]]
    # Answer 0: 0.5 + 0.25 = 0.75 nats; answer 1: -0.75.
    assert table_of(changes).rows == [[0, 0.75, 0.0], [1, -0.75, 0.0]]
    for figure in (cosines, changes):
        assert all(axis.title.text for axis in figure.select_xaxes())
        assert all(axis.title.text for axis in figure.select_yaxes())


def test_without_a_front_end_it_is_text_and_html() -> None:
    view = replay_view(small())
    assert view.objective == ALL and view.rollout == 0
    bundle = view._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "cosine to the first" in bundle["text/plain"]
    assert bundle["text/html"].count("<script") == 0
    view.show(1, "grpo", "changes")
    assert (view.rollout, view.objective, view.by) == (1, "GRPO", "changes")
    assert "Flat</th>" not in view.tokens_html()
    for wrong in ({"rollout": 5}, {"objective": "PPO"}, {"by": "magic"}):
        with pytest.raises(UserError):
            view.show(**wrong)
    with pytest.raises(UserError, match="a replay is shown here, not dict"):
        replay_view({})


def test_the_widgets_follow_and_lead(monkeypatch) -> None:
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    view = replay_view(small())
    controls = view._controls
    assert controls.objective.options == (ALL, "GRPO", "Flat")
    assert [label.split(":")[0] for label, _ in controls.answer.options] == ["0", "1"]
    controls.answer.value = 1
    assert view.rollout == 1 and "Answer 1" in controls.tokens.value
    view.show(0, "Flat")
    assert controls.objective.value == "Flat" and "Answer 0" in controls.tokens.value
    controls.by.value = "changes"
    assert view.by == "changes" and "in nats" in controls.tokens.value
    assert all(box.shown for box in controls.figures)
    assert "application/vnd.jupyter.widget-view+json" in view._repr_mimebundle_()


def test_the_page_holds_no_markup_of_the_model(tmp_path) -> None:
    page = replay_html(small())
    assert len(re.findall(r"<script[ >]", page)) >= 2
    assert "\n<script>4" not in page and "&lt;script&gt;" in page
    assert page.count("<h1>") == 1 and "Counterfactual replay of step 7" in page
    file = write_replay(small(), tmp_path / "page.html")
    assert file.read_text() == page
    with pytest.raises(UserError, match="cannot be written"):
        write_replay(small(), tmp_path / "no" / "page.html")


def test_a_real_replay(build_loop) -> None:
    loop = build_loop()
    loop.step()
    found = Replay.from_batch(
        loop.policy, loop.batch, ["grpo", "rloo"], config=loop.config, held_out=0
    )
    view = replay_view(found)
    assert "GRPO" in repr(view) and len(view.labels()) == 8
