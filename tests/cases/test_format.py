"""Cases of kind b: layouts, the shapes completions come in, shaping, long context.

Every public row is a test, with its source beside it; the neighbours below it are our own,
in the same shape, so that the kind is fixed and not the row. One adapter maps each
operation to what the package offers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlkit.rewards import (
    FormatReward,
    MathAnswer,
    SoftOverlong,
    retention_reward,
    tag_count,
    think_answer_format,
    think_text_format,
    until_eos,
)

ROWS = [
    row
    for line in Path(__file__).with_name("public_abc.jsonl").read_text("utf-8").splitlines()
    if (row := json.loads(line))["kind"] == "b"
]
CONTRACTS: dict[str, FormatReward] = {
    "think_answer_strict": think_answer_format,
    "think_then_text": think_text_format,
}


def format_of(given: dict[str, Any]) -> Any:
    layout = CONTRACTS[given["contract"]]
    judge = FormatReward(*layout.templates, preopened=given["prefilled_think"])
    # A prompt that shows the open tag must say the same as the flag.
    prompt = "What is it?" + ("\n<think>\n" if given["prefilled_think"] else "")
    by_flag = judge(completions=[given["completion"]])
    assert layout(completions=[given["completion"]], prompts=[prompt]) == by_flag
    return by_flag[0]


def format_batches(given: dict[str, Any]) -> Any:
    return [CONTRACTS[given["contract"]](completions=batch) for batch in given["batches"]]


def call_reward(given: dict[str, Any]) -> Any:
    judge = MathAnswer(column=given["gold_key"])
    try:
        return judge(**given["kwargs"])
    except (KeyError, ValueError) as error:
        there = sorted(set(given["kwargs"]) - {"completions"})
        assert repr(given["gold_key"]) in str(error)
        assert all(name in str(error) for name in there), f"{there} not named in {error}"
        return "raises KeyError/ValueError that lists the available columns"


def soft_overlong_of(given: dict[str, Any]) -> Any:
    judge = SoftOverlong(given["max_len"], given["cache"])
    ids = [[0] * length for length in given["lengths"]]
    return judge(completions=["x"] * len(ids), completion_ids=ids)


def decode(given: dict[str, Any]) -> Any:
    return {"reward_ids": until_eos(given["ids"], given["eos_ids"])}


def retention(given: dict[str, Any]) -> Any:
    return retention_reward(completions=[given["completion"]], needles=[given["keys"]])[0]


OPERATIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "format_reward": format_of,
    "format_reward_batch": format_batches,
    "decode_for_reward": decode,
    "tag_count_reward": lambda given: tag_count(completions=[given["completion"]])[0],
    "call_reward": call_reward,
    "soft_overlong": soft_overlong_of,
    "retention_reward": retention,
}


def answer(given: dict[str, Any]) -> Any:
    return OPERATIONS[given["op"]](given)


def test_the_rows_are_there() -> None:
    assert len(ROWS) == 30
    assert {row["input"]["op"] for row in ROWS} == set(OPERATIONS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_public_case(row: dict[str, Any]) -> None:
    assert answer(row["input"]) == row["expected"], f"{row['symptom']} ({row['source']})"


# -- neighbours -------------------------------------------------------------------------

STRICT = [
    ("<think>\n\na\n\n</think>\n\n\n<answer>\n\nb\n\n</answer>\n\n", 1.0),
    ("\r\n<think>a</think>\r\n<answer>b</answer>\r\n", 1.0),
    ("<think>if a < b and b > c then</think><answer>a < c</answer>", 1.0),
    ("<think>a</think><answer>$x^2$ & <b>bold</b></answer>", 1.0),
    ("<think>思考</think><answer>四</answer>", 1.0),
    ("<think>0</think><answer>0</answer>", 1.0),
    ("<think>...</think><answer>4</answer>", 1.0),
    ("<think>a</think><answer>b</answer></answer>", 0.0),
    ("<think>a</think><answer>b</answer><answer>b</answer>", 0.0),
    ("<think>a</think><think>b</think><answer>c</answer>", 0.0),
    ("<think><think>a</think></think><answer>b</answer>", 0.0),
    ("<think>a<answer>b</answer></think><answer>c</answer>", 0.0),
    ("<think>a</think><answer><think>b</think></answer>", 0.0),
    ("<think>a</think><answer>b<answer>c</answer>", 0.0),
    ("<think>a</answer><answer>b</think>", 0.0),
    ("<answer>b</answer>", 0.0),
    ("<think>a</think>", 0.0),
    ("a</think><answer>b</answer>", 0.0),
    ("<think>a<answer>b</answer></think>", 0.0),
    ("<Think>a</Think><answer>b</answer>", 0.0),
    ("<think>a</think><ANSWER>b</ANSWER>", 0.0),
    ("<think>a</think><answer>b <Answer>c</Answer></answer>", 0.0),
    ("<think>a</think><answer>b</ answer></answer>", 0.0),
    ("<think>a</think><answer type='x'>b</answer>", 0.0),
    ("<think>a <think depth=2> b</think><answer>c</answer>", 0.0),
    ("＜think＞a＜/think＞＜answer＞b＜/answer＞", 0.0),
    ("<think>\u200b</think><answer>b</answer>", 0.0),
    ("<think>a</think><answer>\u00a0\u2003\ufeff</answer>", 0.0),
    ("<think>a</think><answer>\u3164</answer>", 0.0),
    ("<think>\x00</think><answer>b</answer>", 0.0),
    ("<think>a</think>\u200b<answer>b</answer>", 0.0),
    ("<think>a</think>.<answer>b</answer>", 0.0),
    ("<think>a</think><answer>b</answer><|im_end|>", 0.0),
    ("```xml\n<think>a</think><answer>b</answer>\n```", 0.0),
    ("&lt;think&gt;a&lt;/think&gt;&lt;answer&gt;b&lt;/answer&gt;", 0.0),
    ("<think>a</think><answer>b</answer", 0.0),
    ("", 0.0),
    ("   ", 0.0),
]


@pytest.mark.parametrize("completion, expected", STRICT)
def test_strict_layout(completion: str, expected: float) -> None:
    row = {"contract": "think_answer_strict", "prefilled_think": False, "completion": completion}
    assert format_of(row) == expected


PREFILLED_STRICT = [
    ("a</think><answer>b</answer>", 1.0),
    ("\na\n</think>\n<answer>\nb\n</answer>\n", 1.0),
    ("</think><answer>b</answer>", 0.0),
    (" \n</think><answer>b</answer>", 0.0),
    ("<think>a</think><answer>b</answer>", 0.0),
    ("a</think></think><answer>b</answer>", 0.0),
    ("a<answer>b</answer>", 0.0),
    ("<answer>b</answer>", 0.0),
    ("a</think><answer></answer>", 0.0),
    ("", 0.0),
    (None, 0.0),
]


@pytest.mark.parametrize("completion, expected", PREFILLED_STRICT)
def test_strict_layout_that_the_prompt_opened(completion: str, expected: float) -> None:
    row = {"contract": "think_answer_strict", "prefilled_think": True, "completion": completion}
    assert format_of(row) == expected


THEN_TEXT = [
    ("<think>a</think>b", False, 1.0),
    ("<think>a</think>\n\n**4**\n", False, 1.0),
    ("<think>a</think>so a < b", False, 1.0),
    ("<think>a</think><answer>4</answer>", False, 1.0),
    ("b<think>a</think>c", False, 0.0),
    ("<think>a</think>b<think>c</think>", False, 0.0),
    ("<think>a</think>b<think>", False, 0.0),
    ("<think>a</think>b</think>", False, 0.0),
    ("<think>a</think> \n\t", False, 0.0),
    ("<think>a</think>\u200b", False, 0.0),
    ("<think>\n</think>b", False, 0.0),
    ("<think>a", False, 0.0),
    ("</think>a", False, 0.0),
    ("a", False, 0.0),
    ("<THINK>a</THINK>b", False, 0.0),
    ("a</think>b", True, 1.0),
    ("a\n</think>\n\nb", True, 1.0),
    ("\n\n</think>b", True, 0.0),
    ("\u200b</think>b", True, 0.0),
    ("a</think>", True, 0.0),
    ("a</think>b</think>c", True, 0.0),
    ("<think>a</think>b", True, 0.0),
    ("a</think>b<think>c", True, 0.0),
    ("a <THINK> b</think>c", True, 0.0),
    (None, True, 0.0),
]


@pytest.mark.parametrize("completion, opened, expected", THEN_TEXT)
def test_thoughts_then_text(completion: str | None, opened: bool, expected: float) -> None:
    row = {"contract": "think_then_text", "prefilled_think": opened, "completion": completion}
    assert format_of(row) == expected


def message(content: Any, role: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


GOOD = "<think>a</think>b"


@pytest.mark.parametrize(
    "completion, expected",
    [
        (GOOD, 1.0),
        ([message(GOOD)], 1.0),
        (message(GOOD), 1.0),
        ((message(GOOD),), 1.0),
        ([message([{"type": "text", "text": GOOD}])], 1.0),
        ([message([{"type": "text", "text": t} for t in ("<think>a", "</think>b")])], 1.0),
        ([message([{"type": "image"}, {"type": "text", "text": GOOD}])], 1.0),
        ([message(None, tool_calls=[{"id": "1"}]), message("7", "tool"), message(GOOD)], 1.0),
        ([message("<think>a</think>"), message("7", "tool"), message("b")], 1.0),
        ([message(GOOD), message("<think>", "user")], 1.0),
        ([message(GOOD, "user")], 0.0),
        ([message(GOOD, "tool")], 0.0),
        ([message(None)], 0.0),
        ([message([])], 0.0),
        ([], 0.0),
        (None, 0.0),
        ("", 0.0),
    ],
)  # fmt: skip
def test_one_adapter_for_all_shapes(completion: Any, expected: float) -> None:
    assert think_text_format(completions=[completion]) == [expected]
    assert think_text_format(
        prompts=["p"],
        completions=[
            completion,
        ],
    ) == [expected]


@pytest.mark.parametrize(
    "ids, ends, kept",
    [
        ([11, 12, 13], [2], [11, 12, 13]),
        ([2, 2, 2], [2], []),
        ([11, 7, 2, 13], [2, 7], [11]),
        ([], [2], []),
        ([11, 0, 12, 2, 0, 0], [2], [11, 0, 12]),
    ],
)
def test_text_after_the_end(ids: list[int], ends: list[int], kept: list[int]) -> None:
    assert decode({"ids": ids, "eos_ids": ends}) == {"reward_ids": kept}


@pytest.mark.parametrize(
    "completion, expected",
    [
        ("<reasoning>a</reasoning><answer>b</answer>", 1.0),
        ("<reasoning>\na\n</reasoning>\n<answer>\nb\n</answer>\n", 1.0),
        ("<think>a</think>\n<answer>b</answer>", 1.0),
        ("<reasoning>\na\n</reasoning>\n<answer>\nb\n</answer>" + " and more" * 1000, 0.75),
        ("<reasoning>\na\n</reasoning>\n<answer>\nb\n", 0.75),
        ("no tags " * 1000, 0.0),
    ],
)
def test_tags_are_counted_within_bounds(completion: str, expected: float) -> None:
    assert answer({"op": "tag_count_reward", "completion": completion}) == expected


@pytest.mark.parametrize(
    "gold_key, kwargs",
    [
        ("solution", {"prompts": ["p"], "completions": ["\\boxed{1}"], "answer": ["1"]}),
        ("answer", {"prompts": ["p"], "completions": ["\\boxed{1}"], "Answer": ["1"], "id": [3]}),
        ("answer", {"completions": ["\\boxed{1}"]}),
    ],
)
def test_a_column_under_another_name(gold_key: str, kwargs: dict[str, Any]) -> None:
    assert "raises" in answer({"op": "call_reward", "gold_key": gold_key, "kwargs": kwargs})


def test_a_column_of_another_length_names_both() -> None:
    judge = MathAnswer(column="gold")
    with pytest.raises(ValueError, match=r"'gold' of reward 'math_answer' has 1 rows for 2 compl"):
        judge(completions=["\\boxed{1}", "\\boxed{2}"], gold=["1"])


@pytest.mark.parametrize(
    "max_len, cache, lengths, expected",
    [
        (10, 10, [0, 5, 10, 11], [0.0, -0.5, -1.0, -1.0]),
        (100, 0, [99, 100, 101], [0.0, 0.0, -1.0]),
        (16384, 4096, [12288, 14336, 16384, 10**5], [0.0, -0.5, -1.0, -1.0]),
    ],
)
def test_overlong(max_len: int, cache: int, lengths: list[int], expected: list[float]) -> None:
    given = {"op": "soft_overlong", "max_len": max_len, "cache": cache, "lengths": lengths}
    assert answer(given) == expected


@pytest.mark.parametrize(
    "keys, completion, expected",
    [
        (["4711"], "4711", 1.0),
        (["4711"], "It was **4711**, as said on page 3.", 1.0),
        (["4711"], "The code is 4712.", 0.0),
        (["4711"], "The code is 47110.", 0.0),
        (["4711"], "I do not know.", 0.0),
        (["4711"], "", 0.0),
        (["4711"], None, 0.0),
        (["4711", "blue door"], "Code 4711, behind the Blue Door.", 1.0),
    ],
)
def test_the_key_counts_and_not_the_wording(
    keys: list[str], completion: str | None, expected: float
) -> None:
    given = {"op": "retention_reward", "keys": keys, "completion": completion}
    assert answer(given) == expected
