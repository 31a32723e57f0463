"""Evaluation: are two expressions the same value, decided without a computer algebra system.

Rational expressions are compared exactly: constants as fractions, polynomials and
their quotients at several fixed rational points (two different ones of modest degree
cannot agree at all of them but by a rare accident; Schwartz 1980, Zippel 1979).
Everything else is compared to 50 digits with mpmath at the same points, so that
e^(pi sqrt(163)) is not an integer. Points where a side is undefined are left out.

A decimal is taken for a rounding of the other side only to `tolerance` (1e-6,
relative), and never in place of an integer or a decimal that it could have
written out: 100000.01 is not 100000.

A guard stands before every power and factorial: values beyond about 10^15000 are
not computed. Left out: proofs of equality; sums, integrals, limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rlkit.rewards.maths.expression import Node
from rlkit.rewards.maths.trees import has, has_decimals, infinity, literal_places, symbols
from rlkit.rewards.maths.values import Undefined, context, is_real, to_mp, value_of

_AGREE = Fraction(1, 10**35)


# Fixed points with awkward digits; the first four are positive, where roots and logs are real.
_POINTS = [
    [Fraction(1361, 997), Fraction(2749, 1499), Fraction(613, 877), Fraction(3253, 1277)],
    [Fraction(457, 1181), Fraction(1129, 743), Fraction(3571, 1847), Fraction(911, 1307)],
    [Fraction(2903, 1217), Fraction(389, 1063), Fraction(1571, 1093), Fraction(541, 1033)],
    [Fraction(641, 1091), Fraction(4177, 1949), Fraction(1039, 1987), Fraction(1783, 821)],
    [Fraction(-1153, 1201), Fraction(-683, 1231), Fraction(-2161, 967), Fraction(-509, 1321)],
    [Fraction(-1873, 1277), Fraction(977, 1409), Fraction(-433, 1187), Fraction(1459, 1009)],
    [Fraction(787, 1117), Fraction(-1619, 1151), Fraction(1747, 1619), Fraction(-863, 1427)],
]


def same_value(a: Node, b: Node, tolerance: float = 1e-6) -> bool | None:
    """Whether two expressions are equal; `None` when that cannot be told.

    Raises:
        TooLarge: a value is too large to be computed, and the trees differ.

    >>> from rlkit.rewards.maths.expression import num
    >>> same_value(("/", num(1), num(2)), num(Fraction(1, 2), 1))
    True
    >>> same_value(num(3), num(4))
    False
    """
    if a == b:
        return True
    names = sorted(symbols(a) | symbols(b))
    if any(name.endswith("()") for name in names):
        return None  # an unknown function
    if has(a, "base") or has(b, "base"):
        return False
    if infinity(a) is not None or infinity(b) is not None:
        return infinity(a) == infinity(b)
    if has(a, "inf") or has(b, "inf"):
        return None
    readings = [10, None] if has(a, "log") or has(b, "log") else [None]
    answers = [_same(a, b, names, tolerance, reading) for reading in readings]
    return True if True in answers else None if None in answers else False


def _same(a: Node, b: Node, names: list[str], tolerance: float, log: int | None) -> bool | None:
    if not names:
        return _same_constant(a, b, tolerance, log)
    if len(names) > 26:
        return None
    loose = (has_decimals(a) or has_decimals(b)) and tolerance
    limit = Fraction(tolerance) if loose else _AGREE
    usable = undefined = 0
    for point in _POINTS:
        env = {n: point[k % 4] + k // 4 for k, n in enumerate(names)}
        pair = _values(a, b, env, log)
        if pair is None:
            undefined += _defined(b, env, log) and not _defined(a, env, log)
            continue
        usable += 1
        left, right = pair
        if isinstance(left, Fraction) and isinstance(right, Fraction) and not loose:
            if left != right:
                return False
        elif not _close(left, right, limit):
            return False
    if usable < 3:
        # A given answer without a value anywhere is not the wanted one, which has values.
        return False if undefined == len(_POINTS) else None
    return True


def _defined(node: Node, env: Mapping[str, Fraction], log: int | None) -> bool:
    try:
        value_of(node, env, log)
    except (Undefined, ZeroDivisionError):
        return False
    return True


def _values(a: Node, b: Node, env: Mapping[str, Fraction], log: int | None) -> Any:
    """Both values at one point, or `None` where one is undefined or not real."""
    imaginary = has(a, "i") or has(b, "i")
    pair = []
    for node in (a, b):
        try:
            value = value_of(node, env, log)
        except (Undefined, ZeroDivisionError):
            return None
        if not isinstance(value, Fraction) and not imaginary and not is_real(value):
            return None
        pair.append(value)
    return pair


def _same_constant(a: Node, b: Node, tolerance: float, log: int | None) -> bool | None:
    try:
        right = value_of(b, {}, log)
    except (Undefined, ZeroDivisionError):
        return None
    try:
        left = value_of(a, {}, log)
    except (Undefined, ZeroDivisionError):
        return False  # the wanted value is defined, the given one is not
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        if left == right:
            return True
    elif _close(left, right, _AGREE):
        return True
    if not (has_decimals(a) or has_decimals(b)) or not tolerance:
        return False
    if not _close(left, right, Fraction(tolerance) * (1 + Fraction(1, 10**9))):
        return False
    return all(
        _could_round(literal_places(x), mine, other)
        for x, mine, other in ((a, left, right), (b, right, left))
    )


def _could_round(places: int | None, mine: Any, other: Any) -> bool:
    """Whether a decimal with so many places may stand for the other value, already close."""
    if places is None or places >= 6:
        return True
    if isinstance(other, Fraction) and isinstance(mine, Fraction):
        unit = Fraction(10) ** -places
        if (other / unit).denominator == 1:
            return False  # it could have written the other value out, and did not
        return abs(mine - other) <= unit
    return True


def _close(a: Any, b: Any, limit: Fraction) -> bool:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return abs(a - b) <= limit * max(abs(a), abs(b))
    mp = context()
    x, y = to_mp(a), to_mp(b)
    size = max(abs(x), abs(y))
    bound = mp.mpf(limit.numerator) / limit.denominator
    return abs(x - y) <= bound * size
