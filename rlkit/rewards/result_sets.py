"""Are two result sets the same? Rows with or without order, with duplicates, NULLs, floats.

Columns are compared by place; their names do not count. A row that stands twice must
stand twice. NULL equals NULL only, a number never equals a text, and 1 equals 1.0.

Left out on purpose: columns in another order, which no gold answer can vouch for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

#: Floats are equal within this distance, relative or absolute.
TOLERANCE = 1e-6
#: So many rows may need the slow, tolerant search for a partner.
MAX_UNPAIRED = 400

Row = Sequence[Any]


def same_rows(
    expected: Sequence[Row],
    got: Sequence[Row],
    ordered: bool = False,
    tolerance: float = TOLERANCE,
) -> bool:
    """Are the rows the same, as a sequence or as a multiset?

    >>> same_rows([[1, "a"], [2, None]], [[2, None], [1.0, "a"]])
    True
    >>> same_rows([[1], [1], [2]], [[1], [2], [2]]), same_rows([[1], [2]], [[2], [1]], ordered=True)
    (False, False)
    """
    if len(expected) != len(got):
        return False
    if ordered:
        return all(same_row(a, b, tolerance) for a, b in zip(expected, got, strict=True))
    # Exact partners first; what is left over may have one within the tolerance.
    want, have = Counter(map(_key, expected)), Counter(map(_key, got))
    missing = _rows_of(want - have, expected)
    spare = _rows_of(have - want, got)
    if len(missing) > MAX_UNPAIRED:
        ours, theirs = sorted(missing, key=_order), sorted(spare, key=_order)
        return all(same_row(a, b, tolerance) for a, b in zip(ours, theirs, strict=True))
    for row in missing:
        place = next((i for i, other in enumerate(spare) if same_row(row, other, tolerance)), None)
        if place is None:
            return False
        del spare[place]
    return True


def same_with_ties(
    expected: Sequence[Row],
    up: Sequence[Row],
    down: Sequence[Row],
    got: Sequence[Row],
    tolerance: float = TOLERANCE,
) -> bool:
    """Are the rows in the right order, where that order is decided?

    Args:
        expected: the right rows.
        up: the same rows with ties broken one way; `down`: broken the other way. What
            stands between two places where both hold the same rows is tied, and may come
            in any order.
        got: the rows to judge.
        tolerance: for floats.

    >>> up, down = [["a", 1], ["b", 1], ["c", 2]], [["b", 1], ["a", 1], ["c", 2]]
    >>> same_with_ties(up, up, down, [["b", 1], ["a", 1], ["c", 2]])
    True
    >>> same_with_ties(up, up, down, [["c", 2], ["a", 1], ["b", 1]])
    False
    """
    if not len(expected) == len(up) == len(down) == len(got):
        return False
    start = 0
    balance: Counter = Counter()
    for end in range(1, len(up) + 1):
        for row, step in ((up[end - 1], 1), (down[end - 1], -1)):
            balance[_key(row)] += step
            if not balance[_key(row)]:
                del balance[_key(row)]
        # A tie that a LIMIT cuts through never balances; its rows are those expected.
        if not balance or end == len(up):
            if not same_rows(expected[start:end], got[start:end], tolerance=tolerance):
                return False
            start = end
    return True


def same_row(expected: Row, got: Row, tolerance: float = TOLERANCE) -> bool:
    """Are two rows the same, value by value?"""
    return len(expected) == len(got) and all(
        _same_value(a, b, tolerance) for a, b in zip(expected, got, strict=True)
    )


def _same_value(expected: Any, got: Any, tolerance: float) -> bool:
    if _is_number(expected) and _is_number(got):
        if isinstance(expected, int) and isinstance(got, int):
            return expected == got
        if expected == got:
            return True
        return abs(expected - got) <= tolerance * max(1.0, abs(expected), abs(got))
    return type(expected) is type(got) and expected == got


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _key(row: Row) -> tuple:
    """Hashable, and equal for rows that are equal without any tolerance."""
    return tuple(("n", v) if _is_number(v) else (type(v).__name__, repr(v)) for v in row)


def _order(row: Row) -> tuple:
    return tuple((0, v, "") if _is_number(v) else (1, 0, repr(v)) for v in row)


def _rows_of(counted: Counter, rows: Sequence[Row]) -> list[Row]:
    """Rows of a counter of keys, as often as each is counted."""
    kept = []
    for row in rows:
        if counted[_key(row)] > 0:
            counted[_key(row)] -= 1
            kept.append(row)
    return kept
