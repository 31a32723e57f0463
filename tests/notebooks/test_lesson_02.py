"""What only lesson 02 promises: its numbers come from the stored answers, live."""

from __future__ import annotations

import pytest

from rlkit.lessons.building.execute import text_of

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def said(solved) -> str:
    """All that the lesson printed or showed as text."""
    cells = solved("02_reward_functions").execution.notebook["cells"]
    return "\n".join(text_of(cell) for cell in cells)


def test_the_audit_lets_the_strict_reward_pass_and_not_the_careless_one(said):
    assert "exact_answer passes" in said
    assert "answer_in_text fails" in said
