"""arith: integer expressions, answered inside `<answer>` tags.

Level 1 is one addition or subtraction, level 2 two operations from left to
right or one product, level 3 mixes precedence and brackets. The value is
computed while the expression is built; no text is ever evaluated.
"""

from __future__ import annotations

import random

from rlkit.tasks.problem import Domain, Problem, content_key

_QUESTIONS = ("What is {}?", "Compute {}.", "Work out {}.")


class Arith(Domain):
    """Integer expressions with +, - and *."""

    name = "arith"
    reward = "exact_answer"
    success = "exact_answer"
    levels = 3
    max_new_tokens = 32

    def draw(self, rng: random.Random, difficulty: int) -> Problem:
        expression, value, steps = _BUILDERS[difficulty](rng)
        question = rng.choice(_QUESTIONS).format(expression)
        return Problem(
            # The phrasing is no part of the key: the same sum in other words
            # stays in the same split.
            key=content_key(self.name, expression),
            domain=self.name,
            prompt=({"role": "user", "content": question},),
            columns={"answer": str(value), "expression": expression, "steps": steps},
            difficulty=difficulty,
        )

    def good_answer(self, problem: Problem, rng: random.Random) -> str:
        return _render(problem.columns["steps"], problem.columns["answer"])

    def wrong_answer(self, problem: Problem, rng: random.Random) -> str:
        value = int(problem.columns["answer"])
        slip = rng.choice([-10, -2, -1, 1, 2, 10])
        kind = rng.random()
        if kind < 0.10:  # the right number without its tags
            return str(value)
        if kind < 0.25 and value != 0:  # a lost sign
            return _render(problem.columns["steps"], str(-value))
        return _render(problem.columns["steps"], str(value + slip))


def _render(steps: str, answer: str) -> str:
    thought = f"<think>{steps}</think>" if steps else ""
    return f"{thought}<answer>{answer}</answer>"


def _one_operation(rng: random.Random) -> tuple[str, int, str]:
    a, b = rng.randint(0, 30), rng.randint(0, 30)
    if rng.random() < 0.5:
        return f"{a} + {b}", a + b, ""
    return f"{a} - {b}", a - b, ""


def _two_operations(rng: random.Random) -> tuple[str, int, str]:
    if rng.random() < 0.3:
        a, b = rng.randint(2, 12), rng.randint(2, 12)
        return f"{a} * {b}", a * b, ""
    a, b, c = (rng.randint(0, 30) for _ in range(3))
    first, second = rng.choice("+-"), rng.choice("+-")
    inner = a + b if first == "+" else a - b
    value = inner + c if second == "+" else inner - c
    return f"{a} {first} {b} {second} {c}", value, f"{a} {first} {b} = {inner}"


def _precedence(rng: random.Random) -> tuple[str, int, str]:
    a, b, c = rng.randint(0, 20), rng.randint(2, 9), rng.randint(2, 9)
    sign = rng.choice("+-")
    if rng.random() < 0.5:
        product = b * c
        value = a + product if sign == "+" else a - product
        return f"{a} {sign} {b} * {c}", value, f"{b} * {c} = {product}"
    inner = a + b if sign == "+" else a - b
    return f"({a} {sign} {b}) * {c}", inner * c, f"{a} {sign} {b} = {inner}"


_BUILDERS = {1: _one_operation, 2: _two_operations, 3: _precedence}
