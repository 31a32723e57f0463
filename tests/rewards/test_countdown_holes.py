"""Forty attacks, twelve honest answers, and verifiers with one hole each."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rlkit.errors import UserError
from rlkit.rewards.answer import countdown_answer
from rlkit.rewards.countdown_holes import (
    ATTACKS,
    BROKEN,
    CANARY_NUMBERS,
    CANARY_SOLUTION,
    CANARY_TARGET,
    CARELESS_VERIFIER,
    HONEST,
    TREE_VERIFIER,
    missed_by,
    mutation_score,
)
from rlkit.rewards.sandboxed import SandboxedVerifier
from rlkit.tasks.countdown import verify_countdown

LESSON = Path(__file__).parents[2] / "notebooks" / "src" / "03_break_the_verifier.py"

#: One answer for each fault, to the problem 7, 4, 2 and 9.
CANARY = {
    "7 + 4 - 2": True,
    "4 - 2 + 7": True,
    "7 + 4 + 2": False,  # 13: only the numbers are looked at
    "9": False,
    "7": False,
    "7 + 2": False,  # 9, and 4 is left out
    "7 + 4 - 2 + 4 - 4": False,
    "2 * 7 - 4": False,  # 14 - 4 = 10, one off
    "2 ** 4 - 7": False,  # 16 - 7 = 9
    "no idea": False,
    "7 + 4 + 2, 7 + 4 - 2": False,
    "7 + 4 + 2 = 9": False,
}


def _paid(verifier, cases):
    return verifier(
        completions=[f"<answer>{case.answer}</answer>" for case in cases],
        numbers=[list(case.numbers) for case in cases],
        target=[case.target for case in cases],
        solution=["10 + 2 - 3"] * len(cases),
    )


def test_every_attack_is_wrong_and_every_honest_answer_right():
    assert len(ATTACKS) == 40
    assert [a.name for a in ATTACKS if a.right] == []
    assert [a.name for a in HONEST if not a.right] == []
    assert len({a.name for a in (*ATTACKS, *HONEST)}) == 52


def test_attacks_are_tempting():
    """Python itself makes the target of most: they are wrong by the rules, not by chance."""
    tempting = 0
    for attack in ATTACKS[:-3]:
        try:
            tree = ast.parse(attack.answer.strip(), mode="eval")
        except SyntaxError:
            continue
        # Written here and not by a model, so it may be evaluated.
        tempting += eval(compile(tree, "attack", "eval"), {}) == attack.target
    assert tempting == 25


def test_the_kit_keeps_its_nerves():
    kept = mutation_score(lambda a, n, t: verify_countdown(a, n, t)[0])
    assert kept == (40, 12)
    assert _paid(countdown_answer, ATTACKS) == [0.0] * 40
    assert _paid(countdown_answer, HONEST) == [1.0] * 12


def test_the_tree_verifier_has_no_hole():
    tree = SandboxedVerifier(TREE_VERIFIER, ["numbers", "target"])
    assert _paid(tree, ATTACKS) == [0.0] * 40
    assert _paid(tree, HONEST) == [1.0] * 12


def test_the_careless_verifier_has_holes_and_hangs():
    careless = SandboxedVerifier(CARELESS_VERIFIER, ["numbers", "target", "solution"])
    paid = dict(zip([a.name for a in ATTACKS], _paid(careless, ATTACKS), strict=True))
    assert _paid(careless, HONEST) == [1.0] * 12
    assert {name for name, value in paid.items() if value} == {
        "nothing",
        "a blank",
        "one number of the solution",
        "a part of the solution",
        "a dangling operator",
        "one off",  # the solution itself, for another target
        "a power",
        "two numbers as one with a point",  # 2.5 is taken for a 2 and a 5
        "a division without its rest",
    }


def test_a_whole_canary_notices_every_broken_verifier():
    assert missed_by(CANARY) == []


@pytest.mark.parametrize("left_out", sorted(CANARY))
def test_each_answer_of_the_canary_does_something(left_out):
    # Four faults are noticed by two answers each: what pays 13 pays 10 as well, what pays 9
    # alone pays the sum of other numbers, what pays words pays two guesses, and what refuses
    # one right answer refuses the other.
    missed = missed_by({a: paid for a, paid in CANARY.items() if a != left_out})
    twice = ("7 + 4 + 2", "9", "no idea", "7 + 4 - 2")
    assert bool(missed) == (left_out not in twice)


def test_a_broken_verifier_is_broken():
    problem = (CANARY_NUMBERS, CANARY_TARGET, CANARY_SOLUTION)
    for name, verify in BROKEN.items():
        wrong = [a for a, paid in CANARY.items() if verify(a, *problem) is not paid]
        assert wrong, name


def test_a_canary_that_errs_is_refused():
    with pytest.raises(UserError, match="the canary errs"):
        missed_by({"7 + 2": True})
    with pytest.raises(UserError, match="True or False"):
        missed_by({"7 + 2": 0})


def test_the_lesson_shows_the_same_text():
    assert CARELESS_VERIFIER.strip() in LESSON.read_text(encoding="utf-8")
