"""Curriculum: which domain the next problems come from.

Two weightings. `uniform` asks every domain equally often. `learnability` asks a
domain in proportion to p(1 - p), p being its recent pass rate: the variance of a
pass-or-fail reward, and so the size of the signal that a group can carry. A floor
keeps every domain in play, so that forgetting is seen.

Left out on purpose: learning progress, schedules of difficulty and length, and
clusters of domains; they come with the curriculum's own depth.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.tasks import Domain, Problem, get_domains

WEIGHTINGS = ("uniform", "learnability")


@dataclass
class DomainStats:
    """What is known of one domain.

    Attributes:
        pass_rate: moving average of the share of rollouts that solved their problem;
            `None` before the first verdict.
        groups: groups seen so far.
        dead_groups: those of them without contrast.
    """

    pass_rate: float | None = None
    groups: int = 0
    dead_groups: int = 0


class Curriculum:
    """Draws training problems over several domains.

    Args:
        domains: names or `Domain` objects.
        weighting: `uniform` or `learnability`.
        floor: least probability of each domain.
        decay: how much of the old pass rate stays after each group; 0.9 remembers
            about ten groups.
        difficulty: level of every domain, or a level for each by name.
        seed: decides all draws.

    Raises:
        UserError: no domains, an unknown weighting, or a floor that leaves no room.
    """

    def __init__(
        self,
        domains: Sequence[str | Domain],
        weighting: str = "uniform",
        *,
        floor: float = 0.05,
        decay: float = 0.9,
        difficulty: int | Mapping[str, int] = 1,
        seed: int = 0,
    ) -> None:
        self.domains = get_domains(domains)
        if weighting not in WEIGHTINGS:
            raise UserError(f"unknown weighting {weighting!r}; choose {' or '.join(WEIGHTINGS)}")
        if floor < 0.0:
            raise UserError(f"the floor of a probability must not be negative, not {floor}")
        if floor * len(self.domains) > 1.0:
            raise UserError(
                f"a floor of {floor} for {len(self.domains)} domains adds up to more than 1; "
                f"use {1 / len(self.domains):.2f} at most"
            )
        if not 0.0 <= decay < 1.0:
            raise UserError(f"decay must lie in [0, 1), not {decay}")
        self.weighting = weighting
        self.floor = floor
        self.decay = decay
        self.difficulty: dict[str, int] = {}
        for domain in self.domains:
            level = difficulty if isinstance(difficulty, int) else difficulty.get(domain.name, 1)
            domain.check_difficulty(level)
            self.difficulty[domain.name] = level
        self.stats = {d.name: DomainStats() for d in self.domains}
        self._rng = random.Random(f"curriculum/{seed}")

    def probabilities(self) -> dict[str, float]:
        """Probability of each domain; they add up to 1.

        >>> c = Curriculum(["arith", "sort"], "learnability", floor=0.1)
        >>> c.probabilities()
        {'arith': 0.5, 'sort': 0.5}
        """
        names = list(self.stats)
        if self.weighting == "uniform":
            return {name: 1.0 / len(names) for name in names}
        rates = [stats.pass_rate for stats in self.stats.values()]
        known = [rate * (1.0 - rate) for rate in rates if rate is not None]
        # Of a domain nobody has tried yet nothing is known: it gets the mean of the others.
        unknown = sum(known) / len(known) if known else 1.0
        weights = [unknown if rate is None else rate * (1.0 - rate) for rate in rates]
        total = sum(weights)
        if total <= 0:  # everything is solved, or nothing is: no reason to prefer one
            return {name: 1.0 / len(names) for name in names}
        free = 1.0 - self.floor * len(names)
        return {name: self.floor + free * w / total for name, w in zip(names, weights, strict=True)}

    def sample(self, count: int) -> list[Problem]:
        """`count` training problems."""
        by_name = {d.name: d for d in self.domains}
        chances = self.probabilities()
        names = self._rng.choices(list(chances), list(chances.values()), k=count)
        return [by_name[n].sample(self._rng, self.difficulty[n], "train") for n in names]

    def observe(self, domain: str, pass_rate: float | None, dead: bool) -> None:
        """Takes in one group's result.

        Args:
            domain: the domain's name.
            pass_rate: share of its rollouts that solved the problem; `None` without
                any verdict, which changes nothing but the count.
            dead: whether the group had no contrast.
        """
        stats = self.stats[domain]
        stats.groups += 1
        stats.dead_groups += int(dead)
        if pass_rate is None:
            return
        old = stats.pass_rate
        stats.pass_rate = (
            pass_rate if old is None else self.decay * old + (1 - self.decay) * pass_rate
        )

    def metrics(self) -> dict[str, float | None]:
        """Probability and moving pass rate of each domain, for the record."""
        out: dict[str, float | None] = {}
        for name, chance in self.probabilities().items():
            out[f"curriculum/probability/{name}"] = chance
            out[f"curriculum/pass_rate/{name}"] = self.stats[name].pass_rate
        return out

    def state_dict(self) -> dict[str, Any]:
        version, internal, gauss = self._rng.getstate()
        return {
            "stats": {name: asdict(stats) for name, stats in self.stats.items()},
            "rng": [version, list(internal), gauss],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on as if never stopped.

        Raises:
            UserError: the state belongs to other domains.
        """
        if set(state["stats"]) != set(self.stats):
            raise UserError(
                f"the saved curriculum is over {sorted(state['stats'])}, this one over "
                f"{sorted(self.stats)}"
            )
        self.stats = {name: DomainStats(**state["stats"][name]) for name in self.stats}
        version, internal, gauss = state["rng"]
        self._rng.setstate((version, tuple(internal), gauss))
