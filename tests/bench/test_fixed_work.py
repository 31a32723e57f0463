"""Prompts of an exact size, rewards that tell answers apart, and what a step needs by count."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.bench import counting
from rlkit.bench.fixed_work import CASES, REWARDS, Case, SizedPrompts, sized_prompts, some_problems
from rlkit.errors import UserError
from rlkit.policy import Policy
from rlkit.scale.memory import Shape


def letters(messages):
    return list(messages[0]["content"])


def words(messages):
    return messages[0]["content"].split()


@given(tokens=st.integers(20, 300), seed=st.integers(0, 99))
def test_every_prompt_has_the_size(tokens, seed):
    # one letter, one token: the gap that no word fits is closed with single signs of two letters
    # or one, so it is always closed
    problem = SizedPrompts(letters, tokens).sample(random.Random(seed))
    assert len(problem.question) == tokens
    problem = SizedPrompts(words, tokens).sample(random.Random(seed))
    assert len(problem.question.split()) == tokens


def test_prompts_of_a_model_count_the_chat_template():
    policy = Policy.load("tiny", quantize=None)
    problems = some_problems(policy, 61, 5)
    assert {len(policy.encode(problem)) for problem in problems} == {61}
    assert len({problem.key for problem in problems}) == 5
    assert all(problem.split == "train" for problem in problems)
    assert [p.key for p in some_problems(policy, 61, 5)] == [p.key for p in problems]
    with pytest.raises(UserError, match="ask for that many prompt tokens at least, not 3"):
        sized_prompts(policy, 3)


def test_rewards_look_at_the_answer_alone():
    assert REWARDS["text"](completions=["eEl", "oak", ""]) == [2 / 3, 0.0, 0.0]
    found = REWARDS["ids"](completions=["", ""], completion_ids=[[498, 499], [997]])
    assert found == [0.5, 0.0]  # (498 + 499) / 2 / 997


def test_cases():
    assert [(c.prompt_tokens, c.new_tokens) for c in CASES.values()] == [
        (48, 24),
        (48, 64),
        (512, 24),
    ]
    assert CASES["64"].tokens == 4 * 8 * 64
    with pytest.raises(UserError, match="group size 2 or more"):
        Case("x", group_size=1)


def test_counting_by_hand():
    # One layer, hidden 2, MLP 3, one head of 2, vocabulary 5.
    shape = Shape(1, 2, 3, 1, 1, 2, 5, tied=True)
    # products: q, k, v, o are 2 x 2 each = 16; gate, up, down 6 each = 18: 34. Head: 10.
    assert shape.in_linears() == 34
    case = Case("x", problems=1, group_size=2, prompt_tokens=3, new_tokens=2)
    # Generation. Prompt: 3 tokens x 34 + 1 scored x 10 = 112 products, 224 operations.
    # Pairs of the prompt 3 x 4 / 2 = 6; 4 x layers x heads x head size = 8 for each: 48.
    # One further step of 2 rows: 2 x (34 + 10) x 2 = 176; each sees 3 + 1 = 4: 2 x 4 x 8 = 64.
    needs = counting.generation(shape, case, weight_bytes=2)
    assert needs.flops == 224 + 48 + 176 + 64
    # Weights (34 + 10) x 2 bytes, twice: 176. Cache: 2 (k, v) x 2 numbers x 2 bytes = 8 a token;
    # one step that reads 3 shared tokens and 1 of each of 2 rows: 5 x 8 = 40.
    assert needs.bytes == 176 + 40
    # Update: 3 + 2 x 2 = 7 tokens x 34 and 4 scored x 10: 278 products, 556 operations, as many
    # back. Pairs: 6 + 2 x (4 + 5) = 24, x 8 = 192, and twice that back. Adapter of rank 1:
    # (2 + 2) x 4 + (2 + 3) x 3 = 31 numbers x 6 x 7 tokens = 1302.
    assert counting.update(shape, case, rank=1).flops == 2 * 556 + 3 * 192 + 1302
