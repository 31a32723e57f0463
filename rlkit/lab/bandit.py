"""Bandit: the smallest policy there is, four numbers that decide which of four arms is pulled.

Each arm pays 1 with a probability of its own and 0 otherwise. The policy is a softmax over
one preference an arm, and REINFORCE (Williams, *Machine Learning* 8, 1992) is all that
moves it. Everything is NumPy on four numbers, so the exact gradient and the exact variance
of its estimate are known beside the estimates.

Left out on purpose: arms that change, contexts, and every rule that is no policy gradient.

Axes: K arms, N draws of one batch, R resamples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlkit.errors import UserError

#: What may be taken away from a reward before it weighs a gradient.
BASELINES = ("none", "others")


def probabilities(preferences_K: np.ndarray) -> np.ndarray:
    """Softmax: preferences become probabilities that add up to 1.

    >>> probabilities(np.zeros(4))
    array([0.25, 0.25, 0.25, 0.25])
    """
    powers_K = np.exp(preferences_K - np.max(preferences_K))  # shifted: exp never overflows
    return powers_K / powers_K.sum()


def scores(preferences_K: np.ndarray, arms_N: np.ndarray) -> np.ndarray:
    """The gradient of the log-probability of each drawn arm, of shape (N, K).

    >>> scores(np.zeros(4), np.array([2]))
    array([[-0.25, -0.25,  0.75, -0.25]])
    """
    return np.eye(len(preferences_K))[arms_N] - probabilities(preferences_K)


def advantages(rewards_N: np.ndarray, baseline: str) -> np.ndarray:
    """What each reward stands above its baseline.

    Args:
        rewards_N: rewards of one batch, along the last axis.
        baseline: `none`, or `others`: the mean of the other rewards of the batch.

    Raises:
        UserError: an unknown baseline, or a batch of one, which has no others.

    >>> advantages(np.array([1.0, 0.0, 0.0]), "others")
    array([ 1. , -0.5, -0.5])
    """
    if baseline not in BASELINES:
        raise UserError(f"baseline must be 'none' or 'others', not {baseline!r}")
    if baseline == "none":
        return rewards_N
    count = rewards_N.shape[-1]
    if count < 2:
        raise UserError(
            "a batch of one has no others to compare with; draw at least 2, or take the "
            "baseline away"
        )
    return (rewards_N - rewards_N.mean(-1, keepdims=True)) * count / (count - 1)


@dataclass(frozen=True)
class Bandit:
    """Arms that pay 1 with a probability of their own, else 0.

    Attributes:
        pays: the probability of each arm, K numbers from 0 to 1.
        added: a constant on top of every reward; it changes no preference between arms.

    Raises:
        UserError: fewer than two arms, or a number that is no probability.

    >>> Bandit((0.2, 0.5, 0.8, 0.4)).best
    2
    """

    pays: tuple[float, ...] = (0.2, 0.5, 0.8, 0.4)
    added: float = 0.0

    def __post_init__(self) -> None:
        if len(self.pays) < 2 or not all(0 <= p <= 1 for p in self.pays):
            raise UserError(f"give two or more arms that pay from 0 to 1, not {self.pays}")

    @property
    def best(self) -> int:
        """The arm that pays most, counted from 0."""
        return int(np.argmax(self.pays))

    def means(self) -> np.ndarray:
        """The mean reward of each arm, K numbers."""
        return np.array(self.pays) + self.added

    def draw(
        self, preferences_K: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Arms that the policy pulls, from 0, and what they pay; both of this shape."""
        arms = rng.choice(len(self.pays), size=shape, p=probabilities(preferences_K))
        rewards = (rng.random(shape) < np.array(self.pays)[arms]) + self.added
        return arms, rewards

    def value(self, preferences_K: np.ndarray) -> float:
        """The mean reward of the policy."""
        return float(probabilities(preferences_K) @ self.means())

    def gradient(self, preferences_K: np.ndarray) -> np.ndarray:
        """The exact gradient of the mean reward: `p_a * (mean_a - mean of all)`, K numbers.

        >>> Bandit().gradient(np.zeros(4)).round(5)
        array([-0.06875,  0.00625,  0.08125, -0.01875])
        """
        p_K = probabilities(preferences_K)
        return p_K * (self.means() - p_K @ self.means())

    def variance(self, preferences_K: np.ndarray) -> np.ndarray:
        """The exact variance of the estimate from one draw without a baseline, K numbers."""
        p_K, pays_K = probabilities(preferences_K), np.array(self.pays)
        # E[r^2 | arm]: a reward is 1 + added or added.
        square_K = pays_K * (1 + self.added) ** 2 + (1 - pays_K) * self.added**2
        scores_KK = scores(preferences_K, np.arange(len(pays_K)))
        second_K = (p_K * square_K) @ scores_KK**2
        return second_K - self.gradient(preferences_K) ** 2

    def estimates(
        self,
        preferences_K: np.ndarray,
        batch: int,
        baseline: str,
        rng: np.random.Generator,
        count: int = 1,
    ) -> np.ndarray:
        """`count` estimates of the gradient, each from a batch of its own: (R, K).

        Raises:
            UserError: see `advantages`.
        """
        arms_RN, rewards_RN = self.draw(preferences_K, (count, batch), rng)
        weights_RN = advantages(rewards_RN, baseline)
        return (weights_RN[:, :, None] * scores(preferences_K, arms_RN)).mean(1)

    def train(
        self,
        steps: int,
        learning_rate: float,
        batch: int,
        baseline: str,
        rng: np.random.Generator,
        preferences_K: np.ndarray | None = None,
    ) -> np.ndarray:
        """The probabilities before the first of some steps and after each: (steps + 1, K).

        Raises:
            UserError: see `advantages`.
        """
        theta_K = np.zeros(len(self.pays)) if preferences_K is None else preferences_K.copy()
        path = [probabilities(theta_K)]
        for _ in range(steps):
            theta_K += learning_rate * self.estimates(theta_K, batch, baseline, rng)[0]
            path.append(probabilities(theta_K))
        return np.array(path)
