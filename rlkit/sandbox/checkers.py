"""Does a program's output say what was expected? The host's own comparison of text.

Rules, one checker each:

* `exact`: the same lines. Blanks (space, tab, carriage return) at the end of a line and
  line breaks at the end of the text do not count; everything else does.
* `tokens`: the same words in the same order, however they are spaced. Two numbers are the
  same when they are exactly equal as decimals (`1.50` is `1.5`, `1e3` is `1000`); a word
  with a leading zero (`007`) is a name and must be met letter by letter.
* `floats`: as `tokens`, but numbers may lie `tolerance` apart, relative or absolute. Two
  whole numbers must still be equal. NaN is right only where NaN is expected.
* `set`: the same lines, as often each, in any order.
* a function `(expected, got)` of the host: True for right; False or a sentence for wrong.
  Where many answers are right, this is the way. It runs here, in the host's process, on text that a
  program wrote: it must not evaluate it, and must come to an end.

Where bytes are expected, the same bytes must come, whatever the checker.

Left out on purpose: checkers that forgive case, punctuation or a byte order mark.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import pickle
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from rlkit.errors import UserError
from rlkit.sandbox.compare import TOLERANCE, short_repr

#: What a custom checker is: it gets what was expected and what came, and says whether that
#: is right. A sentence says that it is wrong, and why.
Checker = Callable[[object, object], "bool | str"]

NAMES = ("exact", "tokens", "floats", "set")

_BLANKS = " \t\r"
_WORD = re.compile(r"[^ \t\r\n\v\f]+")
# At most four digits of exponent: more never occur, and take for ever to write out.
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_INFINITY = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE)


class CheckerFault(Exception):
    """A custom checker itself failed; nothing is known about the output."""


@dataclass(frozen=True)
class Agreement:
    """Whether an output is right, and if not, what the first difference is."""

    right: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.right


_RIGHT = Agreement(True)


def is_custom(checker: str | Checker) -> bool:
    """Whether a checker is a function rather than one of `NAMES`."""
    return not isinstance(checker, str)


def checked_checker(checker: str | Checker) -> str | Checker:
    """The checker itself, if it can be used.

    Raises:
        UserError: an unknown name, or a function that cannot be sent by name.

    >>> checked_checker("tokens")
    'tokens'
    """
    if isinstance(checker, str):
        if checker not in NAMES:
            raise UserError(
                f"checker {checker!r} is unknown; choose {', '.join(NAMES)}, or give a function "
                "of what was expected and what came"
            )
        return checker
    if not callable(checker):
        raise UserError(f"a checker is a name or a function, not {checker!r}")
    try:
        pickle.dumps(checker)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UserError(
            f"the checker {_name(checker)} cannot be sent to another process ({error}); define "
            "it with `def` at the top level of a module or a cell"
        ) from None
    return checker


def checker_identity(checker: str | Checker) -> str:
    """A name for content keys: a function's place and a digest of its source."""
    if isinstance(checker, str):
        return checker
    named = checker if hasattr(checker, "__qualname__") else type(checker)
    try:
        source = inspect.getsource(named)
    except (OSError, TypeError):  # written in C, or typed into a bare interpreter
        source = ""
    state = b"" if named is checker else pickle.dumps(checker)
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass") + state).hexdigest()
    return f"{named.__module__}:{named.__qualname__}:{digest}"


def expects_nothing(
    checker: str | Checker, expected: object, files: Mapping[str, object] | None = None
) -> bool:
    """Whether a program that does nothing at all would be right.

    >>> expects_nothing("exact", "\\n"), expects_nothing("exact", "0\\n")
    (True, False)
    """
    if files or is_custom(checker):
        return False
    if isinstance(expected, bytes):
        return not expected
    return expected is None or bool(agree(checker, expected, b""))


def agree(
    checker: str | Checker, expected: object, got: bytes, tolerance: float = TOLERANCE
) -> Agreement:
    """Is `got` what was expected?

    Args:
        checker: a name of `NAMES`, or a function of `(expected, got)`; it gets `got` as text.
        expected: text, or bytes that must be met exactly; anything for a function.
        got: what the program wrote; read as UTF-8, where a stray byte becomes U+FFFD.
        tolerance: for `floats`.

    Raises:
        CheckerFault: a function raised, or returned neither a bool nor text.

    >>> agree("tokens", "1.50 yes", b"1.5   yes\\n").right
    True
    >>> agree("exact", "1\\n2\\n", b"1\\n3\\n").reason
    "line 2 is '3', expected '2'"
    """
    if is_custom(checker):
        return ask(checker, expected, got.decode("utf-8", "replace"))
    if isinstance(expected, bytes):
        if expected == got:
            return _RIGHT
        return Agreement(False, f"wrote {short_repr(got, 60)}, expected {short_repr(expected, 60)}")
    text = got.decode("utf-8", "replace")
    if checker == "exact":
        return _in_order(_lines(expected), _lines(text), "line", lambda e, g: e == g)
    if checker == "set":
        return _multiset(_lines(expected), _lines(text))
    if checker == "tokens":
        same = _same_token
    else:
        same = lambda e, g: _near_token(e, g, tolerance)  # noqa: E731
    return _in_order(_WORD.findall(expected), _WORD.findall(text), "word", same)


def _lines(text: str) -> list[str]:
    # Not splitlines(), which breaks lines at seven other characters as well.
    lines = [line.rstrip(_BLANKS) for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _in_order(
    expected: list[str], got: list[str], what: str, same: Callable[[str, str], bool]
) -> Agreement:
    for place, (ours, theirs) in enumerate(zip(expected, got, strict=False), start=1):
        if not same(ours, theirs):
            shown, wanted = short_repr(theirs, 60), short_repr(ours, 60)
            return Agreement(False, f"{what} {place} is {shown}, expected {wanted}")
    if len(got) < len(expected):
        missing = short_repr(expected[len(got)], 60)
        counted = f"{len(got)} {what}{'' if len(got) == 1 else 's'}"
        return Agreement(False, f"ends after {counted}, expected {missing} next")
    if len(got) > len(expected):
        extra = short_repr(got[len(expected)], 60)
        return Agreement(False, f"{what} {len(expected) + 1} is {extra}, expected the end")
    return _RIGHT


def _multiset(expected: list[str], got: list[str]) -> Agreement:
    ours, theirs = Counter(expected), Counter(got)
    missing, extra = ours - theirs, theirs - ours
    if missing:
        return Agreement(False, f"the line {short_repr(next(iter(missing)), 60)} is missing")
    if extra:
        return Agreement(False, f"the line {short_repr(next(iter(extra)), 60)} is too much")
    return _RIGHT


def _same_token(expected: str, got: str) -> bool:
    if expected == got:
        return True
    if not (_NUMBER.fullmatch(expected) and _NUMBER.fullmatch(got)):
        return False
    return Decimal(expected) == Decimal(got)


def _near_token(expected: str, got: str, tolerance: float) -> bool:
    if _NAN.fullmatch(expected):
        return _NAN.fullmatch(got) is not None
    endless = _INFINITY.fullmatch(expected)
    if endless:
        theirs = _INFINITY.fullmatch(got)
        return theirs is not None and (theirs[1] == "-") == (endless[1] == "-")
    if _same_token(expected, got):
        return True
    if not (_NUMBER.fullmatch(expected) and _NUMBER.fullmatch(got)):
        return False
    if _WHOLE.fullmatch(expected) and _WHOLE.fullmatch(got):
        return False
    ours, theirs = float(expected), float(got)
    # Written out too large for a float, they would both be infinite, and so equal.
    return math.isfinite(ours) and math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=tolerance)


def ask(checker: Checker, expected: object, got: object) -> Agreement:
    """What a function says about what came: text in io mode, a plain value in func mode.

    Raises:
        CheckerFault: it raised, or returned neither a bool nor text.

    >>> def near(expected, got): return abs(expected - got) < 1
    >>> ask(near, 4, 4.5).right
    True
    """
    try:
        said = checker(expected, got)
    except Exception as error:
        raise CheckerFault(
            f"the checker {_name(checker)} raised {type(error).__name__}: {error}"
        ) from error
    if type(said) is bool:
        return _RIGHT if said else Agreement(False, "the output is not right")
    if isinstance(said, str):
        return Agreement(False, said or "the output is not right")
    raise CheckerFault(
        f"the checker {_name(checker)} returned {short_repr(said, 40)}; it must return True, "
        "False or a sentence"
    )


def _name(checker: object) -> str:
    return getattr(checker, "__qualname__", type(checker).__qualname__)
