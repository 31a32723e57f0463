"""Values: what an expression is worth, exactly or to 50 digits.

Fractions where the form is rational, mpmath otherwise. A guard stands before every
power and factorial: values beyond about 10^15000 are not computed, and a wall clock
may stand over all of it. Left out: sums, integrals, limits.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rlkit.rewards.maths.expression import Node
from rlkit.rewards.maths.trees import infinity, symbols

#: Bits that an exact number may have; about 15,000 digits. Larger powers are not computed.
MAX_BITS = 50_000


MAX_FACTORIAL = 2_000


DIGITS = 50


_LOCAL = threading.local()


class NotRational(ArithmeticError):
    """Not a fraction: a root, a function, pi."""


class TooLarge(ArithmeticError):
    """Beyond what is computed here."""


class OutOfTime(TooLarge):
    """The wall clock over a comparison ran out."""


class Undefined(ArithmeticError):
    """No value at this point: a division by zero, an unknown function."""


def start_clock(seconds: float | None) -> None:
    """Sets the wall clock over this thread's next evaluations; `None` takes it off."""
    _LOCAL.deadline = None if seconds is None else time.monotonic() + seconds


def _check_clock() -> None:
    deadline = getattr(_LOCAL, "deadline", None)
    if deadline is not None and time.monotonic() > deadline:
        raise OutOfTime("out of time")


def value_of(node: Node, env: Mapping[str, Fraction] | None = None, log: int | None = None) -> Any:
    """A `Fraction` where the value is rational by its form, else an mpmath number of 50 digits.

    Raises:
        TooLarge, Undefined, ZeroDivisionError
    """
    env = env or {}
    try:
        return _exact(node, env)
    except NotRational:
        mp = context()
        try:
            value = _approximate(node, env, log)
        except (ValueError, TypeError, OverflowError) as error:
            raise Undefined(str(error)) from None
        if not mp.isfinite(value):
            raise Undefined("not finite") from None
        return value


def real_order(node: Node) -> Any:
    """A real number, of one type, to sort constant ends of intervals by; infinities included.

    Raises:
        Undefined: the node is not a real constant.
    """
    sign = infinity(node)
    if sign is not None:
        return sign * context().inf
    if symbols(node):
        raise Undefined("not a constant")
    value = to_mp(value_of(node))
    if not is_real(value):
        raise Undefined("not real")
    return value.real


def _exact(node: Node, env: Mapping[str, Fraction]) -> Fraction:
    head = node[0]
    if head == "num":
        return node[1]
    if head == "sym":
        return env[node[1]]
    if head == "neg":
        return -_exact(node[1], env)
    if head in ("+", "*", "/"):
        a, b = _exact(node[1], env), _exact(node[2], env)
        _check_clock()
        if _bits(a) + _bits(b) > MAX_BITS:
            raise TooLarge("too many digits")
        return a + b if head == "+" else a * b if head == "*" else a / b
    if head == "^":
        return _exact_power(_exact(node[1], env), _exact(node[2], env))
    if head == "!":
        n = _exact(node[1], env)
        if n.denominator != 1 or n < 0:
            raise Undefined("a factorial of no whole number")
        if n > MAX_FACTORIAL:
            raise TooLarge("a factorial")
        return Fraction(math.factorial(n.numerator))
    if head == "fn":
        name, arguments = node[1], node[2:]
        if name in ("abs", "floor", "ceil"):
            value = _exact(arguments[0], env)
            return Fraction({"abs": abs, "floor": math.floor, "ceil": math.ceil}[name](value))
        if name == "binom":
            n, k = (_exact(a, env) for a in arguments)
            if n.denominator != 1 or k.denominator != 1 or n < 0:
                raise Undefined("a binomial of no whole numbers")
            if n > MAX_FACTORIAL:
                raise TooLarge("a binomial")
            return Fraction(math.comb(n.numerator, k.numerator)) if k >= 0 else Fraction(0)
        if name == "root":
            return _exact_root(_exact(arguments[1], env), _exact(arguments[0], env))
    if head == "base":
        raise Undefined("a number in another base")
    raise NotRational(head)


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise NotRational("a root")
    n = exponent.numerator
    if base in (0, 1, -1):
        if base == 0 and n <= 0:
            raise Undefined("zero to the power of zero or less")
        return base if n % 2 or base == 1 or base == 0 else Fraction(1)
    # |n| may itself have thousands of digits; bits are counted, nothing is raised yet.
    if n.bit_length() > 40 or abs(n) * _bits(base) > MAX_BITS:
        raise TooLarge("a power")
    return base**n


def _exact_root(value: Fraction, degree: Fraction) -> Fraction:
    if degree != 2 or value < 0:
        raise NotRational("a root")
    upper, lower = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if upper * upper != value.numerator or lower * lower != value.denominator:
        raise NotRational("a root")
    return Fraction(upper, lower)


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _approximate(node: Node, env: Mapping[str, Fraction], log: int | None) -> Any:
    mp = context()
    try:
        return to_mp(_exact(node, env))
    except NotRational:
        head = node[0]
    if head == "const":
        if node[1] == "inf":
            raise Undefined("infinity in an expression")
        return {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1)}[node[1]]
    _check_clock()
    parts = [_approximate(a, env, log) for a in node[1:] if isinstance(a, tuple)]
    if head == "neg":
        return -parts[0]
    if head == "+":
        return _sum(parts)
    if head == "*":
        return parts[0] * parts[1]
    if head == "/":
        return parts[0] / parts[1]
    if head == "^":
        return _power(*parts)
    if head == "fn":
        return _function(node[1], parts, log)
    raise Undefined(f"{head} has no value")


def _sum(parts: list[Any]) -> Any:
    """A sum in which what only rounding left of a cancellation is nothing."""
    mp = context()
    total = parts[0] + parts[1]
    size = max(abs(parts[0]), abs(parts[1]))
    return mp.mpf(0) if abs(total) < size * mp.mpf(10) ** (5 - DIGITS) else total


def _power(base: Any, exponent: Any) -> Any:
    mp = context()
    if base == 0:
        if mp.re(exponent) <= 0:
            raise Undefined("zero to the power of zero or less")
        return mp.mpf(0)
    if abs(exponent) * (abs(mp.log(abs(base), 2)) + 5) > MAX_BITS:
        raise TooLarge("a power")
    return mp.power(base, exponent)


def _function(name: str, parts: list[Any], log: int | None) -> Any:
    mp = context()
    if name == "root":
        degree, value = parts
        if not mp.isint(degree) or degree == 0:
            raise Undefined("a root of no whole degree")
        if mp.im(value) == 0 and mp.re(value) < 0 and int(degree) % 2:
            return -_power(-value, 1 / degree)  # the real odd root
        return mp.sqrt(value) if degree == 2 else _power(value, 1 / degree)
    if name in ("ln", "log", "lg", "logb"):
        if parts[-1] == 0:
            raise Undefined("the logarithm of zero")
        if name == "logb":
            return mp.log(parts[1]) / mp.log(parts[0])
        decimal = name == "lg" or (name == "log" and log == 10)
        return mp.log(parts[0]) / (mp.log(10) if decimal else 1)
    if name == "exp":
        return _power(+mp.e, parts[0])
    if name == "abs":
        return abs(parts[0])
    if name in ("floor", "ceil"):
        return getattr(mp, name)(parts[0])
    if name == "binom":
        raise Undefined("a binomial of no whole numbers")
    if abs(parts[0]) > mp.mpf(10) ** 20:
        raise TooLarge("the argument of a function")
    functions = {
        "arcsin": mp.asin,
        "asin": mp.asin,
        "arccos": mp.acos,
        "acos": mp.acos,
        "arctan": mp.atan,
        "atan": mp.atan,
        "arccot": mp.acot,
    }
    value = (functions.get(name) or getattr(mp, name))(parts[0])
    # sin(pi) to 50 digits is 1e-51: that is rounding, and no value.
    return mp.mpf(0) if abs(value) < mp.mpf(10) ** (5 - DIGITS) < abs(parts[0]) else value


def to_mp(value: Any) -> Any:
    if isinstance(value, Fraction):
        mp = context()
        return mp.mpf(value.numerator) / mp.mpf(value.denominator)
    return value


def is_real(value: Any) -> bool:
    mp = context()
    if not isinstance(value, mp.mpc):
        return True
    return abs(value.imag) <= abs(value.real) * mp.mpf(10) ** -35


def context() -> Any:
    """An mpmath context of this thread's own: the global one is not ours to set."""
    if not hasattr(_LOCAL, "mp"):
        import mpmath

        _LOCAL.mp = mpmath.MPContext()
        _LOCAL.mp.dps = DIGITS
    return _LOCAL.mp
