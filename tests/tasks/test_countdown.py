"""The countdown verifier walks the tree and is not talked into anything."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.tasks.countdown import evaluate_expression, verify_countdown


@pytest.mark.parametrize(
    "text, value",
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2", Fraction(7, 2)),
        ("-3 + 5", 2),
        ("8 - (2 - 1)", 7),
    ],
)
def test_values(text: str, value: Fraction) -> None:
    evaluated = evaluate_expression(text)
    assert evaluated is not None
    assert evaluated[0] == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9 ** 9 ** 9",
        "__import__('os').system('true')",
        "(lambda: 11)()",
        "[3, 8][0]",
        "x + 8",
        "3 + 8.0",
        "'3' + '8'",
        "True + 10",
        "3 + 8 = 11",
        "3 // 8",
        "1 / 0",
        "3 +",
        "1" * 201,
        "٣ + ٨",
        "-" * 60 + "3",
        "3 \x00 + 8",
        "3; 8",
        "3 if 8 else 3",
    ],
)
def test_what_is_no_plain_expression_is_refused_at_once(text: str) -> None:
    start = time.perf_counter()
    assert evaluate_expression(text) is None
    assert time.perf_counter() - start < 5.0  # a hang, not a benchmark


def test_numbers_must_be_used_exactly_once() -> None:
    assert verify_countdown("3 + 8", [3, 8], 11) == (True, "makes 11")
    assert verify_countdown("11", [3, 8], 11) == (False, "uses 11 instead of 3, 8")
    assert verify_countdown("8 + 3 + 0", [3, 8], 11)[0] is False
    assert verify_countdown("8 - 3", [3, 8], 11) == (False, "makes 5 instead of 11")
    assert verify_countdown("38", [3, 8], 38)[0] is False


@given(st.lists(st.integers(1, 99), min_size=2, max_size=5), st.data())
def test_a_sum_of_all_numbers_is_right_for_its_own_value(numbers: list[int], data) -> None:
    signs = [data.draw(st.sampled_from("+-")) for _ in numbers[1:]]
    text = str(numbers[0]) + "".join(f" {s} {n}" for s, n in zip(signs, numbers[1:], strict=True))
    value = numbers[0] + sum(n if s == "+" else -n for s, n in zip(signs, numbers[1:], strict=True))
    assert verify_countdown(text, numbers, value)[0]
    assert not verify_countdown(text, numbers, value + 1)[0]
