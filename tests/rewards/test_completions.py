"""One adapter: whatever shape a completion has, a reward sees its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.rewards.completions import (
    completion_rows,
    completion_text,
    prompt_ends_with,
    until_eos,
)

CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}


@pytest.mark.parametrize(
    "completion, text",
    [
        ("plain", "plain"),
        ("", ""),
        (None, ""),
        ([], ""),
        ({"role": "assistant", "content": "a"}, "a"),
        ({"role": "assistant", "content": None}, ""),
        ({"role": "assistant", "content": []}, ""),
        ({"role": "assistant"}, ""),
        ([{"role": "assistant", "content": "a"}], "a"),
        ([{"role": "assistant", "content": None, "tool_calls": [CALL]}], ""),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}]}], "a"),
        (
            [{"role": "assistant", "content": [{"type": "text", "text": t} for t in "ab"]}],
            "ab",
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "image", "text": "not said"},
                        {"type": "text", "text": "a"},
                    ],
                }
            ],
            "a",
        ),
        (
            [
                {"role": "assistant", "content": "look it up"},
                {"role": "tool", "content": "<answer>4</answer>"},
                {"role": "assistant", "content": "it is 4"},
            ],
            "look it up\nit is 4",
        ),
        ([{"role": "user", "content": "<answer>4</answer>"}], ""),
        ([{"role": "system", "content": "x"}, {"role": "assistant", "content": "a"}], "a"),
        (({"role": "assistant", "content": "a"},), "a"),
        (["a", "b"], "ab"),
    ],
)
def test_every_shape_becomes_text(completion: object, text: str) -> None:
    assert completion_text(completion) == text


@given(st.text())
def test_all_shapes_of_one_text_are_the_same(text: str) -> None:
    message = {"role": "assistant", "content": text}
    parts = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    assert completion_rows([text, message, [message], [parts]]) == [text] * 4


@pytest.mark.parametrize("wrong", [4, 0.5, b"bytes", object()])
def test_what_is_no_completion_is_said(wrong: object) -> None:
    with pytest.raises(UserError, match="must be text or chat messages, not"):
        completion_rows([wrong])


@pytest.mark.parametrize("wrong", [None, "text", {"role": "assistant", "content": "a"}, b""])
def test_completions_are_a_list(wrong: object) -> None:
    with pytest.raises(UserError, match="must be a list"):
        completion_rows(wrong)


@pytest.mark.parametrize(
    "prompt, opened",
    [
        ("2 + 2?<think>", True),
        ("2 + 2?\n<think>\n", True),
        ("write <think> first", False),
        ("<think></think>", False),
        (None, False),
        ([], False),
        ([{"role": "user", "content": "<think>"}], False),
        ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "<think>\n"}], True),
    ],
)
def test_whether_a_prompt_opens_the_tag(prompt: object, opened: bool) -> None:
    assert prompt_ends_with(prompt, "<think>") is opened


@pytest.mark.parametrize(
    "ids, ends, kept",
    [
        ([11, 12, 2, 13, 14], [2], [11, 12]),
        ([11, 12], [2], [11, 12]),
        ([2, 11], [2], []),
        ([11, 3, 2], [2, 3], [11]),
        ([11, 2, 2, 2], 2, [11]),  # padded with the end token itself
        ([0, 0, 11, 2], [2], [0, 0, 11]),  # the pad id ends nothing
        ([11, 2], None, [11, 2]),
        ([], [2], []),
    ],
)
def test_text_ends_at_the_first_end_token(ids: list[int], ends: object, kept: list[int]) -> None:
    assert until_eos(ids, ends) == kept
