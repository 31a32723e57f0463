"""A letter, a colour and a word for each way in which a test can end.

The letter says all; the colour only gathers: green for what passed, vermilion for a wrong
value, purple for a program that broke, blue for what a limit ended, grey for what the judge
refused or nobody knows.

Left out on purpose: more than five colours. Nobody can tell fourteen apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rlkit.lab.theme import PALETTE
from rlkit.sandbox.types import Status

_BLUE, _VERMILION, _GREEN, _PURPLE, _GREY = PALETTE[:5]


@dataclass(frozen=True)
class Mark:
    """How one status is shown.

    Attributes:
        letter: one character, different for each status.
        colour: of its group.
        pattern: of its group, for bars.
        word: the status in plain words.
    """

    letter: str
    colour: str
    pattern: str
    word: str


MARKS: dict[Status, Mark] = {
    Status.PASS: Mark("✓", _GREEN, "", "passed"),
    Status.FAIL: Mark("W", _VERMILION, "x", "wrong value"),
    Status.RUNTIME_ERROR: Mark("E", _PURPLE, ".", "error while running"),
    Status.COMPILE_ERROR: Mark("S", _PURPLE, ".", "not a program"),
    Status.CRASH: Mark("K", _PURPLE, ".", "killed by a signal"),
    Status.NO_RESULT: Mark("N", _PURPLE, ".", "ended without an answer"),
    Status.TIMEOUT: Mark("T", _BLUE, "/", "stopped by the clock"),
    Status.CPU_LIMIT: Mark("C", _BLUE, "/", "processor time used up"),
    Status.MEMORY_LIMIT: Mark("M", _BLUE, "/", "memory used up"),
    Status.OUTPUT_LIMIT: Mark("O", _BLUE, "/", "too much output"),
    Status.BAD_VALUE: Mark("B", _GREY, "\\", "no plain value"),
    Status.TAMPERED: Mark("X", _GREY, "\\", "tampered with the channel"),
    Status.REJECTED: Mark("R", _GREY, "\\", "not started"),
    Status.SANDBOX_ERROR: Mark("?", _GREY, "\\", "no verdict"),
}


def legend(statuses: Iterable[Status]) -> str:
    """What the letters mean that are in use, in the order of `MARKS`.

    >>> legend([Status.FAIL, Status.PASS])
    '✓ passed, W wrong value'
    """
    used = set(statuses)
    return ", ".join(f"{m.letter} {m.word}" for status, m in MARKS.items() if status in used)
