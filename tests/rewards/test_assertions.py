"""Assertions that are no plain comparison: judged apart from the program, and not to be cheated."""

from __future__ import annotations

import pytest

from rlkit.rewards import CodeReward
from rlkit.rewards.code_task import make_task
from rlkit.rewards.grading import grade_many
from rlkit.rewards.unit_tests import read_tests

BESIDE = "some tests ran beside the program"

FLOATS = "import math\nassert abs(f(2) - 1.5) < 1e-6\nassert math.isclose(f(4), 3.0)"
STACK = """
s = Stack()
s.push(1)
s.push(2)
assert s.pop() == 2
assert s.pop() == 1 and len(s) == 0
try:
    s.pop()
    raised = False
except IndexError:
    raised = True
assert raised
"""
GOOD_STACK = """
class Stack:
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x)
    def pop(self): return self.items.pop()
    def __len__(self): return len(self.items)
"""


def grade(sandbox, source: str, tests: str, **more):
    (made,) = grade_many(sandbox, [(source, make_task(tests, **more))])
    return made


@pytest.mark.parametrize(
    "source, tests",
    [
        ("def f(x): return 0.75 * x", FLOATS),
        (GOOD_STACK, STACK),
        ("def f(xs): xs.sort()", "a = [2, 1]\nf(a)\nassert a == [1, 2]"),
        ("def f(n): yield from range(n)", "assert list(f(3)) == [0, 1, 2]"),
        (
            "def f(x):\n    if x < 0: raise ValueError('no')\n    return x",
            "def check(candidate):\n    try:\n        candidate(-1)\n        ok = False\n"
            "    except ValueError as e:\n        ok = str(e) == 'no'\n    assert ok\n"
            "    assert candidate(3) == 3\n",
        ),
        ("def f(g, x): return g(g(x))", "assert f(lambda x: x + 1, 0) == 2"),
    ],
)
def test_an_honest_program_passes_apart_from_its_tests(sandbox, source, tests) -> None:
    made = grade(sandbox, source, tests, entry="f" if "def f" in source else None)
    assert made.status == "PASS", made.reason
    assert made.shares["tests"] == 1.0
    assert BESIDE not in made.reason


@pytest.mark.parametrize(
    "source",
    [
        "class E(float):\n    def __sub__(s, o): return 0.0\n    __float__ = lambda s: 1.5\n"
        "def f(x): return E()",
        "class E:\n    def __sub__(s, o): return s\n    def __abs__(s): return s\n"
        "    def __lt__(s, o): return True\ndef f(x): return E()",
        "abs = lambda x: 0.0\nclass M:\n    isclose = lambda *a: True\nmath = M()\n"
        "def f(x): return 0.0",
        "import builtins, math\nbuiltins.abs = lambda x: 0\nmath.isclose = lambda *a: True\n"
        "def f(x): return 0.0",
        "import os\ndef f(x): os._exit(0)",
        "import os\nos._exit(0)",
        "def f(x): raise SystemExit(0)",
        "import sys\ndef f(x):\n    frame = sys._getframe(1)\n    frame.f_globals['abs'] = bool\n"
        "    return 0.0",
        "import builtins\nbuiltins.AssertionError = SystemExit\ndef f(x): return 0.0",
    ],
)
def test_a_cheat_that_was_paid_beside_its_tests_is_not_any_more(sandbox, source: str) -> None:
    made = grade(sandbox, source, FLOATS, entry="f")
    assert made.shares["tests"] == 0.0
    assert made.status != "PASS"


def test_each_assertion_counts_and_goes_on_where_the_last_one_stopped(sandbox) -> None:
    half = GOOD_STACK.replace("return self.items.pop()", "return self.items.pop(0)")
    made = grade(sandbox, half, STACK)
    # s.pop() gives 1 and then 2; the third assertion, about the empty stack, holds.
    assert made.shares["tests"] == pytest.approx(1 / 3)
    assert made.status == "FAIL"
    assert "assert s.pop() == 2 does not hold: pop() returned 1" in made.reason


@pytest.mark.parametrize(
    "text, calls, statements",
    [
        # What a call by itself would say again is a call; what hangs together is not.
        ("x = 3\nassert f(1) == 2\nassert f(x) == 4", 1, 1),
        ("push(1)\nassert pop() == 1\nassert pop() is None", 0, 2),
        ("s = Stack()\nassert s.pop() == 2", 0, 1),
        ("for i in range(3):\n    assert f(i) == i\nassert f(2) == 2", 0, 2),
        ("for i in range(3):\n    assert f(i) == i", 0, 1),
        ("import solution\nassert solution.f(1) == 2", 0, 1),
        ("from solution import f\nassert f(1) == 2", 1, 0),
        ("from math import gcd\nassert gcd(4, 6) == 2\nassert f(1) == 1", 1, 1),
        ("assert len('ab') == 2\nassert f('ab') == 2", 1, 1),
        ("def g(x):\n    return f(x)\nassert g(1) == 2", 0, 1),
    ],
)
def test_what_is_a_call_and_what_is_code(text: str, calls: int, statements: int) -> None:
    read = read_tests(text)
    assert (len(read.calls), len(read.statements)) == (calls, statements)


def test_the_entry_may_bear_the_name_of_a_builtin() -> None:
    assert len(read_tests("assert sum([1]) == 1", "sum").calls) == 1


def test_the_reason_names_what_went_wrong(sandbox) -> None:
    made = grade(sandbox, "def f(x): return 1 / 0", "assert abs(f(2) - 1) < 1", entry="f")
    assert made.status == "RUNTIME_ERROR"
    assert "ZeroDivisionError: division by zero (line 1)" in made.reason
    made = grade(sandbox, "def f(x) return 1", "assert abs(f(2) - 1) < 1", entry="f")
    assert (made.status, made.shares["parse"]) == ("COMPILE_ERROR", 0.0)
    made = grade(sandbox, "1 / 0", "assert abs(f(2) - 1) < 1", entry="f")
    assert (made.shares["parse"], made.shares["import"]) == (1.0, 0.0)


def test_what_cannot_be_carried_runs_beside_it_and_says_so(sandbox) -> None:
    tests = "class Mine(Base):\n    pass\nassert Mine().twice(3) == 6"
    source = "class Base:\n    def twice(self, x): return 2 * x"
    made = grade(sandbox, source, tests)
    assert made.status == "PASS"
    assert BESIDE in made.reason
    # No program can choose to be tested there: the text of the tests alone decides.
    cheat = "def f(x): return open\nclass Base: pass"
    assert BESIDE not in grade(sandbox, cheat, FLOATS, entry="f").reason


def test_code_reward_pays_by_it(sandbox) -> None:
    reward = CodeReward(sandbox)
    texts = [
        "```python\ndef f(x):\n    return 0.75 * x\n```",
        "```python\nclass E(float):\n    def __sub__(s, o): return 0.0\ndef f(x): return E()\n```",
    ]
    scores = reward.score(completions=texts, tests=[FLOATS] * 2, entry=["f"] * 2)
    assert [score.value for score in scores] == [1.0, 0.0]
