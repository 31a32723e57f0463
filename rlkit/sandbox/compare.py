"""The host's own comparison of what a program returned with what was expected.

It runs outside the sandbox, on values that `codec.decode` rebuilt, so no method
of the program's takes part. Types count: `True` is not 1, 2.0 is not 2, and a
tuple is not a list, because a test that means one of them should say so.

Left out on purpose: checkers for text and for sets of right answers.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from rlkit.sandbox.codec import encode

#: Floats are equal within this distance, relative or absolute.
TOLERANCE = 1e-9

#: So many members of a set may need the slow, tolerant search for a partner.
MAX_UNPAIRED = 200


def same(
    expected: object,
    got: object,
    tolerance: float = TOLERANCE,
    tuples_as_lists: bool = False,
    mixed_numbers: bool = False,
) -> bool:
    """Is `got` the value that was expected, of the same types all the way down?

    Floats (and parts of complex numbers) agree within `tolerance`, relative or
    absolute; infinities agree exactly; NaN agrees with an expected NaN only.

    Args:
        expected: plain data, see `codec.encode`.
        got: plain data.
        tolerance: for floats; 0.0 demands the very same number.
        tuples_as_lists: let a tuple stand for a list and a list for a tuple, for
            tests that come from JSON, which has no tuples.
        mixed_numbers: let an int and a float stand for each other where they are equal
            (exactly, when the expected one is an int), for tests written with `==`.

    >>> same([0.3], [0.1 + 0.2]), same(1, True), same([1], (1,))
    (True, False, False)
    >>> same([1], (1,), tuples_as_lists=True), same(2, 2.0, mixed_numbers=True)
    (True, True)
    """
    kind = type(expected)
    if mixed_numbers and {kind, type(got)} == {int, float}:
        # Python compares an int and a float exactly, however large they are.
        return expected == got or (
            kind is float and abs(got) < 1 << 1000 and _same_float(expected, float(got), tolerance)
        )
    if tuples_as_lists and kind in (list, tuple):
        if type(got) not in (list, tuple):
            return False
    elif type(got) is not kind:
        return False

    if kind is float:
        return _same_float(expected, got, tolerance)
    if kind in (list, tuple):
        return len(expected) == len(got) and all(
            same(e, g, tolerance, tuples_as_lists, mixed_numbers)
            for e, g in zip(expected, got, strict=True)
        )
    if kind is dict:
        return _same_dict(expected, got, tolerance, tuples_as_lists, mixed_numbers)
    if kind in (set, frozenset):
        return _same_set(expected, got, tolerance, tuples_as_lists, mixed_numbers)
    if kind is complex:
        return _same_float(expected.real, got.real, tolerance) and _same_float(
            expected.imag, got.imag, tolerance
        )
    if kind is Decimal:
        # A signalling NaN raises when it is compared, so NaN is asked for first.
        if expected.is_nan() or got.is_nan():
            return expected.is_nan() and got.is_nan()
        return expected == got
    if expected is None or kind in (bool, int, str, bytes, Fraction):
        return expected == got
    return False


def _same_float(expected: float, got: float, tolerance: float) -> bool:
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    return math.isclose(expected, got, rel_tol=tolerance, abs_tol=tolerance)


def _same_dict(
    expected: dict, got: dict, tolerance: float, tuples_as_lists: bool, mixed_numbers: bool
) -> bool:
    # Looking a key up would find 1 for True, so keys are paired by their encoding.
    theirs = {encode(key): value for key, value in got.items()}
    ours = {encode(key): value for key, value in expected.items()}
    return ours.keys() == theirs.keys() and all(
        same(value, theirs[key], tolerance, tuples_as_lists, mixed_numbers)
        for key, value in ours.items()
    )


def _same_set(
    expected: object, got: object, tolerance: float, tuples_as_lists: bool, mixed_numbers: bool
) -> bool:
    if len(expected) != len(got):
        return False
    ours = {encode(member): member for member in expected}
    theirs = {encode(member): member for member in got}
    unpaired = [member for key, member in theirs.items() if key not in ours]
    if len(unpaired) > MAX_UNPAIRED:
        return False
    # What has no exact partner may have one within the tolerance.
    for key, member in ours.items():
        if key in theirs:
            continue
        for place, other in enumerate(unpaired):
            if same(member, other, tolerance, tuples_as_lists, mixed_numbers):
                del unpaired[place]
                break
        else:
            return False
    return not unpaired


def short_repr(value: object, width: int = 120) -> str:
    """`repr(value)` in about `width` characters, whatever the size of the value.

    Never raises on plain data, also where `repr` of a very long integer would.

    >>> short_repr([1, "a", (2.5,)])
    "[1, 'a', (2.5,)]"
    >>> short_repr(list(range(1000)), width=20)
    '[0, 1, 2, 3, 4, 5, ...]'
    """
    pieces: list[str] = []
    _show(value, [width], pieces)
    return "".join(pieces)


_BRACKETS = {
    list: ("[", "]", "[]"),
    tuple: ("(", ")", "()"),
    dict: ("{", "}", "{}"),
    set: ("{", "}", "set()"),
    frozenset: ("frozenset({", "})", "frozenset()"),
}


def _show(value: object, room: list[int], pieces: list[str]) -> None:
    def put(text: str) -> None:
        room[0] -= len(text)
        pieces.append(text)

    kind = type(value)
    if kind not in _BRACKETS:
        put(_show_scalar(value, max(room[0], 8)))
        return
    opening, closing, empty = _BRACKETS[kind]
    if not value:
        put(empty)
        return
    put(opening)
    for place, item in enumerate(value):
        if place:
            put(", ")
        if room[0] <= 0:
            pieces.append("...")
            break
        _show(item, room, pieces)
        if kind is dict:
            put(": ")
            _show(value[item], room, pieces)
    if kind is tuple and len(value) == 1:
        put(",")
    put(closing)


def _show_scalar(value: object, room: int) -> str:
    if type(value) is int and value.bit_length() > 4 * room:
        # log10(2) = 0.30103; the exact digits of such a number help nobody.
        return f"<an integer of about {int(value.bit_length() * 0.30103) + 1} digits>"
    if type(value) in (str, bytes) and len(value) > room:
        return repr(value[:room]) + "..."
    if type(value) is Fraction and value.denominator.bit_length() > 4 * room:
        return "<a very long fraction>"
    text = repr(value)
    return text if len(text) <= room + 40 else text[:room] + "..."
