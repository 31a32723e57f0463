"""What one group of answers does to the policy: advantages, the printed loss, and the pull.

Everything comes from the kit's own objective: the advantages from
`rlkit.objectives.group_advantages`, the pull from the gradient of its loss at a ratio of 1.
The *pull* of a token is how fast the loss falls as its log-probability rises: above 0 the
token is made likelier.

Left out on purpose: ratios that have moved away from 1; see `rlkit.lab.loss_panel`.

Axes: G answers of one group, T tokens of the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots

from rlkit.errors import UserError
from rlkit.lab.theme import PALETTE, PATTERNS, bar_pattern, describe, number, template
from rlkit.objectives import Window, group_advantages, normalise

#: Token budget of an answer, which Dr. GRPO divides by.
BUDGET = 64


@dataclass(frozen=True)
class GroupNumbers:
    """What a group of answers does.

    Attributes:
        advantages: one for each answer.
        loss: what a trainer would print.
        pulls: of one token of each answer, no unit; above 0 it is made likelier.
        whole: of all tokens of each answer together.
    """

    advantages: list[float]
    loss: float
    pulls: list[float]
    whole: list[float]

    @property
    def alive(self) -> bool:
        """Whether the group has contrast."""
        return any(self.advantages)


def group_numbers(
    rewards: Sequence[float],
    lengths: Sequence[int],
    *,
    std: bool = True,
    normaliser: str = "token",
    budget: int = BUDGET,
) -> GroupNumbers:
    """Advantages, loss and pulls of one group.

    Args:
        rewards: G numbers.
        lengths: tokens of each answer, G numbers from 1.
        std: whether advantages are divided by the spread of the group (GRPO) or not
            (Dr. GRPO).
        normaliser: `token`, `sequence` or `constant`, as in `rlkit.objectives.normalise`.
        budget: longest answer allowed, for `constant`.

    Raises:
        UserError: fewer than two answers, or not one length of at least 1 for each.

    >>> found = group_numbers([1, 0, 0, 0], [5, 5, 5, 5], std=False)
    >>> found.advantages, round(found.loss, 9)
    ([0.75, -0.25, -0.25, -0.25], 0.0)
    """
    if len(rewards) < 2 or len(lengths) != len(rewards) or min(lengths) < 1:
        raise UserError(
            f"a group needs at least two answers and a length from 1 for each, not "
            f"{len(rewards)} rewards and the lengths {list(lengths)}"
        )
    rewards_BG = torch.tensor([[float(r) for r in rewards]], dtype=torch.float64)
    scale = "group" if std else "none"
    advantages_G = group_advantages(rewards_BG, scale=scale)[0][0].double()
    mask_GT = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    logprobs_GT = torch.zeros(mask_GT.shape, dtype=torch.float64, requires_grad=True)
    # The ratio of now to then, at the moment of sampling: 1, with the slope of the logarithm.
    ratio_GT = torch.exp(logprobs_GT - logprobs_GT.detach())
    window = Window.of(mask_GT, max_length=budget)
    loss = normalise(-ratio_GT * advantages_G[:, None], mask_GT, normaliser, window)
    loss.backward()
    pulls_GT = -logprobs_GT.grad
    return GroupNumbers(
        advantages_G.tolist(),
        float(loss.detach()) + 0.0,
        pulls_GT[:, 0].tolist(),
        pulls_GT.sum(1).tolist(),
    )


def group_figure(
    rewards: Sequence[float], lengths: Sequence[int], found: GroupNumbers, names: str
) -> go.Figure:
    """Advantage of each answer, and below it the pull on one of its tokens.

    Args:
        rewards, lengths: as given to `group_numbers`.
        found: what came of them.
        names: the settings in words, for the caption.
    """
    figure = make_subplots(rows=2, shared_xaxes=True, vertical_spacing=0.1)
    figure.update_layout(template=template(), title="One group of answers", height=430)
    answers = list(range(1, len(rewards) + 1))
    for panel, (values, unit) in enumerate(
        ((found.advantages, "advantage"), (found.pulls, "pull on a token")), start=1
    ):
        for right in (True, False):
            kind = "right" if right else "wrong"
            kept = [v if (r > 0) == right else None for v, r in zip(values, rewards, strict=True)]
            figure.add_bar(
                x=answers,
                y=kept,
                name=kind,
                meta=f"{unit}, {kind}",
                legendgroup=kind,
                showlegend=panel == 1,
                marker={
                    "color": PALETTE[2 if right else 1],
                    "pattern": bar_pattern(PATTERNS[0 if right else 1]),
                },
                row=panel,
                col=1,
            )
        figure.update_yaxes(title_text=unit, row=panel, col=1)
    figure.update_xaxes(title_text="answer (number)", dtick=1, row=2, col=1)
    figure.update_xaxes(title_text="", row=1, col=1)
    figure.update_layout(barmode="overlay", hovermode="closest")
    told = "; ".join(
        f"answer {i}, {'right' if r > 0 else 'wrong'}, {n} tokens: advantage {number(a)}, "
        f"pull on a token {number(p)}"
        for i, r, n, a, p in zip(
            answers, rewards, lengths, found.advantages, found.pulls, strict=True
        )
    )
    caption = (
        f"Above, how far each answer stands over its group; below, how strongly one of its tokens "
        f"is pulled up or down; {names}. The printed loss is {number(round(found.loss, 9) + 0.0)}."
    )
    if not found.alive:
        caption += " All rewards are alike: there is nothing to see because nothing is learned."
    return describe(figure, caption, f"Two rows of bars. {told}.")
