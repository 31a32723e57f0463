"""Rewards from text: fast when warm, never run here, and never able to hang or change this side."""

from __future__ import annotations

import builtins
import copy
import gc
import os
import pickle
import threading
from types import SimpleNamespace

import psutil
import pytest

from rlkit.errors import UserError
from rlkit.rewards import Reward, RewardSourceError, RewardWarning, SourceReward, source_process
from rlkit.rewards.source_text import outline

CONTAINS = """
def contains(completions, answer, **columns):
    print("looking at", len(completions))
    return [float(a in text) for text, a in zip(completions, answer)]
"""


def faulty(text: str, **options) -> RewardSourceError:
    source = SourceReward(text, strict=True, timeout_s=options.pop("timeout_s", 20.0))
    with pytest.raises(RewardSourceError) as caught:
        source.score(completions=["4", "5"], answer=["4", "4"])
    source.close()
    return caught.value


def test_a_text_is_a_reward() -> None:
    source = Reward.from_source(CONTAINS)
    assert source.name == "contains"
    assert source(completions=["it is 4", "no"], answer=["4", "5"]) == [1.0, 0.0]
    assert source.printed == "looking at 2\n"
    (score,) = (0.5 * source).score(completions=["4"], answer=["4"])
    assert (score.value, score.parts, score.contributions) == (
        0.5,
        {"contains": 1.0},
        {"contains": 0.5},
    )
    with pytest.raises(UserError, match="needs the column 'answer'"):
        source(completions=["x"])
    assert source(completions=["4"], answer=["4"]) == [1.0]  # and it goes on
    source.close()


@pytest.mark.parametrize(
    "text, name, value",
    [
        ("def f(completions):\n    return [0.5 for _ in completions]", "f", 0.5),
        ("async def f(completions):\n    return [0.5 for _ in completions]", "f", 0.5),
        ("def f(completion, answer):\n    return completion == answer", "f", 1.0),
        ("def f(text):\n    return 0.25", "f", 0.25),
        ("def f(completions): return [1]\ndef _g(x): return 0", "f", 1.0),
        ("def g(x): return 0\ndef f(completions): return [g(1)]", "f", 0.0),
        ("f = lambda completions: [1.0]", "f", 1.0),
        (
            "from rlkit.rewards import reward\n@reward(each=True)\ndef f(completion): return 1\n"
            "def helper(x): return 0",
            "helper",
            1.0,
        ),
        ("from rlkit.rewards import format_reward\nreward = 1 - 0.5\nreward = 2 * format_reward",
         "reward", 0.0),
    ],
)  # fmt: skip
def test_what_in_the_text_is_the_reward(text: str, name: str, value: float) -> None:
    source = SourceReward(text)
    assert source.name == name
    assert source(completions=["4"], answer=["4"]) == [value]
    source.close()


def test_parts_of_a_composed_text_come_back() -> None:
    source = SourceReward(
        "from rlkit.rewards import exact_answer, format_reward, SoftOverlong\n"
        "reward = (0.8 * exact_answer + 0.2 * format_reward + SoftOverlong(9, 9, 'characters'))\n"
        "reward = reward.with_truth(exact_answer)\n",
        name="edited",
    )
    (score,) = source.score(completions=["<answer>5</answer>"], answer=["4"])
    assert score.parts == {"exact_answer": 0.0, "format_reward": 1.0, "soft_overlong": -1.0}
    assert score.value == pytest.approx(-0.8)
    assert (score.unshaped, score.truth) == (0.2, 0.0)
    assert score.status == "WRONG"
    source.close()


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("def f(:\n    pass", 1, "invalid syntax"),
        ("def f(x):\n  return (1,", 2, "never closed"),
        ("return 3", 1, "outside function"),
        ("def f(completions):\nreturn 1", 2, "expected an indented block"),
        ("", None, "defines no reward"),
        ("import os", None, "defines no reward"),
        ("_hidden = 1", None, "defines no reward"),
        ("x = 1\0", None, "null bytes"),
        ("(" * 10_000, None, "parenthes|nested"),
    ],
)
def test_a_text_that_does_not_parse_is_refused_at_once(text, line, words) -> None:
    with pytest.raises(RewardSourceError, match=words) as caught:
        SourceReward(text)
    assert caught.value.kind == "syntax"
    if line is not None:
        assert caught.value.line == line
        assert str(caught.value).startswith(f"line {line}: ")


@pytest.mark.parametrize(
    "text, kind, line, words",
    [
        ("import nowhere\ndef f(completions): return [1, 1]", "import", 1, "ModuleNotFoundError"),
        ("x = 1 / 0\ndef f(completions): return [1, 1]", "import", 1, "ZeroDivisionError"),
        ("x = 1", "import", None, "int; it must be a function"),
        ("def f(completions):\n    return [1 / 0]", "exception", 2, "ZeroDivisionError"),
        ("def f(completions):\n    exit()", "exception", 2, "SystemExit"),
        ("def f(completions):\n    raise KeyboardInterrupt", "exception", 2, "KeyboardInterrupt"),
        ("def f(completions):\n    return f(completions)", "exception", 2, "RecursionError"),
        ("def f(completion):\n    return 1 / len(completion[1:])", "exception", 2, "division"),
        ("def f(completions): return [float('nan')] * 2", "exception", None, "not finite"),
        ("def f(completions): return [1.0]", "result", None, "1 values for 2 completions"),
        ("def f(completions): return 1.0", "result", None, "must give a list"),
        ("def f(completions, gold): return [1, 1]", "result", None, "needs the column 'gold'"),
        ("import os\ndef f(completions): os._exit(3)", "crash", None, "exit code 3"),
        ("import os\ndef f(completions): os.kill(os.getpid(), 9)", "crash", None, "SIGKILL"),
        ("def f(completions):\n    x = [0]\n    while 1: x += x", "exception", 3, "MemoryError"),
    ],
)
def test_every_fault_is_a_sentence(text, kind, line, words) -> None:
    error = faulty(text)
    assert (error.kind, error.line) == (kind, line)
    assert words in str(error)
    assert line is None or str(error).startswith(f"line {line}: ")


@pytest.mark.parametrize(
    "text, line",
    [
        ("def f(completions):\n    while True:\n        pass", None),
        ("def f(completions):\n    g()\ndef g():\n    while True: pass\nreward = f", 4),
        ("while True: pass\ndef f(completions): return []", 1),
        ("import time\ndef f(completions):\n    time.sleep(1e6)", 3),
        ("import re\ndef f(completions):\n    re.match('(a+)+$', 'a' * 60 + 'b')", 3),
        ("def f(completions):\n    while True:\n        try:\n            exit()\n"
         "        except BaseException:\n            pass", None),
        ("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
         "def f(completions):\n    signal.pause()", 4),
    ],
)  # fmt: skip
def test_whatever_does_not_end_is_ended(text: str, line: int | None) -> None:
    error = faulty(text, timeout_s=0.5)
    assert error.kind == "timeout"
    assert "after 0.5 s" in str(error)
    assert error.line is not None
    assert line is None or error.line == line


def test_after_a_fault_the_next_call_works_and_a_run_goes_on() -> None:
    source = SourceReward(
        "def f(completions):\n    while completions[0] == 'hang': pass\n"
        "    return [1 / (text != 'zero') for text in completions]",
        timeout_s=1.0,
    )
    assert source(completions=["fine"]) == [1.0]
    with pytest.warns(RewardWarning, match="still running in line 2"):
        (score,) = source.score(completions=["hang"])
    assert (score.value, score.status) == (None, "REWARD_TIMEOUT")
    with pytest.warns(RewardWarning, match="ZeroDivisionError"):  # its first traceback
        scores = source.score(completions=["zero", "fine"])
    assert [(s.value, s.status) for s in scores] == [(None, "REWARD_ERROR")] * 2
    assert "ZeroDivisionError" in scores[0].reason
    assert source.errors == 3
    assert source(completions=["fine"]) == [1.0]
    source.close()
    assert source(completions=["fine"]) == [1.0]  # closing is no end
    source.close()


def test_nothing_changes_on_this_side() -> None:
    text = (
        "import os, sys, builtins\n"
        "os.environ['RLKIT_CHANGED'] = '1'\n"
        "os.chdir('/')\n"
        "builtins.rlkit_changed = 1\n"
        "sys.stdout.write('out'); os.write(1, b'raw'); os.write(2, b'raw')\n"
        "def f(completions):\n"
        "    completions[0] = 'changed'\n"
        "    return [float(os.getpid()) for _ in completions]\n"
    )
    here, given = os.getcwd(), ["kept"]
    source = SourceReward(text)
    (pid,) = source(completions=given)
    assert pid not in (None, os.getpid())
    assert given == ["kept"]
    assert os.getcwd() == here
    assert "RLKIT_CHANGED" not in os.environ
    assert not hasattr(builtins, "rlkit_changed")
    source.close()


def test_check_runs_the_text_and_no_rows() -> None:
    assert SourceReward(CONTAINS).check().printed == ""
    with pytest.raises(RewardSourceError, match="ModuleNotFoundError"):
        SourceReward("import nowhere\ndef f(completions): return []").check()


def test_what_a_trainer_passes_along_is_taken() -> None:
    source = SourceReward(
        "def f(completions, trainer_state, log_metric, completion_ids):\n"
        "    assert log_metric is None\n"
        "    return [trainer_state.global_step / len(ids) for ids in completion_ids]"
    )
    state = SimpleNamespace(global_step=4, max_steps=8, lock=threading.Lock())
    columns = {"completion_ids": [[1, 2]], "trainer_state": state, "log_metric": print}
    assert source(completions=["x"], **columns) == [2.0]
    with pytest.raises(UserError, match="column 'odd' cannot be sent"):
        source(completions=["x"], odd=[threading.Lock()], **columns)
    source.close()


def test_a_schedule_in_the_text_hears_of_the_progress() -> None:
    source = SourceReward(
        "from rlkit.rewards import reward\n"
        "@reward\ndef one(completions): return [1.0] * len(completions)\n"
        "reward = one.anneal(lambda progress: progress)\n"
    )
    whole = 2 * source
    whole.set_progress(1, 4)
    assert whole(completions=["x"]) == [0.5]
    state = SimpleNamespace(global_step=2, max_steps=4)
    assert whole(completions=["x"], trainer_state=state) == [1.0]
    again = 2 * SourceReward(source.text)
    again.load_state_dict(whole.state_dict())
    assert again(completions=["x"]) == [1.0]
    source.close()


def test_it_travels_by_its_text() -> None:
    source = SourceReward(CONTAINS, name="mine", timeout_s=7.0)
    assert source(completions=["4"], answer=["4"]) == [1.0]
    for again in (pickle.loads(pickle.dumps(source)), copy.deepcopy(source), copy.copy(source)):
        assert (again.name, again.timeout_s, again.text) == ("mine", 7.0, CONTAINS)
        assert again(completions=["4"], answer=["4"]) == [1.0]
        again.close()
    source.close()
    error = RewardSourceError("line 3: no", "exception", 3, "trace")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.kind, again.line, again.trace) == (
        "line 3: no",
        "exception",
        3,
        "trace",
    )


def test_processes_are_few_reused_and_gone_when_nobody_needs_them() -> None:
    program = "import os\ndef f(completions): return [float(os.getpid())] * len(completions)"
    many = [SourceReward(program) for _ in range(source_process.MAX_PROCESSES + 2)]
    ids = [source(completions=["x"])[0] for source in many]
    assert len(set(ids)) == len(many)
    assert [source(completions=["x"])[0] for source in many[-2:]] == ids[-2:]  # reused
    running = [pid for pid in ids if psutil.pid_exists(int(pid))]
    assert len(running) == source_process.MAX_PROCESSES
    # One that had to make room comes back by itself.
    assert many[0](completions=["x"])[0] not in ids
    del many
    gc.collect()
    assert not [pid for pid in ids if psutil.pid_exists(int(pid))]


def test_it_can_be_called_from_several_threads() -> None:
    source = SourceReward("def f(completion): return len(completion)")
    results: dict[int, list] = {}

    def call(size: int) -> None:
        results[size] = source(completions=["x" * size] * 50)

    threads = [threading.Thread(target=call, args=(size,)) for size in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {size: [float(size)] * 50 for size in range(8)}
    source.close()


def test_large_batches_go_through() -> None:
    source = SourceReward("def f(completions): return [len(text) for text in completions]")
    assert source(completions=["x" * 2000] * 5000) == [2000.0] * 5000  # 10 MB, a pipe holds 64 kB
    source.close()


def test_a_slow_call_leaves_no_trace_for_the_next() -> None:
    source = SourceReward(
        "import time\ndef f(completions):\n    time.sleep(0.7)\n    return [1.0]",
        timeout_s=1.2,
    )
    for _ in range(3):
        assert source(completions=["x"]) == [1.0]
    assert source._child is not None
    assert source._child._stack() == ""
    source.close()


def test_what_a_text_defines() -> None:
    assert outline("a = 1\ndef b(): pass\na = 2").names == ("b", "a")
    with pytest.raises(UserError, match="source is text"):
        outline(3)
    with pytest.raises(UserError, match="timeout_s"):
        SourceReward(CONTAINS, timeout_s=0)
