"""Plain numbers as people write them, read exactly and compared with a tolerance.

Read are integers, decimals, exponents, fractions, mixed numbers, percentages,
thousands separators and a currency sign in front. Nothing is evaluated: `2 + 2` is no
number here, and neither is a text with two numbers in it. For expressions, sets,
intervals and units there is `math_answer`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

#: Longest text that is read as a number, and largest exponent; both far beyond any answer.
MAX_CHARS = 64
MAX_EXPONENT = 308

_INTEGER = r"(?:\d{1,3}(?:[,_\u00a0\u2009\u202f ']\d{3})+|\d+)"
_DECIMAL = rf"(?:{_INTEGER}(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(
    rf"""(?P<sign>[+-])?[$€£¥]?(?P<sign2>[+-])?
    (?:(?P<whole>{_INTEGER})[ ]+(?P<mixed>\d+/\d+)
      |(?P<over>{_DECIMAL})\s*/\s*(?P<under>{_DECIMAL})
      |(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[+-]?\d+))?)
    \s*(?P<percent>%|\\%|percent\b|per\s+cent\b)?\s*\.?""",
    re.VERBOSE | re.ASCII,
)
_MINUS = str.maketrans("\u2212\u2013\uff0d\ufe63", "----")


@dataclass(frozen=True)
class Number:
    """A number that was read: its exact value, and how it was written.

    Attributes:
        value: the exact value; of `28%` it is 7/25.
        percent: whether it was written as a percentage.
        exact: whether it was written without a decimal point or exponent.
    """

    value: Fraction
    percent: bool = False
    exact: bool = True


def parse_number(text: str) -> Number | None:
    """The one number that a text is, or `None` when it is anything else.

    >>> parse_number("1,234.50").value
    Fraction(2469, 2)
    >>> parse_number("28%").value, parse_number("-1 1/2").value
    (Fraction(7, 25), Fraction(-3, 2))
    >>> parse_number("41 or 42") is None
    True
    """
    text = text.strip().translate(_MINUS)
    if not text or len(text) > MAX_CHARS:
        return None
    found = _NUMBER.fullmatch(text)
    if found is None or (found["sign"] and found["sign2"]):
        return None
    exact = True
    if found["mixed"]:
        top, bottom = map(int, found["mixed"].split("/"))
        if bottom == 0:
            return None
        value = Fraction(_digits(found["whole"])) + Fraction(top, bottom)
    elif found["over"]:
        over, under = Fraction(_digits(found["over"])), Fraction(_digits(found["under"]))
        if under == 0:
            return None
        value = over / under
        exact = "." not in found["over"] + found["under"]
    else:
        exponent = int(found["exponent"] or 0)
        if abs(exponent) > MAX_EXPONENT:
            return None
        value = Fraction(_digits(found["decimal"])) * Fraction(10) ** exponent
        exact = "." not in found["decimal"].rstrip(".") and not found["exponent"]
    if "-" in (found["sign"], found["sign2"]):
        value = -value
    percent = bool(found["percent"])
    return Number(value / 100 if percent else value, percent, exact)


def _digits(text: str) -> str:
    plain = re.sub(r"[^\d.]", "", text).rstrip(".")
    return "0" + plain if plain.startswith(".") else plain


def same_number(
    given: Number, wanted: Number, relative: float = 1e-6, absolute: float = 1e-9
) -> bool:
    """Whether two numbers are equal: exactly if both are written exactly, else nearly.

    Where one of them alone is a percentage, the sign may also have been left away:
    `28` answers `28%`, and so does `0.28`.

    >>> same_number(parse_number("0.3333333"), parse_number("1/3"))
    True
    >>> same_number(parse_number("10000001"), parse_number("10000000"))
    False
    """
    if _close(given.value, wanted.value, given.exact and wanted.exact, relative, absolute):
        return True
    if given.percent == wanted.percent:
        return False
    left = given.value * 100 if given.percent else given.value
    right = wanted.value * 100 if wanted.percent else wanted.value
    return _close(left, right, given.exact and wanted.exact, relative, absolute)


def _close(
    left: Fraction, right: Fraction, exactly: bool, relative: float, absolute: float
) -> bool:
    if exactly:
        return left == right
    allowed = max(Fraction(absolute), Fraction(relative) * abs(right))
    return abs(left - right) <= allowed


def last_number(text: str) -> str | None:
    """The last number that a text mentions, as it is written there.

    >>> last_number("So 3 boxes cost $1,200.")
    '1,200'
    """
    found = re.findall(
        rf"(?<![\w.])-?{_DECIMAL}(?:\s*/\s*\d+)?(?:[eE][+-]?\d+)?%?(?![\w])",
        text[-2000:].translate(_MINUS),
    )
    return found[-1].rstrip(".") if found else None
