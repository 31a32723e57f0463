"""Checked: what came of looking at a learner's answer.

Left out on purpose: how it was found out; see `examination`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rlkit.lessons.cards import Block, Card, Tone


class State(str, Enum):
    """How far an exercise is. `str()` gives the bare name.

    >>> str(State.TODO), State.RIGHT == "RIGHT"
    ('TODO', True)
    """

    TODO = "TODO"  # the answer was not written yet
    WRONG = "WRONG"  # a property does not hold
    RIGHT = "RIGHT"  # every property holds

    def __str__(self) -> str:
        return self.value

    __format__ = str.__format__


@dataclass(frozen=True)
class Finding:
    """One property and whether it holds.

    Attributes:
        name: the property's sentence.
        holds: True, False, or None when it could not be looked at.
        message: what broke, in words; empty when it holds.
    """

    name: str
    holds: bool | None
    message: str = ""

    def __str__(self) -> str:
        sign, word = {True: ("✓", "holds"), False: ("✗", "broken"), None: ("○", "not tried")}[
            self.holds
        ]
        return f"{sign} {word}: {self.name}"


_LOOKS: dict[State, tuple[Tone, str, str]] = {
    State.TODO: ("todo", "○", "TODO"),
    State.WRONG: ("wrong", "✗", "Not yet"),
    State.RIGHT: ("right", "✓", "Right"),
}


@dataclass(frozen=True)
class Checked:
    """The state of an answer and the reason, for a learner.

    Attributes:
        exercise: the exercise's ID.
        title: what a learner calls it.
        state: `TODO`, `WRONG` or `RIGHT`.
        message: which property broke, by how much, on which input; or what holds.
        findings: one for each property, in order.
        printed: what the learner's code printed while it was checked in the sandbox.
        notes: anything else to know, such as a progress file that could not be written.
        attempts: how often it was checked with code in it; None when nobody counted.
        seconds: how long the check took.

    >>> print(Checked("mean", "The mean", State.TODO, "TODO: line 2 is open."))
    ○ TODO: The mean
      TODO: line 2 is open.
    """

    exercise: str
    title: str
    state: State
    message: str
    findings: tuple[Finding, ...] = ()
    printed: str = ""
    notes: tuple[str, ...] = field(default=())
    attempts: int | None = None
    seconds: float | None = None

    @property
    def right(self) -> bool:
        """Whether every property holds."""
        return self.state is State.RIGHT

    def card(self) -> Card:
        """The same as a card."""
        tone, sign, word = _LOOKS[self.state]
        blocks = [Block(self.message)]
        if self.state is State.WRONG and len(self.findings) > 1:
            blocks.append(Block(items=[str(finding) for finding in self.findings]))
        if self.printed:
            blocks.append(Block(self.printed, "Your code printed", code=True))
        blocks += [Block(note, "Note") for note in self.notes]
        return Card(tone, sign, f"{word}: {self.title}", tuple(blocks), announced=True)

    def __str__(self) -> str:
        return str(self.card())

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.card()._repr_mimebundle_()
