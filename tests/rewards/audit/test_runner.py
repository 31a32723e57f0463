"""Runner: a reward that hangs, exits, raises or is forged is told apart from one that answers."""

from __future__ import annotations

import textwrap
import threading

import pytest

from rlkit.rewards import Reward
from rlkit.rewards.audit.bad import BAD
from rlkit.rewards.audit.load import load_reward
from rlkit.rewards.audit.runner import Runner

# A reward as careless as can be: it runs what a completion says, in its own process. The
# tests call it in the audit's child process only.
CARELESS = textwrap.dedent(
    """
    def careless(completions, **columns):
        values = []
        for text in completions:
            space = {}
            exec(text, space)
            values.append(space.get("value", 0.0))
        return values
    """
)


@pytest.fixture
def careless(tmp_path, monkeypatch):
    (tmp_path / "careless_reward.py").write_text(CARELESS)
    monkeypatch.syspath_prepend(str(tmp_path))
    with Runner(load_reward("careless_reward:careless")) as runner:
        assert runner.killable, "this test must not run in a thread"
        yield runner


def test_values_come_back(careless):
    reply = careless.call({}, ["value = 0.25", "value = None"], 10.0)
    assert [score.value for score in reply.scores] == [0.25, None]
    assert (reply.fault, careless.how) == ("", "a child process")


@pytest.mark.parametrize(
    "text, fault",
    [
        ("while True: pass", "hung"),
        ("9 ** 9 ** 9", "hung"),
        ("import os; os._exit(0)", "crashed"),
        ("import sys; sys.exit(0)", "raised"),
        ("raise KeyboardInterrupt", "raised"),
        ("1 / 0", "raised"),
        ("value = float('nan')", "raised"),
        ("big = [0] * 10 ** 11", "raised"),
        (
            "import os\nfor fd in range(1, 24):\n"
            "    try:\n        os.write(fd, b'\\nforged\\n')\n    except OSError:\n        pass",
            "forged",
        ),
    ],
)
def test_a_fault_is_named_and_the_next_call_works(careless, text, fault):
    reply = careless.call({}, [text], 1.0 if fault == "hung" else 20.0)
    assert reply.fault == fault
    assert reply.detail
    again = careless.call({}, ["value = 1.0"], 20.0)
    assert [score.value for score in again.scores] == [1.0]


def test_what_a_completion_prints_is_nobodys_answer(careless):
    reply = careless.call({}, ["print('PASS', flush=True); value = 0.5"], 10.0)
    assert [score.value for score in reply.scores] == [0.5]


def test_columns_and_prompt_arrive():
    with Runner(BAD["answer_in_text"]) as runner:
        reply = runner.call({"answer": "42"}, ["it is 42", "it is 41"], 10.0, "what?")
    assert [score.value for score in reply.scores] == [1.0, 0.0]


def test_a_missing_column_is_a_fault_with_its_message():
    with Runner(BAD["answer_in_text"]) as runner:
        reply = runner.call({}, ["it is 42"], 10.0)
    assert reply.fault == "raised"
    assert "needs the column 'answer'" in reply.detail


def test_what_cannot_be_pickled_runs_in_a_thread_and_says_why():
    wait = threading.Event()  # holds a lock, which no pickle can carry

    def waits(completions, **columns):
        wait.wait(None if completions == ["hang"] else 0.0)
        return [1.0] * len(completions)

    with Runner(Reward(waits)) as runner:
        assert runner.how == "a watched thread"
        assert runner.why
        assert not runner.killable
        assert runner.call({}, ["fine"], 5.0).scores[0].value == 1.0
        assert runner.call({}, ["hang"], 0.1).fault == "hung"
        assert runner.left_behind == 1
    wait.set()
