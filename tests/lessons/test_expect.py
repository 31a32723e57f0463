"""Each complaint says what is there, what was expected, and by how much they differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.lessons.expect import (
    Broken,
    LearnerError,
    close,
    equal,
    holds,
    kind_of,
    raises,
    shape,
    short_text,
)

NAN, INF = math.nan, math.inf


def complaint(check, *args, **kwargs) -> str:
    with pytest.raises(Broken) as caught:
        check(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("actual", "expected", "says"),
    [
        (2.5, 2.0, "the result is 2.5, expected 2: off by 0.5"),
        (None, 2.0, "the result is None: is a return missing?"),
        ("2", 2.0, "the result is text, '2'; expected a number, 2"),
        (True, 1.0, "the result is a truth value, True; expected a number, 1"),
        (NAN, 2.0, "the result is NaN (not a number), expected 2"),
        (INF, 2.0, "the result is inf, expected 2: off by inf"),
        (1.0, INF, "the result is 1, expected inf: off by inf"),
        (1.0, NAN, "the result is 1, expected NaN"),
        (1.0, [1.0], "the result is a number, 1.0; expected 1 value"),
        ([1.0], 1.0, "the result is a list, [1.0]; expected a number, 1"),
        ([1.0, 2.0], [1.0], "the result has 2 values, expected 1"),
        ([1.0, None], [1.0, 2.0], "the result at position 1 is None; expected a number, 2"),
        # |1.5 - 1| = 0.5 and |5 - 2| = 3: the second is the worst
        ([1.5, 5.0, 3.0], [1.0, 2.0, 3.0], "off by up to 3 at position 1: 5, expected 2; 2 of 3"),
        ([[1.0], [2.5]], [[1.0], [2.0]], "off by 0.5 at position [1, 0]: 2.5, expected 2"),
        ({"a": 1.5}, {"a": 1.0}, "off by 0.5 at 'a': 1.5, expected 1"),
        ({"b": 1.0}, {"a": 1.0}, "the result has the keys ['b'], expected ['a']"),
        # too small a difference for six digits is written out
        (1.00001234, 1.00001233, None),
        (1.0000123, 1.0000103, "is 1.0000123, expected 1.0000103"),
    ],
)
def test_close_says_how_far_off(actual, expected, says):
    if says is None:
        close(actual, expected)
    else:
        assert says in complaint(close, actual, expected)


def test_close_is_relative_above_one():
    close(1000.0005, 1000.0)  # 0.0005 <= 1e-6 * 1000
    complaint(close, 1000.002, 1000.0)
    close(-INF, -INF)
    close([NAN], [NAN])
    complaint(close, -INF, INF)


def test_close_takes_arrays_and_tensors():
    import torch

    close(np.array([1.0, 2.0]), [1.0, 2.0])
    close(torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, 2.0]))
    close(torch.tensor(2.0, dtype=torch.bfloat16), 2.0)
    assert "has the shape (3,), expected (2,)" in complaint(close, torch.ones(3), torch.ones(2))
    assert "has the shape (1, 2), expected (2,)" in complaint(close, torch.ones(1, 2), [1.0, 1.0])
    assert "is text, expected the shape (2,)" in complaint(close, "no", torch.ones(2))
    # the second of the two is off by 3
    said = complaint(close, torch.tensor([1.0, 5.0]), torch.tensor([1.0, 2.0]), what="losses")
    assert said == "losses are off by 3 at position 1: 5, expected 2"


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5))
def test_everything_is_close_to_itself(values):
    close(values, list(values))


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_close_agrees_with_its_definition(actual, expected):
    near = abs(actual - expected) <= 1e-6 * max(1.0, abs(expected))
    if near:
        close(actual, expected)
    else:
        complaint(close, actual, expected)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
        max_leaves=6,
    )
)
def test_close_never_raises_anything_else(actual):
    for expected in (0.25, [0.25, 1.5], {"a": 0.25}):
        try:
            close(actual, expected)
        except Broken as broken:
            assert str(broken)


@pytest.mark.parametrize(
    ("actual", "expected", "says"),
    [
        (1, "1", "the result is a whole number, 1; expected text, '1'"),
        (1, True, "the result is a whole number, 1; expected a truth value, True"),
        ((1,), [1], "is a tuple, (1,); expected a list, [1]"),
        ("abd", "abc", "they part at character 2"),
        ([1, 2, 4], [1, 2, 3], "they part at position 2"),
        ("ab", "abc", "2 characters where 3 belong"),
        ([1], [1, 2], "1 value where 2 belong"),
        (None, 1, "the result is None: is a return missing?"),
        (1, None, "the result is a whole number, 1; expected None, None"),
    ],
)
def test_equal_says_where_they_part(actual, expected, says):
    assert says in complaint(equal, actual, expected)


def test_equal_is_content_with_equal_values():
    equal({"a": [1, (2.0, None)]}, {"a": [1, (2.0, None)]})
    equal(None, None)
    equal(np.array([1, 2]), np.array([1, 2]))
    equal(range(3), range(3))


def test_shape():
    shape(np.zeros((2, 3)), (2, None))
    shape([[1, 2], [3, 4]], (2, 2))
    said = complaint(shape, np.zeros((2, 3)), (3, None), what="the mask")
    assert said == "the mask has the shape (2, 3), expected (3, any)"
    assert complaint(shape, 3.0, (2,)) == "the result is a number, expected the shape (2,)"
    assert complaint(shape, [[1], [1, 2]], (2, 2)).startswith("the result has the shape (2,)")


def test_holds():
    import torch

    holds(torch.tensor([True, True]), "all")
    for condition in (False, None, NAN, 0, torch.tensor([True, False]), np.array([True, False])):
        assert complaint(holds, condition, "so it is") == "so it is"


def test_raises():
    def learner(kind):
        def action():
            raise LearnerError(kind, f"f([]) raised {kind}")

        return action

    raises(learner("ValueError"), ValueError, "TypeError")
    raises(learner("ValueError"))
    said = complaint(raises, learner("KeyError"), ValueError, what="f([])")
    assert said == "f([]) should raise ValueError; f([]) raised KeyError"
    assert "and returned 3" in complaint(raises, lambda: 3, ValueError)
    # a loop that never ends is no error on purpose
    assert "should raise an error" in complaint(raises, learner("TIMEOUT"))


def test_words_for_anything():
    class Odd:
        def __repr__(self):
            raise RuntimeError("no")

    assert kind_of(np.zeros((2, 3))) == "a ndarray of shape (2, 3)"
    assert kind_of(Odd) == "the class Odd"
    assert kind_of(Odd()) == "an Odd"
    assert "cannot be shown" in short_text(Odd())
    assert len(short_text(list(range(10_000)))) < 120
