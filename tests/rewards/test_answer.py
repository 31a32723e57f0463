"""Answers in tags: paid once, exactly, and not for lists of candidates."""

from __future__ import annotations

import pytest

from rlkit.rewards import countdown_answer, exact_answer, extract_answer, format_reward


@pytest.mark.parametrize(
    "text, answer",
    [
        ("<answer>42</answer>", "42"),
        ("<answer>\n 42 \n</answer>\n", "42"),
        ("<think>40 + 2</think><answer>42</answer>", "42"),
        ("It is <answer>42</answer>, I think", "42"),
        ("42", None),
        ("<answer>42", None),
        ("42</answer>", None),
        ("</answer>42<answer>", None),
        ("<answer>41</answer><answer>42</answer>", None),
        ("<answer>41<answer>42</answer>", None),
        ("<think><answer>42</answer></think>", None),
        ("<think>never closed <answer>42</answer>", None),
        ("", None),
    ],
)
def test_the_only_answer_block_counts(text: str, answer: str | None) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    "given, wanted, value",
    [
        ("1 2 3", "1 2 3", 1.0),
        (" 1  2\n3 ", "1 2 3", 1.0),
        ("1 2", "1 2 3", 0.0),
        ("1 2 3 4", "1 2 3", 0.0),
        ("123", "1 2 3", 0.0),
        ("-5", "5", 0.0),
        ("05", "5", 0.0),
        ("42 or 43", "42", 0.0),
    ],
)
def test_exact_means_exact(given: str, wanted: str, value: float) -> None:
    assert exact_answer(completions=[f"<answer>{given}</answer>"], answer=[wanted]) == [value]


def test_a_problem_without_an_answer_gives_no_verdict() -> None:
    assert exact_answer(completions=["<answer></answer>"] * 2, answer=[None, " "]) == [None, None]


def test_countdown() -> None:
    scores = countdown_answer.score(
        completions=["<answer>8 + 3</answer>", "<answer>8 - 3</answer>", "8 + 3"],
        numbers=[(3, 8)] * 3,
        target=[11] * 3,
    )
    assert [s.value for s in scores] == [1.0, 0.0, 0.0]
    assert [s.status for s in scores] == ["OK", "WRONG", "NO_ANSWER"]


@pytest.mark.parametrize(
    "text, value",
    [
        ("<answer>9</answer>", 1.0),
        ("<think>count the wheels</think> <answer>9</answer>", 1.0),
        ("\n  <think>a</think><answer>b</answer>\n", 1.0),
        ("```python\ndef f(x):\n    return x\n```", 1.0),
        ("```\ncode\n```", 1.0),
        ("<think>a <answer>b</answer>", 0.0),
        ("<think>a</think><answer>b", 0.0),
        ("Sure! <think>a</think><answer>b</answer>", 0.0),
        ("<think>a</think> so finally <answer>b</answer>", 0.0),
        ("<think>a</think><answer>b</answer> Hope this helps!", 0.0),
        ("<answer>b</answer><think>a</think>", 0.0),
        ("<think>a</think><answer></answer>", 0.0),
        ("<think>  \n </think><answer>b</answer>", 0.0),
        ("<think>a<think>b</think></think><answer>b</answer>", 0.0),
        ("<answer>a</answer><answer>b</answer>", 0.0),
        ("```python\n\n```", 0.0),
        ("```python\nx\n```\n```python\ny\n```", 0.0),
        ("``````", 0.0),
        ("plain", 0.0),
        ("", 0.0),
    ],
)
def test_format(text: str, value: float) -> None:
    assert format_reward(completions=[text]) == [value]
