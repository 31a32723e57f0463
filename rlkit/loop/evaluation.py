"""Evaluation: pass@1 on held-out problems, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

#: Two-sided 95 % of a normal distribution.
Z95 = 1.959964


@dataclass(frozen=True)
class DomainEvaluation:
    """pass@1 of one domain.

    Attributes:
        domain: the domain's name.
        pass_at_1: mean share of a problem's samples that solve it; `None` when no
            sample got a verdict.
        low, high: 95 % interval over problems.
        problems: problems with a verdict.
        samples: samples a problem.
        unscored: samples without a verdict, left out of everything above.
    """

    domain: str
    pass_at_1: float | None
    low: float | None
    high: float | None
    problems: int
    samples: int
    unscored: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        if self.pass_at_1 is None:
            return f"{self.domain}: no verdict"
        return (
            f"{self.domain}: pass@1 {self.pass_at_1:.3f} "
            f"[{self.low:.3f}, {self.high:.3f}] on {self.problems} held-out problems"
        )


@dataclass(frozen=True)
class Evaluation:
    """pass@1 over all domains, each weighing the same, and of each domain."""

    step: int
    pass_at_1: float | None
    low: float | None
    high: float | None
    by_domain: dict[str, DomainEvaluation]

    @classmethod
    def of(cls, step: int, domains: Sequence[DomainEvaluation]) -> Evaluation:
        known = [d for d in domains if d.pass_at_1 is not None]
        by_domain = {d.domain: d for d in domains}
        if not known:
            return cls(step, None, None, None, by_domain)
        if len(known) == 1:
            only = known[0]
            return cls(step, only.pass_at_1, only.low, only.high, by_domain)
        mean = sum(d.pass_at_1 for d in known) / len(known)
        # Domains are independent, so the variances of their means add up.
        half = math.sqrt(sum(((d.high - d.low) / 2) ** 2 for d in known)) / len(known)
        return cls(step, mean, max(0.0, mean - half), min(1.0, mean + half), by_domain)


def evaluate_domain(
    domain: str, solved_BG: Sequence[Sequence[bool | None]], samples: int
) -> DomainEvaluation:
    """pass@1 and its interval from what was solved.

    The interval is Wilson's, with the number of problems as its size. Several
    samples of one problem are not independent: they narrow it only as far as the
    means of the problems really vary less than single draws would.
    """
    rates = []
    unscored = 0
    for row in solved_BG:
        known = [float(value) for value in row if value is not None]
        unscored += len(row) - len(known)
        if known:
            rates.append(sum(known) / len(known))
    if not rates:
        return DomainEvaluation(domain, None, None, None, 0, samples, unscored)
    mean = sum(rates) / len(rates)
    size = _effective_size(rates, mean, samples)
    low, high = wilson(mean, size)
    return DomainEvaluation(domain, mean, low, high, len(rates), samples, unscored)


def wilson(share: float, size: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share seen in `size` independent draws.

    >>> [round(x, 3) for x in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    centre = (share + Z95**2 / (2 * size)) / (1 + Z95**2 / size)
    half = (
        Z95 * math.sqrt(share * (1 - share) / size + Z95**2 / (4 * size**2)) / (1 + Z95**2 / size)
    )
    return max(0.0, centre - half), min(1.0, centre + half)


def _effective_size(rates: Sequence[float], mean: float, samples: int) -> float:
    count = len(rates)
    if count < 2:
        return float(count)
    spread = sum((rate - mean) ** 2 for rate in rates) / (count - 1)
    if spread <= 0:
        return float(count)
    return min(count * samples, max(count, count * mean * (1 - mean) / spread))
