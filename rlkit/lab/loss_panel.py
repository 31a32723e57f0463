"""LossPanel: a frozen batch of real answers under other settings of the same objective.

The batch was drawn once. Sliders change the size of the groups, the clip range epsilon, the
weight beta of the divergence, and the temperature at which the policy scores the answers;
each change scores the batch again with gradient. Shown are the numbers that a trainer logs,
and how strongly each answer is pulled up or down.

Without a front end the same is shown as text, and `set` does what the sliders do.

Left out on purpose: a step. The policy is never changed from here.

Axes: B problems, G answers a problem, N = B x G, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import plotly.graph_objects as go
import torch

from rlkit.errors import UserError
from rlkit.lab.panel_settings import Adjustable
from rlkit.lab.theme import (
    PALETTE,
    PATTERNS,
    Table,
    bar_pattern,
    describe,
    escape,
    figure_notes,
    number,
    table_html,
    template,
)
from rlkit.objectives import GRPO

if TYPE_CHECKING:
    from rlkit.policy import Group, Policy


@dataclass(frozen=True)
class Settings:
    """What the sliders of a `LossPanel` say.

    Attributes:
        group_size: so many answers of each group, from its front.
        epsilon: clip range of the ratio, below and above 1.
        beta: weight of the divergence from the reference.
        temperature: at which the policy scores; the answers were drawn at 1.
        std: whether advantages are divided by the group's spread.
    """

    group_size: int
    epsilon: float = 0.2
    beta: float = 0.0
    temperature: float = 1.0
    std: bool = True


@dataclass(frozen=True)
class LossNumbers:
    """What an objective makes of a batch.

    Attributes:
        loss: as it is printed.
        grad_norm: length of the gradient by the trained weights.
        zero_std: share of groups without contrast.
        clipped: share of tokens without gradient by the clip.
        kl: divergence from the reference, nats a token.
        ratio_error: largest |ratio - 1| of a token.
        pulls: of each answer, all its tokens together; above 0 it is made likelier.
    """

    loss: float
    grad_norm: float
    zero_std: float
    clipped: float
    kl: float
    ratio_error: float
    pulls: list[float]

    def rows(self) -> list[tuple[str, float]]:
        """Each number with its name, for people."""
        return [
            ("printed loss", self.loss),
            ("length of the gradient", self.grad_norm),
            ("groups without contrast (share)", self.zero_std),
            ("tokens held by the clip (share)", self.clipped),
            ("KL to the reference (nats a token)", self.kl),
            ("largest |ratio - 1| of a token", self.ratio_error),
        ]


class LossPanel(Adjustable):
    """A frozen batch and sliders. Make it the last line of a cell to see it.

    Args:
        policy: scores the answers; it needs an adapter, whose base is the reference.
        groups: B groups of G answers, drawn at temperature 1.
        rewards_BG: what each was worth.

    Raises:
        UserError: not one reward for each answer, or groups of different sizes.
    """

    def __init__(
        self, policy: Policy, groups: Sequence[Group], rewards_BG: Sequence[Sequence[float]]
    ) -> None:
        sizes = {len(group) for group in groups} | {len(row) for row in rewards_BG}
        if len(sizes) != 1 or len(groups) != len(rewards_BG) or min(sizes) < 2:
            raise UserError(
                "give groups of one size, at least 2, and one reward for each answer; not "
                f"{len(groups)} groups and {len(rewards_BG)} rows, of the sizes {sorted(sizes)}"
            )
        self.policy, self.groups, self.rewards_BG = policy, list(groups), list(rewards_BG)
        self.most = sizes.pop()
        self._begin(Settings(self.most), "rlkit.lab.loss_controls")

    def _checked(self, wanted: Settings) -> Settings:
        """Scores the batch again under settings that can be had."""
        if not 2 <= wanted.group_size <= self.most or not wanted.temperature > 0:
            raise UserError(
                f"a group has 2 to {self.most} answers here and a temperature above 0, not "
                f"{wanted.group_size} and {wanted.temperature}"
            )
        self.found = self._numbers(_objective(wanted), wanted)
        return wanted

    @property
    def objective(self) -> GRPO:
        """The objective that the sliders describe."""
        return _objective(self.settings)

    def _numbers(self, objective: GRPO, s: Settings) -> LossNumbers:
        rollouts = [r for group in self.groups for r in group.rollouts[: s.group_size]]
        scored_at = [replace(r, temperature=s.temperature) for r in rollouts]
        rewards_BG = torch.tensor([list(row)[: s.group_size] for row in self.rewards_BG])
        advantages_BG, alive_B = objective.advantages(rewards_BG)
        with torch.no_grad(), self.policy.reference():
            reference_NT = self.policy.score(scored_at).logprobs_NT
        scored = self.policy.score(scored_at)
        found = objective.loss(
            scored.logprobs_NT,
            scored.behaviour_NT,
            advantages_BG.flatten(),
            scored.mask_NT,
            reference_NT=reference_NT,
        )
        weights = list(self.policy.trainable().values())
        pull_NT, *by_weight = torch.autograd.grad(found.loss, [scored.logprobs_NT, *weights])
        tokens = found.sums["tokens"]
        norm = torch.stack([g.norm() for g in by_weight]).norm()
        return LossNumbers(
            float(found.loss.detach()),
            float(norm),
            float((~alive_B).float().mean()),
            found.sums["clipped"] / tokens,
            found.sums["kl"] / tokens,
            found.max_ratio_error,
            (-torch.where(scored.mask_NT, pull_NT, 0.0).sum(-1)).tolist(),
        )

    # -- what it shows --------------------------------------------------------------------

    def table(self) -> Table:
        """The numbers that a trainer logs."""
        return Table(["number", "value"], self.found.rows())

    def figure(self) -> go.Figure:
        """The pull on each answer, group after group; right and wrong ones told apart."""
        figure = go.Figure(layout={"template": template(), "barmode": "overlay"})
        size = self.settings.group_size
        rewards = [r for row in self.rewards_BG for r in list(row)[:size]]
        answers = list(range(1, len(rewards) + 1))
        told = []
        for right in (True, False):
            kept = [
                pull if (r > 0) == right else None
                for pull, r in zip(self.found.pulls, rewards, strict=True)
            ]
            name = "right" if right else "wrong"
            figure.add_bar(
                x=answers,
                y=kept,
                name=name,
                marker={
                    "color": PALETTE[2 if right else 1],
                    "pattern": bar_pattern(PATTERNS[0 if right else 1]),
                },
            )
            known = [v for v in kept if v is not None]
            total = number(sum(known)) if known else "none"
            told.append(f"{len(known)} {name} answers, pulled by {total} together")
        for border in range(1, len(self.groups)):
            figure.add_vline(x=border * size + 0.5, line={"color": "#808080", "width": 1})
        figure.update_xaxes(title_text="answer (number, group after group)")
        figure.update_yaxes(title_text="pull on the answer")
        figure.update_layout(title="Who is pulled up, who down", hovermode="closest")
        caption = (
            "How fast the loss falls as the whole answer becomes likelier: above 0 it is pulled "
            "up. Lines part the groups; a group without bars has no contrast."
        )
        return describe(figure, caption, f"Bars of pulls: {'; '.join(told)}.")

    def __str__(self) -> str:
        rows = [f"  {name:<36} {number(value)}" for name, value in self.found.rows()]
        return "\n".join([self._head(), *rows, self.figure().layout.meta["alt"]])

    __repr__ = __str__

    def _head(self) -> str:
        s = self.settings
        return (
            f"{len(self.groups)} groups of {s.group_size}; epsilon {s.epsilon:g}, beta {s.beta:g}, "
            f"temperature {s.temperature:g}, {'GRPO' if s.std else 'Dr. GRPO'} advantages"
        )

    def html(self) -> str:
        """The table of numbers, with the settings above it."""
        return table_html(self.table(), self._head())

    def _page(self) -> str:
        return f"<p><b>{escape(self._head())}</b></p>{self.html()}{figure_notes(self.figure())}"


def _objective(s: Settings) -> GRPO:
    return GRPO(epsilon=s.epsilon, beta=s.beta, scale_rewards="group" if s.std else "none")
