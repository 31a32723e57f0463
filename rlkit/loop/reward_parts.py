"""The parts of rewards as a tensor, for objectives that normalise each one by itself.

A score keeps two ledgers: `parts`, what each plain reward gave, and `contributions`, what
each adds to the total. A contribution is its part times the weight in force, schedules
included; so the weight is read from the two, and nothing has to be known of the reward's
expression. What a gate or a clip changed is in the contribution, too.

Axes: B groups, G rollouts a group, K parts: one for each name in each domain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from rlkit.policy import Group
from rlkit.rewards import Score


def reward_parts(
    groups: Sequence[Group], scores: Sequence[Sequence[Score]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Unweighted parts of every reward, and the weight of each part.

    Returns:
        parts_BGK in float64, NaN where a part abstains or belongs to another domain, and
        weights_K. A part that was 0 everywhere has weight 1, which changes nothing.
    """
    names: dict[tuple[str, str], float] = {}
    for group, row in zip(groups, scores, strict=True):
        for score in row:
            for name, share in score.contributions.items():
                key = (group.problem.domain, name)
                weight, part = names.setdefault(key, 0.0), score.parts.get(name)
                if part:
                    # A closed gate leaves 0 of it: the largest is the weight.
                    names[key] = max(weight, share / part, key=abs)
    weights = [weight or 1.0 for weight in names.values()]
    parts_BGK = [
        [
            [
                score.contributions[name] / weight
                if domain == group.problem.domain
                and score.value is not None
                and name in score.contributions
                else math.nan
                for (domain, name), weight in zip(names, weights, strict=True)
            ]
            for score in row
        ]
        for group, row in zip(groups, scores, strict=True)
    ]
    shape = (len(groups), max((len(row) for row in scores), default=0), len(names))
    parts = torch.tensor(parts_BGK, dtype=torch.float64).reshape(shape)
    return parts, torch.tensor(weights, dtype=torch.float64)
