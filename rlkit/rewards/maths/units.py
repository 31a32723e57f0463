"""Units: what stands behind a number and does not belong to it.

A unit is a factor and powers of dimensions: `km/h` is 5/18 of m/s. A word that is
no known unit (`clips`) is a dimension of its own name, in the singular. Two units
are compared where both sides have one; where one side has none, only the numbers
are: `35 cm` answers `35`.

Left out: temperatures between scales (100 °C is 212 °F by no factor).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from rlkit.rewards.maths.tokens import Token, words_of

_SECOND, _METRE, _KILOGRAM = ("time", 1), ("length", 1), ("mass", 1)
_TABLE: dict[str, tuple[Fraction, tuple[tuple[str, int], ...]]] = {}


def _define(names: str, factor: str, *dimensions: tuple[str, int]) -> None:
    for name in names.split():
        _TABLE[name] = (Fraction(factor), dimensions)


_define("m meter metre", "1", _METRE)
_define("km kilometer kilometre", "1000", _METRE)
_define("dm decimeter decimetre", "1/10", _METRE)
_define("cm centimeter centimetre", "1/100", _METRE)
_define("mm millimeter millimetre", "1/1000", _METRE)
_define("nm nanometer nanometre", "1/1000000000", _METRE)
_define("in inch inches", "0.0254", _METRE)
_define("ft foot feet", "0.3048", _METRE)
_define("yd yard", "0.9144", _METRE)
_define("mi mile", "1609.344", _METRE)
_define("kg kilogram kilogramme", "1", _KILOGRAM)
_define("g gram gramme", "1/1000", _KILOGRAM)
_define("mg milligram", "1/1000000", _KILOGRAM)
_define("tonne", "1000", _KILOGRAM)
_define("lb lbs pound", "0.45359237", _KILOGRAM)
_define("oz ounce", "0.028349523125", _KILOGRAM)
_define("s sec second", "1", _SECOND)
_define("ms millisecond", "1/1000", _SECOND)
_define("min minute", "60", _SECOND)
_define("h hr hour", "3600", _SECOND)
_define("day", "86400", _SECOND)
_define("week", "604800", _SECOND)
_define("month", "1", ("month", 1))
_define("yr year", "12", ("month", 1))
_define("L l liter litre", "1/1000", ("length", 3))
_define("mL ml milliliter millilitre", "1/1000000", ("length", 3))
_define("mph", "0.44704", _METRE, ("time", -1))
_define("kph kmh", "5/18", _METRE, ("time", -1))
_define("N newton", "1", _KILOGRAM, _METRE, ("time", -2))
_define("J joule", "1", _KILOGRAM, ("length", 2), ("time", -2))
_define("kJ kilojoule", "1000", _KILOGRAM, ("length", 2), ("time", -2))
_define("W watt", "1", _KILOGRAM, ("length", 2), ("time", -3))
_define("kW kilowatt", "1000", _KILOGRAM, ("length", 2), ("time", -3))
_define("Pa pascal", "1", _KILOGRAM, ("length", -1), ("time", -2))
_define("kPa kilopascal", "1000", _KILOGRAM, ("length", -1), ("time", -2))
_define("Hz hertz", "1", ("time", -1))
_define("A amp ampere", "1", ("current", 1))
_define("V volt", "1", ("voltage", 1))
_define("K kelvin", "1", ("temperature", 1))
_define("mol mole", "1", ("amount", 1))
_define("rad radian", "1", ("angle", 1))
_define("dollar usd USD buck", "1", ("dollar", 1))
_define("cent ¢", "1/100", ("dollar", 1))
_define("euro eur EUR", "1", ("euro", 1))
_define("gbp GBP", "1", ("pound sterling", 1))
_define("unit", "1")
_SINGLE = frozenset("mgshLlNJWVAK")
#: Words that say something about a number and so are no unit of it.
_NO_UNIT = words_of(
    "and or not no nor is isn isnt are aint if so but because since then where which that this "
    "than minus plus times over divided by to from of with without less more fewer most least "
    "about around roughly approximately almost nearly maybe perhaps probably wrong right false "
    "true correct incorrect hundred thousand million billion trillion dozen half third quarter "
    "percent point remainder mod modulo either neither both all none any zero one two three "
    "four five six seven eight nine ten answer should would could cannot can never always "
    "instead rather only except squared cubed factorial base pi infinity positive negative when "
    "for as in on at the a an it was were be been yes unknown undefined until through between "
    "up down"
)
MULTIPLIERS = {
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "dozen": 12,
}
CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound sterling", "¥": "yen"}


@dataclass(frozen=True)
class Unit:
    """A factor to the base units, and the powers of the dimensions.

    >>> parse_unit([Token("word", "km"), Token("op", "/"), Token("word", "h")])
    Unit(factor=Fraction(5, 18), dimensions=(('length', 1), ('time', -1)))
    """

    factor: Fraction = Fraction(1)
    dimensions: tuple[tuple[str, int], ...] = ()


def parse_unit(tokens: list[Token]) -> Unit | None:
    """The unit that these tokens write, or `None` when they write none."""
    factor, powers = Fraction(1), {}
    i, sign, power_of_next, words = 0, 1, 1, 0
    while i < len(tokens):
        token = tokens[i]
        value = str(token.value)
        if token.kind == "op" and value == "/" and 0 < i < len(tokens) - 1:
            sign, i = -1, i + 1
            continue
        if token.kind == "op" and value in ("*", "(", ")", "{", "}") and i > 0:
            i += 1
            continue
        if value in ("per", "a", "an") and 0 < i < len(tokens) - 1:
            sign, i = -1, i + 1
            continue
        if value in ("square", "sq", "cubic", "cu") and i < len(tokens) - 1:
            power_of_next, i = (3 if value.startswith("cu") else 2), i + 1
            continue
        if token.kind not in ("word", "sym", "op") or (token.kind == "op" and value not in "$€£¥"):
            return None
        known = _look_up(value, token, compound=i > 0)
        if known is None:
            if token.kind != "word" or value.lower() in _NO_UNIT or len(value) < 2:
                return None
            if not (token.space or token.text):
                return None  # 2ab is a product
            words += 1
            if words > 3:
                return None
            known = (Fraction(1), ((_singular(value.lower()), 1),))
        i += 1
        power, i = _exponent(tokens, i)
        if power is None:
            return None
        power *= sign * power_of_next
        power_of_next = 1
        factor *= known[0] ** power
        for name, exponent in known[1]:
            powers[name] = powers.get(name, 0) + exponent * power
    if power_of_next != 1:
        return None
    return Unit(factor, tuple(sorted((n, p) for n, p in powers.items() if p)))


def currency(sign: str) -> Unit:
    return Unit(Fraction(1), ((CURRENCIES[sign], 1),))


def _look_up(
    value: str, token: Token, compound: bool
) -> tuple[Fraction, tuple[tuple[str, int], ...]] | None:
    if value in CURRENCIES:
        return Fraction(1), ((CURRENCIES[value], 1),)
    if len(value) == 1 and (value not in _SINGLE or not (token.text or token.space or compound)):
        # A letter glued to a number is a variable: 2s is two times s.
        return _TABLE.get(value) if token.kind == "word" else None
    for name in (value, value.lower(), _singular(value), _singular(value.lower())):
        if name in _TABLE and (len(name) > 1 or name == value):
            return _TABLE[name]
    return None


def _exponent(tokens: list[Token], i: int) -> tuple[int | None, int]:
    """The power behind a unit, written as ^2, ^{2} or ^{-1}; 1 when there is none."""
    if i < len(tokens) and str(tokens[i].value) in ("squared", "cubed"):
        return (2 if tokens[i].value == "squared" else 3), i + 1
    if i >= len(tokens) or tokens[i].kind != "op" or tokens[i].value != "^":
        return 1, i
    i += 1
    braced = i < len(tokens) and tokens[i].value == "{"
    i += braced
    sign = 1
    if i < len(tokens) and tokens[i].value == "-":
        sign, i = -1, i + 1
    if i >= len(tokens) or tokens[i].kind != "num":
        return None, i
    value, places = tokens[i].value
    if places is not None or value.denominator != 1 or not 0 < value <= 9:
        return None, i
    i += 1
    if braced:
        if i >= len(tokens) or tokens[i].value != "}":
            return None, i
        i += 1
    return sign * value.numerator, i


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word
