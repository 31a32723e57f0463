"""Domains: the same seed gives the same problems, and the splits never meet."""

from __future__ import annotations

import random

import pytest

from rlkit.errors import UserError
from rlkit.rewards import get_reward
from rlkit.tasks import Domain, domain_names, get_domain, get_domains, register_domain
from rlkit.tasks.problem import split_of

TEXT_DOMAINS = ("arith", "sort", "countdown")


@pytest.mark.parametrize("name", domain_names())
def test_a_seed_decides_the_problems(name: str) -> None:
    domain = get_domain(name)

    def keys(seed: int) -> list[str]:
        stream = domain.stream(seed)
        return [next(stream).key for _ in range(20)]

    assert keys(3) == keys(3)
    assert keys(3) != keys(4)


@pytest.mark.parametrize("name", domain_names())
def test_held_out_problems_never_meet_training_ones(name: str) -> None:
    domain = get_domain(name)
    held_out = domain.held_out(400)
    keys = {p.key for p in held_out}
    questions = {p.question for p in held_out}
    assert len(keys) >= 200, "too few held-out problems for a pass rate worth printing"
    assert {split_of(key) for key in keys} == {"held_out"}
    stream = domain.stream(seed=0)
    for _ in range(3000):
        problem = next(stream)
        assert problem.split == "train"
        assert problem.key not in keys
        assert problem.question not in questions


@pytest.mark.parametrize("name", domain_names())
def test_every_level_has_both_splits(name: str) -> None:
    domain = get_domain(name)
    for level in range(1, domain.levels + 1):
        for split in ("train", "held_out"):
            problem = domain.sample(random.Random(0), level, split)
            assert problem.difficulty == level
            assert problem.split == split


@pytest.mark.parametrize("name", TEXT_DOMAINS)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_taught_answers_are_what_they_are_called(name: str, level: int) -> None:
    domain = get_domain(name)
    reward = get_reward(domain.success)
    rng = random.Random(1)
    problems = [domain.sample(rng, level) for _ in range(150)]
    columns = {c: [p.columns[c] for p in problems] for c in reward.columns}
    good = reward(completions=[domain.good_answer(p, rng) for p in problems], **columns)
    assert good == [1.0] * len(problems)
    wrong = reward(completions=[domain.wrong_answer(p, rng) for p in problems], **columns)
    # A slip can land on another right answer (7 + 2 - 2), but hardly ever.
    assert sum(wrong) <= 0.05 * len(problems)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_taught_functions_are_what_they_are_called(level: int, sandboxed_tests_pass) -> None:
    domain = get_domain("pyfunc")
    rng = random.Random(2)
    problems = [domain.sample(rng, level) for _ in range(60)]
    columns = {c: [p.columns[c] for p in problems] for c in ("entry", "tests")}
    good = sandboxed_tests_pass.score(
        completions=[domain.good_answer(p, rng) for p in problems], **columns
    )
    assert [s.value for s in good] == [1.0] * len(problems), [s.reason for s in good]
    wrong = sandboxed_tests_pass(
        completions=[domain.wrong_answer(p, rng) for p in problems], **columns
    )
    assert sum(value == 1.0 for value in wrong) <= 0.1 * len(problems)


def test_hidden_tests_do_not_change_and_differ() -> None:
    domain = get_domain("pyfunc")
    first = next(domain.stream(5))
    again = next(domain.stream(5))
    assert first.columns["tests"] == again.columns["tests"]
    assert len(first.columns["tests"]) == 8
    problems = domain.held_out(200)
    same = [p for p in problems if len({repr(t["expected"]) for t in p.columns["tests"]}) == 1]
    # Where one value fits all tests, `return that_value` would be paid.
    assert len(same) <= 0.02 * len(problems), [p.question for p in same]


def test_bad_requests_are_refused_with_a_sentence() -> None:
    with pytest.raises(UserError, match="unknown domain 'nope'; known domains: arith"):
        get_domain("nope")
    with pytest.raises(UserError, match="list of domains is empty"):
        get_domains([])
    with pytest.raises(UserError, match="given twice"):
        get_domains(["sort", "sort"])
    with pytest.raises(UserError, match="level from 1 to 3"):
        get_domain("arith").sample(random.Random(0), 9)
    with pytest.raises(UserError, match="unknown split"):
        get_domain("arith").sample(random.Random(0), 1, "dev")


def test_a_name_that_is_taken_is_refused() -> None:
    class Other(Domain):
        name = "arith"

    with pytest.raises(UserError, match="exists already"):
        register_domain(Other())
    with pytest.raises(UserError, match="has no name"):
        register_domain(Domain())
