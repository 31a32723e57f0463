"""Honest programs in all their shapes: what a solution may look like and still be paid."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from rlkit.sandbox import Job, Status, TestSpec


def run_one(check, source, *args, expected, entry="f", **options):
    test = TestSpec("one", args=args, expected=expected, **options)
    return check(Job(source=source, entry=entry, tests=[test]))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("class Solution:\n    def f(self, x):\n        return x + 1\n", 2),
        ("class Solution:\n    def f(self, x: List[int]) -> Optional[int]:\n        return 2\n", 2),
        ("def f(x):\n    def g(y: Dict[str, int]) -> Any:\n        return y\n    return g(2)\n", 2),
        ("def f(x):\n    return x + 1\n\nprint(f(41))\n", 2),
        ("def f(x):\n    return x + 1\nif __name__ == '__main__':\n    print(f(int(input())))", 2),
        ("f = lambda x: x + 1", 2),
        ("class f:\n    def __new__(cls, x): return x + 1", 2),
        ("from __future__ import annotations\ndef f(x: Nowhere) -> Never: return x + 1", 2),
        ("\ufeffdef f(x):\r\n    return x + 1\r\n", 2),
        ("def f(x):\r    return x + 1\r", 2),
        ("# -*- coding: latin-1 -*-\ndef f(x): return 'é'", "é"),
        ("import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: 'int'\n"
         "def f(x): return dataclasses.astuple(P(x))", (1,)),
        ("from collections import Counter\ndef f(x): return dict(Counter('aab'))",
         {"a": 2, "b": 1}),
        ("from decimal import Decimal\ndef f(x): return Decimal('1.5')", Decimal("1.5")),
        ("from fractions import Fraction\ndef f(x): return Fraction(x, 2)", Fraction(1, 2)),
        ("import json, re, math, itertools, functools\ndef f(x): return json.loads('[1]')", [1]),
        ("import threading\ndef f(x):\n    r = []\n"
         "    t = threading.Thread(target=r.append, args=(x,))\n"
         "    t.start(); t.join()\n    return r", [1]),
        ("import asyncio\nasync def g(x): return x\ndef f(x): return asyncio.run(g(x))", 1),
        ("import tempfile\ndef f(x):\n    with tempfile.TemporaryFile() as t:\n"
         "        return t.write(b'abc')", 3),
        ("import sqlite3\ndef f(x):\n"
         "    return sqlite3.connect(':memory:').execute('select 1').fetchone()", (1,)),
        ("def f(x): return len(str(10**5000))", 5001),
        ("def f(x): return 10**5000", 10**5000),
        ("def f(x): return float('nan')", float("nan")),
        ("def f(x): return [0.1 + 0.2, 1.0]", [0.3, 1.0]),
        ("def f(x): return '%0A %25 \\n'", "%0A %25 \n"),
        ("def f(x): return '\\ud800'", "\ud800"),
        ("def f(x): return None", None),
        ("def f(x):\n    def depth(n): return n and 1 + depth(n - 1)\n    return depth(900)", 900),
        ("import sys\nsys.stdout.buffer.write(b'\\xff\\xfe\\x80')\ndef f(x): return x", 1),
        ("print('\\ud800ok')\ndef f(x): return x", 1),
        ("import sys\nsys.stdout = None\ndef f(x): return x", 1),
        ("import os\nos.close(1); os.close(2)\ndef f(x): return x", 1),
        ("open('left', 'w').write('x')\ndef f(x): return open('left').read()", "x"),
    ],
    ids=range(33),
)  # fmt: skip
def test_a_right_program_passes(check, source, expected):
    verdict = run_one(check, source, 1, expected=expected)
    assert verdict.status is Status.PASS, (verdict.summary, verdict.stderr)
    assert verdict.reward == 1.0


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("def f(x):\n    print(x + 1)\n", Status.FAIL),
        ("def f(x):\n    return int(input())\n", Status.RUNTIME_ERROR),
        ("print('1 passed')\nprint('PASSED')\ndef f(x):\n    return 0\n", Status.FAIL),
        ("async def f(x): return 2", Status.BAD_VALUE),
        ("def f(): return 2", Status.RUNTIME_ERROR),
        ("def f(x): return f(x)", Status.RUNTIME_ERROR),
        ("def f(x): return numpy.array(x)", Status.RUNTIME_ERROR),
    ],
)
def test_a_wrong_program_does_not(check, source, status):
    verdict = run_one(check, source, 1, expected=2)
    assert verdict.status is status
    assert verdict.reward == 0.0


def test_a_method_gets_a_fresh_object_for_each_test(check):
    source = """
class Solution:
    def __init__(self): self.seen = []
    def f(self, x):
        self.seen.append(x)
        return self.seen
"""
    tests = [TestSpec(str(n), args=(n,), expected=[n]) for n in range(3)]
    for entry in ("f", "Solution.f"):
        assert check(Job(source=source, entry=entry, tests=tests)).reward == 1.0


def test_arguments_of_one_test_are_fresh_in_the_next(check):
    source = "def f(x):\n    x.append(len(x))\n    return x"
    tests = [TestSpec("a", args=([],), expected=[0]), TestSpec("b", args=([],), expected=[0])]
    assert check(Job(source=source, entry="f", tests=tests)).reward == 1.0


def test_every_plain_type_arrives_as_itself(check):
    values = (
        None,
        True,
        1,
        1.5,
        2j,
        "é\ud800\n",
        b"\x00\n%",
        [1],
        (1,),
        {1: 2},
        {1},
        frozenset({1}),
    )
    source = "def f(*values, **more): return [type(v).__name__ for v in values], values, more"
    names = [type(value).__name__ for value in values]
    test = TestSpec("t", args=values, kwargs={"a": 1}, expected=(names, values, {"a": 1}))
    assert check(Job(source=source, entry="f", tests=[test])).summary == "1 of 1 tests passed"


def test_tests_from_json_may_take_a_tuple_for_a_list(check):
    source = "def f(x): return (1, 2)"
    assert run_one(check, source, 1, expected=[1, 2]).reward == 0.0
    assert run_one(check, source, 1, expected=[1, 2], tuples_as_lists=True).reward == 1.0


def test_the_tolerance_belongs_to_the_test(check):
    source = "def f(x): return 0.333333"
    assert run_one(check, source, 1, expected=0.333333333333).reward == 0.0
    assert run_one(check, source, 1, expected=0.333333333333, tolerance=1e-6).reward == 1.0


def test_equal_jobs_end_equally_and_the_seed_decides_how(check):
    source = """
import random
def f(x):
    return list({"apple", "pear", "plum", "fig", "kiwi"}), random.random()
"""

    def got(seed):
        test = TestSpec("t", args=(1,), expected=None)
        return check(Job(source=source, entry="f", tests=[test], seed=seed)).tests[0].got_repr

    assert got(0) == got(0)
    assert got(1) == got(1)
    assert got(0) != got(1)


def test_a_thousand_tests_in_one_job(check):
    tests = [TestSpec(str(n), args=(n,), expected=n + (n == 700)) for n in range(1000)]
    verdict = check(Job(source="def f(n): return n", entry="f", tests=tests))
    assert (verdict.passed, verdict.total) == (999, 1000)
    assert verdict.tests[700].status is Status.FAIL


def test_a_large_input_does_not_fill_a_pipe(check):
    text = "x" * 3_000_000
    verdict = run_one(check, "def f(s): return len(s)", text, expected=3_000_000)
    assert verdict.status is Status.PASS
    source = "text = " + repr(text) + "\ndef f(): return len(text)"
    assert run_one(check, source, expected=3_000_000).status is Status.PASS
