"""Answers: the kinds of answer that there are.

A number with its unit, a list, set or tuple, an interval or a union of them, a
matrix, an equation or inequality, a ratio, an option of a multiple choice, words.
Each is a small frozen dataclass. `reading` makes them of text, `comparison` says
when two agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlkit.rewards.maths.expression import Node
from rlkit.rewards.maths.units import Unit


@dataclass(frozen=True)
class Scalar:
    """An expression and what stands around it. `mark`: `%`, `°`, or nothing."""

    node: Node
    unit: Unit | None = None
    mark: str = ""
    modulus: Node | None = None


@dataclass(frozen=True)
class Items:
    """Several answers. `kind`: `list` and `set` have no order, `tuple` and `bracket` have."""

    kind: str
    items: tuple[Answer, ...]


@dataclass(frozen=True)
class Interval:
    low: Node
    high: Node
    low_closed: bool
    high_closed: bool


@dataclass(frozen=True)
class Region:
    """A union of intervals and single points; without any it is the empty set."""

    intervals: tuple[Interval, ...]
    points: tuple[Node, ...] = ()
    variable: str | None = None


@dataclass(frozen=True)
class Matrix:
    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Relation:
    """`parts` with `operators` between them: x = 5, 1 < x < 3."""

    parts: tuple[Answer, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Ratio:
    parts: tuple[Node, ...]
    text: str


@dataclass(frozen=True)
class Option:
    """A choice of a list: its letter, and what stood behind the letter."""

    letter: str
    content: Answer | None = None


@dataclass(frozen=True)
class Words:
    text: str


@dataclass(frozen=True)
class Beyond:
    """Sound LaTeX that this reader does not take apart; math-verify may."""

    text: str


@dataclass(frozen=True)
class Nonsense:
    """No answer in any known notation."""

    reason: str


Answer = (
    Scalar
    | Items
    | Interval
    | Region
    | Matrix
    | Relation
    | Ratio
    | Option
    | Words
    | Beyond
    | Nonsense
)


EMPTY = Region(())


REALS = Region((Interval(("neg", ("const", "inf")), ("const", "inf"), False, False),))
