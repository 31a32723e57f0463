"""The attack suite: enough of it, and every attack really is one."""

from __future__ import annotations

import pytest

from rlkit.errors import UserError
from rlkit.rewards.audit import SUITES, AuditProblem, all_attacks, attacks, subjects
from rlkit.rewards.audit.attack import Attack
from rlkit.rewards.audit.suite_countdown import forbidden_expression
from rlkit.tasks.countdown import verify_countdown


def test_there_are_enough_and_each_has_a_name_of_its_own():
    names = [attack.name for attack in all_attacks()]
    assert len(names) >= 45
    assert len(set(names)) == len(names)
    assert all(attack.exploits and attack.suite in SUITES for attack in all_attacks())


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_has_attacks(suite):
    assert len(attacks(suite)) >= 4


def test_an_unknown_suite_is_refused():
    with pytest.raises(UserError, match="unknown attack suite 'poetry'; known: answer"):
        attacks("poetry")


def test_an_attack_that_lacks_a_fact_does_not_fit():
    attack = Attack("a", "answer", "x", lambda p: "text", needs=("answer",))
    assert attack.on(AuditProblem({})) is None
    assert attack.on(AuditProblem({}, answer="1", wrong_answers=("2",))) == "text"


@pytest.mark.parametrize("name", sorted(subjects()))
def test_every_attack_of_a_subject_fits_some_problem_and_is_no_honest_answer(name):
    subject = subjects()[name]
    problems = subject.make(0)
    assert problems, f"{name} has no problems"
    for problem in problems:
        built = [attack.on(problem) for attack in attacks(*subject.suites)]
        assert sum(text is not None for text in built) >= 20
        assert not set(built) & set(problem.honest.values())
        assert not set(problem.wrong.values()) & set(problem.honest.values())
        assert not set(problem.mutants.values()) & set(problem.honest.values())


def test_the_same_seed_gives_the_same_problems():
    for subject in subjects().values():
        assert [p.columns for p in subject.make(3)] == [p.columns for p in subject.make(3)]


@pytest.mark.parametrize("operator", ["**", "//", "%"])
def test_forbidden_operators_reach_the_target_and_are_refused_by_the_rules(operator):
    problems = [p for p in subjects()["countdown_answer"].make(0)]
    found = [forbidden_expression(p.fact("numbers"), p.fact("target"), operator) for p in problems]
    texts = [(text, p) for text, p in zip(found, problems, strict=True) if text is not None]
    assert texts
    for text, problem in texts:
        # Whole numbers and these operators alone: safe to work out here, and it is our own text.
        assert operator in text
        assert not verify_countdown(text, problem.fact("numbers"), problem.fact("target"))[0]


def test_forbidden_expression_by_hand():
    # 3 ** 2 + 5 = 14, with 2, 3 and 5 once each.
    assert forbidden_expression([2, 3, 5], 14, "**") == "(3 ** 2) + 5"
    assert forbidden_expression([2, 3, 5], 999, "**") is None
