"""The gap between the policy that samples and the one that learns, token by token.

Both have the same adapter. The learner has it beside a base in four bits; the sampler may
have it merged, in another precision, or beside weights that were never quantised. What is
drawn by one is scored by the other, and `w = learner / sampler` says how far they are apart.

Left out on purpose: samplers that are some updates old, which is the same arithmetic.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import plotly.graph_objects as go
import torch

from rlkit.errors import UserError
from rlkit.lab.theme import PALETTE, PATTERNS, Table, bar_pattern, describe, number, template
from rlkit.objectives.off_policy import effective_sample_size
from rlkit.policy.rollout import flatten

if TYPE_CHECKING:
    from rlkit.policy import Group, Policy

#: Powers of ten at which the bars of the histogram begin and end.
DECADES = range(-8, 1)


@dataclass(frozen=True)
class Gap:
    """What was measured of one sampler.

    Attributes:
        name: of the sampler.
        answers: for each answer its tokens' log(learner / sampler), in nats.
    """

    name: str
    answers: tuple[tuple[float, ...], ...]

    @property
    def tokens(self) -> list[float]:
        """The differences of all tokens."""
        return [gap for answer in self.answers for gap in answer]

    @property
    def mean(self) -> float:
        """Mean size of a token's difference, in nats."""
        return fmean(map(abs, self.tokens))

    @property
    def largest(self) -> float:
        """Largest size of a token's difference, in nats."""
        return max(map(abs, self.tokens))

    @property
    def token_weights(self) -> list[float]:
        """learner / sampler of each token."""
        return [math.exp(gap) for gap in self.tokens]

    @property
    def answer_weights(self) -> list[float]:
        """learner / sampler of each whole answer: the product over its tokens."""
        return [math.exp(sum(answer)) for answer in self.answers]

    def effective(self, level: str = "token", cap: float | None = None) -> float | None:
        """Effective sample size as a share, of tokens or of answers, with weights cut at `cap`."""
        found = self.token_weights if level == "token" else self.answer_weights
        weights = torch.tensor(found, dtype=torch.float64)
        return effective_sample_size(weights if cap is None else weights.clamp(max=cap))

    def held(self, cap: float = 2.0) -> tuple[int, int]:
        """How many tokens and how many answers weigh more than `cap`."""
        above = [sum(w > cap for w in ws) for ws in (self.token_weights, self.answer_weights)]
        return above[0], above[1]


def gap_of(learner: Policy, groups: Sequence[Group], name: str, at_once: int = 16) -> Gap:
    """Scores answers with the learner and compares with the log-probs they were drawn with.

    Args:
        learner: scores as it is now; no gradient is kept.
        groups: what the sampler drew.
        name: of the sampler.
        at_once: answers scored together.

    Raises:
        UserError: no answers.
    """
    rollouts = flatten(groups)
    if not rollouts:
        raise UserError("there are no answers to compare; draw some first")
    answers: list[tuple[float, ...]] = []
    for start in range(0, len(rollouts), at_once):
        with torch.no_grad():
            scored = learner.score(rollouts[start : start + at_once])
        apart_NT = scored.logprobs_NT - scored.behaviour_NT
        for row, mask in zip(apart_NT, scored.mask_NT, strict=True):
            answers.append(tuple(row[mask].tolist()))
    return Gap(name, tuple(answers))


def gaps_of_bases(
    name: str, domain: str, problems: int, group_size: int, max_new_tokens: int, seed: int = 1
) -> list[Gap]:
    """Two samplers for one learner in NF4: merged into its own base, and into that before NF4.

    They are loaded one after the other, so that memory holds one model at a time.

    Args:
        name: of the policy, with a fresh adapter.
        domain: whose problems are asked.
        seed: of the problems.

    Raises:
        UserError: the policy or the domain cannot be loaded.
    """
    from rlkit.policy import LoraSpec, Policy
    from rlkit.tasks import get_domain

    asked = list(itertools.islice(get_domain(domain).stream(seed=seed), problems))
    sampler = Policy.load(name, quantize=None, lora=LoraSpec(), rollouts="fast")
    drawn = sampler.generate(asked, group_size, max_new_tokens)
    del sampler
    gc.collect()
    learner = Policy.load(name, lora=LoraSpec(), rollouts="fast", learner="model")
    own = learner.generate(asked, group_size, max_new_tokens)
    return [gap_of(learner, own, "fast"), gap_of(learner, drawn, "never quantised")]


def gap_table(gaps: Sequence[Gap], cap: float = 2.0) -> Table:
    """One row for each sampler; ESS is the effective sample size, as a share."""
    rows = []
    for gap in gaps:
        tokens, answers = gap.held(cap)
        before, after = gap.effective("token"), gap.effective("token", cap)
        rows.append(
            [
                gap.name,
                float(f"{gap.mean:.3g}"),
                float(f"{gap.largest:.3g}"),
                None if (ess := gap.effective("answer")) is None else round(ess, 3),
                round(max(gap.answer_weights), 3),
                answers,
                None if before is None else round(before, 3),
                tokens,
                None if after is None else round(after, 3),
            ]
        )
    heads = ["sampler", "mean, nats", "largest, nats", "ESS of answers", "heaviest answer"]
    heads += [f"answers > {cap:g}", "ESS of tokens", f"tokens > {cap:g}", "ESS of tokens, cut"]
    return Table(heads, rows)


def gap_figure(gaps: Sequence[Gap], title: str) -> go.Figure:
    """How large the differences of tokens are, on a scale of powers of ten."""
    figure = go.Figure(layout={"template": template()})
    names = [f"{10.0**low:g} to {10.0 ** (low + 1):g}" for low in DECADES]
    names[0] = f"0 to {10.0 ** (DECADES[0] + 1):g}"
    names[-1] = f"{10.0 ** DECADES[-1]:g} or more"
    table = []
    for index, gap in enumerate(gaps):
        counts = [0] * len(DECADES)
        for value in map(abs, gap.tokens):
            power = math.floor(math.log10(value)) if value > 0 else DECADES[0]
            counts[min(max(power, DECADES[0]), DECADES[-1]) - DECADES[0]] += 1
        shares = [round(100 * count / len(gap.tokens), 2) for count in counts]
        table.append(shares)
        figure.add_bar(
            x=names,
            y=shares,
            name=gap.name,
            marker={
                "color": PALETTE[index % len(PALETTE)],
                "pattern": bar_pattern(PATTERNS[index % len(PATTERNS)]),
            },
        )
    figure.update_xaxes(
        title_text="size of difference (nats, from)",
        tickvals=names,
        ticktext=["0", *(f"10<sup>{low}</sup>" for low in DECADES[1:])],
        tickangle=0,
    )
    figure.update_yaxes(title_text="tokens (%)")
    figure.update_layout(title=title, barmode="group", hovermode="closest", height=400)
    figure.update_layout(legend={"y": -0.25, "yanchor": "top"}, margin={"t": 48, "b": 110})
    told = "; ".join(
        f"{gap.name}: {number(float(f'{gap.mean:.2g}'))} nats on average, at most "
        f"{number(float(f'{gap.largest:.2g}'))}"
        for gap in gaps
    )
    return describe(
        figure,
        f"{told}.",
        f"A histogram of differences in log-probability, by powers of ten. {told}.",
        Table(["nats", *(gap.name for gap in gaps)], list(zip(names, *table, strict=True))),
    )
