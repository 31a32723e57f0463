"""Functions that travel: by reference where they can be imported, else by their source."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rlkit.errors import UserError
from rlkit.rewards import Reward, exact_answer, reward
from rlkit.rewards import tests_pass as passing
from rlkit.rewards.pickling import BySource, Shadowed, pack_function, unpack_function

WANTED = "4"


def helper(text: str) -> bool:
    return text == WANTED


@reward
def decorated(completions, **_):
    return [float(helper(text)) for text in completions]


@reward(each=True, name="single")
def one_by_one(completion):
    return float(helper(completion))


def roundtrip(thing):
    return pickle.loads(pickle.dumps(thing))


def test_built_in_rewards_travel() -> None:
    again = roundtrip(exact_answer)
    assert again(completions=["<answer>4</answer>"], answer=["4"]) == [1.0]
    assert again.function is exact_answer.function
    assert roundtrip(passing).name == "tests_pass"


def test_a_decorated_function_is_found_behind_its_reward() -> None:
    module = sys.modules[__name__]
    assert isinstance(pack_function(decorated.function), (Shadowed, BySource))
    assert roundtrip(decorated)(completions=["4", "5"]) == [1.0, 0.0]
    again = roundtrip(one_by_one)
    assert again(completions=["4", "5"]) == [1.0, 0.0]
    assert again.name == "single"
    assert module is not None


def test_a_lambda_and_a_closure_travel_by_source() -> None:
    wanted = ["4", "5"]
    scale = 2.0

    def near(completions):
        return [scale * (text in wanted) for text in completions]

    by_lambda = Reward(lambda completions: [scale for _ in completions], "flat")
    assert roundtrip(by_lambda)(completions=["x"]) == [2.0]
    again = roundtrip(Reward(near))
    assert again(completions=["4", "6"]) == [2.0, 0.0]
    assert roundtrip(again)(completions=["4", "6"]) == [2.0, 0.0]  # and on from there
    assert "near" in again.function.__code__.co_filename


def test_lambdas_on_one_line_are_told_apart() -> None:
    pair = (lambda completions: [1.0] * len(completions), lambda completions: [2.0])
    first, second = (unpack_function(pack_function(f)) for f in pair)
    assert (first(completions=["x"]), second(completions=["x"])) == ([1.0], [2.0])


def test_what_cannot_travel_is_named() -> None:
    handle = open(__file__, encoding="utf-8")  # noqa: SIM115

    def reads(completions):
        return [float(text in handle.read()) for text in completions]

    with handle, pytest.raises(UserError, match=r"'handle', a TextIOWrapper"):
        pickle.dumps(Reward(reads))
    namespace: dict = {}
    exec("def nowhere(completions): return [0.0]", namespace)
    with pytest.raises(UserError, match="source of 'nowhere' is not to be had"):
        pickle.dumps(Reward(namespace["nowhere"]))


def test_copies_stand_on_their_own() -> None:
    counted = Reward(lambda completions: [1 / 0], "counted")
    copies = [copy.copy(counted), copy.deepcopy(counted), counted.named("other")]
    with pytest.warns(UserWarning):
        counted(completions=["x"])
    assert [c.errors for c in copies] == [0, 0, 0]
    assert [c.name for c in copies] == ["counted", "counted", "other"]
    method = copy.deepcopy(passing)
    assert method.function.__self__ is method


# Written as a notebook is: names in __main__, helpers, classes, a decorator, data.
NOTEBOOK = """
import dataclasses
import math
import pickle
import re
import sys

from rlkit.rewards import reward, exact_answer, format_reward

PATTERN = re.compile(r"[0-9]+")
LIMITS = {"low": 1, "high": 9}


class Base:
    factor = 2


@dataclasses.dataclass
class Rule(Base):
    least: int = LIMITS["low"]

    def holds(self, number):
        return self.least <= number <= LIMITS["high"]


def numbers(text):
    return [int(found) for found in PATTERN.findall(text)]


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


@reward(columns=("answer",))
def mine(completions, answer, base=Rule(), **columns):
    found = [numbers(text) for text in completions]
    return [
        math.sqrt(sum(base.holds(n) and even(n) for n in row) * Rule.factor / 2) for row in found
    ]


total = (0.5 * mine + 0.5 * exact_answer).gate(format_reward).anneal(lambda p: 1 - p)
total.set_progress(1, 4)
sys.stdout.buffer.write(pickle.dumps(total))
"""

READER = """
import pickle, sys
total = pickle.loads(sys.stdin.buffer.read())
print(total(completions=["<answer>4 2</answer>", "<answer>12 3</answer>"], answer=["4 2", "1"]))
again = pickle.loads(pickle.dumps(total))
print(again(completions=["<answer>4 2</answer>"], answer=["4 2"]))
"""


def test_a_reward_of_a_notebook_travels_with_what_it_uses(tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    script.write_text(NOTEBOOK, encoding="utf-8")
    root = Path(__file__).resolve().parents[2]
    written = subprocess.run(
        [sys.executable, str(script)], capture_output=True, cwd=root, timeout=60
    )
    assert written.returncode == 0, written.stderr.decode()
    read = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READER)],
        input=written.stdout,
        capture_output=True,
        cwd=root,
        timeout=60,
    )
    assert read.returncode == 0, read.stderr.decode()
    # 4 and 2 are even and in range: sqrt(2); 12 is too large, 3 is odd: 0. Weight 3/4.
    first = 0.75 * (0.5 * 2**0.5 + 0.5)
    lines = read.stdout.decode().splitlines()
    assert lines[0] == f"[{first}, 0.0]"
    assert lines[1] == f"[{first}]"
