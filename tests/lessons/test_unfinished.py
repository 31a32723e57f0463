"""An answer that was not written yet is told from one that is wrong."""

from __future__ import annotations

import pytest

from rlkit.lessons.unfinished import MISSING, gap_in_source, gap_in_value


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (MISSING, "nothing has this name yet"),
        (None, "it is `None` so far"),
        (..., "it is `...` so far"),
        ([1, ...], "a `...` still stands in it"),
        ((..., 2), "a `...` still stands in it"),
        ({"a": ...}, "a `...` still stands in it"),
    ],
)
def test_values_that_are_not_there(answer, says):
    gap = gap_in_value(answer)
    assert gap.certain
    assert gap.sentence == says


@pytest.mark.parametrize("answer", [0, 0.0, "", [], False, [None], "..."])
def test_values_that_are_there(answer):
    assert gap_in_value(answer) is None


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(x):\n    return ...", "line 2 still has `...` where"),
        ("def f(x):\n    y = ...\n    return y", "line 2 still has `...` where"),
        (
            "def f(x):\n    if x:\n        return ...\n    return 1",
            "line 3 still has `...` where your code belongs",
        ),
        ("def f(x):\n    return g(..., x)", "line 2 still has `...` where"),
        ("def f(x):\n    raise NotImplementedError", "line 2 still raises `NotImplementedError`"),
        ("def f(x):\n    raise NotImplementedError('x')", "line 2 still raises"),
        ("def f(x):\n    '''What it does.'''", "the body of `f` is still empty"),
        ("def f(x):\n    pass", "the body of `f` is still empty"),
        ("def f(x):\n    ...", "the body of `f` is still empty"),
        ("class A:\n    def f(self):\n        pass", "the body of `f` is still empty"),
    ],
)
def test_code_that_cannot_be_finished(source, says):
    gap = gap_in_source(source)
    assert gap.certain
    assert gap.sentence.startswith(says)


def test_a_bare_ellipsis_may_have_been_left_above_finished_code():
    gap = gap_in_source("def f(x):\n    ...  # TODO\n    return x + 1")
    assert (gap.sentence, gap.certain) == ("line 2 still has `...` where your code belongs", False)


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    return x[..., 0]",
        "def f(x):\n    x[..., 1] = 0\n    return x",
        "def f(x: tuple[int, ...]) -> int:\n    return x[0]",
        "def f(x):\n    y: tuple[int, ...] = x\n    return y",
        "def f(x):\n    # TODO: nothing\n    return x",
        "def f(x):\n    return '...'",
        "def f(:",  # will be told when it is run
    ],
)
def test_finished_code(source):
    assert gap_in_source(source) is None
