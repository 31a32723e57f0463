"""The Reward type: TRL's signature, sums, abstention, and a checked border."""

from __future__ import annotations

import asyncio
import math
import warnings
from fractions import Fraction

import numpy
import pytest

from rlkit.errors import UserError
from rlkit.rewards import (
    Reward,
    RewardWarning,
    Score,
    exact_answer,
    format_reward,
    get_reward,
    reward,
    verifier_gap,
)


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
        (("good", 0.0), "gave 'good' for completion 0; it must be a number"),
        (("0.5", 0.0), "must be a number"),
        (([1.0], 0.0), "must be a number"),
        ((1j, 0.0), "must be a number"),
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

    with pytest.warns(RewardWarning, match=r"ZeroDivisionError(.|\n)*1 / 0"):
        scores = broken.score(completions=["x", "y"])
    assert [s.value for s in scores] == [None, None]
    assert scores[0].status == "REWARD_ERROR"
    assert "ZeroDivisionError" in scores[0].reason
    assert broken.errors == 2
    assert "1 / 0" in (broken.first_traceback or "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # shown once, counted always
        broken.score(completions=["z"])
    assert broken.errors == 3
    assert (broken + format_reward).errors == 3


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
    assert score == Score(
        0.25, "PARTIAL", {"lazy": 0.25}, "a quarter", contributions={"lazy": 0.25}, unshaped=0.25
    )
    assert lazy(completions=[]) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, 1.01, -0.01])
def test_a_value_that_is_none_costs_its_row_the_verdict_and_is_counted(value: float) -> None:
    odd = Reward(lambda completions: [value, 0.5], "odd", bounds=(0.0, 1.0))
    with pytest.warns(RewardWarning, match="completion 0"):
        bad, good = odd.score(completions=["x", "y"])
    assert (bad.value, bad.status, bad.parts, bad.contributions) == (
        None,
        "BAD_VALUE",
        {"odd": None},
        {},
    )
    assert (good.value, good.unshaped) == (0.5, 0.5)
    assert odd.errors == 1


def test_numbers_of_every_kind_are_taken() -> None:
    given = [True, 1, 0.5, Fraction(1, 2), numpy.float32(0.5), numpy.int64(1), numpy.bool_(True)]
    values = Reward(lambda completions: given, "kinds")(completions=["x"] * len(given))
    assert values == [1.0, 1.0, 0.5, 0.5, 0.5, 1.0, 1.0]
    assert {type(value) for value in values} == {float}
    assert Reward(lambda completions: numpy.array([0.5, 1]), "array")(completions=["x", "y"]) == [
        0.5,
        1.0,
    ]


@pytest.mark.parametrize(
    "result", ["ab", {0: 1.0, 1: 0.0}, {0.5, 1.0}, 1.0, None, iter([1.0, 0.0])]
)
def test_a_result_that_is_no_list_is_refused(result: object) -> None:
    with pytest.raises(UserError, match="must give a list"):
        Reward(lambda completions: result, "odd")(completions=["x", "y"])


def test_a_function_gets_the_columns_it_names_and_those_it_needs_must_be_there() -> None:
    def judge(completions, gold, bonus=0.0):
        return [float(t == g) + bonus for t, g in zip(completions, gold, strict=True)]

    named = Reward(judge)
    assert named(completions=["4"], gold=["4"], other=["ignored"]) == [1.0]
    with pytest.raises(UserError, match=r"needs the column 'gold'; the columns here are answer"):
        named(completions=["4"], answer=["4"])
    with pytest.raises(UserError, match="must be a list with one entry"):
        named(completions=["4"], gold="4")
    with pytest.raises(UserError, match="must be a list with one entry"):
        named(completions=["4"], gold=None)
    with pytest.raises(UserError, match="completions must be a list"):
        named(completions="4", gold=["4"])


def test_a_trainers_own_arguments_may_be_asked_for_and_may_be_missing() -> None:
    @reward
    def curious(completions, trainer_state, log_metric):
        return [float(trainer_state is None and log_metric is None) for _ in completions]

    assert curious(completions=["x"]) == [1.0]
    assert curious(completions=["x"], trainer_state=object()) == [0.0]


def test_an_async_reward_runs_with_and_without_a_running_loop() -> None:
    @reward
    async def slow(completions, answer):
        await asyncio.sleep(0)
        return [float(c == a) for c, a in zip(completions, answer, strict=True)]

    async def in_a_notebook() -> list[float | None]:
        return slow(completions=["4"], answer=["4"])

    assert slow(completions=["4", "5"], answer=["4", "4"]) == [1.0, 0.0]
    assert asyncio.run(in_a_notebook()) == [1.0]

    @reward
    async def broken(completions):
        raise OSError("no connection")

    async def fails() -> list[Score]:
        return broken.score(completions=["x"])

    with pytest.warns(RewardWarning, match="no connection"):
        (score,) = asyncio.run(fails())
    assert (score.value, score.status) == (None, "REWARD_ERROR")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_of_one_completion_loses_only_the_row_it_fails_on(is_async: bool) -> None:
    def inverse(text, scale=1.0):
        return scale / len(text)

    async def inverse_async(text, scale=1.0):
        return scale / len(text)

    each = reward(inverse_async if is_async else inverse, each=True, name="inverse")
    with pytest.warns(RewardWarning, match="division by zero"):
        scores = each.score(completions=["ab", "", "abcd"], scale=[1.0, 1.0, 2.0])
    assert [s.value for s in scores] == [0.5, None, 0.5]
    assert scores[1].status == "REWARD_ERROR"
    assert each.errors == 1
    assert "inverse" in (each.first_traceback or "")


def test_every_trainer_that_can_log_is_told_parts_and_truth() -> None:
    numbers: dict[str, float] = {}
    extra: dict[str, list] = {}
    both = (0.5 * constant("proxy", 1.0, 1.0) + 0.5 * constant("style", 0.0, None)).with_truth(
        constant("truth", 0.0, 1.0)
    )
    values = both(
        completions=["x", "y"], log_metric=numbers.__setitem__, log_extra=extra.__setitem__
    )
    assert values == [0.5, 0.5]
    assert numbers == {
        "rewards/proxy/mean": 1.0,
        "rewards/style/mean": 0.0,  # None is left out
        "truth": 0.5,
        "verifier_gap": 0.0,  # 0.5 - 0.5
    }
    assert extra == {"truth": [0.0, 1.0]}


def test_the_verifier_gap_leaves_out_what_is_not_known() -> None:
    scores = [Score(1.0, truth=0.0), Score(0.5, truth=1.0), Score(None, truth=1.0), Score(1.0)]
    # rewards 1.0 and 0.5, truths 0 and 1: 0.75 - 0.5
    assert verifier_gap(scores) == {"truth": 0.5, "reward": 0.75, "verifier_gap": 0.25}
