"""What a reward gives, what it does to learning, where it leaves the truth: numbers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit import UserError, reward
from rlkit.lab.rewardlab.comparison import EXAMPLES, Comparison
from rlkit.lab.rewardlab.figures import VIEWS
from rlkit.lab.rewardlab.reweighed import Reweighed
from rlkit.lab.rewardlab.scoring import (
    DEAD_BELOW,
    EPS,
    Scoring,
    advantages,
    group_advantages,
    score_rollouts,
)
from rlkit.lab.rewardlab.words import Example, headline, headline_html, headline_text
from rlkit.lab.stored import StoredGroup, StoredRollout, StoredRollouts, stored_rollouts
from rlkit.lab.theme import figure_notes, table_of
from rlkit.rewards import Reward, exact_answer, format_reward

NAN = math.nan


def made(*groups, domain="arith", truths=None):
    """Stored rollouts from texts, one list a group; a text that begins with R is right."""
    return StoredRollouts(
        tuple(
            StoredGroup(
                f"{domain}-{b}", domain, 1, b, ({"role": "user", "content": f"question {b}?"},),
                {"answer": "1"}, 32,
                tuple(StoredRollout(t, float(t[:1] == "R"), -1.0, 3, "stop") for t in texts),
            )
            for b, texts in enumerate(groups)
        )
    )  # fmt: skip


def paying(**values):
    """A reward that pays what its table says for each text, 0 for any other."""

    @reward
    def table(completions):
        return [values.get(text, 0.0) for text in completions]

    return table


# -- advantages -----------------------------------------------------------------------------


def test_advantages_by_hand():
    # Rewards 1, 0, 0, 0: mean 1/4, squares 9/16 + 3 * 1/16 = 3/4, over 3 is 1/4, deviation 1/2.
    # (1 - 1/4) / (1/2 + 0.0001) = 1.4997; (0 - 1/4) / 0.5001 = -0.4999.
    # Rewards 1, none, 0: mean 1/2, squares 1/4 + 1/4, over 1 is 1/2, deviation 0.7071.
    values = np.array([1.0, 0.0, 0.0, 0.0, 1.0, NAN, 0.0, 0.3, 0.3])
    groups = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    got, alive = group_advantages(values, groups, 3)
    expected = [1.4997, -0.4999, -0.4999, -0.4999, 0.7070, 0, -0.7070, 0, 0]
    assert got.round(4).tolist() == pytest.approx(expected, abs=1e-4)
    assert alive.tolist() == [True, True, False]


@given(
    st.lists(
        st.lists(
            st.none() | st.sampled_from([0.0, 0.1, 0.9, 1.0, 1 / 3, -2.0]), min_size=2, max_size=8
        ),
        min_size=1,
        max_size=5,
    )
)
def test_advantages_are_those_of_the_objectives(groups):
    import torch

    from rlkit.objectives import grpo_advantages
    from rlkit.objectives.advantages import DEAD_BELOW as DEAD_THERE

    assert DEAD_BELOW == DEAD_THERE
    widest = max(map(len, groups))
    rows = [[NAN if v is None else v for v in g] + [NAN] * (widest - len(g)) for g in groups]
    theirs, alive_there = grpo_advantages(torch.tensor(rows, dtype=torch.float64), eps=EPS)
    values = np.array([NAN if v is None else v for g in groups for v in g])
    numbers = np.array([b for b, g in enumerate(groups) for _ in g])
    mine, alive = group_advantages(values, numbers, len(groups))
    assert alive.tolist() == alive_there.tolist()
    flat = [theirs[b, i].item() for b, g in enumerate(groups) for i in range(len(g))]
    assert mine.tolist() == pytest.approx(flat, abs=1e-5)


# -- scoring --------------------------------------------------------------------------------


def test_terms_and_weights_of_a_sum_are_told():
    stored = made(["<answer>1</answer>", "<answer>2</answer>", "1"])
    scoring = score_rollouts(0.9 * exact_answer + 0.1 * format_reward, stored)
    assert scoring.values.tolist() == pytest.approx([1.0, 0.1, 0.0])
    assert scoring.weights == {"exact_answer": 0.9, "format_reward": 0.1}
    assert scoring.terms["format_reward"].tolist() == [1.0, 1.0, 0.0]


def test_behind_a_gate_terms_are_what_is_added():
    stored = made(["<answer>1</answer>", "1", "<answer>2</answer>"])
    scoring = score_rollouts(exact_answer.gate(format_reward), stored)
    assert scoring.values.tolist() == [1.0, 0.0, 0.0]
    assert sum(scoring.terms.values()).tolist() == [1.0, 0.0, 0.0]


def test_weighing_anew_is_what_scoring_anew_would_give():
    stored = stored_rollouts().where(domain="arith")
    scoring = score_rollouts(0.9 * exact_answer + 0.1 * format_reward, stored)
    moved = scoring.weighted({"format_reward": -0.4})
    again = score_rollouts(0.9 * exact_answer + -0.4 * format_reward, stored)
    assert moved.values.tolist() == pytest.approx(again.values.tolist())
    through = Reweighed(0.9 * exact_answer + 0.1 * format_reward, {"format_reward": -4.0})
    assert score_rollouts(through, stored).values.tolist() == pytest.approx(moved.values.tolist())


def test_weights_that_make_no_sense_are_refused():
    scoring = score_rollouts(exact_answer, stored_rollouts().where(domain="arith"))
    with pytest.raises(UserError, match="no part 'style'"):
        scoring.weighted({"style": 1.0})
    with pytest.raises(UserError, match="finite"):
        scoring.weighted({"exact_answer": math.inf})
    with pytest.raises(UserError, match="must be a number"):
        Reweighed(exact_answer, {"exact_answer": "2"})
    with pytest.raises(UserError, match="do not add up"):
        Scoring(np.array([1.0]), {"a": np.array([0.5])}, {}, [None]).weighted({"a": 1.0})


def test_a_domain_without_the_column_gets_no_verdict_and_that_is_said():
    stored = stored_rollouts().where(step=0)
    scoring = score_rollouts(exact_answer, stored)
    assert scoring.missing == {"countdown": "answer", "pyfunc": "answer"}
    for numbers, columns in stored.calls:
        judged = columns["domain"][0] in ("arith", "sort")
        assert scoring.known[numbers].all() == judged
        assert scoring.known[numbers].any() == judged
    assert scoring.scores[stored.calls[3][0][0]].status == "NO_COLUMN"


def test_a_column_that_nobody_has_is_an_error():
    needy = Reward(lambda completions, poem: [0.0] * len(completions), "needy", columns=("poem",))
    with pytest.raises(UserError, match="needs the column 'poem'"):
        score_rollouts(needy, stored_rollouts().where(domain="arith"))


def test_rewards_by_domain_are_scored_by_domain():
    stored = stored_rollouts().where(domain=["arith", "sort"], step=0)
    scoring = score_rollouts({"arith": exact_answer, "sort": "format_reward"}, stored)
    (arith, _), (sort, columns) = stored.calls
    assert scoring.values[arith].tolist() == [stored.rollouts[n].truth for n in arith]
    assert scoring.values[sort].tolist() == format_reward(completions=columns["completions"])
    with pytest.raises(UserError, match="no reward for domain 'sort'"):
        score_rollouts({"arith": exact_answer}, stored)


def test_paid_is_halfway_from_lowest_to_highest():
    stored = made(["a", "b", "c", "d"])
    scoring = score_rollouts(paying(a=-1.0, b=0.0, c=0.2, d=0.4), stored)
    assert scoring.paid_from == pytest.approx(-0.3)  # halfway from -1 to 0.4
    assert scoring.paid.tolist() == [False, True, True, True]
    flat = score_rollouts(paying(a=0.5, b=0.5, c=0.5, d=0.5), stored)
    assert flat.paid.all()
    assert not score_rollouts(paying(), stored).paid.any()


# -- comparison -----------------------------------------------------------------------------


@pytest.fixture
def compared():
    stored = made(["R1", "x1"], ["R2", "x2"], ["x3", "x4"], ["x5", "x6"])
    before = score_rollouts(paying(R1=1.0, x4=1.0), stored)
    after = score_rollouts(paying(R1=1.0, R2=1.0, x5=0.7), stored)
    return Comparison(stored, before, after)


def test_groups_that_lose_and_gain_contrast(compared):
    # Before: groups 0 and 2 differ inside. Now: groups 0, 1 and 3.
    assert compared.contrast == {"kept": [0], "gained": [1, 3], "lost": [2], "never": []}


def test_confusion_by_hand(compared):
    # Now 1, 1 and 0.7 are above the middle 0.5: two right ones, one of six wrong ones.
    now = compared.confusion()
    assert (now.right_paid, now.right_refused, now.wrong_paid, now.wrong_refused) == (2, 0, 1, 5)
    assert (now.precision, now.recall) == (pytest.approx(2 / 3), 1.0)
    # Before: R1 and x4 are paid.
    then = compared.confusion(compared.before)
    assert (then.right_paid, then.right_refused) == (1, 1)
    assert (then.wrong_paid, then.wrong_refused) == (1, 5)
    assert compared.confusion().unknown == 0


def test_examples_are_those_that_show_it(compared):
    texts = lambda kind: [compared.stored.rollouts[n].text for n in compared.examples(kind)]  # noqa: E731
    assert texts("paid_wrong") == ["x5"]
    assert texts("refused_right") == []
    assert texts("pushed_wrong") == ["x5"]
    assert texts("changed") == ["R2", "x4", "x5"]  # by 1, by 1, by 0.7
    assert texts("unscored") == []
    with pytest.raises(UserError, match="no kind of examples 'odd'"):
        compared.examples("odd")


def test_a_completion_without_a_verdict_is_neither_paid_nor_refused():
    stored = made(["R1", "x1", "x2"])
    none_for_x1 = Reward(lambda completions: [None if t == "x1" else 1.0 for t in completions], "r")
    scoring = score_rollouts(none_for_x1, stored)
    compared = Comparison(stored, scoring, scoring)
    assert compared.confusion().unknown == 1
    assert compared.examples("unscored") == [1]
    assert compared.advantages.tolist() == [0.0, 0.0, 0.0]


def test_the_same_text_to_the_same_problem_is_listed_once():
    stored = made(["x", "x", "R"], ["x", "x", "R"])
    compared = Comparison(stored, *[score_rollouts(paying(x=1.0), stored)] * 2)
    assert compared.count("paid_wrong") == 4
    assert compared.examples("paid_wrong") == [0, 3]


# -- figures and words ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped():
    stored = stored_rollouts()
    return Comparison(
        stored,
        score_rollouts(format_reward, stored),
        score_rollouts({"arith": 0.9 * exact_answer + 0.1 * format_reward,
                        "sort": exact_answer, "countdown": "countdown_answer",
                        "pyfunc": format_reward}, stored),
    )  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_every_figure_has_words_axes_and_a_table(shipped, view):
    figure = VIEWS[view][1](shipped)
    assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
    assert figure.layout.meta["caption"] and figure.layout.meta["alt"]
    notes = figure_notes(figure)
    assert "<table>" in notes and "<summary>" in notes
    assert len(table_of(figure).rows) > 1


def test_the_histogram_counts_every_completion(shipped):
    before, now = VIEWS["rewards"][1](shipped).data
    assert sum(before.y) == sum(now.y) == 2000
    assert before.name == "before" and now.name == "now"
    # Rewards now: 0, 0.1 for form alone, 1; before: 0 and 1.
    assert list(now.x) == ["0", "0.1", "1"]


def test_many_different_rewards_are_put_into_bins():
    stored = stored_rollouts()
    by_length = Reward(lambda completions: [len(t) / 100 for t in completions], "long")
    compared = Comparison(stored, *[score_rollouts(by_length, stored)] * 2)
    figure = VIEWS["rewards"][1](compared)
    assert len(figure.data[0].x) == 20
    assert sum(figure.data[0].y) == 2000
    assert "20 bins" in figure.layout.meta["caption"]


def test_the_parts_add_up_to_the_mean_reward(shipped):
    figure = VIEWS["parts"][1](shipped)
    place = list(figure.data[0].x).index("arith, wrong")
    total = sum(trace.y[place] or 0.0 for trace in figure.data)
    stored, values = shipped.stored, shipped.after.values
    mine = [
        values[n]
        for n in range(2000)
        if stored.groups[stored.group_of[n]].domain == "arith" and not stored.rollouts[n].solved
    ]
    assert total == pytest.approx(sum(mine) / len(mine))


def test_advantages_are_drawn_for_every_completion(shipped):
    right, wrong = VIEWS["advantages"][1](shipped).data
    assert sum(right.y) + sum(wrong.y) == 2000


def test_the_headline_says_what_was_and_what_is(shipped):
    rows = {name: (before, now) for name, before, now in headline(shipped)}
    confusion = shipped.confusion()
    assert rows["wrong answers that are paid"][1] == f"{confusion.wrong_paid:,}"
    assert rows["right answers that are paid"][1] == f"{confusion.recall:.1%}"
    alive = advantages(shipped.after.values, shipped.stored)[1].sum()
    assert rows["groups with contrast"][1] == f"{alive}"
    assert "lost their contrast" in headline_text(shipped)
    assert "<table" in headline_html(shipped)


HOSTILE = "\x1b[31m<script>alert(1)</script>\u202e<img src=x onerror=alert(2)>\x00"


def test_hostile_text_is_shown_and_never_obeyed():
    stored = made([HOSTILE, "R"], domain="ar<b>ith")

    @reward
    def rude(completions):
        from rlkit.rewards import Score

        return [Score(1.0, "<i>OK", {"<u>": 1.0}, f"because {t}") for t in completions]

    compared = Comparison(stored, *[score_rollouts(rude, stored)] * 2)
    example = Example(compared, 0)
    html = example._repr_html_() + headline_html(compared)
    for view in VIEWS.values():
        html += figure_notes(view[1](compared))
    for tag in ("<script", "<img", "<i>OK", "<u>", "<b>ith"):
        assert tag not in html
    for text in (html, str(example), example.label):
        assert "\x1b" not in text and "\u202e" not in text and "\x00" not in text
    assert "⟨ESC⟩" in str(example) and "⟨U+202E⟩" in str(example)


def test_an_example_tells_reward_truth_and_group(shipped):
    number = shipped.examples("pushed_wrong")[0]
    text = str(Example(shipped, number))
    assert "truth: wrong" in text
    assert f"now {shipped.advantages[number]:+.2f}" in text
    assert text.count("advantage ") >= 8  # itself and its group
    with pytest.raises(UserError, match="run from 0 to 1999"):
        Example(shipped, 2000)


def test_every_kind_of_example_has_a_name():
    assert set(EXAMPLES) == {"paid_wrong", "refused_right", "pushed_wrong", "changed", "unscored"}


def test_code_is_scored_by_the_sandbox_as_the_truth_says():
    stored = stored_rollouts().where(domain="pyfunc", step=0)
    some = StoredRollouts(stored.groups[:3])
    scoring = score_rollouts("tests_pass", some)
    assert scoring.values.round(4).tolist() == [r.truth for r in some]
