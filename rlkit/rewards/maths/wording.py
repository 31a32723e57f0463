"""Wording: answers that are words, and words around answers.

`\\text{Monday}` is Monday, "no solution" is the empty set, "five" is 5, "n/a" is no
answer. Words are compared without case and without an article before them.
"""

from __future__ import annotations

import re

from rlkit.rewards.maths.answers import EMPTY, REALS, Answer, Nonsense, Scalar, Words
from rlkit.rewards.maths.cleaning import strip_wrappers
from rlkit.rewards.maths.expression import num
from rlkit.rewards.maths.tokens import GREEK, closing_brace

_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
)


_NUMBER_WORDS = {word: n for n, word in enumerate(_NUMBERS.split())}


_ALL_REALS = frozenset(
    ("all real numbers", "all reals", "real numbers", "all real", "the real numbers", "reals")
)


_NO_SOLUTION = frozenset(
    ("no solution", "no solutions", "no real solution", "no real solutions", "empty set")
)


_SAME_WORDS = {"dne": "does not exist", "doesn't exist": "does not exist", "never": "never"}


_NO_VALUE = frozenset(("nan", "null", "n/a", "na", "?", "-", "unknown", "tbd", "todo"))


_WORDY = re.compile(r"^[A-Za-z0-9 \-'\".,:;()/!?&#+%$\u00c0-\u024f\u0370-\u9fff]+$")


PURE_WORDS = re.compile(
    r"^(?:no|[A-Za-z]{3,}(?:['-][A-Za-z]+)*(?:[ -][A-Za-z'-]+)*)$", re.IGNORECASE
)


_TEXT_COMMAND = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mbox|operatorname|mathbf|texttt|textsf)\s*(?=\{)"
)


def unwrap_text(text: str) -> str:
    """`\\text{Monday}` as `Monday`.

    >>> unwrap_text(r"\\text{ (A) }")
    '(A)'
    """
    while (found := _TEXT_COMMAND.search(text)) is not None:
        close = closing_brace(text, found.end())
        if close is None:
            break
        text = text[: found.start()] + text[found.end() + 1 : close] + text[close + 1 :]
    return strip_wrappers(re.sub(r"\s+", " ", text))


def special_words(plain: str) -> Answer | None:
    lower = plain.lower()
    if lower in _NO_VALUE:
        return Nonsense("a mark for a missing value")
    if lower in _ALL_REALS:
        return REALS
    if lower in _NO_SOLUTION:
        return EMPTY
    if lower in _NUMBER_WORDS:
        return Scalar(num(_NUMBER_WORDS[lower]))
    if lower in _SAME_WORDS:
        return Words(_SAME_WORDS[lower])
    return None


def names_value(plain: str) -> bool:
    """Whether a single word is the name of a constant or a letter: pi, theta."""
    lower = plain.lower()
    return lower in ("pi", "inf", "infty", "infinity") or plain in GREEK


def as_words(plain: str, reason: str) -> Answer:
    """Words, when the text has some and nothing that only a formula or a program has."""
    if not _WORDY.match(plain) or not re.search(r"[^\W\d_]{2}", plain.replace(".", "")):
        return Nonsense(reason)
    text = re.sub(r"\s+", " ", plain).strip(" .,;:!\"'").casefold()
    text = re.sub(r"^(?:an?|the) (?=\w)", "", text)
    return Words(text) if text else Nonsense(reason)
