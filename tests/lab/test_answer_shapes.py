"""Answers by shape: parsed, counted, never evaluated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.lab.answer_shapes import EMPTY, NO_ANSWER, UNREADABLE, AnswerShapes, expression_shape


@pytest.mark.parametrize(
    ("answer", "shape"),
    [
        ("3 + 11 - 14", "N + N - N"),
        ("3+(11-14)", "N + (N - N)"),
        ("-3 * 2", "-N * N"),
        ("9 ** 9 ** 9", "N ** N ** N"),  # parsed, not run
        ("7", "N"),
        ("3 + 4 = 7", UNREADABLE),
        ("3 +", UNREADABLE),
        ("__import__('os')", UNREADABLE),
        ("1" * 300, UNREADABLE),
        ("(" * 100 + "1" + ")" * 99, UNREADABLE),
        ("  ", EMPTY),
        (None, NO_ANSWER),
    ],
)
def test_shape(answer, shape):
    assert expression_shape(answer) == shape


@given(st.text(alphabet="0123456789+-*/() .,=<>%x\n", max_size=60))
def test_any_text_has_a_shape(answer):
    assert expression_shape(answer)


TEXTS = [
    "<answer>7</answer>",
    "<answer>12</answer>",
    "<answer>3 + 4</answer>",
    "3 + 4",
]


def test_counts_pay_and_truth_of_each_shape():
    shapes = AnswerShapes.gather(TEXTS, [1.0, 1.0, 1.0, 0.0], [False, False, True, None])
    first, *rest = shapes.shapes
    assert (first.shape, first.count, first.share) == ("N", 2, 0.5)
    assert (first.paid, first.right, first.answer) == (1.0, 0.0, "7")
    assert {s.shape: s.right for s in rest} == {"N + N": 1.0, NO_ANSWER: None}
    assert [s.shape for s in shapes.exploits()] == ["N"]


def test_what_is_unknown_is_no_zero():
    shapes = AnswerShapes.gather(TEXTS[:2], [None, None], [None, None])
    assert shapes.shapes[0].paid is None
    assert shapes.exploits() == []
    assert "–" in str(shapes)


def test_html_escapes_what_a_model_wrote_and_marks_the_exploit():
    texts = ["<answer>7</answer>", "<b>bold</b>"]
    html = AnswerShapes.gather(texts, [1.0, 0.0], [False, False], ["<i>q</i>"] * 2)._repr_html_()
    assert "<b>" not in html and "<i>" not in html
    assert html.count("⚠ 0.00") == 1
    assert html.count('scope="col"') == 6


def test_lists_of_other_lengths_are_refused():
    with pytest.raises(UserError, match="1 rewards for 2 answers"):
        AnswerShapes.gather(TEXTS[:2], [1.0], [True, True])
