"""The neighbours of the public cases, one test a subject; see `neighbours.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rlkit.rewards.maths import judge

_SPEC = importlib.util.spec_from_file_location(
    "maths_neighbours", Path(__file__).with_name("neighbours.py")
)
rows = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(rows)


@pytest.mark.parametrize("subject", rows.BOXED)
def test_answers_in_a_box(subject):
    table = rows.BOXED[subject]
    wrong = []
    for answer, gold, right in table:
        found = judge(f"The answer is \\boxed{{{answer}}}.", gold)
        if found.value != float(right):
            wrong.append((answer[:60], gold[:60], right, found.value, found.status))
    assert wrong == []
    # A subject needs both sides, or a grader that always says the same would pass.
    assert {right for _, _, right in table} == {True, False} or subject == "no mathematics"


def test_whole_completions():
    wrong = []
    for completion, gold, mode, right in rows.WHOLE:
        found = judge(completion, gold, mode=mode)
        if found.value != float(right):
            wrong.append((completion, gold, mode, right, found.value, found.status))
    assert wrong == []


@pytest.mark.parametrize("subject", rows.BOXED)
def test_each_gold_answers_itself(subject):
    for _, gold, _ in rows.BOXED[subject]:
        assert judge(f"\\boxed{{{gold}}}", gold).value == 1.0, gold


def test_an_answer_to_one_question_raises_nothing_at_another():
    pairs = [(a, g) for table in rows.BOXED.values() for a, g, _ in table if len(a + g) < 400]
    for shift in (1, 7, 50, 131, 211):
        for (answer, _), (_, gold) in zip(pairs, pairs[shift:] + pairs[:shift], strict=True):
            assert judge(f"\\boxed{{{answer}}}", gold).value in (1.0, 0.0, None)


def test_white_space_around_an_answer_changes_nothing():
    for table in rows.BOXED.values():
        for answer, gold, right in table:
            assert judge(f"\\boxed{{ {answer} }}", f" {gold} ").value == float(right), answer
