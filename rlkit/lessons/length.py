"""The two lengths of a lesson, fast and full, from the same cells.

`RLKIT_MODE=fast|full` chooses; without it the machine does: fast on Binder, whose sessions
are short, and where nobody watches; full elsewhere.
"""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")


class Mode(str):
    """`fast` or `full`; shown as the sentence that says why.

    Attributes:
        sentence: which length it is, why, and how to get the other one.
    """

    sentence: str

    def __repr__(self) -> str:
        return self.sentence


def mode() -> Mode:
    """Which length runs here; the last line of a cell shows it as a sentence.

    Raises:
        UserError: `RLKIT_MODE` is set to something else.

    >>> mode() in ("fast", "full")
    True
    """
    from rlkit.lab.frontend import headless
    from rlkit.lab.frontend import mode as chosen

    name = chosen()
    other = "full" if name == "fast" else "fast"
    if os.environ.get("RLKIT_MODE"):
        reason = f"because RLKIT_MODE is {name}"
    elif name == "full":
        reason = "the usual one on a machine of one's own"
    elif headless():
        reason = "because no notebook front end is watching"
    else:
        reason = "because Binder's sessions are short"
    result = Mode(name)
    result.sentence = (
        f"This is the {name} length, {reason}. For the {other} length set RLKIT_MODE={other} "
        "before the kernel starts."
    )
    return result


def pick(*, fast: T, full: T) -> T:
    """One of two values, by the length that runs here.

    >>> steps = pick(fast=20, full=60)
    >>> steps in (20, 60)
    True
    """
    return fast if mode() == "fast" else full
