"""sort: put a short list of numbers into the order that a rule states."""

from __future__ import annotations

import random
from collections.abc import Callable

from rlkit.tasks.problem import Domain, Problem, content_key

#: rule in words -> key function; a stable sort breaks ties by position.
_RULES: dict[str, Callable[[int], int]] = {
    "from smallest to largest": lambda n: n,
    "from largest to smallest": lambda n: -n,
    "by last digit": lambda n: n % 10,
    "by distance from 10": lambda n: abs(n - 10),
}
_QUESTIONS = ("Sort {numbers} {rule}.", "Put {numbers} in order {rule}.")
_LEVELS = {1: (3, 3, 2), 2: (4, 6, 3), 3: (6, 8, 4)}  # shortest, longest, rules in use


class Sort(Domain):
    """Order a short list under a stated rule."""

    name = "sort"
    reward = "exact_answer"
    success = "exact_answer"
    levels = 3
    max_new_tokens = 32

    def draw(self, rng: random.Random, difficulty: int) -> Problem:
        shortest, longest, rules = _LEVELS[difficulty]
        numbers = rng.sample(range(21), rng.randint(shortest, longest))
        rule = rng.choice(list(_RULES)[:rules])
        ordered = sorted(numbers, key=_RULES[rule])
        question = rng.choice(_QUESTIONS).format(numbers=_join(numbers), rule=rule)
        return Problem(
            key=content_key(self.name, rule, numbers),
            domain=self.name,
            prompt=({"role": "user", "content": question},),
            columns={"answer": _join(ordered), "numbers": tuple(numbers), "rule": rule},
            difficulty=difficulty,
        )

    def good_answer(self, problem: Problem, rng: random.Random) -> str:
        return f"<answer>{problem.columns['answer']}</answer>"

    def wrong_answer(self, problem: Problem, rng: random.Random) -> str:
        ordered = problem.columns["answer"].split()
        kind = rng.random()
        if kind < 0.10:  # the right order without its tags
            return _join(ordered)
        if kind < 0.40:  # the opposite order
            ordered.reverse()
        elif kind < 0.80:  # two neighbours exchanged
            i = rng.randrange(len(ordered) - 1)
            ordered[i], ordered[i + 1] = ordered[i + 1], ordered[i]
        else:  # one number lost
            ordered.pop(rng.randrange(len(ordered)))
        return f"<answer>{_join(ordered)}</answer>"


def _join(numbers: list[int] | list[str]) -> str:
    return " ".join(map(str, numbers))
