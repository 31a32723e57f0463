"""rlkit bench rewards: what is measured, on few completions; no speed is asserted."""

from __future__ import annotations

import json

import pytest

from rlkit.bench.rewards import different_programs, measure, time_code, time_text
from rlkit.errors import UserError
from rlkit.rewards import CodeReward, TestsPass, format_reward

CALL = {
    "completions": ["```python\ndef f(x):\n    return x\n```", "no code here"],
    "entry": ["f", "f"],
    "tests": [[{"args": [1], "expected": 1}]] * 2,
}


def test_the_second_time_comes_from_the_cache(sandbox) -> None:
    for reward in (TestsPass(sandbox), CodeReward(sandbox)):
        fresh, again = time_code(reward, CALL, repeats=2)
        assert (fresh.completions, fresh.different, fresh.hits) == (2, 2, 0)
        assert (again.hits, again.repeats, again.unscored) == (2, 2, 0)
        assert again.worst_ms >= again.median_ms > 0


def test_programs_differ_and_keep_their_worth(sandbox) -> None:
    made = different_programs(CALL, 5)
    assert len(set(made["completions"])) == len(made["entry"]) == 5
    assert TestsPass(sandbox)(**made) == [1.0, 0.0, 1.0, 0.0, 1.0]


def test_all_of_it_is_plain_data() -> None:
    text = {"completions": ["<answer>1</answer>"] * 3}
    said: list[str] = []
    found = measure([(format_reward, text)], CALL, count=3, repeats=1, workers=1, say=said.append)
    assert json.loads(json.dumps(found)) == found
    assert [t["completions"] for t in found["timings"]] == [3, 3, 3]
    assert len(said) == 2


def test_nothing_to_measure_is_an_error(sandbox) -> None:
    for call in (
        lambda: time_text([]),
        lambda: time_code(TestsPass(sandbox), {"completions": []}),
        lambda: different_programs({"completions": []}, 3),
        lambda: time_text([(format_reward, {"completions": ["a"]})], repeats=0),
    ):
        with pytest.raises(UserError):
            call()
