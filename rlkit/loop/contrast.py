"""Contrast: how likely it is that the answers of a group are not all worth the same.

With pass rate p on a problem and G independent answers, a group has contrast with
probability 1 - p^G - (1 - p)^G. Putting a measured pass rate into the formula would be
biased: a problem solved 0 times in 16 has not p = 0. So the probability is counted
instead: of all ways to take G answers out of the n that were drawn, the share in which
they differ. That is right in the mean, holds for graded rewards too (what must differ is
the reward, not the verdict), and knows of answers without a verdict.

Axes: n samples of a problem, G rollouts of a group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlkit.errors import UserError
from rlkit.objectives import DEAD_BELOW


def pass_at(samples: int, solved: int, draws: int) -> float:
    """Probability that one of some draws solves: unbiased, from more samples than draws.

    `1 - C(n - c, k) / C(n, k)` (Chen et al., 2107.03374).

    Raises:
        UserError: fewer samples than draws.

    >>> pass_at(4, 1, 1), pass_at(4, 1, 2), pass_at(4, 4, 2)
    (0.25, 0.5, 1.0)
    """
    if draws > samples:
        raise UserError(f"pass@{draws} needs {draws} samples at least, not {samples}")
    return 1 - math.comb(samples - solved, draws) / math.comb(samples, draws)


def chance_of_contrast(values: Sequence[float | None], draws: int) -> float:
    """Probability that some of these rewards differ, when so many are drawn.

    Unbiased for any rewards: of all ways to draw, those are counted in which the known
    rewards are not all alike. For rewards 0 and 1 its mean is `1 - p^G - (1 - p)^G`.

    Args:
        values: rewards of the answers to one problem, `None` without a verdict.
        draws: G; at most as many as there are values.

    >>> chance_of_contrast([1.0, 0.0, 0.0, 0.0], 2)  # 3 of 6 pairs
    0.5
    >>> chance_of_contrast([0.1, 0.2, 0.3, 0.4], 2), chance_of_contrast([1.0, None], 2)
    (1.0, 0.0)
    """
    if draws > len(values):
        raise UserError(f"a group of {draws} needs {draws} samples at least, not {len(values)}")
    unknown = sum(value is None for value in values)
    counts: list[int] = []
    last = -math.inf
    for value in sorted(value for value in values if value is not None):
        if not counts or value - last > DEAD_BELOW:
            counts.append(0)
        counts[-1] += 1
        last = value
    # Dead: all from one kind and the unknown ones, or from the unknown ones alone.
    nothing = math.comb(unknown, draws)
    dead = nothing + sum(math.comb(count + unknown, draws) - nothing for count in counts)
    return 1 - dead / math.comb(len(values), draws)
