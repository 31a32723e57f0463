"""Mutation: every mutant differs in one place, and the sandbox tells which are wrong."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from rlkit.rewards.audit.mutation import mutate_list, mutate_number, mutate_program, really_wrong


def test_neighbours_of_a_number():
    # 42: one more 43, one less 41, sign -42, ten times 420, doubled 84, ten more 52,
    # digits swapped 24, last digit lost 4, last digit doubled 422.
    found = mutate_number("42")
    assert set(found.values()) == {"43", "41", "-42", "420", "84", "52", "24", "4", "422"}


def test_neighbours_of_a_decimal_are_a_tenth_away():
    found = mutate_number("2.5")
    assert (found["one more"], found["one less"], found["sign"]) == ("2.6", "2.4", "-2.5")
    assert "digits swapped" not in found


@given(st.integers(-10_000, 10_000))
def test_a_mutated_number_is_never_the_number(value):
    found = mutate_number(str(value))
    assert all(Fraction(text) != value for text in found.values())


def test_zero_keeps_only_what_changes_it():
    # The sign, ten times and the double of zero are zero again.
    assert mutate_number("0") == {"one more": "1", "one less": "-1", "ten more": "10"}


def test_what_is_no_number_has_no_neighbours():
    assert mutate_number("x = 3") == {}


@given(st.lists(st.integers(0, 3).map(str), max_size=5))
def test_a_mutated_list_is_never_the_list(words):
    text = " ".join(words)
    assert text not in mutate_list(text).values()


def test_mutants_of_a_program():
    found = mutate_program("def f(x):\n    if x > 2:\n        return x\n    return -x\n")
    sources = set(found.values())
    # comparison, constant, two returns, the minus sign; `if` has no else to swap with.
    assert len(found) == 5
    assert "def f(x):\n    if x >= 2:\n        return x\n    return -x" in sources
    assert "def f(x):\n    if x > 3:\n        return x\n    return -x" in sources
    assert "def f(x):\n    if x > 2:\n        return x\n    return +x" in sources
    assert "def f(x):\n    if x > 2:\n        return None\n    return -x" in sources


def test_branches_are_swapped():
    found = mutate_program("def f(x):\n    if x:\n        return 1\n    else:\n        return 2")
    assert any("return 2\n    else:\n        return 1" in text for text in found.values())


def test_only_mutants_that_fail_count():
    # For x from 0 to 3 capped at 2, `x > 2` and `x >= 2` give the same: not a wrong program.
    truth = [{"args": [x], "expected": min(x, 2)} for x in range(4)]
    mutants = {
        "equal": "def f(x):\n    return 2 if x >= 2 else x",
        "wrong": "def f(x):\n    return 3 if x > 2 else x",
    }
    assert set(really_wrong(mutants, "f", truth)) == {"wrong"}
