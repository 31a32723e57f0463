"""Shaping: the formulas at points worked out by hand, and the rewards around them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.rewards import (
    CosineLength,
    LanguageConsistency,
    RepetitionPenalty,
    SoftOverlong,
    exact_answer,
)
from rlkit.rewards.shaping import cosine_length, repetition, script_share, soft_overlong, words_of


@pytest.mark.parametrize(
    "length, max_length, cache, value",
    [
        (80, 100, 20, 0.0),
        (81, 100, 20, -0.05),  # (80 - 81) / 20
        (99, 100, 20, -0.95),
        (101, 100, 20, -1.0),
        (100, 100, 0, 0.0),  # no soft part: a step
        (101, 100, 0, -1.0),
        (50, 100, 100, -0.5),
    ],
)
def test_soft_overlong(length, max_length, cache, value) -> None:
    assert soft_overlong(length, max_length, cache) == value


@given(st.integers(0, 300), st.integers(0, 100))
def test_soft_overlong_falls_and_stays_in_range(length: int, cache: int) -> None:
    here, longer = (soft_overlong(n, 100, cache) for n in (length, length + 1))
    assert -1.0 <= longer <= here <= 0.0


def test_the_overlong_reward_counts_tokens_words_or_characters() -> None:
    assert SoftOverlong(4, 4)(completions=["x", "y"], completion_ids=[[1], [1, 2, 3]]) == [
        -0.25,
        -0.75,
    ]
    assert SoftOverlong(4, 4, unit="words")(completions=["a b", "a"]) == [-0.5, -0.25]
    assert SoftOverlong(4, 4, unit="characters")(completions=["a b", None]) == [-0.75, 0.0]
    with pytest.raises(UserError, match="needs the column 'completion_ids'"):
        SoftOverlong(4, 4)(completions=["x"])
    for wrong in ({"cache": 5}, {"cache": -1}, {"cache": 1, "unit": "lines"}):
        with pytest.raises(UserError):
            SoftOverlong(4, **wrong)


@pytest.mark.parametrize(
    "text, n, share",
    [
        ("a b c d", 2, 0.0),
        ("a a a a", 2, 2 / 3),  # 3 bigrams, 1 distinct
        ("a b a b a", 2, 0.5),  # ab ba ab ba
        ("a b", 3, 0.0),
        ("", 1, 0.0),
        ("No no NO", 1, 2 / 3),
        ("好好好好", 1, 0.75),
    ],
)
def test_repetition(text: str, n: int, share: float) -> None:
    assert repetition(words_of(text), n) == pytest.approx(share)
    (score,) = RepetitionPenalty(n, 0.5).score(completions=[text])
    assert score.value == pytest.approx(-0.5 * share)
    assert score.unshaped is None


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 4))
def test_saying_it_again_never_repeats_less(words: list[str], n: int) -> None:
    assert 0.0 <= repetition(words, n) <= repetition(words * 2, n) < 1.0


@pytest.mark.parametrize(
    "length, value",
    [
        (0, 1.0),
        (25, 0.5 + 0.25 * (1 + math.sqrt(0.5))),  # cos(pi / 4)
        (50, 0.75),
        (100, 0.5),
        (150, 0.5),  # clamped: an unclamped cosine would be at 0.75 again
        (200, 0.5),
        (-3, 1.0),
    ],
)
def test_cosine_length(length: float, value: float) -> None:
    assert cosine_length(length, 100, 1.0, 0.5) == pytest.approx(value)


def test_the_cosine_scales_what_a_reward_judged() -> None:
    scaled = CosineLength(exact_answer, 100, beyond=-2.0)
    ids = [[0] * n for n in (0, 100, 0, 100, 101, 10)]
    texts = ["<answer>4</answer>"] * 2 + ["<answer>5</answer>"] * 2 + ["<answer>4</answer>"] * 2
    scores = scaled.score(
        completions=texts, completion_ids=ids, answer=["4", "4", "4", "4", "4", None]
    )
    assert [s.value for s in scores] == pytest.approx([1.0, 0.5, -1.0, -0.5, -2.0, None])
    assert [s.unshaped for s in scores] == [1.0, 1.0, 0.0, 0.0, 1.0, None]
    for score in scores[:5]:
        assert sum(score.contributions.values()) == pytest.approx(score.value)
    assert scores[0].parts == {"exact_answer": 1.0}
    with pytest.raises(UserError, match="max_length"):
        CosineLength(exact_answer, 0)
    with pytest.raises(UserError, match="scales a reward"):
        CosineLength(len, 10)


@pytest.mark.parametrize(
    "text, language, share",
    [
        ("Hello", "en", 1.0),
        ("Grüße", "de", 1.0),
        ("Привет", "en", 0.0),
        ("Привет, x", "ru", 6 / 7),
        ("你好 hi", "zh", 0.5),
        ("これは木です", "ja", 1.0),
        ("これは木です", "zh", 1 / 6),
        ("Ｈｉ", "en", 1.0),
        ("```python\nprint(1)\n``` 你好", "zh", 1.0),  # code is the same everywhere
        ("设 $x + y$ 为 `foo`", "zh", 1.0),
        ("<think>你好</think>", "zh", 1.0),
        ("2 + 2 = 4", "en", None),
        ("", "en", None),
    ],
)
def test_language(text: str, language: str, share: float | None) -> None:
    found = script_share(text, language)
    assert found == (None if share is None else pytest.approx(share))
    assert LanguageConsistency(language)(completions=[text]) == [found]


def test_the_language_may_stand_in_a_column() -> None:
    by_row = LanguageConsistency()
    assert by_row(completions=["hi", "hi", "hi"], language=["en-GB", "ru", None]) == [
        1.0,
        0.0,
        None,
    ]
    with pytest.raises(UserError, match="script of 'Klingon' is not known"):
        LanguageConsistency("Klingon")
    with pytest.raises(UserError, match="needs the column 'language'"):
        by_row(completions=["hi"])
