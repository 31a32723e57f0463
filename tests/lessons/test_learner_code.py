"""A learner's function is rebuilt from its source, with all that it names."""

from __future__ import annotations

import collections
import enum
import functools
import json
import linecache
import math
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest

from rlkit.lessons.learner_code import NoSource, own_source, program

RATE = 0.5
TABLE = {"a": [1, (2.0, math.inf)], "b": {3, 4}, "c": frozenset({"x"}), "d": Fraction(1, 3)}
LOADED = object()


def twice(x):
    return 2 * x


def thrice(x):
    return twice(x) + x


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


class Point(NamedTuple):
    x: float
    y: float

    def length(self) -> float:
        return sqrt(self.x**2 + self.y**2)


def length(x: Any, y: collections.OrderedDict) -> np.ndarray:
    return Point(x, y).length()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Sized:
    @property
    def size(self):
        return 1


class Bigger(Sized):
    @property
    def size(self):
        return super().size + Level.HIGH


@functools.cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


alias = twice


def run(function, *args):
    """What the function's program gives in a fresh interpreter, without this module."""
    made = program(function)
    text = f"{made.source}\nimport json\nprint(json.dumps({made.entry}(*{args!r})))"
    done = subprocess.run([sys.executable, "-S", "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\n{made.source}"
    return json.loads(done.stdout)


def test_a_function_brings_what_it_names():
    def answer(x):
        counted = Counter("aab")
        return [thrice(x) * RATE, counted["a"], math.floor(2.5), TABLE["a"][0], alias(x)]

    # thrice(4) = 12, half of it is 6
    assert run(answer, 4) == [6.0, 2, 2, 1, 8]


def test_functions_that_call_each_other():
    assert run(even, 10) is True


def test_a_class_and_annotations_that_need_nothing():
    assert run(length, 3.0, 4.0) == 5.0
    assert "import np" not in program(length).source


def test_classes_without_methods_and_with_parents():
    def answer():
        return Bigger().size

    assert run(answer) == 3


def test_a_decorated_function_and_its_decorator():
    assert run(fib, 20) == 6765
    assert "@functools.cache" in program(fib).source


def test_a_closure_carries_its_values():
    def outer(offset):
        def inner(x):
            return x + offset

        return inner

    assert run(outer(5), 1) == 6


def test_a_default_that_names_something():
    def scaled(x, rate=RATE):
        return x * rate

    assert run(scaled, 4) == 2.0


def test_recursion_within_a_closure():
    def down(n):
        return 0 if n == 0 else down(n - 1)

    assert run(down, 3) == 0


def test_a_lambda():
    square = lambda x: x * x  # noqa: E731
    assert run(square, 3) == 9
    assert program(square).entry == "answer"


def test_every_kind_of_plain_data_is_written_down_exactly():
    def table():
        return repr((TABLE["a"], sorted(TABLE["b"]), TABLE["c"], TABLE["d"]))

    assert run(table) == repr((TABLE["a"], [3, 4], TABLE["c"], TABLE["d"]))


def test_a_local_name_that_is_also_global_brings_nothing():
    def answer(LOADED):
        return LOADED + 1

    assert run(answer, 1) == 2


def test_an_attribute_that_is_also_a_global_name_brings_nothing():
    def answer(x):
        return x.real if not hasattr(x, "LOADED") else x.LOADED

    assert run(answer, 1.0) == 1.0


def test_what_cannot_be_sent_is_named():
    def uses_object():
        return LOADED

    def uses_numpy(x):
        return np.mean(x)

    def uses_rlkit(x):
        return own_source(x)

    with pytest.raises(NoSource, match=r"it uses LOADED, an object, .*pass what you need"):
        program(uses_object)
    with pytest.raises(NoSource, match="it uses numpy, and the sandbox has Python's own library"):
        program(uses_numpy)
    with pytest.raises(NoSource, match=r"it uses own_source of rlkit\.lessons"):
        program(uses_rlkit)
    with pytest.raises(NoSource, match="len has no source"):
        program(len)
    with pytest.raises(NoSource, match="plain function, written with def"):
        program(functools.partial(twice, 1))
    with pytest.raises(NoSource, match="plain function, written with def"):
        program(Point(1, 2).length)


def test_no_source_is_said():
    space: dict = {}
    exec("def f(x): return x", space)
    with pytest.raises(NoSource, match="the source of f is not known here; define it in a cell"):
        program(space["f"])
    assert own_source(space["f"]) is None


def cell(text: str, space: dict, name: str) -> None:
    """Runs text as a notebook does: under a name of its own that linecache knows."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), space)


def test_cells_with_magics_and_redefinitions():
    space = {"__name__": "__main__"}
    cell("RATE = 2\ndef f(x):\n    return x * RATE\n", space, "<cell 1>")
    text = "def g(x):\n    return f(x) + 1\n"
    cell(text, space, "<cell 2>")
    magic = "%time 1\n" + text
    linecache.cache["<cell 2>"] = (len(magic), None, magic.splitlines(keepends=True), "<cell 2>")
    # The line of g in the cell with its magic is one further down, as IPython compiles it.
    exec(compile("\n" + text, "<cell 2>", "exec"), space)
    assert run(space["g"], 3) == 7
    cell("def f(x):\n    return 0\n", space, "<cell 3>")
    assert run(space["g"], 3) == 1


def test_lines_are_counted_from_the_def():
    made = program(thrice)
    line = next(i for i, t in enumerate(made.source.splitlines(), 1) if "twice(x) + x" in t)
    assert made.place(line) == "line 2 of thrice"
    assert made.place(1) is None
    assert made.place(10_000) is None


def test_nothing_is_pickled_or_evaluated_here():
    """Building the program does not run the function."""

    def explode(x):
        raise SystemExit("was run")

    assert "was run" in program(explode).source
