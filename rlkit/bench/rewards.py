"""How long it takes to score stored completions again: text, and code fresh or from the cache.

The Reward Lab scores everything anew at each keystroke that matters, so this is what
decides whether it feels alive. Times are the machine's; they are reported, never asserted.

Axes: N completions.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards import CodeReward, Reward, TestsPass
from rlkit.sandbox import Sandbox

#: One call of a reward: keyword columns with one row for each completion.
Call = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Timing:
    """How long one way of scoring took.

    Attributes:
        name: what was scored, and how.
        completions: N.
        different: how many of them are different from all others.
        median_ms, worst_ms: of the repeats, milliseconds for all N together.
        repeats: how often it was measured.
        hits: how many of the N the cache knew in the last repeat; `None` without a cache.
        unscored: how many got no verdict.
    """

    name: str
    completions: int
    different: int
    median_ms: float
    worst_ms: float
    repeats: int
    hits: int | None = None
    unscored: int = 0


def time_text(calls: Sequence[tuple[Reward, Call]], repeats: int = 5) -> Timing:
    """Score text completions again and again.

    Args:
        calls: each reward with the columns it is called with.
        repeats: after one round that is not counted, which loads what is needed.

    Raises:
        UserError: there is nothing to score.

    >>> from rlkit.rewards import format_reward
    >>> time_text([(format_reward, {"completions": ["a", "b", "a"]})], repeats=2).different
    2
    """
    texts = [text for _, call in calls for text in call["completions"]]
    if not texts or repeats < 1:
        raise UserError("give completions to score, and one repeat or more")

    def once() -> list[float | None]:
        return [value for reward, call in calls for value in reward(**call)]

    once()
    seconds, values = _timed(once, repeats)
    return _timing("text, again", texts, seconds, unscored=values.count(None))


def time_code(
    reward: TestsPass | CodeReward, call: Call, repeats: int = 5, fresh: bool = True
) -> list[Timing]:
    """Score code completions once with an empty cache, then again from the cache.

    Args:
        reward: its cache is emptied first; its sandbox is started before the clock.
        call: the columns it is called with.
        repeats: of the scoring from the cache; the fresh one is measured once.
        fresh: also report the first, fresh scoring.
    """
    texts = list(call["completions"])
    if not texts or repeats < 1:
        raise UserError("give completions to score, and one repeat or more")
    reward.cache.clear()
    reward.sandbox.report()
    first, values = _timed(lambda: reward(**call), 1)
    timings = [_timing("code, fresh", texts, first, 0, values.count(None))] if fresh else []
    hits = 0

    def again() -> list[float | None]:
        nonlocal hits
        before = reward.cache.hits
        found = reward(**call)
        hits = reward.cache.hits - before
        return found

    seconds, values = _timed(again, repeats)
    return [*timings, _timing("code, from the cache", texts, seconds, hits, values.count(None))]


def different_programs(call: Call, count: int) -> dict[str, list[Any]]:
    """`count` completions that all differ, made of fewer by a comment in each.

    A comment changes the content, so the sandbox and the cache see another program, and
    nothing about how it runs.

    >>> made = different_programs({"completions": ["```python\\nx = 1\\n```"], "n": [7]}, 2)
    >>> made["completions"][1], made["n"]
    ('```python\\n# 1\\nx = 1\\n```', [7, 7])
    """
    rows = len(call["completions"])
    if not rows:
        raise UserError("there are no completions to make programs of")
    made = {name: [column[i % rows] for i in range(count)] for name, column in call.items()}
    made["completions"] = [
        text.replace("\n", f"\n# {i}\n", 1) if "\n" in text else f"{text}\n# {i}"
        for i, text in enumerate(made["completions"])
    ]
    return made


def measure(
    text_calls: Sequence[tuple[Reward, Call]],
    code_call: Call,
    count: int = 2000,
    repeats: int = 5,
    workers: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """All measurements of this module, as plain data.

    Args:
        text_calls: rewards of text with their columns.
        code_call: columns for `tests_pass`: completions, entry, tests.
        count: so many code completions are made of those.
        repeats: see `time_text` and `time_code`.
        workers: jobs of the sandbox at a time; the processors when None.
        say: told what is being measured.
    """
    say("text ...")
    timings = [time_text(text_calls, repeats)]
    with Sandbox(workers=workers) as sandbox:
        say(f"{count:,} programs, fresh, then from the cache ...")
        timings += time_code(TestsPass(sandbox), different_programs(code_call, count), repeats)
        used = sandbox.workers
    return {
        "timings": [asdict(timing) for timing in timings],
        "workers": used,
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _timed(function: Callable[[], Any], repeats: int) -> tuple[list[float], Any]:
    seconds, result = [], None
    for _ in range(repeats):
        started = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - started)
    return seconds, result


def _timing(
    name: str,
    texts: Sequence[str],
    seconds: Sequence[float],
    hits: int | None = None,
    unscored: int = 0,
) -> Timing:
    return Timing(
        name,
        len(texts),
        len(set(texts)),
        round(1000 * statistics.median(seconds), 1),
        round(1000 * max(seconds), 1),
        len(seconds),
        hits,
        unscored,
    )
