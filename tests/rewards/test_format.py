"""Layouts: what fits, what is cheating, and what a tag is worth."""

from __future__ import annotations

import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.rewards import (
    FormatReward,
    LanguageConsistency,
    NumericAnswer,
    RepetitionPenalty,
    TagCount,
    exact_answer,
    format_reward,
    numeric_answer,
    tag_count,
)
from rlkit.rewards.format import THINK_ANSWER, Template, is_blank

VISIBLE = st.text(st.characters(exclude_characters="<>{}"), min_size=1).filter(
    lambda text: not is_blank(text)
)
SPACE = st.text(st.sampled_from(" \n\t"), max_size=4)


@given(VISIBLE, VISIBLE, SPACE, SPACE, SPACE)
def test_any_visible_contents_and_any_white_space_fit(thought, answer, before, between, after):
    text = f"{before}<think>{thought}</think>{between}<answer>{answer}</answer>{after}"
    assert Template(THINK_ANSWER).problem(text) is None


@given(st.lists(st.sampled_from([*"ab \n", "<think>", "</think>", "<answer>", "</answer>"])))
def test_only_the_one_layout_fits(pieces: list[str]) -> None:
    text = "".join(pieces)
    if Template(THINK_ANSWER).problem(text) is None:
        tags = [piece for piece in pieces if piece.startswith("<")]
        assert tags == ["<think>", "</think>", "<answer>", "</answer>"]
        head, thought, between, answer, tail = (
            text.replace("</think>", "<think>")
            .replace("<answer>", "<think>")
            .replace("</answer>", "<think>")
            .split("<think>")
        )
        assert not (head + between + tail).strip()
        assert thought.strip()
        assert answer.strip()


@pytest.mark.parametrize(
    "template, text, value",
    [
        ("<answer>{}</answer>", "<answer>4</answer>", 1.0),
        ("Reasoning: {}\nFinal answer: {}", "Reasoning: Final thoughts\nFinal answer: 4", 1.0),
        ("Reasoning: {}\nFinal answer: {}", "Final answer: 4", 0.0),
        ("{}\n#### {}", "3 + 4 = 7\n#### 7", 1.0),
        ("{}\n#### {}", "#### 7", 0.0),
        ("{}\n#### {}", "a #### b #### c", 0.0),
        ("[[{}]]", "[[4]]", 1.0),
        ("[[{}]]", "[[4]", 0.0),
        ("$${}$$", "$$x$$", 1.0),  # the same sign opens and closes
        ("$${}$$", "$$x", 0.0),
        ("<a>{}</a> <b>{}</b>", "<a>1</a><b>2</b>", 1.0),
    ],
)
def test_any_template(template: str, text: str, value: float) -> None:
    assert FormatReward(template)(completions=[text]) == [value]


@pytest.mark.parametrize("template", ["", "<a></a>", "{}", "<a>{}{}</a>", "<a>{} {}</a>"])
def test_what_is_no_template(template: str) -> None:
    with pytest.raises(UserError):
        FormatReward(template)
    with pytest.raises(UserError, match="at least one layout"):
        FormatReward()


def test_the_reason_names_the_place() -> None:
    for text, reason in [
        ("<think>a</think>", "<answer> stands nowhere, not once"),
        ("<think>a</think>b<answer>c</answer>", "there is text before <answer>"),
        ("<think>a</think><answer>c</answer>d", "there is text after </answer>"),
        ("<think>a</think><answer> </answer>", "block 2 is empty"),
        ("<think>a<ANSWER></think><answer>c</answer>", "block 1 holds the tag <ANSWER>"),
        ("<answer>c</answer><think>a</think>", "there is text before <think>"),
        ("<think>a<answer></think>c</answer>", "<answer> is out of order"),
        ("</think><think>a<answer>c</answer>", "there is text before <think>"),
        ("<think>a<answer>c</answer></think>", "<answer> is out of order"),
    ]:
        assert Template(THINK_ANSWER).problem(text) == reason


def test_the_default_takes_thoughts_from_the_prompt_too() -> None:
    texts = ["2 + 2</think><answer>4</answer>", "x</think>\n```python\nf = 1\n```"]
    assert format_reward(completions=texts, prompts=["q<think>"] * 2) == [1.0, 1.0]
    assert format_reward(completions=texts, prompts=["q"] * 2) == [0.0, 0.0]
    assert format_reward(completions=["</think><answer>4</answer>"], prompts=["<think>"]) == [0.0]


@pytest.mark.parametrize(
    "unit",
    [" ", "<think>", "</think>", "<", "< think ", "<think ", "a\u200b", "<answer>x", "$", "`"],
)
def test_no_text_takes_long(unit: str) -> None:
    texts = [
        unit * 50_000,
        f"<think>{unit * 50_000}</think><answer>4</answer>x",
        f"<think>a{' ' * 50_000}b</think>{unit * 50_000}",
        f"<think>a <{' ' * 50_000}b</think><answer>{unit}<{' ' * 50_000}4</answer>",
    ]
    started = time.process_time()
    columns = {"completions": texts, "answer": ["4"] * len(texts), "language": ["en"] * len(texts)}
    for judge in (
        format_reward,
        tag_count,
        exact_answer,
        numeric_answer,
        NumericAnswer(where="last"),
        RepetitionPenalty(),
        LanguageConsistency(),
    ):
        judge(**columns)
    # A quadratic reading of 50,000 characters would take minutes.
    assert time.process_time() - started < 20.0


@pytest.mark.parametrize(
    "text, value",
    [
        ("<think>a</think><answer>b</answer>", 1.0),
        ("<reasoning>\na\n</reasoning>\n<answer>\nb\n</answer>\n", 1.0),
        ("<think>a</think><answer>b", 0.75),
        ("<think>a</think><answer>b</answer> and more", 0.75),
        ("<think>a</think><answer></answer>", 0.75),
        ("<think></think><answer></answer>", 0.5),
        ("</answer>a<answer>b</think>c<think>", 0.25),  # <think> alone, nothing is right after it
        ("<think>a<think>b</think><answer>c</answer>", 0.75),
        ("<answer>c</answer>", 0.5),
        ("plain", 0.0),
        ("", 0.0),
        ("<think>" * 9, 0.0),
    ],
)
def test_tag_count(text: str, value: float) -> None:
    assert tag_count(completions=[text]) == [value]


@given(st.lists(st.sampled_from([*"ab \n", "<think>", "</think>", "<answer>", "</answer>"])))
def test_the_tag_count_is_full_only_where_the_blocks_are(pieces: list[str]) -> None:
    (value,) = tag_count(completions=["".join(pieces)])
    assert 0.0 <= value <= 1.0
    if value == 1.0:
        tags = [piece for piece in pieces if piece.startswith("<")]
        assert tags == ["<think>", "</think>", "<answer>", "</answer>"]


def test_other_tags_can_be_counted_and_all_of_it_travels() -> None:
    counting = TagCount(("plan", "code", "note"), name="tags")
    text = "<plan>a</plan><code>b</code><note>c</note>"
    again = pickle.loads(pickle.dumps(counting))
    assert again(completions=[text]) == [1.0]
    strict = pickle.loads(pickle.dumps(FormatReward("<x>{}</x>", preopened=True, name="x")))
    assert strict(completions=["a</x>"]) == [1.0]
    with pytest.raises(UserError):
        TagCount("think")
