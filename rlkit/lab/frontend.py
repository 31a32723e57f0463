"""What shows this process's output: a notebook's front end, or nobody."""

from __future__ import annotations

import os
import sys

from rlkit.errors import UserError


def headless() -> bool:
    """Whether there is no notebook front end to show widgets in.

    `RLKIT_HEADLESS=1` or `0` decides; otherwise it is true outside a Jupyter kernel.

    Raises:
        UserError: the variable is set to anything else.
    """
    wanted = os.environ.get("RLKIT_HEADLESS", "")
    if wanted not in ("", "0", "1"):
        raise UserError(f"RLKIT_HEADLESS must be 0 or 1, not {wanted!r}")
    if wanted:
        return wanted == "1"
    if "IPython" not in sys.modules:
        return True
    from IPython import get_ipython

    # A kernel's shell has a kernel; the shell of a terminal shows no widgets.
    return not hasattr(get_ipython(), "kernel")


def mode() -> str:
    """`fast` or `full`: how much a lesson trains and measures.

    `RLKIT_MODE` decides; otherwise it is fast where nobody watches (headless) and on
    Binder, whose one processor is shared, and full elsewhere.

    Raises:
        UserError: the variable is set to anything else.
    """
    from rlkit.doctor import lesson_mode

    return "fast" if headless() and not os.environ.get("RLKIT_MODE") else lesson_mode()
