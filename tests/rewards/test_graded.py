"""code_reward: levels and their shares, weights, packages, faults, and the cache."""

from __future__ import annotations

import pickle

import pytest

from rlkit.errors import UserError
from rlkit.rewards import CodeReward, code_reward
from rlkit.rewards.code_task import make_task, splice
from rlkit.rewards.graded import LEVELS
from rlkit.rewards.verdict_cache import VerdictCache
from rlkit.sandbox import Limits, Sandbox

PRICING = """\
RATE = 0.2

@(lambda function: function)
def discount(price, percent):
    return price * (1 - percent / 100)

def taxed(price):
    return price * (1 + RATE)
"""
CART = """\
from pricing import discount, taxed

def total(prices, percent):
    return sum(taxed(discount(p, percent)) for p in prices)
"""
REPORT = """\
import shop.cart
from pricing import discount

def line(price):
    return f"{discount(price=price, percent=10):.2f} of {shop.cart.total([price], 0):.2f}"
"""
PACKAGE = {
    "package": {"pricing": PRICING, "shop.cart": CART, "shop.report": REPORT},
    "replaces": "pricing:discount",
    "tests": [{"args": [100, 10], "expected": 90}],
    "hidden_tests": [{"args": [50, 50], "expected": 25}, {"args": [1, 0], "expected": 1}],
    # 1.2 · (50 + 100) = 180; 0.9 · 50 = 45 and 1.2 · 50 = 60
    "caller_tests": [
        {"call": "shop.cart:total", "args": [[100, 200], 50], "expected": 180.0},
        {"call": "shop.report:line", "args": [50], "expected": "45.00 of 60.00"},
    ],
}
GOOD = "def discount(price, percent):\n    return price - price * percent / 100"


def score(reward, source, **row):
    columns = {name: [value] for name, value in row.items()}
    (result,) = reward.score(completions=[f"```python\n{source}\n```"], **columns)
    return result


@pytest.fixture(scope="module")
def graded(sandbox) -> CodeReward:
    return CodeReward(sandbox)


def shares(result) -> dict:
    return {level: result.parts[level] for level in LEVELS if level in result.parts}


@pytest.mark.parametrize(
    "source, expected",
    [
        # extract, parse, import, run, tests, hidden tests, compatibility
        (GOOD, [1, 1, 1, 1, 1, 1, 1]),
        # Other names for the parameters: one caller names them.
        ("def discount(p, q):\n    return p - p * q / 100", [1, 1, 1, 1, 1, 1, 0.5]),
        # Its helper takes the name of a neighbour, on which both callers depend.
        (f"{GOOD}\ndef taxed(p): return p", [1, 1, 1, 1, 1, 1, 1]),
        (f"RATE = 0.0\n{GOOD}", [1, 1, 1, 1, 1, 1, 0]),
        # Only what the prompt shows.
        ("def discount(price, percent):\n    return 90", [1, 1, 1, 1, 1, 0, 0]),
        # 100 - 10 · (1 / 0): two of three calls come back
        ("def discount(price, percent):\n    return 90 if percent else 1 / 0",
         [1, 1, 1, 2 / 3, 1, 0, 0]),
        ("def discount(price, percent)\n    return 90", [1, 0, 0, 0, 0, 0, 0]),
        # What would close a string of the module does not parse by itself.
        ("x = '''\ndef discount(price, percent):\n    return 90", [1, 0, 0, 0, 0, 0, 0]),
        (f"import nowhere\n{GOOD}", [1, 1, 0, 0, 0, 0, 0]),
        ("from __future__ import annotations\nfrom math import floor\n" + GOOD,
         [1, 1, 1, 1, 1, 1, 1]),
        ("def other(): pass", [0, 0, 0, 0, 0, 0, 0]),
    ],
)  # fmt: skip
def test_every_level_has_its_share(graded, source, expected) -> None:
    result = score(graded, source, **PACKAGE)
    assert list(shares(result).values()) == pytest.approx(expected)
    _, _, _, _, tests, hidden, callers = expected
    # The default weights: 0.2 for shown tests, 0.6 for hidden ones, 0.2 for the callers.
    assert result.value == pytest.approx(0.2 * tests + 0.6 * hidden + 0.2 * callers)
    assert sum(result.contributions.values()) == pytest.approx(result.value)


def test_a_hanging_program_is_stopped_once_and_what_is_not_known_is_none() -> None:
    with Sandbox(Limits(wall_s=0.5, cpu_s=1.0), workers=1) as sandbox:
        reward = CodeReward(sandbox)
        result = score(reward, f"while True: pass\n{GOOD}", **PACKAGE)
        assert result.value == 0.0
        assert result.status in ("TIMEOUT", "CPU_LIMIT")
        assert list(shares(result).values()) == [1, 1, None, 0, 0, 0, 0]
        assert len(reward.cache) == 0  # another time it might not have run into the limit


def test_what_a_hidden_test_holds_is_not_told(graded) -> None:
    result = score(graded, "def discount(price, percent):\n    return 90", **PACKAGE)
    assert "0 of 2 hidden tests passed" in result.reason
    assert "25" not in result.reason
    assert "total([100, 200], 50) returned" in result.reason


def test_weights_say_what_is_paid(sandbox) -> None:
    row = {"tests": [{"fn": "f", "args": [1], "out": 1}, {"fn": "f", "args": [2], "out": 2}]}
    reward = CodeReward(sandbox, weights={"parse": 0.1, "import": 0.1, "tests": 0.8})
    half = score(reward, "def f(x):\n    return 1", **row)
    assert half.value == pytest.approx(0.1 + 0.1 + 0.8 * 0.5)
    assert half.contributions == pytest.approx({"parse": 0.1, "import": 0.1, "tests": 0.4})
    # What is in the cache is paid by other weights without a run.
    other = reward.with_weights({"run": 1.0})
    hits = reward.cache.hits
    assert score(other, "def f(x):\n    return 1", **row).value == 1.0
    assert reward.cache.hits == hits + 1
    binary = CodeReward(sandbox, mode="binary")
    assert score(binary, "def f(x):\n    return 1", **row).value == 0.0
    assert score(binary, "def f(x):\n    return x", **row).value == 1.0


def test_a_fault_of_the_sandbox_is_no_verdict() -> None:
    with Sandbox(python="/nonexistent/python", workers=1) as sandbox:
        reward = CodeReward(sandbox)
        result = score(reward, GOOD, **PACKAGE)
        assert (result.value, result.status) == (None, "SANDBOX_ERROR")
        assert shares(result)["tests"] is None
        assert len(reward.cache) == 0


def test_scored_again_from_the_cache(sandbox) -> None:
    reward = CodeReward(sandbox)
    sources = [f"def f(x):\n    return x + {i % 3}" for i in range(12)]
    texts = [f"```python\n{source}\n```" for source in sources]
    tests = [[{"fn": "f", "args": [1], "out": 2}]] * 12
    first = reward.score(completions=texts, tests=tests)
    assert [s.value for s in first] == [0.0, 1.0, 0.0] * 4
    assert (reward.cache.misses, reward.cache.hits, len(reward.cache)) == (3, 0, 3)
    assert reward.score(completions=texts, tests=tests) == first
    assert (reward.cache.misses, reward.cache.hits) == (3, 3)
    # Other tests or other limits are another question.
    reward.score(completions=texts[:1], tests=[[{"fn": "f", "args": [1], "out": 1}]])
    assert reward.cache.misses == 4
    with Sandbox(Limits(memory_mb=300), workers=1) as smaller:
        reward.with_sandbox(smaller).score(completions=texts[:1], tests=tests[:1])
    assert reward.cache.misses == 5


def test_a_cache_forgets_the_oldest_and_travels_empty() -> None:
    cache = VerdictCache(size=2)
    for key in "abc":
        cache.put(key, key)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, "b", "c")
    copied = pickle.loads(pickle.dumps(cache))
    assert (copied.size, len(copied), copied.hits) == (2, 0, 0)
    with pytest.raises(UserError, match="1 entry or more"):
        VerdictCache(size=0)


def test_it_can_be_pickled(sandbox) -> None:
    reward = pickle.loads(pickle.dumps(CodeReward(Sandbox(Limits(wall_s=3.0)), mode="binary")))
    assert (reward.mode, reward.sandbox.limits.wall_s) == ("binary", 3.0)
    row = {"tests": [{"fn": "f", "args": [1], "out": 1}]}
    assert score(reward.with_sandbox(sandbox), "def f(x): return x", **row).value == 1.0


def test_rows_of_different_shape_in_one_batch(sandbox) -> None:
    texts = ["```python\ndef f(x):\n    return x\n```", "```python\nprint(input())\n```", "no code"]
    tests = [
        [{"args": [1], "expected": 1, "stdin": None, "stdout": None}],  # as Arrow hands it over
        '[{"stdin": "a", "stdout": "a"}]',
        "assert f(1) == 1",
    ]
    reward = CodeReward(sandbox)
    values = reward(completions=texts, tests=tests, entry=["f", None, None])
    assert values == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "row, message",
    [
        ({}, "needs the column tests"),
        ({"tests": [[]]}, "without a single test"),
        ({"tests": [[{"args": [1]}]]}, "args and expected"),
        ({"tests": ["x = 1"]}, "without a single assertion"),
        ({"tests": ["assert f("]}, "not Python"),
        ({"tests": [[{"fn": "f", "args": "ab", "out": 1}]]}, "list of arguments"),
        ({"tests": [[{"fn": "f", "args": [object()], "out": 1}]]}, "plain data"),
        ({"caller_tests": ["assert g(1) == 1"]}, "need the package"),
        ({"package": [{"a": "def g(): pass"}], "replaces": ["a:h"], "caller_tests": [["x"]]},
         "no function h"),
        ({"package": [{"a": ""}], "replaces": ["b:h"], "tests": [["x"]]}, "module:function"),
        ({"package": [{"json": "def h(): pass"}], "replaces": ["json:h"], "tests": [["x"]]},
         "name of Python's own"),
    ],
)  # fmt: skip
def test_what_a_problem_lacks_is_said(row, message) -> None:
    with pytest.raises(UserError, match=message):
        code_reward.score(completions=["```python\ndef f(x): return x\n```"], **row)


@pytest.mark.parametrize(
    "settings", [{"weights": {"style": 1}}, {"weights": {"tests": -1}}, {"weights": {"tests": 0}},
                 {"mode": "all"}]
)  # fmt: skip
def test_settings_that_make_no_sense(settings) -> None:
    with pytest.raises(UserError):
        CodeReward(**settings)


def test_splicing_keeps_what_stands_around() -> None:
    spliced = splice(PRICING, "discount", "from __future__ import annotations\nX = 1")
    lines = [line for line in spliced.split("\n") if line]
    assert lines[:3] == ["from __future__ import annotations", "RATE = 0.2", "X = 1"]
    assert lines[3:] == ["def taxed(price):", "    return price * (1 + RATE)"]


def test_a_task_names_its_calls_in_full() -> None:
    task = make_task(**{k: v for k, v in PACKAGE.items()})
    assert [name for name, _ in task.groups["tests"].calls] == ["pricing.discount"]
    assert [n for n, _ in task.groups["compatibility"].calls] == [
        "shop.cart.total",
        "shop.report.line",
    ]
