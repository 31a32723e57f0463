"""Scalars: one expression and what stands around it.

Currency before it; per cent, degrees, a unit, a multiplier ("million") or a modulus
behind it. All of that is split off here, and the rest goes to the expression parser.
"""

from __future__ import annotations

from fractions import Fraction

from rlkit.rewards.maths.answers import Scalar
from rlkit.rewards.maths.expression import Node, num, parse_expression
from rlkit.rewards.maths.tokens import Malformed, Token
from rlkit.rewards.maths.units import CURRENCIES, MULTIPLIERS, Unit, currency, parse_unit

_OF_ANGLES = ("sin", "cos", "tan", "sec", "csc", "cot")


def read_scalar(tokens: list[Token]) -> Scalar:
    """One expression with its currency, per cent, degrees or unit.

    Raises:
        Malformed: it is none.
    """
    tokens, modulus = split_modulus(list(tokens))
    unit, mark = None, ""
    head = [t for t in tokens[:2] if t.kind == "op"]
    if head and tokens[0].value in CURRENCIES and tokens[0].kind == "op":
        unit, tokens = currency(tokens[0].value), tokens[1:]
    elif len(tokens) > 2 and tokens[0].value == "-" and tokens[1].value in CURRENCIES:
        unit, tokens = currency(tokens[1].value), [tokens[0], *tokens[2:]]
    if len(tokens) > 1 and tokens[-1].kind == "op" and tokens[-1].value in CURRENCIES:
        if unit is not None:
            raise Malformed("two currencies")
        unit, tokens = currency(tokens[-1].value), tokens[:-1]
    tokens, mark = _marked(tokens)
    scale = Fraction(1)
    if not mark:
        tokens, found = _unit_behind(tokens)
        if found is not None and unit is not None and found.dimensions != unit.dimensions:
            if found.dimensions:
                raise Malformed("two units")
        elif found is not None:
            unit = found
    if len(tokens) > 1 and tokens[-1].kind == "word" and str(tokens[-1].value) in MULTIPLIERS:
        scale, tokens = Fraction(MULTIPLIERS[str(tokens[-1].value)]), tokens[:-1]
    if not tokens:
        raise Malformed("a unit without a number")
    node = parse_expression(tokens)
    if scale != 1:
        node = ("*", node, num(scale))
        if node[1][0] == "num":
            node = num(node[1][1] * scale)
    return Scalar(node, unit, mark, modulus)


def split_modulus(tokens: list[Token]) -> tuple[list[Token], Node | None]:
    """Without the `(mod 5)` at the end, and the 5."""
    for n, token in enumerate(tokens):
        if (token.kind, token.value) in (("cmd", "pmod"), ("cmd", "mod"), ("word", "mod")) and n:
            before, after = tokens[:n], tokens[n + 1 :]
            if before[-1].value == "(" and after and after[-1].value == ")":
                before, after = before[:-1], after[:-1]
            return before, parse_expression(after)
    return tokens, None


def _marked(tokens: list[Token]) -> tuple[list[Token], str]:
    """Without a per cent or degree sign at the end, and which it was."""
    if len(tokens) < 2:
        return tokens, ""
    last = tokens[-1]
    word = str(last.value).lower() if last.kind == "word" else ""
    if (last.kind == "op" and last.value == "%") or word in ("percent", "percentage"):
        return tokens[:-1], "%"
    if len(tokens) > 2 and word == "cent" and str(tokens[-2].value).lower() == "per":
        return tokens[:-2], "%"
    if word in ("degree", "degrees", "deg"):
        return tokens[:-1], "°"
    if any(t.kind == "fn" and t.value in _OF_ANGLES for t in tokens):
        return tokens, ""  # cos 60 degrees is a number
    values = [t.value if t.kind == "op" else None for t in tokens[-4:]]
    if values[-2:] == ["^", "circ"]:
        return tokens[:-2], "°"
    if values == ["^", "{", "circ", "}"]:
        return tokens[:-4], "°"
    if len(tokens) > 3 and values[-3:-1] == ["^", "circ"] and last.value in ("C", "F"):
        return tokens[:-3], f"°{last.value}"
    return tokens, ""


def _unit_behind(tokens: list[Token]) -> tuple[list[Token], Unit | None]:
    """Splits off the unit that ends the tokens; it starts at a word or a letter in text."""
    for n in range(1, len(tokens)):
        token, before = tokens[n], tokens[n - 1]
        starts = token.kind == "word" or (
            token.kind == "sym" and (token.text or token.space) and len(str(token.value)) == 1
        )
        if not starts or before.kind in ("sep", "rel", "fn", "word", "cmd"):
            continue
        if before.kind == "op" and before.value not in (")", "}", "]", "!", "|"):
            continue
        unit = parse_unit(tokens[n:])
        if unit is not None and _numeric_head(tokens[:n]):
            return tokens[:n], unit
    return tokens, None


def _numeric_head(tokens: list[Token]) -> bool:
    return any(t.kind == "num" or (t.kind, t.value) == ("const", "pi") for t in tokens)
