"""What counts as a reward's value: a finite number inside the range, or `None`.

A value that a program handed over (a file it could write, an endpoint's reply) is
not believed: `sanitise` keeps what is a finite number in range and makes `None` of
all else. Never clipped: 1.5 is not a very good 1.0 but a sign that something is wrong.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

from rlkit.errors import UserError

Bounds = tuple["float | None", "float | None"]


def as_number(value: Any) -> float | None:
    """A float from any kind of real number (numpy and torch scalars too), `None` if it is none.

    `True` and `False` count as 1 and 0. A text is not a number, whatever it says.

    >>> as_number(True), as_number(0.5), as_number("0.5")
    (1.0, 0.5, None)
    """
    if isinstance(value, (float, int)):
        return _float(value)
    if isinstance(value, (str, bytes, complex)) or value is None:
        return None
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return as_number(value.item())
    if isinstance(value, numbers.Real) or type(value).__name__ == "Decimal":
        return _float(value)
    return None


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an int beyond 1e308
        return math.inf


def fault(number: float, bounds: Bounds) -> str | None:
    """What is wrong with a number as a reward; `None` when nothing is.

    >>> fault(1.5, (0.0, 1.0))
    '1.5 is outside [0, 1]'
    """
    if not math.isfinite(number):
        return f"{number} is not finite"
    low, high = bounds
    if (low is not None and number < low) or (high is not None and number > high):
        left = "-inf" if low is None else f"{low:g}"
        right = "inf" if high is None else f"{high:g}"
        return f"{number:g} is outside [{left}, {right}]"
    return None


def sanitise(
    values: Iterable[Any], low: float | None = 0.0, high: float | None = 1.0
) -> list[float | None]:
    """Values from a source that is not trusted: finite numbers in range stay, the rest is `None`.

    Numbers written as text are read, since files and replies hold text; truth values
    are no numbers here.

    >>> sanitise(["nan", "inf", -0.5, 1.5, 0.5, "0.25", True])
    [None, None, None, None, 0.5, 0.25, None]
    """
    checked = check_bounds((low, high))
    rows: list[float | None] = []
    for value in values:
        number = None if isinstance(value, bool) else as_number(value)
        if isinstance(value, str) and len(value) <= 64:
            try:
                number = float(value)
            except ValueError:
                number = None
        rows.append(None if number is None or fault(number, checked) else number)
    return rows


def check_bounds(bounds: Any) -> Bounds:
    """The declared range as two floats, each of which may be `None` for "no limit".

    Raises:
        UserError: it is no pair of numbers, or the first is above the second.
    """
    try:
        low, high = (None if b is None else float(b) for b in bounds)
    except (TypeError, ValueError):
        raise UserError(
            f"a range is a pair (low, high) of numbers or None, not {bounds!r}"
        ) from None
    if any(b is not None and math.isnan(b) for b in (low, high)) or (
        low is not None and high is not None and low > high
    ):
        raise UserError(f"a range must run from low to high, not from {low} to {high}")
    return low, high
