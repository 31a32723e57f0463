"""Unit tests in every shape that problems state them in, and what programs print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.rewards.unit_tests import read_tests, same_output


def calls(tests, entry=None):
    read = read_tests(tests, entry)
    assert not read.programs
    return [(name, list(s.args), dict(s.kwargs), s.expected) for name, s in read.calls]


def test_a_call_and_its_value() -> None:
    wanted = [("f", [1], {}, 2), ("g", [], {"x": 1}, None)]
    ours = [{"args": [1], "expected": 2}, {"fn": "g", "kwargs": {"x": 1}, "expected": None}]
    assert calls(ours, "f") == wanted
    theirs = [{"fn": "f", "args": [1], "out": 2}, {"fn": "g", "kwargs": {"x": 1}, "out": None}]
    assert calls(theirs) == wanted
    # After Arrow every test has every key.
    arrow = [{"fn": "f", "args": [1], "out": 2, "stdin": None, "expected": None}]
    assert calls(arrow) == wanted[:1]


def test_assertions_become_calls_where_they_compare_with_a_literal() -> None:
    text = """
def check(candidate):
    assert candidate(1) == 2
    assert [3, (4,)] == candidate([1], n=-2)
    assert candidate(0) is None
    assert abs(candidate(2) - 1.5) < 1e-6
    expected = sorted([2, 1])
    assert candidate(3) == expected
check(f)
"""
    read = read_tests(text, "f")
    assert [(n, list(s.args), dict(s.kwargs), s.expected) for n, s in read.calls] == [
        ("f", [1], {}, 2),
        ("f", [[1]], {"n": -2}, [3, (4,)]),
        ("f", [0], {}, None),
    ]
    assert read.statements == (
        "assert abs(f(2) - 1.5) < 1e-06",
        "expected = sorted([2, 1])\nassert f(3) == expected",
    )
    assert len(read) == 5


def test_programs_and_json() -> None:
    read = read_tests('[{"stdin": "1\\n", "stdout": "2\\n"}, {"stdin": ["a", "b"], "stdout": ""}]')
    assert read.programs == (("1\n", "2\n"), ("a\nb", ""))


@pytest.mark.parametrize("tests", ["[1, 2", 5, [5], [{"x": 1}], [{"args": [1], "expected": 1}]])
def test_what_is_no_test_is_said(tests) -> None:
    with pytest.raises(UserError):
        read_tests(tests)


@pytest.mark.parametrize(
    "expected, got, same",
    [
        ("1 2\n", "1 2 \n\n", True),
        ("1\n2\n", "1\n2\n3\n", False),
        ("1\n\n2\n", "1\n2\n", False),
        ("\n1", "1", False),
        (" 1", "1", False),
        ("1  2.0", "1 2.0", False),
        ("0.333333333", "0.333333", True),
        ("0.333333333", "0.3333", False),
        ("1000000.0", "1000000.5", True),  # 0.5 of a million is within 1e-6 of it
        ("2", "2.0", True),
        ("2", "+2", True),
        ("2", "2.0000001", False),
        ("2", "2e0", False),
        ("50000000000000000", "50000000000000001", False),
        ("2.0", "2", True),
        ("inf", "inf", True),
        ("nan", "0.0", False),
        ("10", "1_0", False),
        ("", "\n \n", True),
        ("", "x", False),
    ],
)
def test_output_is_compared_over_all_lines(expected, got, same) -> None:
    assert same_output(expected, got) is same


@given(st.text(), st.text())
def test_output_is_itself_and_more_is_not(text, more) -> None:
    assert same_output(text, text)
    assert same_output(text, f"{text} \n\n")
    if more.strip():
        assert not same_output(text, f"{text}\n{more}x")
