"""pywords: every family's truth holds in the sandbox, and held out means held out."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from rlkit.rewards import get_reward
from rlkit.tasks import get_domain
from rlkit.tasks.problem import Problem, split_of
from rlkit.tasks.pywords import TESTS
from rlkit.tasks.pywords_families import FAMILIES

DOMAIN = get_domain("pywords")
LEVELS = (1, 2, 3)
NEW = {family.title for family in FAMILIES[1] if family.new}


@pytest.fixture(scope="module")
def reward(sandbox):
    """The domain's own reward on the shared sandbox."""
    return get_reward(DOMAIN.success).with_sandbox(sandbox)


def one_of_each(level: int, each: int = 1) -> list[Problem]:
    """Problems of every family of a level, from either split."""
    rng = random.Random(level)
    found: dict[str, list[Problem]] = {family.title: [] for family in FAMILIES[level]}
    while any(len(problems) < each for problems in found.values()):
        problem = DOMAIN.draw(rng, level)
        if len(found[problem.columns["family"]]) < each:
            found[problem.columns["family"]].append(problem)
    return [problem for problems in found.values() for problem in problems]


def scores(reward, problems: list[Problem], texts: list[str]):
    columns = {name: [p.columns[name] for p in problems] for name in ("entry", "tests")}
    return reward.score(completions=texts, **columns)


@pytest.mark.parametrize("level", LEVELS)
def test_every_solution_passes_its_tests(level: int, reward) -> None:
    problems = one_of_each(level, each=3)
    rng = random.Random(0)
    found = scores(reward, problems, [DOMAIN.good_answer(p, rng) for p in problems])
    assert [s.value for s in found] == [1.0] * len(problems), [s.reason for s in found]


@pytest.mark.parametrize("level", LEVELS)
def test_no_wrong_body_passes_all_tests(level: int, reward) -> None:
    problems, texts = [], []
    for problem in one_of_each(level, each=3):
        call = problem.columns["solution"].split("\n")[0]
        for body in problem.columns["wrong_bodies"]:
            problems.append(problem)
            texts.append(f"```python\n{call}\n    return {body}\n```")
    found = scores(reward, problems, texts)
    assert [t for t, s in zip(texts, found, strict=True) if s.value == 1.0] == []


def test_wrong_answers_are_wrong(reward) -> None:
    problems = [problem for problem in one_of_each(1) for _ in range(4)]
    rng = random.Random(3)
    texts = [DOMAIN.wrong_answer(p, rng) for p in problems]
    found = scores(reward, problems, texts)
    assert [t for t, s in zip(texts, found, strict=True) if s.value == 1.0] == []
    # Nothing runs when the name is another one, or when code is only talked about.
    assert {s.status for s in found} >= {"NO_CODE", "FAIL", "RUNTIME_ERROR"}


def test_an_answer_is_paid_a_fifth_for_running_and_the_rest_for_tests(reward) -> None:
    by_family = {p.columns["family"]: p for p in one_of_each(1)}
    problem = by_family["even"]
    entry, tests = problem.columns["entry"], problem.columns["tests"]
    right = problem.columns["solution"]
    true = sum(test["expected"] for test in tests)
    assert 0 < true < TESTS
    texts = {
        # Written as chat models write: a fence with prose around it, an open fence, bare code.
        f"Here is the function:\n\n```python\n{right}\n```\n\nIt returns whether": 1.0,
        f"```python\n{right}\n\n# Example usage:\nprint({entry}(": 1.0,
        right: 1.0,
        # 0.2 for eight calls that came back, 0.8 for the share of tests that want True.
        f"def {entry}(n):\n    return True": 0.2 + 0.8 * true / TESTS,
        f"def {entry}(n):\n    return 'even'": 0.2,
        f"def {entry}(n):\n    return m": 0.0,
        "def my_even(n):\n    return n % 2 == 0": 0.0,
    }
    found = scores(reward, [problem] * len(texts), list(texts))
    assert [s.value for s in found] == pytest.approx(list(texts.values()))


@pytest.mark.parametrize("level", LEVELS)
def test_a_constant_passes_few_tests(level: int) -> None:
    for problem in one_of_each(level, each=4):
        tests = problem.columns["tests"]
        assert len(tests) == TESTS
        ((value, times),) = Counter(repr(t["expected"]) for t in tests).most_common(1)
        assert times <= 6, (problem.question, value)


def test_a_key_is_the_family_and_its_constants_not_the_wording() -> None:
    rng = random.Random(5)
    by_key: dict[str, list[Problem]] = {}
    for _ in range(4000):
        problem = DOMAIN.draw(rng, 1)
        by_key.setdefault(problem.key, []).append(problem)
    meanings = set()
    for problems in by_key.values():
        assert len({p.columns["family"] for p in problems}) == 1
        assert len({repr(p.columns["tests"]) for p in problems}) == 1
        assert len({p.columns["entry"] for p in problems}) == 1
        meanings.add((problems[0].columns["family"], repr(problems[0].columns["tests"])))
    assert len(meanings) == len(by_key), "two keys ask for the same function"
    assert max(len({p.question for p in problems}) for problems in by_key.values()) >= 6


def test_new_families_are_never_trained_on() -> None:
    stream = DOMAIN.stream(seed=0)
    trained = {next(stream).columns["family"] for _ in range(3000)}
    held_out = DOMAIN.held_out(300)
    new = {p.columns["family"] for p in held_out if p.columns["new_family"]}
    known = {p.columns["family"] for p in held_out if not p.columns["new_family"]}
    assert new >= NEW
    assert not trained & new
    assert known <= trained
    share = sum(p.columns["new_family"] for p in held_out) / len(held_out)
    assert 0.3 <= share <= 0.6


def test_families_have_names_of_their_own() -> None:
    titles = [family.title for level in LEVELS for family in FAMILIES[level]]
    assert len(set(titles)) == len(titles)
    assert len(FAMILIES[1]) >= 60
    assert sum(family.new for level in (2, 3) for family in FAMILIES[level]) == 0


def test_problems_do_not_change() -> None:
    # The keys of the first held-out problems, so that a pass rate stays comparable.
    assert [p.key for p in DOMAIN.held_out(3)] == [p.key for p in DOMAIN.held_out(3)]
    for problem in DOMAIN.held_out(50):
        assert split_of(problem.key) == problem.split == "held_out"
        assert problem.columns["entry"] in problem.question
        assert problem.columns["entry"].isidentifier()
