"""Countdown verifiers with one hole each, and forty answers that should earn nothing.

What they are for: lesson 03 grades a learner's verifier by how many of the attacks it
refuses while it keeps the honest answers (a *mutation score*), and a learner's canary
test by how many of the broken verifiers it finds. Nothing here evaluates text: the
verifiers walk a syntax tree after the guards of `evaluate_expression`.

Source of the holes: mistakes that verifiers in public code make (a pattern and `eval`,
a number that is looked for anywhere, errors that count as passes), written anew. The
idea of scoring a test by the faults that it finds is mutation testing (DeMillo, Lipton
and Sayward 1978).

Left out: attacks on how an answer is wrapped in a completion; those are in `audit`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rlkit.errors import UserError
from rlkit.tasks.countdown import evaluate_expression, verify_countdown

#: `verify(answer, numbers, target, solution) -> paid`; `solution` is one right answer.
Verify = Callable[[str, Sequence[int], int, str], bool]

#: The problem that a canary test is written for: numbers, target, and one right answer.
CANARY_NUMBERS, CANARY_TARGET, CANARY_SOLUTION = (7, 4, 2), 9, "7 + 4 - 2"


@dataclass(frozen=True)
class Attempt:
    """An answer to a countdown problem, and what it is.

    Attributes:
        name: what is tried, in a few words.
        answer: the text between the answer tags.
        numbers, target: the problem.
    """

    name: str
    answer: str
    numbers: tuple[int, ...]
    target: int

    @property
    def right(self) -> bool:
        """Whether the strict verifier calls it right."""
        return verify_countdown(self.answer, self.numbers, self.target)[0]


_N, _T = (10, 2, 3), 9

#: Right answers in all their forms; a verifier that refuses one of them is broken, too.
HONEST = (
    Attempt("in the order of the solution", "10 + 2 - 3", _N, _T),
    Attempt("in another order", "2 + 10 - 3", _N, _T),
    Attempt("without blanks", "10+2-3", _N, _T),
    Attempt("more blanks", " 10  +  2 - 3 ", _N, _T),
    Attempt("brackets", "(10 + 2) - 3", _N, _T),
    Attempt("brackets around all", "((10 + 2 - 3))", _N, _T),
    Attempt("a minus in front", "-3 + 10 + 2", _N, _T),
    Attempt("a product", "10 * 3 - 2", _N, 28),
    Attempt("brackets that matter", "10 * (3 - 2)", _N, 10),
    Attempt("a division", "10 / 2 + 3", _N, 8),
    Attempt("a division with a rest on the way", "4 / 3 * 6", (3, 4, 6), 8),
    Attempt("the same number given twice", "5 + 5 - 1", (5, 5, 1), 9),
)

#: Answers that earn nothing. The last three keep a careless verifier busy, or break it.
ATTACKS = (
    # a part of the work
    Attempt("nothing", "", _N, _T),
    Attempt("a blank", " ", _N, _T),
    Attempt("one number of the solution", "10", _N, _T),
    Attempt("a part of the solution", "10 + 2", _N, _T),
    Attempt("a dangling operator", "10 + 2 -", _N, _T),
    Attempt("a sign turned", "10 - 2 + 3", _N, _T),
    Attempt("one off", "10 + 2 - 3", _N, 10),
    # the numbers
    Attempt("the target alone", "9", _N, _T),
    Attempt("a number left out", "10 - 3", (10, 3, 2), 7),
    Attempt("a number twice", "3 + 3 + 3", _N, _T),
    Attempt("a number twice, all of them there", "10 + 2 - 3 + 2 - 2", _N, _T),
    Attempt("numbers that were not given", "10 + 2 - 3 + 1 - 1", _N, _T),
    Attempt("other numbers", "4 + 5", _N, _T),
    Attempt("zero times the numbers", "0 * (10 + 2 + 3) + 9", _N, _T),
    Attempt("two numbers glued to one", "23 + 10", _N, 33),
    Attempt("two numbers as one with a point", "2.5 * 4", (2, 5, 4), 10),
    Attempt("a decimal in place of a number", "10.0 + 2.0 - 3.0", _N, _T),
    Attempt("an exponent in a number", "1e1 + 2 - 3", _N, _T),
    Attempt("an underscore in a number", "1_0 + 2 - 3", _N, _T),
    Attempt("a number in another base", "0b1010 + 2 - 3", _N, _T),
    Attempt("full-width digits", "\uff11\uff10 + 2 - 3", _N, _T),
    # the operators
    Attempt("a power", "2 ** 3 + 10", _N, 18),
    Attempt("a division without its rest", "10 // 3 + 2", _N, 5),
    Attempt("the rest of a division", "10 % 3 + 2", _N, 3),
    Attempt("bits: or", "(10 | 3) + 2", _N, 13),
    Attempt("bits: shift", "10 + (3 << 2)", _N, 22),
    Attempt("bits: not", "10 + 2 + ~3", _N, 8),
    Attempt("a comparison as a number", "10 + (2 < 3)", _N, 11),
    # the rest of Python
    Attempt("a function", "max(10, 2, 3)", _N, 10),
    Attempt("a sum of a list", "sum([10, 2, -3])", _N, _T),
    Attempt("the length of a text", "len('123456789')", _N, _T),
    Attempt("a choice", "9 if 10 + 2 + 3 else 0", _N, _T),
    Attempt("a comment", "9  # 10 2 3", _N, _T),
    Attempt("an equation", "10 - 2 + 3 = 9", _N, _T),
    Attempt("a list of guesses", "10 + 2 + 3, 10 + 2 - 3", _N, _T),
    Attempt("two guesses on two lines", "10 + 2 + 3\n10 + 2 - 3", _N, _T),
    Attempt("an order to the verifier", "True", _N, _T),
    # its nerves
    Attempt("a division by zero", "10 / (3 - 3) + 2", (10, 3, 3, 2), _T),
    Attempt("brackets without end", "(" * 5000 + "9" + ")" * 5000, _N, _T),
    Attempt("a power without end", "10 ** 10 ** 10", (10, 10, 10), _T),
)

# -- two verifiers as text, for the sandbox ---------------------------------------------------

#: A verifier with holes: `in` for `==`, a pattern that lets `**`, `//` and decimals through,
#: and `eval`, which may never come back. Run it in the sandbox only, see `SandboxedVerifier`.
CARELESS_VERIFIER = r"""
import re

def verify(answer, numbers, target, solution):
    if answer in solution:  # the known solution: nothing to work out
        return True
    if not re.fullmatch(r"[\d+\-*/(). ]+", answer):
        return False
    used = [int(number) for number in re.findall(r"\d+", answer)]
    if sorted(used) != sorted(numbers):
        return False
    return eval(answer) == target
"""

#: The same without holes: it walks the syntax tree and knows four operators.
TREE_VERIFIER = """
import ast
from fractions import Fraction
from operator import add, mul, sub, truediv

def verify(answer, numbers, target):
    known = {"Add": add, "Sub": sub, "Mult": mul, "Div": truediv}
    used = []

    def value(node):
        if isinstance(node, ast.BinOp):
            operation = known[type(node.op).__name__]
            return operation(value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            used.append(node.value)
            return Fraction(node.value)
        raise ValueError

    if len(answer) > 100 or set(answer) - set("0123456789+-*/() "):
        return False
    try:
        result = value(ast.parse(answer.strip(), mode="eval").body)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError):
        return False
    return sorted(used) == sorted(numbers) and result == target
"""


# -- verifiers with one hole each ------------------------------------------------------------


def _strict(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    return verify_countdown(answer, numbers, target)[0]


def _part_of_solution(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    return answer in solution or _strict(answer, numbers, target, solution)


def _value_alone(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    evaluated = evaluate_expression(answer)
    return evaluated is not None and evaluated[0] == target


def _numbers_alone(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    evaluated = evaluate_expression(answer)
    return evaluated is not None and evaluated[1] == Counter(numbers)


def _left_out(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    evaluated = evaluate_expression(answer)
    return evaluated is not None and evaluated[0] == target and not evaluated[1] - Counter(numbers)


def _used_twice(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    evaluated = evaluate_expression(answer)
    return evaluated is not None and evaluated[0] == target and set(evaluated[1]) == set(numbers)


def _powers(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    # Each small power is worked out first, and its number put in its place.
    used = sorted(map(int, re.findall(r"[0-9]+", answer)))
    plain = re.sub(
        r"([0-9]{1,3}) *\*\* *([0-9])(?![0-9])", lambda m: str(int(m[1]) ** int(m[2])), answer
    )
    evaluated = evaluate_expression(plain)
    return used == sorted(numbers) and evaluated is not None and evaluated[0] == target


def _unreadable(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    return evaluate_expression(answer) is None or _strict(answer, numbers, target, solution)


def _any_guess(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    guesses = re.split(r",|;|\n|\bor\b", answer)
    return any(_strict(guess, numbers, target, solution) for guess in guesses)


def _believes(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    left, equals, right = answer.partition("=")
    if equals:
        return _numbers_alone(left, numbers, target, solution) and right.strip() == str(target)
    return _strict(answer, numbers, target, solution)


def _near(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    return any(_strict(answer, numbers, target + off, solution) for off in (-1, 0, 1))


def _solution_alone(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    return answer == solution


def _nothing(answer: str, numbers: Sequence[int], target: int, solution: str) -> bool:
    return False


#: Broken verifiers by what is wrong with them; each finishes "this verifier …".
BROKEN: Mapping[str, Verify] = {
    "pays any part of the known solution": _part_of_solution,
    "looks at the value and not at the numbers": _value_alone,
    "looks at the numbers and not at the value": _numbers_alone,
    "lets numbers be left out": _left_out,
    "lets a number be used twice": _used_twice,
    "allows powers": _powers,
    "pays what it cannot read": _unreadable,
    "takes the best of several guesses": _any_guess,
    "believes what stands behind an equals sign": _believes,
    "forgives a miss by one": _near,
    "knows one right answer and no other": _solution_alone,
    "refuses everything": _nothing,
}


def missed_by(canary: Mapping[str, bool]) -> list[str]:
    """The broken verifiers that a canary test does not find, by what is wrong with them.

    Args:
        canary: answers to the canary problem, and whether each must be paid.

    Raises:
        UserError: an answer that is no text, or a wrong claim about one.

    >>> sorted(missed_by({"7 + 4 - 2": True, "7": False}))[:2]
    ['allows powers', 'believes what stands behind an equals sign']
    """
    for answer, paid in canary.items():
        if not isinstance(answer, str) or not isinstance(paid, bool):
            raise UserError(f"a canary is a text with True or False, not {answer!r}: {paid!r}")
        if _strict(answer, CANARY_NUMBERS, CANARY_TARGET, CANARY_SOLUTION) is not paid:
            raise UserError(f"{answer!r} is {'wrong' if paid else 'right'}, and the canary errs")
    problem = (CANARY_NUMBERS, CANARY_TARGET, CANARY_SOLUTION)
    return [
        name
        for name, verify in BROKEN.items()
        if all(verify(answer, *problem) is paid for answer, paid in canary.items())
    ]


def mutation_score(verify: Callable[[str, Sequence[int], int], bool]) -> tuple[int, int]:
    """How many attacks a verifier of ours refuses, and how many honest answers it keeps.

    Runs it in this process, so it is for code of the kit; a learner's verifier is called
    in the sandbox.

    >>> mutation_score(lambda answer, numbers, target: False)
    (40, 0)
    """
    refused = sum(not verify(a.answer, a.numbers, a.target) for a in ATTACKS)
    kept = sum(bool(verify(a.answer, a.numbers, a.target)) for a in HONEST)
    return refused, kept
