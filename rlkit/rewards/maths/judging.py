"""Judging: one completion against one gold answer.

The order: the gold answer is read (one that cannot be read gives no verdict, never a
pass); the completion's answer is extracted; equal text is equal; then values are
compared by our own parser; math-verify is asked last, where only it may know.
"""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rlkit.rewards.maths.answers import Answer, Beyond, Items, Nonsense, Scalar
from rlkit.rewards.maths.cleaning import clean, strip_wrappers
from rlkit.rewards.maths.comparison import Comparison, is_too_large
from rlkit.rewards.maths.extraction import Extracted, Mode, extract_maths
from rlkit.rewards.maths.fallback import Fallback
from rlkit.rewards.maths.reading import read
from rlkit.rewards.maths.tokens import MAX_CHARS
from rlkit.rewards.maths.values import OutOfTime, TooLarge, Undefined, start_clock

#: Wall clock over one comparison by our own parser.
COMPARE_SECONDS = 0.7
_LISTED = re.compile(r"\d+(?:,\d+)+")


@dataclass(frozen=True)
class Judgement:
    """1, 0 or `None` (no verdict), a status of one word, and a reason for a person."""

    value: float | None
    status: str
    reason: str


def gold_text(gold: Any) -> str | None:
    """A gold answer as text, whatever the column holds; `None` when it is no answer.

    >>> gold_text(0.5), gold_text(5), gold_text(Fraction(1, 3)), gold_text(r"so \\boxed{7}")
    ('0.5', '5', '1/3', '7')
    >>> gold_text(float("nan")) is None
    True
    """
    if gold is None:
        return None
    if isinstance(gold, bool):
        return str(gold)
    if isinstance(gold, (numbers.Integral, Fraction)):
        return str(int(gold)) if isinstance(gold, numbers.Integral) else str(gold)
    if isinstance(gold, (numbers.Real, Decimal)):
        value = float(gold)
        if not math.isfinite(value):
            return None
        return str(gold) if isinstance(gold, Decimal) else repr(value)
    if not isinstance(gold, str):
        return None
    if "\\boxed" in gold or "####" in gold:
        return extract_maths(gold).text
    return gold.strip() or None


def judge(
    completion: str,
    gold: Any,
    *,
    mode: Mode = "strict",
    tolerance: float = 1e-6,
    opened: bool = False,
    fallback: Fallback | None = None,
) -> Judgement:
    """Whether a completion gives the gold answer.

    Args:
        completion: all that was generated.
        gold: text, or a number of any kind.
        mode: see `extract_maths`.
        tolerance: largest relative difference of a decimal from what it rounds.
        opened: the prompt already opened the reasoning.
        fallback: where math-verify is asked; without it some rows have no verdict.
    """
    wanted_text = gold_text(gold)
    wanted = read(wanted_text) if wanted_text is not None else Nonsense("there is none")
    if isinstance(wanted, Nonsense):
        return Judgement(None, "NO_GOLD", f"the gold answer cannot be read: {wanted.reason}")
    assert wanted_text is not None
    found: Extracted = extract_maths(completion, mode, opened)
    if found.text is None:
        return Judgement(0.0, "NO_ANSWER", found.how)
    if same_text(found.text, wanted_text):
        return Judgement(1.0, "OK", f"answered {_short(found.text)}")
    said = f"answered {_short(found.text)}, expected {_short(wanted_text)}"
    verdict, why = _compare(found.text, wanted_text, tolerance)
    if verdict is None and why:
        return Judgement(None, why, f"{said}: too large to be computed")
    if verdict is None:
        return _asked(found.text, wanted_text, said, fallback)
    return Judgement(float(verdict), "OK" if verdict else why or "WRONG", said)


def same_text(given: str, wanted: str) -> bool:
    """Whether two answers are the same text but for spacing and LaTeX that only moves ink."""
    if given == wanted:
        return True
    if max(len(given), len(wanted)) > MAX_CHARS:
        return given.split() == wanted.split()
    return _bare(given) == _bare(wanted)


def _bare(text: str) -> str:
    # A space between two numbers or letters means something: 3 3/4 is not 33/4.
    return re.sub(r"(?<!\w) | (?!\w)", "", strip_wrappers(clean(strip_wrappers(text))))


def _compare(given_text: str, wanted_text: str, tolerance: float) -> tuple[bool | None, str]:
    short = len(given_text) + len(wanted_text) <= 1000
    return (_remembered if short else _compared)(given_text, wanted_text, tolerance)


def _compared(given_text: str, wanted_text: str, tolerance: float) -> tuple[bool | None, str]:
    given, wanted = read(given_text), read(wanted_text)
    if isinstance(given, Nonsense):
        return False, "UNREADABLE"
    if isinstance(given, Beyond) and not isinstance(wanted, Beyond):
        return False, "NOT_WORKED_OUT"  # an integral where a number was wanted
    comparison = Comparison(tolerance)
    start_clock(COMPARE_SECONDS)
    try:
        verdict = comparison.agree(given, wanted)
        if verdict is False and _LISTED.fullmatch(given_text) and _is_list(wanted):
            # 100,200 is a number, but where a list was asked for it may be one of two.
            verdict = comparison.agree(read(given_text.replace(",", ", ")), wanted)
        return verdict, ""
    except OutOfTime:
        return None, "TIMEOUT"
    except TooLarge:
        both = is_too_large(wanted) and is_too_large(given)
        return (None if both else False), "TOO_LARGE"
    except (Undefined, ArithmeticError, RecursionError):
        return None, ""
    finally:
        start_clock(None)


_remembered = lru_cache(maxsize=8192)(_compared)


def _is_list(answer: Answer) -> bool:
    return isinstance(answer, Items) and answer.kind in ("list", "set")


def _asked(given: str, wanted: str, said: str, fallback: Fallback | None) -> Judgement:
    if fallback is None:
        return Judgement(None, "NO_FALLBACK", said)
    reply = fallback.ask(strip_wrappers(wanted), strip_wrappers(given))
    if reply.agrees is not None:
        return Judgement(float(reply.agrees), "OK" if reply.agrees else "WRONG", said)
    if reply.status.startswith("GUARDED") or reply.status == "UNREADABLE":
        # The gold answer can be read alone: then it is the given one that cannot.
        alone = fallback.ask(strip_wrappers(wanted), strip_wrappers(wanted))
        if alone.agrees or isinstance(read(wanted), Scalar):
            return Judgement(0.0, "UNREADABLE", f"{said}: {reply.status.lower()}")
        return Judgement(None, "NO_GOLD", f"{said}: the gold answer cannot be compared")
    return Judgement(None, reply.status, said)


def _short(text: str, limit: int = 40) -> str:
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
