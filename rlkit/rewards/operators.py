"""What can be written between rewards: `+`, `-`, `*`, and the methods that compose them.

The classes behind them are in `algebra`, `schedule` and `domains`, which need the
reward type themselves and are therefore imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class Operators:
    """The algebra of rewards, mixed into `Reward`."""

    def __mul__(self, weight: float) -> Any:
        from rlkit.rewards import algebra

        return algebra.weighted(self, weight)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Any:
        from rlkit.rewards import algebra

        return algebra.divided(self, divisor)

    def __neg__(self) -> Any:
        return self * -1.0

    def __add__(self, other: Any) -> Any:
        from rlkit.rewards import algebra

        return algebra.added(self, other) if isinstance(other, Operators) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        # Lets the built-in `sum` add rewards: it starts from zero.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self + (-other) if isinstance(other, Operators) else NotImplemented

    def gate(self, other: Any, threshold: float = 1.0, otherwise: float | None = 0.0) -> Any:
        """Pays only where another reward reaches a threshold.

        Args:
            other: the reward that opens the gate; it is not paid itself.
            threshold: open at this value and above.
            otherwise: value where the gate is closed; `None` for "no verdict".
        """
        from rlkit.rewards import algebra

        return algebra.Gate(self, other, threshold, otherwise)

    def clip(self, low: float | None = None, high: float | None = None) -> Any:
        """The same reward, held between `low` and `high`."""
        from rlkit.rewards import algebra

        return algebra.Clip(self, low, high)

    def anneal(self, schedule: Mapping[int, float] | Callable[[float], float]) -> Any:
        """The same reward with a weight that changes over the run.

        Args:
            schedule: `{step: weight}`, straight lines between the steps; or a function
                of the progress from 0 to 1.
        """
        from rlkit.rewards.schedule import Annealed

        return Annealed(self, schedule)

    def per_domain(self, rewards: Mapping[str, Any]) -> Any:
        """Another reward for some domains, by the column `domain`; this one for the rest.

        Args:
            rewards: a reward, its name, or a weight for this one, by domain; `None` for
                a domain that is not judged.
        """
        from rlkit.rewards.domains import PerDomain

        return PerDomain(rewards, self)

    def with_truth(self, truth: Any) -> Any:
        """The same reward with a held-out truth beside it, logged and never trained on."""
        from rlkit.rewards.domains import WithTruth

        return WithTruth(self, truth)
