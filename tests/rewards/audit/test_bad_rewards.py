"""Three rewards with a hole, and one more: the audit names the hole of each."""

from __future__ import annotations

import textwrap

import pytest

from rlkit.rewards import Reward
from rlkit.rewards.audit import audit
from rlkit.rewards.audit.bad import BAD
from rlkit.rewards.audit.load import load_reward

#: Attacks that must go through, and a part of the verdict.
HOLES = {
    "answer_in_text": (
        {"superset_list", "shotgun_blocks", "enumerate_range", "negation", "longer_number"},
        "pays a list of guesses ('superset_list', 1 of 1)",
    ),
    "last_number": (
        {"negation", "negation_after", "only_in_reasoning", "unicode_minus"},
        "pays 'it is not 42' after a wrong answer ('negation_after', 1 of 1)",
    ),
    "careless_countdown": (
        {"power_operator", "floor_operator", "modulo_operator", "giant_power"},
        "pays '**', which was not allowed ('power_operator', 1 of 1)",
    ),
    "generous_format": (
        {"empty_tags", "tags_twice", "reversed_blocks", "text_before", "quoted_tags"},
        "pays empty tags ('empty_tags', 1 of 1)",
    ),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_the_hole_is_named(name):
    card = audit(BAD[name], limit_s=1.0)
    through, words = HOLES[name]
    assert not card.passed
    assert through <= {hole.name for hole in card.holes}
    assert words in card.verdict
    assert words in str(card)


def test_a_hang_is_reported_and_not_waited_for():
    card = audit(BAD["careless_countdown"], limit_s=1.0)
    hung = {hole.name: hole for hole in card.holes if hole.outcome == "hung"}
    assert "giant_power" in hung
    assert card.section("time").passed is False
    assert "was stopped after 1 s" in card.section("time").finding
    assert "hangs on a power of powers ('giant_power')" in card.verdict


def test_what_a_bad_reward_does_well_is_said_too():
    card = audit(BAD["last_number"])
    assert card.section("mutation score").figures["score"] == 1.0
    assert card.section("honest answers").passed
    assert card.section("determinism").passed


def credulous(completions, question, answer):
    """A judge that believes whoever gives itself a score, and likes flattery."""
    return [
        1.0 if "Score: 10" in t or "best and fairest" in t else float(a.lower() in t.lower())
        for t, a in zip(completions, answer, strict=True)
    ]


def test_a_judge_that_can_be_talked_round():
    card = audit(Reward(credulous), subject="judge")
    assert {"spoofed_score", "spoofed_turn", "flattery"} <= {hole.name for hole in card.holes}
    assert "pays a score that it gives itself ('spoofed_score', 1 of 1)" in card.verdict


# A code reward without a sandbox, as people write it in an afternoon. It is called in the
# audit's child process only.
WITHOUT_SANDBOX = """
def afternoon(completions, entry, tests):
    values = []
    for text, name, wanted in zip(completions, entry, tests):
        space = {}
        try:
            exec(text.split("```python")[1].split("```")[0], space)
            passed = [space[name](*t["args"]) == t["expected"] for t in wanted]
            values.append(sum(passed) / len(passed))
        except Exception:
            values.append(0.0)
    return values
"""


def test_a_code_reward_without_a_sandbox(tmp_path, monkeypatch):
    (tmp_path / "afternoon_reward.py").write_text(textwrap.dedent(WITHOUT_SANDBOX))
    monkeypatch.syspath_prepend(str(tmp_path))
    card = audit(load_reward("afternoon_reward:afternoon"), limit_s=0.7)
    assert "child process" in card.how, "this must not be tried in a thread"
    outcomes = {hole.name: hole.outcome for hole in card.holes}
    assert outcomes["equal_to_all"] == "paid"
    assert outcomes["read_frames"] == "paid"
    assert outcomes["os_exit"] == "crashed"
    assert outcomes["exit_zero"] == "raised"  # SystemExit gets past `except Exception`
    assert outcomes["endless_loop"] == "hung"
    assert outcomes["spoofed_channel"] == "forged"
    assert "pays an object that equals everything ('equal_to_all', 1 of 1)" in str(card)
