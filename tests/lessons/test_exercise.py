"""What an author may and may not write."""

from __future__ import annotations

import pytest

from rlkit.errors import UserError
from rlkit.lessons.exercise import Call, Exercise, Property, as_call, call, random_inputs, same_as
from rlkit.lessons.expect import Broken

FINE = {
    "title": "T",
    "hints": ("a", "b", "c"),
    "properties": [Property("p", lambda answer: None)],
}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"where": "there"}, "where='there' must be 'sandbox' or 'here'"),
        ({"hints": ("a", "b")}, "give three hints"),
        ({"hints": "abc"}, "give three hints"),
        ({"hints": ("a", "", "c")}, "give three hints"),
        ({"properties": []}, "without one, every answer would be right"),
        ({"properties": [len]}, "give at least one Property"),
        ({"properties": [Property("p", len), Property("p", len)]}, "have the same name"),
        ({"wants": "value"}, "a value is checked here"),
        ({"wants": "list"}, "wants='list'"),
    ],
)
def test_mistakes_of_an_author(settings, says):
    with pytest.raises(UserError, match=r"exercise 'x': ") as caught:
        Exercise("x", **{**FINE, **settings})
    assert says in str(caught.value)


def test_mistakes_in_a_property():
    with pytest.raises(UserError, match="needs a sentence"):
        Property(" ", len)
    with pytest.raises(UserError, match="is no function"):
        Property("p", 3)


def test_inputs_are_calls():
    assert as_call([1, 2]) == Call(([1, 2],))
    assert as_call((1, 2)) == Call((1, 2))
    assert as_call(call(1, b=2)) == Call((1,), {"b": 2})
    assert call(1, b="x").text("f") == "f(1, b='x')"
    assert len(call(list(range(1000)), "y" * 500).text("f")) < 130


def test_random_inputs_are_the_same_each_time_and_differ_by_seed():
    def draw(rng):
        return rng.random()

    assert random_inputs(draw) == random_inputs(draw)
    assert random_inputs(draw) != random_inputs(draw, seed=1)
    assert len(random_inputs(draw, count=7)) == 7


def test_same_as_compares_exactly_or_within_a_tolerance():
    near = same_as(lambda x: x, tolerance=0.1)
    near.test(1.05, 1.0)
    with pytest.raises(Broken, match=r"off by 0\.2"):
        near.test(1.2, 1.0)
    exact = same_as(lambda x: x, tolerance=None, what="the word")
    exact.test("a", "a")
    with pytest.raises(Broken, match="the word is 'b', expected 'a'"):
        exact.test("b", "a")
