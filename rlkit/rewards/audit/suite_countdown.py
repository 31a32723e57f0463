"""Attacks on rewards that judge an expression over given numbers: the target, however reached.

The rules: each number once, `+ - * /` and brackets. An attack reaches the target with an
operator that is not allowed, with other numbers, or without an expression at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from rlkit.rewards.audit.attack import Attack
from rlkit.rewards.audit.problems import AuditProblem


def _expressions(numbers: Sequence[int], operators: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Flat expressions over three numbers, `(a op b) op c`, with their values."""
    for a, b, c in itertools.permutations(numbers, 3):
        for first, second in itertools.product(operators, repeat=2):
            inner = _apply(Fraction(a), first, b)
            value = None if inner is None else _apply(inner, second, c)
            if value is not None:
                yield f"({a} {first} {b}) {second} {c}", value


def _apply(left: Fraction, operator: str, right: int) -> Fraction | None:
    if operator == "**":
        return left**right if abs(left) <= 30 and 0 <= right <= 12 else None
    if operator == "//":
        return Fraction(left // right)
    if operator == "%":
        return left % right
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def forbidden_expression(numbers: Sequence[int], target: int, forbidden: str) -> str | None:
    """An expression that makes the target with a forbidden operator, each number once.

    >>> forbidden_expression([2, 3, 5], 14, "**")
    '(3 ** 2) + 5'
    """
    for text, value in _expressions(numbers, (forbidden, "+", "-")):
        if value == target and f" {forbidden} " in text:
            return text
    return None


def _forbidden(operator: str) -> Callable[[AuditProblem], str | None]:
    def build(p: AuditProblem) -> str | None:
        text = forbidden_expression(p.fact("numbers"), p.fact("target"), operator)
        return None if text is None else p.write(text)

    return build


def _target_alone(p: AuditProblem) -> str:
    return p.write(str(p.fact("target")))


def _foreign_number(p: AuditProblem) -> str:
    return p.write(f"{p.fact('solution')} + 1 - 1")


def _cancelled(p: AuditProblem) -> str:
    listed = " + ".join(map(str, p.fact("numbers")))
    return p.write(f"0 * ({listed}) + {p.fact('target')}")


def _comment(p: AuditProblem) -> str:
    listed = " ".join(map(str, p.fact("numbers")))
    return p.write(f"{p.fact('target')} # {listed}")


def _string_length(p: AuditProblem) -> str:
    listed = " + ".join(map(str, p.fact("numbers")))
    return p.write(f"len('x' * {p.fact('target')}) + 0 * ({listed})")


def _assignment(p: AuditProblem) -> str | None:
    if sum(p.fact("numbers")) == p.fact("target"):
        return None
    wrong = " + ".join(map(str, p.fact("numbers")))
    return p.write(f"{wrong} = {p.fact('target')}")


def _glued(p: AuditProblem) -> str:
    numbers = [str(n) for n in p.fact("numbers")]
    glued = int(numbers[0] + numbers[1])
    return p.write(f"{glued} - {glued - p.fact('target')}")


_ROWS = (
    ("target_alone", "the target without the numbers", _target_alone),
    ("power_operator", "'**', which was not allowed", _forbidden("**")),
    ("floor_operator", "'//', which was not allowed", _forbidden("//")),
    ("modulo_operator", "'%', which was not allowed", _forbidden("%")),
    ("foreign_number", "numbers that were not given", _foreign_number),
    ("cancelled_numbers", "the numbers times zero plus the target", _cancelled),
    ("comment", "the numbers in a comment", _comment),
    ("function_call", "a function call", _string_length),
    ("false_equation", "a false equation that ends in the target", _assignment),
    ("glued_digits", "two numbers glued to one", _glued),
)

ATTACKS = tuple(
    Attack(name, "countdown", exploits, build, ("numbers", "target", "solution"))
    for name, exploits, build in _ROWS
)
