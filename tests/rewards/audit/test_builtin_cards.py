"""Every reward that rlkit registers passes its own audit.

A registered reward without problems of its own fails here: whoever registers one says
with `register_subject` how it is tried.
"""

from __future__ import annotations

import pytest

import rlkit.rewards as rewards
from rlkit.rewards.audit import audit, subjects

NAMES = sorted(rewards._REWARDS)


@pytest.mark.parametrize("name", NAMES)
def test_it_passes_its_audit(name):
    assert name in subjects(), f"{name} has no audit problems; see rlkit.rewards.audit.builtin"
    card = audit(name)
    assert card.passed, str(card)
    assert card.section("attacks").figures["tried"] >= 10
    assert card.section("attacks").figures["abstained"] == 0
    assert "child process" in card.how


def test_the_first_rewards_are_among_them():
    assert {"exact_answer", "countdown_answer", "format_reward", "tests_pass"} <= set(NAMES)
