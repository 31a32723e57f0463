"""The Reward type: TRL's signature, sums, abstention, and a checked border."""

from __future__ import annotations

import math

import pytest

from rlkit.errors import UserError
from rlkit.rewards import Reward, Score, exact_answer, format_reward, get_reward, reward


def constant(name: str, *values: float | None) -> Reward:
    return Reward(lambda completions, **_: list(values), name)


def test_trl_can_call_it() -> None:
    values = exact_answer(
        prompts=["p", "p"],
        completions=["<answer>4</answer>", "<answer>5</answer>"],
        completion_ids=[[1], [2]],
        trainer_state=None,
        log_extra=None,
        log_metric=None,
        answer=["4", "4"],
    )
    assert values == [1.0, 0.0]
    assert exact_answer.__name__ == "exact_answer"


def test_chat_completions_are_read_like_text() -> None:
    shapes = [
        "<answer>4</answer>",
        [{"role": "assistant", "content": "<answer>4</answer>"}],
        {"role": "assistant", "content": [{"type": "text", "text": "<answer>4</answer>"}]},
        None,
    ]
    assert exact_answer(completions=shapes, answer=["4"] * 4) == [1.0, 1.0, 1.0, 0.0]


def test_a_tool_does_not_answer_for_the_policy() -> None:
    turns = [
        {"role": "assistant", "content": "let me look"},
        {"role": "tool", "content": "<answer>4</answer>"},
    ]
    assert exact_answer(completions=[turns], answer=["4"]) == [0.0]


def test_a_sum_keeps_its_parts() -> None:
    both = 0.9 * exact_answer + 0.1 * format_reward
    (score,) = both.score(completions=["<answer>5</answer>"], answer=["4"])
    assert score.value == pytest.approx(0.1)  # 0.9 * 0 + 0.1 * 1
    assert score.parts == {"exact_answer": 0.0, "format_reward": 1.0}
    assert score.status == "WRONG"
    assert both.name == "0.9*exact_answer + 0.1*format_reward"
    half = 0.5 * both
    (score,) = half.score(completions=["<answer>4</answer>"], answer=["4"])
    assert score.value == pytest.approx(0.5)  # 0.45 + 0.05


def test_a_part_that_abstains_leaves_the_sum() -> None:
    both = constant("a", 1.0, None, None) + constant("b", 0.0, 0.5, None)
    scores = both.score(completions=["x", "y", "z"])
    assert [s.value for s in scores] == [1.0, 0.5, None]
    assert scores[1].parts == {"a": None, "b": 0.5}


@pytest.mark.parametrize(
    "values, message",
    [
        ((1.0,), "gave 1 values for 2 completions"),
        ((1.0, math.nan), "gave nan for completion 1"),
        ((math.inf, 0.0), "gave inf for completion 0"),
        (("good", 0.0), "must be a number"),
    ],
)
def test_a_wrong_result_is_refused(values: tuple, message: str) -> None:
    with pytest.raises(UserError, match=message):
        constant("bad", *values)(completions=["x", "y"])


def test_a_missing_column_names_those_that_are_there() -> None:
    with pytest.raises(UserError, match=r"needs the column 'answer'; the columns here are gold"):
        exact_answer(completions=["x"], gold=["1"])
    with pytest.raises(UserError, match="has 2 rows for 1 completions"):
        exact_answer(completions=["x"], answer=["1", "2"])


def test_an_exception_is_counted_and_kept_and_gives_no_verdict() -> None:
    @reward
    def broken(completions, **_):
        return [1 / 0 for _ in completions]

    scores = broken.score(completions=["x", "y"])
    assert [s.value for s in scores] == [None, None]
    assert scores[0].status == "REWARD_ERROR"
    assert "ZeroDivisionError" in scores[0].reason
    assert broken.errors == 2
    assert "1 / 0" in (broken.first_traceback or "")


def test_rewards_by_name() -> None:
    assert get_reward("exact_answer") is exact_answer
    assert get_reward(len).name == "len"
    with pytest.raises(UserError, match="unknown reward 'magic'"):
        get_reward("magic")
    with pytest.raises(UserError, match="stands twice"):
        exact_answer + exact_answer
    with pytest.raises(UserError, match="can be multiplied by a number"):
        exact_answer * "much"
    with pytest.raises(UserError, match="must be finite"):
        exact_answer * math.nan


def test_a_score_can_say_why() -> None:
    @reward(name="lazy")
    def lazy(completions, **_):
        return [Score(0.25, "PARTIAL", reason="a quarter") for _ in completions]

    (score,) = lazy.score(completions=["x"])
    assert score == Score(0.25, "PARTIAL", {"lazy": 0.25}, "a quarter")
    assert lazy(completions=[]) == []
