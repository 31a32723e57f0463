"""Sampling: a step's groups, drawn and judged, and drawn again where they teach nothing.

A group whose rewards are all alike has no advantage. DAPO (2503.14476) throws such groups
away and draws further problems until the batch is full. Here that is bounded: at most
`max_refills` further draws of as many problems as are missing; what is missing even then
is filled up with the first groups that had been thrown away, so that a batch always has
the same size and a step always ends.

What decides is the score without its shaping parts (`Score.unshaped`), where there is one:
a penalty for length would make every group look alive. The reward itself must have
contrast, too, or there is nothing to learn from.

What was thrown away is counted and its tokens are paid for; the curriculum hears of it.

Left out: drawing more problems than are missing (which would save rounds and cost tokens),
and keeping surplus groups for the next step (they would be off-policy by then).

Axes: B groups, G rollouts a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from rlkit.loop.judging import Judge, Judged
from rlkit.loop.progress import Clock
from rlkit.loop.reward_parts import reward_parts
from rlkit.objectives import Objective, alive_groups
from rlkit.policy import Group
from rlkit.rewards import Score
from rlkit.tasks import Problem


@dataclass(frozen=True)
class Drawn:
    """The groups of a step, and what became of those that are not in it.

    Attributes:
        groups, judged: the batch.
        discarded, discarded_judged: groups that were thrown away, in the order drawn.
        refills: further draws that were made.
        bounded: whether refilling is on at all; without it nothing is reported.
    """

    groups: list[Group]
    judged: Judged
    discarded: list[Group]
    discarded_judged: Judged
    refills: int
    bounded: bool

    @property
    def discarded_tokens(self) -> int:
        """Completion tokens that were sampled and thrown away."""
        return sum(len(rollout) for group in self.discarded for rollout in group.rollouts)

    def metrics(self) -> dict[str, float | None]:
        """What refilling did; empty where it is off.

        `reward` and `pass_rate` of a refilled batch are those of groups with contrast;
        `sampling/reward` and `sampling/pass_rate` are of everything that was drawn.
        """
        if not self.bounded:
            return {}
        drawn = len(self.groups) + len(self.discarded)
        both = (self.judged, self.discarded_judged)
        scores = [s.value for judged in both for row in judged.scores for s in row]
        solved = [s for judged in both for row in judged.solved for s in row]
        return {
            "sampling/refills": float(self.refills),
            "sampling/groups_drawn": float(drawn),
            "frac_groups_discarded": len(self.discarded) / drawn,
            "sampling/discarded_tokens": float(self.discarded_tokens),
            "sampling/reward": _mean(scores),
            "sampling/pass_rate": _mean(solved),
        }


def draw(
    sample: Callable[[int], list[Problem]],
    generate: Callable[[Sequence[Problem]], list[Group]],
    judge: Judge,
    objective: Objective,
    count: int,
    max_refills: int,
    clock: Clock,
) -> Drawn:
    """`count` groups, those without contrast replaced as far as `max_refills` draws go.

    Args:
        sample: gives so many training problems.
        generate: answers problems, a group each.
        judge: scores groups.
        objective: whether its parts are normalised one by one, see `has_contrast`.
        count: B, groups in the batch.
        max_refills: further draws at most; 0 takes the first one as it is.
        clock: told of the seconds.
    """
    kept: list[_Judged] = []
    dropped: list[_Judged] = []
    refills = 0
    for attempt in range(max_refills + 1):
        groups = generate(sample(count - len(kept)))
        clock.lap("generate")
        judged = judge.judge(groups)
        clock.lap("reward")
        rows = zip(groups, judged.scores, judged.solved, strict=True)
        drawn = [_Judged(*row) for row in rows]
        refills = attempt
        if not max_refills:
            kept = drawn
            break
        for one in drawn:
            (kept if has_contrast(one.group, one.scores, objective) else dropped).append(one)
        if len(kept) == count:
            break
    missing = count - len(kept)
    batch, rest = kept + dropped[:missing], dropped[missing:]
    return Drawn(
        [one.group for one in batch],
        Judged([one.scores for one in batch], [one.solved for one in batch]),
        [one.group for one in rest],
        Judged([one.scores for one in rest], [one.solved for one in rest]),
        refills,
        max_refills > 0,
    )


def has_contrast(group: Group, scores: Sequence[Score], objective: Objective) -> bool:
    """Whether a group teaches anything: in the reward, and without its shaping parts.

    Where the objective normalises each part by itself, contrast in any part will do.
    """
    if objective.parts == "normalise":
        parts_BGK, _ = reward_parts([group], [scores])
        return any(bool(alive_groups(parts_BGK[..., k])) for k in range(parts_BGK.shape[-1]))
    known = [score for score in scores if score.value is not None]
    plain = [s.value if s.unshaped is None else s.unshaped for s in known]
    return all(
        bool(alive_groups(torch.tensor([values or [math.nan]], dtype=torch.float64)))
        for values in ([s.value for s in known], plain)
    )


@dataclass(frozen=True)
class _Judged:
    group: Group
    scores: list[Score]
    solved: list[bool | None]


def _mean(values: Sequence[float | bool | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None
