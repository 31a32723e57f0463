"""table_reward: is the answer about a small table right, however it is written?

A right number may come with its unit, thousands separators, a per cent sign, a scale word,
or rounded; a right text in another case; a right list in another order. An answer that
offers several candidates is no answer: two numbers, a list where one value is asked for,
or a text that names other cells of the same column.

Left out on purpose: conversion between units, dates in other formats, and answers in words
("forty-two").
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.extraction import (
    MAX_SOURCE_CHARS,
    answer_blocks,
    without_thoughts,
    written_backwards,
)
from rlkit.rewards.reward import Reward, Score

#: Numbers agree within this relative distance, when they are not rounded; integers exactly.
TOLERANCE = Fraction(1, 10**9)
#: A table with more cells is not read: it is not a small one.
MAX_CELLS = 100_000
#: An answer that goes on for longer than this beyond the right text is prose, not an answer.
MAX_EXTRA = 60
#: An answer is not longer than this, in characters.
MAX_ANSWER = 10_000
#: Longest number that is read, in characters, and its largest exponent.
MAX_DIGITS, MAX_EXPONENT = 64, 308

_SAID = re.compile(r"\banswer\b[\s*_]*(?:is|was|=|:)[\s*_:]*(?P<said>[^\n]+)", re.I)
_TOKEN = re.compile(
    r"(?<![\w.,])[+-]?(?:[$€£¥]\s?)?(?:\d{1,3}(?:[,_\u00a0\u2009\u202f' ]\d{3})+|\d+)?(?:\.\d+)?"
    r"(?:[eE][+-]?\d+)?(?![\w.,]*\d)",
    re.ASCII,
)
_SCALES = {"thousand": 3, "k": 3, "million": 6, "mn": 6, "billion": 9, "bn": 9}
_UNITS = {
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), "usd"),
    **dict.fromkeys(("€", "eur", "euro", "euros"), "eur"),
    **dict.fromkeys(("£", "gbp", "pound sterling"), "gbp"),
    **dict.fromkeys(("km", "kilometre", "kilometres", "kilometer", "kilometers"), "km"),
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters"), "m"),
    **dict.fromkeys(("cm", "centimetre", "centimetres", "centimeter", "centimeters"), "cm"),
    **dict.fromkeys(("mile", "miles", "mi"), "mile"),
    **dict.fromkeys(("kg", "kilogram", "kilograms", "kilo", "kilos"), "kg"),
    **dict.fromkeys(("g", "gram", "grams"), "g"),
    **dict.fromkeys(("t", "tonne", "tonnes", "ton", "tons"), "t"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("day", "days"), "day"),
    **dict.fromkeys(("year", "years", "yr", "yrs"), "year"),
}
_NOT = re.compile(r"\b(?:not|never|neither|nor|isn't|wasn't|no longer|except|unlike)\b", re.I)


@dataclass(frozen=True)
class Quantity:
    """One number as written: its value, whether it was in per cent, its digits and its unit."""

    value: Fraction
    percent: bool
    decimals: int
    digits: int
    unit: str


def final_answer(text: str) -> str | None:
    """What a completion gives as its answer, or `None` when that is not one thing.

    The only answer block; else the last box; else what follows "answer is" or "answer:"
    for the last time; else the last line.

    >>> final_answer("Adding up gives 12.\\nThe answer is: **1,234 km**.")
    '1,234 km'
    >>> final_answer("<answer>1</answer><answer>2</answer>") is None
    True
    """
    after = without_thoughts(text[-MAX_SOURCE_CHARS:])
    if after is None or written_backwards(after):
        return None
    blocks = answer_blocks(after)
    if len(blocks) > 1:
        return None
    if blocks:
        return _bare(blocks[0]) or None
    if "\\boxed{" in after:  # one that never closes is no answer
        return _bare(_last_box(after) or "") or None
    said = [found["said"] for found in _SAID.finditer(after)]
    lines = [line for line in after.split("\n") if line.strip()]
    return (_bare(said[-1] if said else lines[-1]) or None) if said or lines else None


def read_quantity(text: str) -> Quantity | None:
    """The one number in a short text, or `None` when there is none or more than one.

    >>> read_quantity("about 1,234.5 km").value, read_quantity("about 1,234.5 km").unit
    (Fraction(2469, 2), 'km')
    >>> read_quantity("between 3 and 4") is None, read_quantity("1.2 million").value
    (True, Fraction(1200000, 1))
    """
    raised = [i for i, c in enumerate(text) if unicodedata.category(c) == "No"]
    if any(i == 0 or not text[i - 1].isalpha() for i in raised):
        return None  # 2⁶ is not 26; in km² there is no harm
    text = "".join(c for c in text if unicodedata.category(c) != "No")
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-")
    if _NOT.search(text):
        return None
    if ratio := re.fullmatch(r"\s*([+-]?\d{1,40})\s*/\s*(\d{1,40})\s*", text, re.ASCII):
        under = int(ratio.group(2))
        return Quantity(Fraction(int(ratio.group(1)), under), False, 0, 0, "") if under else None
    if owed := re.fullmatch(r"\(\s*([\d.,]+)\s*\)", text.strip()):  # bookkeeping's minus
        text = "-" + owed.group(1)
    tokens = [found for found in _TOKEN.finditer(text) if re.search(r"\d", found.group())]
    if len(tokens) != 1:
        return None
    token, after = tokens[0].group(), text[tokens[0].end() :].lstrip(" \u00a0\\")
    value = _exact(token)
    if value is None or (after[:1] == "/" and after[1:2].isdigit()):
        return None
    word = re.match(r"[^\W\d_]+|%", after)
    unit = word.group().lower() if word else ""
    percent = unit in ("%", "percent") or after.startswith("per cent")
    if unit in _SCALES:
        value *= 10 ** _SCALES[unit]
        word = re.match(r"[^\W\d_]+", after[len(unit) :].strip())
        unit = word.group().lower() if word else ""
    sign = next((c for c in token if c in "$€£¥"), "")
    mantissa = re.split(r"[eE]", token)[0]
    shown = re.sub(r"\D", "", mantissa).lstrip("0")
    decimals = len(mantissa.rpartition(".")[2]) if "." in mantissa else 0
    if percent:
        return Quantity(value / 100, True, decimals, len(shown), "")
    return Quantity(value, False, decimals, len(shown), sign or unit)


def same_quantity(gold: Quantity, given: Quantity) -> bool:
    """Is it the same number, up to rounding and the choice between share and per cent?

    >>> same_quantity(read_quantity("0.333333"), read_quantity("33.3%"))
    True
    >>> same_quantity(read_quantity("12 km"), read_quantity("12 miles"))
    False
    """
    if gold.unit and given.unit:
        ours, theirs = (_UNITS.get(q.unit, q.unit.rstrip("s")) for q in (gold, given))
        known = gold.unit in _UNITS and given.unit in _UNITS
        if ours != theirs and known:
            return False
    # "45" for 45 %, and "45 %" for 45: who asks for per cent may leave the sign away.
    if given.percent:
        shown = given.value * 100
        wanted = {gold.value * 100} | (set() if gold.percent else {gold.value})
    else:
        shown = given.value
        wanted = {gold.value} | ({gold.value * 100} if gold.percent else set())
    return any(_close(value, shown, given) for value in wanted)


class TableReward(Reward):
    """1 when the answer about the table is right, else 0; `None` without a gold answer.

    Columns, one entry for each completion:

    * `answer`: a number, a text, or a list of those; a text that is a number counts as one;
    * `csv`: the table as text, with a header: other cells of the column that the right
      answer is from must not be named beside it;
    * `question` (not needed), `ordered` (may be missing): whether a list's order counts.

    Status: `OK`, `WRONG`, `NO_ANSWER`, `SHOTGUN` (several candidates), `NO_GOLD`.
    """

    def __init__(self) -> None:
        super().__init__(self._run, "table_reward", columns=("answer", "csv"), bounds=(0.0, 1.0))

    def _run(
        self,
        *,
        completions: Sequence[str],
        answer: Sequence[Any],
        csv: Sequence[str],
        ordered: Sequence[bool | None] | None = None,
        **_: Any,
    ) -> list[Score]:
        orders = [False] * len(completions) if ordered is None else ordered
        return [
            self._score(final_answer(text), gold, table, bool(in_order))
            for text, gold, table, in_order in zip(completions, answer, csv, orders, strict=True)
        ]

    def _score(self, given: str | None, gold: Any, table: str, ordered: bool) -> Score:
        missing = gold is None or (isinstance(gold, float) and math.isnan(gold))
        if missing or (isinstance(gold, (str, list, tuple)) and not len(gold)):
            return Score(None, "NO_GOLD", reason="the problem has no answer to compare with")
        if given is None or len(given) > MAX_ANSWER:
            return Score(0.0, "NO_ANSWER", reason="there is not one answer")
        cells = _cells(table)
        if isinstance(gold, (list, tuple)):
            items = _items(given, gold)
            if len(items) > len(gold):
                reason = f"{len(items)} items, {len(gold)} are right"
                return Score(0.0, "SHOTGUN", reason=reason)
            right = _same_list(list(gold), items, ordered)
        elif (quantity := _as_quantity(gold)) is not None:
            found = read_quantity(given)
            if found is None and len([t for t in _TOKEN.finditer(given) if t.group()]) > 1:
                return Score(0.0, "SHOTGUN", reason=f"more than one number: {given[:60]!r}")
            right = found is not None and same_quantity(quantity, found)
        else:
            right = _plain(given) == _plain(str(gold))
            if not right and _names(given, str(gold)):
                others = _others(cells, str(gold))
                named = next((cell for cell in others if _names(given, cell)), None)
                if named is not None:
                    reason = f"it names {named!r} beside the right answer"
                    return Score(0.0, "SHOTGUN", reason=reason)
                # More words are fine where the table shows that they hide no second answer.
                short = len(given) <= len(str(gold)) + MAX_EXTRA
                right = bool(others) and short and not _NOT.search(given)
        said = f"answered {given[:60]!r}"
        if right:
            return Score(1.0, "OK", reason=said)
        return Score(0.0, "WRONG", reason=f"{said}, expected {str(gold)[:60]!r}")


def _close(wanted: Fraction, shown: Fraction, given: Quantity) -> bool:
    if wanted.denominator == shown.denominator == 1:
        return wanted == shown
    if abs(wanted - shown) <= TOLERANCE * max(abs(wanted), abs(shown)):
        return True
    # A rounded answer must say enough: two decimals, or one and three digits in all.
    enough = given.decimals >= 2 or (given.decimals == 1 and given.digits >= 3)
    unit = Fraction(1, 10**given.decimals)
    return enough and shown != 0 and abs(wanted - shown) <= unit / 2


def _exact(token: str) -> Fraction | None:
    """The exact value of a token of digits; `None` when it is beyond any answer."""
    mantissa, _, exponent = token.lower().partition("e")
    if len(token) > MAX_DIGITS or (exponent and abs(int(exponent)) > MAX_EXPONENT):
        return None
    return Fraction(re.sub(r"[^\d.+-]", "", mantissa)) * Fraction(10) ** int(exponent or 0)


def _as_quantity(gold: Any) -> Quantity | None:
    if isinstance(gold, bool):
        return None
    if isinstance(gold, (int, float)):
        if not math.isfinite(gold):
            return None
        return Quantity(Fraction(str(gold)), False, 0, 0, "")
    text = str(gold).strip()
    # A text is a number only when it begins with one or with its sign: not "Route 66".
    return read_quantity(text) if re.match(r"[-+(]?\s*[$€£¥]?\s*[\d.]", text) else None


def _same_item(gold: Any, given: str) -> bool:
    quantity = _as_quantity(gold)
    if quantity is not None:
        found = read_quantity(given)
        return found is not None and same_quantity(quantity, found)
    return _plain(str(gold)) == _plain(given)


def _same_list(gold: list[Any], given: list[str], ordered: bool) -> bool:
    if len(gold) != len(given):
        return False
    if ordered:
        return all(_same_item(a, b) for a, b in zip(gold, given, strict=True))
    left = list(given)
    for item in gold:
        place = next((i for i, other in enumerate(left) if _same_item(item, other)), None)
        if place is None:
            return False
        del left[place]
    return True


def _items(text: str, gold: Sequence[Any]) -> list[str]:
    """The items of a list as people write it."""
    if text.startswith("["):
        try:
            listed = json.loads(text)
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list) and not any(isinstance(x, (list, dict)) for x in listed):
            return [x if isinstance(x, str) else json.dumps(x) for x in listed]
        text = text.strip("[]")
    if "\n" in text:
        parts = text.split("\n")
    elif ";" in text:
        parts = text.split(";")
    else:
        # A comma without a space after it may belong to a number.
        parts = re.split(r",\s+" if re.search(r",\s", text) else ",", text)
    if not any(" and " in str(item).lower() for item in gold):
        parts = [piece for part in parts for piece in re.split(r"\s+and\s+|^and\s+", part)]
    parts = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", part) for part in parts]
    return [_bare(part) for part in parts if _bare(part)]


def _cells(table: str) -> list[list[str]]:
    """Rows of the table, the header first."""
    if not isinstance(table, str):
        raise UserError(f"column 'csv' must hold the table as text, not {type(table).__name__}")
    first = table.split("\n", 1)[0]
    delimiter = max(",;\t|", key=first.count)
    rows = [row for row in csv.reader(io.StringIO(table), delimiter=delimiter) if row]
    if sum(map(len, rows)) > MAX_CELLS:
        raise UserError(f"a table of more than {MAX_CELLS:,} cells is not a small one")
    return rows


def _others(cells: list[list[str]], gold: str) -> list[str]:
    """The other texts of each column that holds the right one."""
    wanted, others = _plain(gold), []
    for place in range(max(map(len, cells), default=0)):
        column = [row[place].strip() for row in cells[1:] if place < len(row)]
        if any(_plain(cell) == wanted for cell in column):
            others += [c for c in column if c and _plain(c) != wanted and _plain(c) not in wanted]
    return list(dict.fromkeys(others))


def _names(text: str, cell: str) -> bool:
    """Does the text hold the cell's words, as whole words?"""
    return re.search(rf"(?<!\w){re.escape(_plain(cell))}(?!\w)", _plain(text)) is not None


def _plain(text: str) -> str:
    """For comparing texts: one case, one kind of space, no quotes, marks or final stop."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_bare(folded).split())


def _bare(text: str) -> str:
    """Without markup, quotes and full stop around it."""
    if "\\" in text:
        text = re.sub(r"\\text\{([^{}]*)\}", r"\1", text.strip()).strip("$ \t\n")
    previous = None
    while previous != text:
        previous = text
        text = text.strip().strip("*_`\"'“”‘’").strip()
        text = text[:-1] if text.endswith(".") else text
    return text


def _last_box(text: str) -> str | None:
    """The content of the last box; `None` when it never closes."""
    start = text.rfind("\\boxed{")
    depth = 0
    for place in range(start + len("\\boxed"), len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start + len("\\boxed{") : place]
    return None


table_reward = TableReward()
