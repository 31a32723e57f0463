"""What the Reward Lab says of a reward in words: the headline, and one completion.

As plain text and as HTML. Whatever a model or a reward wrote is escaped, and characters
that a page would hide or obey are spelled out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rlkit.errors import UserError
from rlkit.lab.group_view import GroupView
from rlkit.lab.rewardlab.comparison import Comparison
from rlkit.lab.rewardlab.scoring import Scoring
from rlkit.lab.theme import MISSING, escape, number, visible

#: Longest text of a completion in a list, in characters.
MOST_LABEL = 60
_TRUTH = {True: "right", False: "wrong", None: "of unknown truth"}


def headline(compared: Comparison) -> list[tuple[str, str, str]]:
    """The numbers that matter: (name, before, now) of each.

    The first column says what is counted, so that it can stand alone.
    """
    rows = []
    for name, value in (
        ("mean reward", _mean_reward),
        ("right answers that are paid", lambda c, s: _percent(c.confusion(s).recall)),
        ("paid answers that are right", lambda c, s: _percent(c.confusion(s).precision)),
        ("wrong answers that are paid", lambda c, s: f"{c.confusion(s).wrong_paid:,}"),
        ("without a verdict", lambda c, s: f"{int((~s.known).sum()):,}"),
    ):
        rows.append((name, value(compared, compared.before), value(compared, compared.after)))
    kept, gained, lost = (len(compared.contrast[k]) for k in ("kept", "gained", "lost"))
    rows.append(("groups with contrast", f"{kept + lost:,}", f"{kept + gained:,}"))
    return rows


def headline_text(compared: Comparison) -> str:
    """The headline as aligned lines of plain text."""
    rows = [("", "before", "now"), *headline(compared)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [
        f"{name:<{widths[0]}}  {before:>{widths[1]}}  {now:>{widths[2]}}".rstrip()
        for name, before, now in rows
    ]
    return "\n".join([*lines, _contrast_sentence(compared)])


def headline_html(compared: Comparison) -> str:
    """The headline as a small table."""
    cell = "padding:1px 12px 1px 0;text-align:right;font-variant-numeric:tabular-nums"
    left = "padding:1px 12px 1px 0;text-align:left;font-weight:normal"
    body = "".join(
        f'<tr style="background:none"><th scope="row" style="{left}">{escape(name)}</th>'
        f'<td style="{cell}">{escape(before)}</td>'
        f'<td style="{cell};font-weight:600">{escape(now)}</td></tr>'
        for name, before, now in headline(compared)
    )
    return (
        f'<table style="border-collapse:collapse;margin:0;font-size:13px">'
        f'<thead><tr><td></td><th scope="col" style="{cell}">before</th>'
        f'<th scope="col" style="{cell}">now</th></tr></thead><tbody>{body}</tbody></table>'
        f'<p style="margin:4px 0">{escape(_contrast_sentence(compared))}</p>'
    )


@dataclass(frozen=True)
class Example:
    """One completion: what was asked, what was answered, and what that earns.

    Attributes:
        compared: the two scorings.
        number: the completion's number.
    """

    compared: Comparison
    number: int

    def __post_init__(self) -> None:
        count = len(self.compared.stored)
        if not 0 <= self.number < count:
            raise UserError(f"there is no completion {self.number}; they run from 0 to {count - 1}")

    @property
    def label(self) -> str:
        """The completion in one line, for a list."""
        stored, scoring = self.compared.stored, self.compared.after
        group = stored.groups[stored.group_of[self.number]]
        text = visible(stored.rollouts[self.number].text).replace("\n", " ⏎ ")
        text = " ".join(text.split())
        text = text if len(text) <= MOST_LABEL else text[: MOST_LABEL - 1] + "…"
        value = _value(scoring, self.number)
        return f"{self.number}: {group.domain}, step {group.step}, reward {value}: {text}"

    def facts(self) -> list[tuple[str, str]]:
        """(name, value) of what is known about it."""
        compared, n = self.compared, self.number
        rollout, score = compared.stored.rollouts[n], compared.after.scores[n]
        before, after = _value(compared.before, n), _value(compared.after, n)
        parts = ", ".join(f"{name} {number(value)}" for name, value in score.parts.items())
        old, new = compared.advantages_before[n], compared.advantages[n]
        return [
            ("truth", _TRUTH[rollout.solved]),
            ("reward", after if before == after else f"{before}, now {after}"),
            ("parts", parts or MISSING),
            ("advantage", f"{old + 0.0:+.2f}, now {new + 0.0:+.2f}"),
            ("the reward says", f"{score.status}{': ' if score.reason else ''}{score.reason}"),
            ("length", f"{rollout.length} tokens, ended by {rollout.finish_reason}"),
        ]

    def group(self) -> GroupView:
        """Its whole group, since an advantage is read against the others."""
        compared, stored = self.compared, self.compared.stored
        b = stored.group_of[self.number]
        group, first = stored.groups[b], stored.first_of[b]
        numbers = range(first, first + len(group.rollouts))
        values = compared.after.values
        return GroupView(
            question=group.question,
            texts=[r.text for r in group.rollouts],
            rewards=[None if math.isnan(values[n]) else float(values[n]) for n in numbers],
            advantages=[float(compared.advantages[n]) for n in numbers],
            solved=[r.solved for r in group.rollouts],
            reasons=[compared.after.scores[n].reason for n in numbers],
            heading=f"{group.domain}, step {group.step}, group {b + 1}",
        )

    def __str__(self) -> str:
        stored = self.compared.stored
        group = stored.groups[stored.group_of[self.number]]
        place = self.number - stored.first_of[stored.group_of[self.number]] + 1
        lines = [f"Completion {self.number}: answer {place} of {len(group.rollouts)}"]
        lines += [visible(stored.rollouts[self.number].text)]
        lines += [f"  {name}: {visible(value)}" for name, value in self.facts()]
        return "\n".join([*lines, str(self.group())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        stored = self.compared.stored
        b = stored.group_of[self.number]
        place = self.number - stored.first_of[b] + 1
        rows = "".join(
            '<tr style="background:none"><th scope="row" style="text-align:left;'
            'font-weight:normal;padding:1px 12px 1px 0;vertical-align:top;white-space:nowrap">'
            f"{escape(name)}</th>"
            f'<td style="text-align:left;padding:1px 0">{escape(value)}</td></tr>'
            for name, value in self.facts()
        )
        text = escape(stored.rollouts[self.number].text) or "<i>(empty)</i>"
        return (
            f"<p style='margin:4px 0'><b>Completion {self.number}</b>, answer {place} of "
            f"{len(stored.groups[b].rollouts)}</p>"
            '<pre style="white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0;padding:6px 8px;'
            'background:rgba(128,128,128,.12);font-size:12px;line-height:1.3">'
            f"{text}</pre>"
            f'<table style="border-collapse:collapse;margin:4px 0;font-size:13px">{rows}</table>'
            f"{self.group()._repr_html_()}"
        )


def labels(compared: Comparison, numbers: Sequence[int]) -> list[tuple[str, int]]:
    """(label, number) of completions, as a list takes them."""
    return [(Example(compared, n).label, n) for n in numbers]


def _contrast_sentence(compared: Comparison) -> str:
    gained, lost = len(compared.contrast["gained"]), len(compared.contrast["lost"])
    if not gained and not lost:
        return "No group lost or gained contrast."
    return f"{lost:,} groups lost their contrast, {gained:,} gained one."


def _mean_reward(compared: Comparison, scoring: Scoring) -> str:
    known = scoring.values[scoring.known]
    return f"{known.mean():.3f}" if known.size else MISSING


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{share:.1%}"


def _value(scoring: Scoring, n: int) -> str:
    value = scoring.values[n]
    return MISSING if math.isnan(value) else f"{value + 0.0:.3g}"
