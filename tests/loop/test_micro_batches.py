"""Micro-batches: nothing is lost, budgets hold, groups stay together where they fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlkit.loop.micro_batches import Budget, split
from rlkit.policy.rollout import Rollout
from rlkit.tasks import Problem

PROBLEM = Problem(
    key="k", domain="d", prompt=({"role": "user", "content": "?"},), columns={}, difficulty=1
)


def rollout(prompt: int, length: int, number: int = 0) -> Rollout:
    """`prompt` tokens that tell the problem by their number, `length` of an answer."""
    return Rollout(
        problem=PROBLEM,
        prompt_ids=(number,) * prompt,
        completion_ids=(1,) * length,
        behaviour_logprobs=(-1.0,) * length,
        trainable=(1,) * length,
        text="",
        finish_reason="stop",
        policy_version=0,
    )


def cost(part: list[Rollout]) -> int:
    return sum(len(p) for p in {r.prompt_ids for r in part}) + sum(map(len, part))


groups = st.lists(
    st.tuples(st.integers(1, 20), st.lists(st.integers(0, 20), min_size=1, max_size=8)),
    min_size=1,
    max_size=5,
)


@given(groups, st.integers(1, 12), st.integers(1, 120))
def test_every_row_once_and_within_the_budget(shape, size: int, tokens: int) -> None:
    rows = [rollout(p, n, number) for number, (p, lengths) in enumerate(shape) for n in lengths]
    parts = split(rows, size, Budget(tokens))
    assert [id(row) for part in parts for row in part] == [id(row) for row in rows]
    for part in parts:
        assert 1 <= len(part) <= size
        # A row that is too long alone is alone; nothing else goes over.
        assert cost(part) <= tokens or len(part) == 1


def test_whole_groups_are_put_together_while_they_fit() -> None:
    rows = [rollout(10, 5, n) for n in range(3) for _ in range(4)]  # 10 + 4 x 5 = 30 a group
    assert [len(part) for part in split(rows, 64, Budget(60))] == [8, 4]
    assert [len(part) for part in split(rows, 64, Budget(59))] == [4, 4, 4]
    assert [len(part) for part in split(rows, 64, Budget(1000))] == [12]
    assert [len(part) for part in split(rows, 5, Budget(1000))] == [4, 4, 4]


def test_a_group_that_does_not_fit_is_cut_evenly() -> None:
    rows = [rollout(10, 5) for _ in range(8)]  # 40 tokens of answers, 10 of the prompt
    # 25 tokens hold the prompt and three answers: three pieces, 3 + 3 + 2.
    assert [len(part) for part in split(rows, 64, Budget(25))] == [3, 3, 2]
    # 30 tokens hold four: two pieces of four.
    assert [len(part) for part in split(rows, 64, Budget(30))] == [4, 4]


def test_a_long_prompt_is_not_read_again_and_again() -> None:
    loose = Budget(100, strict=False)
    # 130 tokens are still kept whole: one part of 130 in place of two that read 140 each.
    rows = [rollout(90, 5) for _ in range(8)]
    assert [len(part) for part in split(rows, 64, loose)] == [8]
    assert [len(part) for part in split(rows, 64, Budget(100))] == [2, 2, 2, 2]
    # Keeping less costs a third more: worth it for a prompt of 160, not for one of 10.
    rows = [rollout(160, 20) for _ in range(8)]
    assert [len(part) for part in split(rows, 64, loose)] == [8]
    rows = [rollout(10, 30) for _ in range(8)]
    assert [len(part) for part in split(rows, 64, loose)] == [3, 3, 2]
    # Even so there is an end: at most four times the budget.
    rows = [rollout(160, 100) for _ in range(8)]
    assert [len(part) for part in split(rows, 64, loose)] == [2, 2, 2, 2]


@given(groups, st.integers(1, 12), st.integers(1, 120))
def test_a_loose_budget_loses_nothing_and_has_an_end(shape, size: int, tokens: int) -> None:
    rows = [rollout(p, n, number) for number, (p, lengths) in enumerate(shape) for n in lengths]
    parts = split(rows, size, Budget(tokens, strict=False))
    assert [id(row) for part in parts for row in part] == [id(row) for row in rows]
    for part in parts:
        assert 1 <= len(part) <= size
        assert cost(part) <= 4 * tokens or len(part) == 1


def test_without_a_budget_the_number_of_rows_decides() -> None:
    rows = [rollout(10, 5, n) for n in range(5)]
    assert [len(part) for part in split(rows, 2)] == [2, 2, 1]
