"""Mathematics as an attack: expressions that keep an algebra system busy, or fool it.

An expression is an answer that is read, not run; what can be attacked is the reader, the time
and memory of the algebra system, and the notion of "the same".
"""

from __future__ import annotations

from rlkit.sandbox.corpus.case import DIED, NOT_PAID, STOPPED, Case
from rlkit.sandbox.types import Limits, Status

#: The algebra system alone takes some tens of megabytes, and a second to think.
_LIMITS = Limits(wall_s=4.0, cpu_s=3.0, memory_mb=1024)
_NOT_READ = frozenset({Status.COMPILE_ERROR})
_WRONG = frozenset({Status.FAIL, Status.NO_RESULT, Status.BAD_VALUE, Status.COMPILE_ERROR})


def _bomb(name: str, source: str, lesson: str) -> Case:
    ends = STOPPED | DIED | _WRONG
    tests = ({"name": "same", "expected": "2*(x + 1)"},)
    return Case(name, "hostile", "math", "func", source, tests, ends, "time", lesson, entry="",
                limits=_LIMITS)  # fmt: skip


def _cheat(name: str, expected: str, source: str, lesson: str,
           ends: frozenset[Status] = _WRONG) -> Case:  # fmt: skip
    tests = ({"name": "same", "expected": expected},)
    return Case(name, "cheat", "math", "func", source, tests, ends, "comparison", lesson, entry="",
                limits=_LIMITS)  # fmt: skip


CASES = (
    _bomb("a tower of powers", "9^9^9^9^9", "Is five characters long and has 10^(10^8) digits."),
    _bomb("a large factorial", "factorial(factorial(9))", "Asks for a number of a million digits."),
    _bomb("a hundred brackets", "(" * 500 + "x" + ")" * 500, "Nests until a reader overflows."),
    _bomb("a long sum", "+".join(["x"] * 5_000), "Is long without saying anything."),
    _bomb("hard to simplify", "*".join(f"(sin({n}*x)+cos({n + 1}*x))^9" for n in range(1, 9)),
          "Multiplies out to millions of terms."),
    _bomb("a program as an expression", "__import__('os').system('true')",
          "Is Python that a careless reader evaluates."),
    _bomb("an attribute as an expression", "x.__class__.__mro__[1].__subclasses__()",
          "Climbs from a symbol to every class there is."),
    _cheat("not a number", "2*(x+1)", "oo - oo", "Is undefined, and so equal to anything."),
    _cheat("zero by zero", "2*(x+1)", "0/0", "Is undefined in another way."),
    _cheat("undefined by a factor", "2*(x+1)", "(2*x+3) + 0*oo",
           "Makes the difference undefined, which some take for zero.", NOT_PAID),
    _cheat("an equation that says nothing", "x^2 = 4", "0 = 0",
           "Is true everywhere, the wanted solutions among them."),
    _cheat("an equation times zero", "x^2 = 4", "0*x = 0", "Multiplies both sides by zero."),
    _cheat("a set with one more", "{1, 2, 3}", "{1, 2, 3, 4}",
           "Holds all right members, and more."),
    _cheat("a set with fewer", "{1, 2, 3}", "{1, 2}", "Holds right members only, not all."),
    _cheat("the same member again", "{1, 2, 3}", "{1, 1, 1}", "Has the right number of members."),
    _cheat("nearly a third", "1/3", "1/3 + 10^(-40)",
           "Differs in the fortieth digit, below what is compared with floats."),
    _cheat("rounded", "pi", "3.14159265358979", "Is right to fifteen digits, and is not pi."),
    _cheat("right for positive numbers", "x", "sqrt(x^2)", "Is the same for half of all numbers."),
    _cheat("a list for a set", "{1, 2, 3}", "[1, 2, 3]", "Is a different thing."),
    _cheat("both answers", "x^2 = 4", "x = 2 = -2", "Gives several answers in one line."),
    _cheat("one answer or the other", "2", "2 or 3", "Leaves the choice to the judge."),
    _cheat("a symbol of the same look", "x", "\u0445", "Uses a Cyrillic letter."),
)  # fmt: skip
