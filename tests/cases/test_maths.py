"""Every public case of kind a: maths answers, code in answers, threads, plumbing.

The rows are in `public_abc.jsonl`, each with the thread it was made after. Each row's
`input.op` is a neutral name; `OPERATIONS` maps it to our calls.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from rlkit.rewards import get_reward
from rlkit.rewards.maths import MathAnswer

ROWS = [
    row
    for row in map(
        json.loads,
        Path(__file__).with_name("public_abc.jsonl").read_text(encoding="utf-8").splitlines(),
    )
    if row["kind"] == "a"
]


def correct(given: dict, tmp_path: Path) -> bool:
    """Whether the completion is paid; a row without a verdict is not."""
    sentinel = tmp_path / "sentinel"
    completion = given["completion"].replace("{sentinel}", str(sentinel))
    (value,) = MathAnswer(given["mode"])(completions=[completion], answer=[given["gold"]])
    assert not sentinel.exists(), "code in the answer was run"
    return value == 1.0


def correct_in_thread(given: dict, tmp_path: Path) -> bool:
    verdicts: list[bool] = []
    thread = threading.Thread(target=lambda: verdicts.append(correct(given, tmp_path)))
    thread.start()
    thread.join(given.get("max_seconds", 30))
    assert verdicts, "no verdict in time"
    return verdicts[0]


def rewards(given: dict, tmp_path: Path) -> str:
    """What is raised for columns of different lengths, in the words of the rows."""
    with pytest.raises(ValueError) as caught:
        get_reward("math_answer")(completions=given["completions"], answer=given["gold"])
    lengths = (len(given["completions"]), len(given["gold"]))
    named = "math_answer" in str(caught.value) and all(str(n) in str(caught.value) for n in lengths)
    return "raises ValueError naming the reward and both lengths" if named else str(caught.value)


OPERATIONS = {
    "math_correct": correct,
    "math_correct_in_thread": correct_in_thread,
    "math_rewards": rewards,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_case(row, tmp_path):
    assert OPERATIONS[row["input"]["op"]](row["input"], tmp_path) == row["expected"], row["symptom"]


def test_the_rows_are_all_there():
    assert len(ROWS) == 84
