"""The reward itself: columns, gold answers of all kinds, abstaining, threads, pickling."""

from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import pytest

from rlkit import UserError
from rlkit.rewards import get_reward, math_answer
from rlkit.rewards.maths import MathAnswer, extract_maths, judge


def test_it_is_known_by_its_name():
    assert get_reward("math_answer") is math_answer


@pytest.mark.parametrize(
    "gold", [0.5, Fraction(1, 2), Decimal("0.5"), "1/2", r"$\frac{1}{2}$", r"so \boxed{0.5}"]
)
def test_a_gold_answer_may_be_text_or_a_number(gold):
    assert math_answer(completions=[r"\boxed{\frac12}", r"\boxed{2}"], answer=[gold, gold]) == [
        1.0,
        0.0,
    ]


def test_a_worked_solution_as_gold():
    assert judge("#### 72", "24 * 3 = 72\n#### 72").value == 1.0


@pytest.mark.parametrize(
    "gold",
    [None, "", "   ", float("nan"), float("inf"), r"\frac{1}{", "nan", "?", r"\foo{1}", [1], {}],
)
def test_a_gold_answer_that_cannot_be_read_gives_no_verdict(gold):
    (score,) = math_answer.score(completions=[rf"\boxed{{{gold}}}"], answer=[gold])
    assert (score.value, score.status) == (None, "NO_GOLD")


def test_every_status_is_counted():
    reward = MathAnswer()
    reward(
        completions=[r"\boxed{1}", r"\boxed{2}", "no answer", r"\boxed{1}"],
        answer=["1", "1", "1", None],
    )
    assert reward.statuses == {"OK": 1, "WRONG": 1, "NO_ANSWER": 1, "NO_GOLD": 1}


def test_a_missing_answer_is_zero_and_says_why():
    (score,) = math_answer.score(completions=["It is hard to say."], answer=["5"])
    assert (score.value, score.status) == (0.0, "NO_ANSWER")
    assert "no box" in score.reason


def test_lengths_that_differ_are_an_error_with_both_lengths():
    with pytest.raises(ValueError, match=r"math_answer.*1.*2|1.*2.*math_answer"):
        math_answer(completions=[r"\boxed{1}", r"\boxed{2}"], answer=["1"])


def test_a_missing_column_lists_those_that_are_there():
    with pytest.raises(UserError, match=r"'answer'.*ground_truth"):
        math_answer(completions=[r"\boxed{1}"], ground_truth=["1"])


def test_another_column_and_another_tolerance():
    loose = MathAnswer(column="solution", tolerance=0.01, name="loose")
    # |3.14 - pi| / pi = 5.1e-4
    assert loose(completions=[r"\boxed{3.14}"], solution=[r"\pi"]) == [1.0]
    assert math_answer(completions=[r"\boxed{3.14}"], answer=[r"\pi"]) == [0.0]


@pytest.mark.parametrize("bad", [{"mode": "loose"}, {"tolerance": -1.0}, {"tolerance": 1.0}])
def test_settings_that_make_no_sense_are_refused(bad):
    with pytest.raises(UserError):
        MathAnswer(**bad)


def test_a_prompt_that_opens_the_reasoning():
    prompts = ["2 + 3?\n<think>\n"] * 2
    completions = [r"\boxed{5} I think", r"hm</think>\boxed{5}"]
    assert math_answer(prompts=prompts, completions=completions, answer=["5", "5"]) == [0.0, 1.0]
    told = MathAnswer(preopened=True)
    assert told(completions=completions, answer=["5", "5"]) == [0.0, 1.0]


def test_it_works_from_threads_and_from_a_running_loop():
    texts = [r"\boxed{2}", r"\boxed{9^{9^{9^{9}}}}"] * 8
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(math_answer, completions=texts, answer=["2"] * 16) for _ in range(4)]
        assert all(f.result() == [1.0, 0.0] * 8 for f in futures)

    async def ask():
        return await asyncio.to_thread(math_answer, completions=texts, answer=["2"] * 16)

    assert asyncio.run(ask()) == [1.0, 0.0] * 8


def test_it_is_pickled_with_its_settings():
    copy = pickle.loads(pickle.dumps(MathAnswer("flexible", tolerance=0.01)))
    assert (copy.mode, copy.tolerance) == ("flexible", 0.01)
    assert copy(completions=["that makes 3.14"], answer=[r"\pi"]) == [1.0]


def test_it_adds_and_scales():
    both = 0.8 * math_answer + 0.2 * get_reward("format_reward")
    (score,) = both.score(completions=["<answer>5</answer>"], answer=["5"])
    assert score.value == pytest.approx(1.0)
    assert score.parts["math_answer"] == 1.0


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),  # escaped braces do not count
        (r"\boxed{a_{b_{c}}}", "a_{b_{c}}"),
        (r"\boxed{1}, \boxed{2}", "1, 2"),
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed{1", None),
        (r"<think>\boxed{1}", None),
        ("the answer is $4$", "4"),
    ],
)
def test_extraction(text, answer):
    assert extract_maths(text).text == answer
