"""Attack: a completion that deserves nothing, built from a problem whose truth is known.

An attack names what it exploits in words that finish the sentence "the reward pays …",
so that a report can say which hole it found. Every attack belongs to one suite; which
suites are tried on a reward is decided by what the reward judges (`problems.py`).

Left out on purpose: attacks that need a model to write them, and anything that would
harm the machine it runs on (no files are deleted, no network is used).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlkit.errors import UserError

if TYPE_CHECKING:
    from rlkit.rewards.audit.problems import AuditProblem

#: The suites, in the order in which a card shows them.
SUITES = (
    "answer",
    "maths",
    "countdown",
    "format",
    "code",
    "sql",
    "table",
    "retention",
    "length",
    "shape",
    "judge",
    "strain",
)


@dataclass(frozen=True)
class Attack:
    """One way to be paid without being right.

    Attributes:
        name: what it is called on the card.
        suite: one of `SUITES`.
        exploits: finishes "the reward pays …".
        build: the completion for a problem, or `None` when the problem does not fit.
        needs: facts or columns of the problem that `build` reads.
        holds: it may keep the interpreter busy inside one call that no thread can
            interrupt; tried in a child process only.
        strain: it tries the reward's time and nerves rather than its judgement: being
            refused is expected, what is looked for is hanging and raising.
    """

    name: str
    suite: str
    exploits: str
    build: Callable[[AuditProblem], str | None]
    needs: tuple[str, ...] = ()
    holds: bool = False
    strain: bool = False

    def on(self, problem: AuditProblem) -> str | None:
        """The completion for this problem; `None` when a fact is missing or it does not fit."""
        if any(problem.fact(need) is None for need in self.needs):
            return None
        return self.build(problem)


def all_attacks() -> tuple[Attack, ...]:
    """Every attack there is, by suite.

    >>> len(all_attacks()) >= 45
    True
    """
    from rlkit.rewards.audit import (
        suite_answer,
        suite_code,
        suite_countdown,
        suite_data,
        suite_format,
        suite_text,
    )

    found: list[Attack] = []
    for module in (
        suite_answer,
        suite_countdown,
        suite_format,
        suite_code,
        suite_data,
        suite_text,
    ):
        found += module.ATTACKS
    return tuple(sorted(found, key=lambda a: SUITES.index(a.suite)))


def attacks(*suites: str) -> tuple[Attack, ...]:
    """The attacks of these suites; all of them when none is named.

    Raises:
        UserError: no such suite.
    """
    unknown = [suite for suite in suites if suite not in SUITES]
    if unknown:
        raise UserError(f"unknown attack suite {unknown[0]!r}; known: {', '.join(SUITES)}")
    return tuple(a for a in all_attacks() if not suites or a.suite in suites)
