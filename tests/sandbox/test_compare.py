from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.sandbox import decode, encode, same
from rlkit.sandbox.compare import short_repr

NAN, INF = float("nan"), float("inf")

EQUAL = [
    (None, None),
    (0.3, 0.1 + 0.2),
    (1e20, 1e20 * (1 + 5e-10)),  # relative distance 5e-10
    (0.0, 5e-10),  # absolute distance 5e-10
    (0.0, -0.0),
    (NAN, NAN),
    (INF, INF),
    ([1, [2, (3.0,)]], [1, [2, (3.0 + 1e-12,)]]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({0.1 + 0.2}, {0.3}),
    (frozenset({1, "1"}), frozenset({"1", 1})),
    ({frozenset({1, 2}): NAN}, {frozenset({2, 1}): NAN}),
    (complex(0.3, NAN), complex(0.1 + 0.2, NAN)),
    (Decimal("1.0"), Decimal("1.00")),
    (Decimal("NaN"), Decimal("sNaN")),
    (Fraction(1, 2), Fraction(2, 4)),
    (10**5000, 10**5000),
]
DIFFERENT = [
    (1, True),
    (0, False),
    (1, 1.0),
    (2, "2"),
    ("a", b"a"),
    (None, False),
    ([1], (1,)),
    ({1}, frozenset({1})),
    ([], None),
    (0.3, 0.3000001),
    (0.0, 2e-9),
    (1.0, NAN),
    (NAN, 1.0),
    (INF, -INF),
    (INF, 1e308),
    ([1, 2], [2, 1]),
    ([1, 2], [1, 2, 3]),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({1: "x"}, {True: "x"}),
    ({1: "x"}, {1.0: "x"}),
    ({1, 2}, {1, 3}),
    ({1}, {True}),
    (Decimal("1"), 1),
    (Decimal("1"), Decimal("NaN")),
    (Fraction(1), 1),
    (50000000000000000, 50000000000000001),  # no tolerance for integers
    (10**5000, 10**5000 + 1),
]


@pytest.mark.parametrize(("expected", "got"), EQUAL, ids=range(len(EQUAL)))
def test_equal(expected, got):
    assert same(expected, got)


@pytest.mark.parametrize(("expected", "got"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_different(expected, got):
    assert not same(expected, got)
    assert not same([expected], [got])
    assert not same({"k": expected}, {"k": got})


def test_tuples_may_stand_for_lists_where_the_test_says_so():
    assert same([1, [2]], (1, (2,)), tuples_as_lists=True)
    assert same({"k": [1]}, {"k": (1,)}, tuples_as_lists=True)
    assert not same([1, 2], (1, 3), tuples_as_lists=True)
    assert not same([1, 2], {1, 2}, tuples_as_lists=True)
    assert not same([], "", tuples_as_lists=True)


def test_the_tolerance_is_the_callers():
    assert same(0.333333333333, 0.333333, tolerance=1e-6)
    assert not same(0.333333333333, 0.34, tolerance=1e-6)
    assert same(0.5, 0.5, tolerance=0.0)
    assert not same(0.3, 0.1 + 0.2, tolerance=0.0)


def test_a_program_that_defines_equality_is_not_asked():
    class Always:
        def __eq__(self, other):
            return True

    assert not same(1, Always())
    assert not same(Always(), Always())


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_every_value_is_the_same_as_itself(value):
    assert same(value, value)
    assert same(value, decode(encode(value)))


@given(PLAIN, PLAIN)
def test_the_order_of_the_arguments_does_not_matter(first, second):
    assert same(first, second) == same(second, first)


@given(PLAIN, PLAIN)
def test_equal_encodings_mean_equal_values(first, second):
    if encode(first) == encode(second):
        assert same(first, second)


@given(PLAIN)
def test_a_short_value_is_shown_as_repr_shows_it(value):
    text = repr(value)
    if len(text) <= 60:
        assert short_repr(value, width=200) == text


@given(PLAIN | st.lists(PLAIN))
def test_a_shown_value_is_short(value):
    assert len(short_repr(value, width=50)) <= 250


def test_what_repr_cannot_show_is_described():
    assert short_repr(10**5000) == "<an integer of about 5001 digits>"
    assert short_repr([10**5000]) == "[<an integer of about 5001 digits>]"
    assert short_repr("x" * 10_000, width=10) == "'xxxxxxxxxx'..."
    assert short_repr(set()) == "set()"
    assert short_repr((1,)) == "(1,)"
    assert short_repr(frozenset({1})) == "frozenset({1})"
    assert short_repr({"a": [1, 2]}) == "{'a': [1, 2]}"


@pytest.mark.parametrize(
    "expected, got, equal",
    [
        (2, 2.0, True),
        (2, 2.0000000001, False),  # an expected int is met exactly
        (2.0, 2, True),
        (0.5, 1, False),
        (10**17, 1e17, True),
        (10**17 + 1, 1e17, False),  # the next float is 16 away
        (1.0, 10**400, False),
        (1, True, False),
        ([1, {"a": 2}], [1.0, {"a": 2.0}], True),
        (float("nan"), 1, False),
    ],
)
def test_ints_and_floats_stand_for_each_other_only_when_told(expected, got, equal) -> None:
    assert same(expected, got, mixed_numbers=True) is equal
    assert not same(expected, got)
