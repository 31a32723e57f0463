"""Plain numbers: read as people write them, compared exactly or nearly, never evaluated."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.rewards import NumericAnswer, numeric_answer
from rlkit.rewards.number import last_number, parse_number, same_number


@pytest.mark.parametrize(
    "text, value",
    [
        ("42", 42),
        ("+42", 42),
        ("-42", -42),
        ("\u221242", -42),  # a minus sign as typeset
        ("042", 42),
        ("3.", 3),
        (".5", Fraction(1, 2)),
        ("3.50", Fraction(7, 2)),
        ("1,234,567", 1234567),
        ("1 234 567", 1234567),
        ("1_000", 1000),
        ("1'000", 1000),
        ("1.5e3", 1500),
        ("2E-2", Fraction(1, 50)),
        ("3/4", Fraction(3, 4)),
        ("-3 / 4", Fraction(-3, 4)),
        ("1 1/2", Fraction(3, 2)),
        ("-1 1/2", Fraction(-3, 2)),
        ("12.5%", Fraction(1, 8)),
        ("28 percent", Fraction(7, 25)),
        ("$1,200", 1200),
        ("-$5", -5),
        ("$-5", -5),
        ("42.", 42),
    ],
)
def test_what_is_a_number(text: str, value: Fraction | int) -> None:
    number = parse_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "forty",
        "41 or 42",
        "41, 42",
        "41 42",
        "1,23",
        "12,34,567",
        "1/0",
        "1 1/0",
        "2 + 2",
        "2**8",
        "x = 4",
        "4 apples",
        "--4",
        "-$-4",
        "1.2.3",
        "nan",
        "inf",
        "0x1f",
        "1e999999999",
        "9" * 100,
        "٣",  # a digit, but not one of these
    ],
)
def test_what_is_none(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    "given_text, wanted, same",
    [
        ("0.333333333", "1/3", True),
        ("0.333", "1/3", False),  # off by 3.3e-4, allowed is 3.3e-7
        ("10000001", "10000000", False),  # whole numbers are compared exactly
        ("10000000.0", "10000000", True),
        ("0.5", "1/2", True),
        ("2/4", "1/2", True),
        ("0.28", "28%", True),
        ("28", "28%", True),
        ("28%", "28", True),
        ("28%", "0.28", True),
        ("0.028", "28%", False),
        ("28%", "2.8%", False),
        ("-5", "5", False),
        ("0", "-0", True),
    ],
)
def test_equality(given_text: str, wanted: str, same: bool) -> None:
    left, right = parse_number(given_text), parse_number(wanted)
    assert left is not None
    assert right is not None
    assert same_number(left, right) is same


@given(st.integers(-(10**15), 10**15))
def test_an_integer_is_read_with_and_without_separators(value: int) -> None:
    for text in (str(value), f"{value:,}", f" {value}. "):
        number = parse_number(text)
        assert number is not None
        assert number.value == value
        assert number.exact


@given(st.fractions(max_denominator=10**6).filter(lambda f: abs(f) < 10**9))
def test_a_fraction_equals_its_decimal(value: Fraction) -> None:
    exact = parse_number(f"{value.numerator}/{value.denominator}")
    decimal = parse_number(f"{float(value):.20f}")
    assert exact is not None
    assert decimal is not None
    assert exact.value == value
    assert same_number(decimal, exact)


def test_the_last_number_of_a_text() -> None:
    assert last_number("first 3, then -1,200.50.") == "-1,200.50"
    assert last_number("x2 and v1.5b") is None
    assert last_number("none") is None


@pytest.mark.parametrize(
    "completion, answer, value, status",
    [
        ("<answer>1,234</answer>", "1234", 1.0, "OK"),
        ("<answer>0.5</answer>", 0.5, 1.0, "OK"),
        ("<answer>7</answer>", "#### 7", 1.0, "OK"),
        ("<answer>8</answer>", "so 3 + 4 #### 7", 0.0, "WRONG"),
        ("<answer>7 or 8</answer>", "7", 0.0, "NO_NUMBER"),
        ("<answer>7</answer><answer>8</answer>", "7", 0.0, "NO_ANSWER"),
        ("<think><answer>7</answer></think>", "7", 0.0, "NO_ANSWER"),
        ("7", "7", 0.0, "NO_ANSWER"),
        ("<answer>7</answer>", "seven", None, "NO_GOLD"),
        ("<answer>7</answer>", None, None, "NO_GOLD"),
        ("<answer>__import__('os').getpid()</answer>", "7", 0.0, "NO_NUMBER"),
    ],
)
def test_numeric_answer(completion: str, answer: object, value: float | None, status: str) -> None:
    (score,) = numeric_answer.score(completions=[completion], answer=[answer])
    assert (score.value, score.status) == (value, status)


def test_the_prompt_may_have_opened_the_thoughts() -> None:
    text = "<answer>7</answer> perhaps</think><answer>8</answer>"
    assert numeric_answer(completions=[text], answer=["8"], prompts=["q <think>"]) == [1.0]
    assert numeric_answer(completions=[text], answer=["8"], prompts=["q"]) == [0.0]


def test_the_last_number_counts_where_no_layout_was_asked_for() -> None:
    loose = NumericAnswer(where="last")
    texts = ["3 + 4 is 7.", "<think>8</think> It is 7", "<think>7", "7 or 8"]
    assert loose(completions=texts, answer=["7"] * 4) == [1.0, 1.0, 0.0, 0.0]
    with pytest.raises(UserError, match="where must be"):
        NumericAnswer(where="anywhere")
    with pytest.raises(UserError, match="tolerances"):
        NumericAnswer(relative=2.0)
