"""Attacking a reward of the lab: the audit's attacks on the problems of each domain.

The audit tells what a reward judges by its name. A reward written in the box has no known
name, so it is tried on the problems of the domains it is used for, one card a kind of
problem, with the columns that the lab would give it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.rewardlab.scoring import Scoring
from rlkit.lab.stored import StoredRollouts
from rlkit.lab.theme import escape
from rlkit.rewards import Reward
from rlkit.tasks import get_domain


@dataclass(frozen=True)
class Attacks:
    """The report cards of a reward, by domain.

    Attributes:
        cards: one for each kind of problem that was tried.
        not_tried: why a domain was not tried.
    """

    cards: dict[str, Any]
    not_tried: dict[str, str]

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        if not self.cards:
            return f"Nothing was attacked: {'; '.join(self.not_tried.values())}."
        found = [
            f"{domain}: {len(card.holes)} of {len(card.attacks)} attacks went through"
            for domain, card in self.cards.items()
        ]
        return f"{'; '.join(found)}."

    def __str__(self) -> str:
        cards = [f"== {domain}\n{card}" for domain, card in self.cards.items()]
        left = [f"{domain}: not tried, {why}" for domain, why in self.not_tried.items()]
        return "\n\n".join([self.sentence, *cards, *left])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cards = "".join(
            f"<details><summary>{escape(domain)}: "
            f"{'passed' if card.passed else 'failed'}, {len(card.holes)} of "
            f"{len(card.attacks)} attacks went through</summary>{card._repr_html_()}</details>"
            for domain, card in self.cards.items()
        )
        left = "".join(
            f"<p>{escape(domain)}: not tried, {escape(why)}</p>"
            for domain, why in self.not_tried.items()
        )
        return f"<p>{escape(self.sentence)}</p>{cards}{left}"


def attack(reward: Reward, stored: StoredRollouts, scoring: Scoring) -> Attacks:
    """Runs the attacks on one domain of each kind that the reward gives a verdict on.

    Args:
        reward: what is attacked.
        stored: says which domains there are, and which columns they have.
        scoring: says which of them the reward judges.
    """
    from rlkit.rewards.audit import audit, subjects

    known = subjects()
    cards: dict[str, Any] = {}
    not_tried: dict[str, str] = {}
    tried: set[str] = set()
    for numbers, columns in stored.calls:
        domain = columns["domain"][0]
        verifier = get_domain(domain).success
        if not scoring.known[numbers].any():
            not_tried[domain] = "the reward gives no verdict there"
        elif verifier in tried:
            not_tried[domain] = "it is judged as another domain that was tried"
        elif verifier not in known:
            not_tried[domain] = f"the audit knows no problems for {verifier}"
        else:
            tried.add(verifier)
            subject = known[verifier]
            problems = [
                replace(problem, columns={**problem.columns, "domain": domain, "difficulty": 1})
                for problem in subject.make(0)
            ]
            own = replace(subject, make=lambda seed, problems=problems: problems, prepare=None)
            try:
                cards[domain] = audit(reward, subject=own)
            except UserError as error:
                not_tried[domain] = str(error)
    return Attacks(cards, not_tried)
