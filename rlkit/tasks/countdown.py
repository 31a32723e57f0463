"""countdown: reach a target by combining the given numbers, each used once.

The verifier parses the answer with `ast.parse` after a length guard and walks
the syntax tree over exact fractions. It never evaluates text, so `9**9**9`,
names, calls and strings are refused rather than run.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from rlkit.tasks.problem import Domain, Problem, content_key

#: Longest expression that is looked at; a right answer is far shorter.
MAX_EXPRESSION_CHARS = 200
#: Largest nesting of the syntax tree that is walked.
MAX_DEPTH = 20
#: Nothing but these characters is even parsed.
_PLAIN = re.compile(r"[0-9+\-*/() \t]+")

_LEVELS = {1: (3, 14, "+-"), 2: (3, 14, "+-*"), 3: (4, 15, "+-*")}  # how many, largest, operators


class Countdown(Domain):
    """Reach a number with given numbers."""

    name = "countdown"
    reward = "countdown_answer"
    success = "countdown_answer"
    levels = 3
    max_new_tokens = 24

    def draw(self, rng: random.Random, difficulty: int) -> Problem:
        count, largest, operators = _LEVELS[difficulty]
        while True:
            numbers = rng.sample(range(1, largest + 1), count)
            solution, target = _signed_sum(numbers, rng, operators)
            if 0 < target <= 50:
                break
        listed = ", ".join(map(str, numbers))
        allowed = ", ".join(operators)
        question = f"Use each of {listed} once with {allowed} to make {target}."
        return Problem(
            key=content_key(self.name, sorted(numbers), target, operators),
            domain=self.name,
            prompt=({"role": "user", "content": question},),
            columns={"numbers": tuple(numbers), "target": target, "solution": solution},
            difficulty=difficulty,
        )

    def good_answer(self, problem: Problem, rng: random.Random) -> str:
        return f"<answer>{problem.columns['solution']}</answer>"

    def wrong_answer(self, problem: Problem, rng: random.Random) -> str:
        solution: str = problem.columns["solution"]
        numbers = problem.columns["numbers"]
        kind = rng.random()
        if kind < 0.10:  # the right expression without its tags
            return solution
        if kind < 0.65:  # one operator changed
            spots = [i for i, c in enumerate(solution) if c in "+-*"]
            i = rng.choice(spots)
            other = rng.choice([c for c in "+-" if c != solution[i]])
            solution = solution[:i] + other + solution[i + 1 :]
        elif kind < 0.85:  # a number left out
            i = max(solution.rfind(c) for c in "+-*")
            solution = solution[:i].rstrip()
        else:  # a number used twice
            solution = f"{solution} + {rng.choice(numbers)}"
        return f"<answer>{solution}</answer>"


def _signed_sum(numbers: Sequence[int], rng: random.Random, operators: str) -> tuple[str, int]:
    """A random expression over the numbers in their order, and its value.

    The first two are multiplied now and then where `*` is allowed. A number that
    is subtracted is written after those that are added, so that the expression
    never begins with a minus sign.
    """
    terms = [(str(n), n) for n in numbers]
    if "*" in operators and rng.random() < 0.6:
        (a, x), (b, y), *rest = terms
        terms = [(f"{a} * {b}", x * y), *rest]
    negative = {i for i in range(1, len(terms)) if rng.random() < 0.5}
    if rng.random() < 0.5:  # which term stays positive must not always be the first
        shift = rng.randrange(len(terms))
        negative = {(i + shift) % len(terms) for i in negative}
    plus = [t for i, t in enumerate(terms) if i not in negative]
    minus = [t for i, t in enumerate(terms) if i in negative]
    text = " + ".join(t for t, _ in plus) + "".join(f" - {t}" for t, _ in minus)
    return text, sum(v for _, v in plus) - sum(v for _, v in minus)


def evaluate_expression(text: str) -> tuple[Fraction, Counter[int]] | None:
    """Value of an arithmetic expression and the whole numbers it uses.

    Only non-negative integer literals, `+ - * /`, unary minus and brackets are
    allowed; anything else, and a division by zero, gives `None`.

    >>> evaluate_expression("3 + 8 / 4")
    (Fraction(5, 1), Counter({3: 1, 8: 1, 4: 1}))
    >>> evaluate_expression("9 ** 9") is None
    True
    """
    text = text.strip()
    if len(text) > MAX_EXPRESSION_CHARS or not _PLAIN.fullmatch(text):
        return None
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # not an expression: judged, not an error of ours
    used: Counter[int] = Counter()
    value = _walk(tree.body, used, 0)
    return None if value is None else (value, used)


def _walk(node: ast.AST, used: Counter[int], depth: int) -> Fraction | None:
    if depth > MAX_DEPTH:
        return None
    if isinstance(node, ast.Constant):
        if type(node.value) is not int:
            return None
        used[node.value] += 1
        return Fraction(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _walk(node.operand, used, depth + 1)
        return None if inner is None else -inner
    if not isinstance(node, ast.BinOp):
        return None
    left = _walk(node.left, used, depth + 1)
    right = _walk(node.right, used, depth + 1)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.Div):
        return left / right if right else None
    return None


def verify_countdown(text: str, numbers: Sequence[int], target: int) -> tuple[bool, str]:
    """Whether an expression uses exactly the given numbers and makes the target.

    Returns the judgement and a short reason for a person.

    >>> verify_countdown("8 - 3", [3, 8], 5)
    (True, 'makes 5')
    >>> verify_countdown("8 - 3 + 3", [3, 8], 8)
    (False, 'uses 3, 3, 8 instead of 3, 8')
    """
    evaluated = evaluate_expression(text)
    if evaluated is None:
        return False, "not an expression of + - * / over whole numbers"
    value, used = evaluated
    if used != Counter(numbers):
        given = ", ".join(map(str, sorted(numbers)))
        return False, f"uses {', '.join(map(str, sorted(used.elements())))} instead of {given}"
    if value != target:
        return False, f"makes {value} instead of {target}"
    return True, f"makes {target}"
