"""Freed memory, given back to the machine between steps.

Steps of changing sizes leave holes in the heap of the C library, which keeps them; over some
steps of a language model that grows to hundreds of megabytes. glibc can be asked to return
what is free, which takes some hundredths of a second. Elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache


@cache
def _trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library
        return None


def give_back() -> bool | None:
    """Returns freed memory to the machine.

    Returns:
        Whether there was any; `None` where the C library has no such call.

    >>> give_back() in (True, False, None)
    True
    """
    trim = _trim()
    return None if trim is None else bool(trim(0))
