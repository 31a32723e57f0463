"""Four rewards with a hole each, to see what an audit says, and for the lessons.

None of them is registered: they are here to be broken. Their holes are real ones, found
in rewards that people trained with; what they do is written anew and evaluates no text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rlkit.rewards.reward import Reward

_NUMBER = re.compile(r"-?\d+")
_TOKEN = re.compile(r"\d+|\*\*|//|[-+*/%()]")


def answer_in_text(completions: Sequence[str], answer: Sequence[str], **_: Any) -> list[float]:
    """Pays when the right answer stands anywhere in the text."""
    return [float(str(a) in text) for text, a in zip(completions, answer, strict=True)]


def last_number(completions: Sequence[str], answer: Sequence[str], **_: Any) -> list[float]:
    """Pays when the last whole number of the text is the right one, wherever it stands."""
    rows = []
    for text, wanted in zip(completions, answer, strict=True):
        found = _NUMBER.findall(text)
        rows.append(float(bool(found) and found[-1] == str(wanted)))
    return rows


def careless_countdown(
    completions: Sequence[str],
    numbers: Sequence[Sequence[int]],
    target: Sequence[int],
    **_: Any,
) -> list[float]:
    """Checks the numbers with a pattern, then works out whatever Python would allow.

    So `**` and `//` reach targets that the rules do not, and `9**9**9` never ends.
    """
    rows = []
    for text, given, wanted in zip(completions, numbers, target, strict=True):
        block = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
        if block is None:
            rows.append(0.0)
            continue
        tokens = _TOKEN.findall(block.group(1))
        used = sorted(int(token) for token in tokens if token.isdigit())
        try:
            value, rest = _sum(tokens)
            rows.append(float(used == sorted(given) and not rest and value == wanted))
        except (IndexError, ValueError, ZeroDivisionError, OverflowError, RecursionError):
            rows.append(0.0)
    return rows


def generous_format(completions: Sequence[str], **_: Any) -> list[float]:
    """Pays when every tag stands somewhere, whatever is in it, how often, in which order."""
    tags = ("<think>", "</think>", "<answer>", "</answer>")
    return [float(all(tag in text for tag in tags)) for text in completions]


# A small calculator with every operator of Python, without a limit on powers: the hole of
# `eval`, without running any text. Each step gives a value and the tokens that are left.


def _sum(tokens: list[str]) -> tuple[float, list[str]]:
    value, rest = _product(tokens)
    while rest and rest[0] in "+-":
        right, after = _product(rest[1:])
        value, rest = (value + right if rest[0] == "+" else value - right), after
    return value, rest


def _product(tokens: list[str]) -> tuple[float, list[str]]:
    value, rest = _power(tokens)
    while rest and rest[0] in ("*", "/", "//", "%"):
        right, after = _power(rest[1:])
        if rest[0] == "*":
            value *= right
        elif rest[0] == "/":
            value /= right
        elif rest[0] == "//":
            value //= right
        else:
            value %= right
        rest = after
    return value, rest


def _power(tokens: list[str]) -> tuple[float, list[str]]:
    value, rest = _atom(tokens)
    if rest and rest[0] == "**":
        exponent, rest = _power(rest[1:])
        value = value**exponent
    return value, rest


def _atom(tokens: list[str]) -> tuple[float, list[str]]:
    if tokens[0] == "-":
        value, rest = _atom(tokens[1:])
        return -value, rest
    if tokens[0] == "(":
        value, rest = _sum(tokens[1:])
        return value, rest[1:]
    return int(tokens[0]), tokens[1:]


BAD: dict[str, Reward] = {
    function.__name__: Reward(function)
    for function in (answer_in_text, last_number, careless_countdown, generous_format)
}
