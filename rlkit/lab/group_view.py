"""GroupView: the answers to one problem side by side, with what each was worth.

One row an answer: whether it solved the problem, its text, its reward, and its
advantage as bars with their numbers. Model text is escaped, and characters that a
page would hide or obey are spelled out. Shown as HTML where HTML is shown, and as
plain text everywhere else.

Axes: G rollouts of one problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlkit.errors import UserError
from rlkit.lab.theme import MISSING, PALETTE, escape, visible

if TYPE_CHECKING:
    from rlkit.loop import Batch

#: Longest text of an answer that is shown, in characters.
MOST_CHARS = 600
#: Widest a bar gets, in characters of plain text and in pixels.
_BAR_CHARS, _BAR_PIXELS = 8, 72
_REWARD, _DOWN, _UP = PALETTE[0], PALETTE[1], PALETTE[2]
_CELL = "text-align:left;vertical-align:middle;padding:2px 8px 2px 0"


@dataclass(frozen=True)
class GroupView:
    """G answers to one problem.

    Attributes:
        question: what was asked.
        texts: the answers, as the policy wrote them.
        rewards: what each was worth; `None` without a verdict.
        advantages: how far each stands above its group; empty when not known yet.
        solved: whether each solved the problem; empty when not known yet.
        reasons: the judge's short reason for each; empty when not known.
        heading: stands before the question.

    >>> view = GroupView("What is 2 + 2?", ["4", "5"], [1.0, 0.0], [0.7, -0.7], [True, False])
    >>> print(view)
    Problem: What is 2 + 2?
      ✓ reward 1.00 ████████  advantage +0.70 ████████  4
      ✗ reward 0.00           advantage -0.70 ░░░░░░░░  5
    """

    question: str
    texts: Sequence[str]
    rewards: Sequence[float | None]
    advantages: Sequence[float | None] = ()
    solved: Sequence[bool | None] = ()
    reasons: Sequence[str] = ()
    heading: str = "Problem"

    def __post_init__(self) -> None:
        for name in ("rewards", "advantages", "solved", "reasons"):
            given = len(getattr(self, name))
            if given != len(self.texts) and (given or name == "rewards"):
                raise UserError(
                    f"{given} {name} for {len(self.texts)} answers; give one for each answer"
                )

    @classmethod
    def of(cls, batch: Batch, group: int | None = None) -> GroupView:
        """One group of a step's batch.

        Args:
            batch: what `loop.batch` holds after a step.
            group: its place in the batch, from 0; the first one with contrast when not
                given, because only such a group teaches anything.

        Raises:
            UserError: there is no such group.
        """
        count = len(batch.groups)
        if group is None:
            group = batch.alive_B.index(True) if any(batch.alive_B) else 0
        if not 0 <= group < count:
            raise UserError(f"there is no group {group}; this batch has groups 0 to {count - 1}")
        contrast = "" if batch.alive_B[group] else ", no contrast"
        return cls(
            question=batch.groups[group].problem.question,
            texts=[rollout.text for rollout in batch.groups[group].rollouts],
            rewards=batch.rewards_BG[group],
            advantages=batch.advantages_BG[group],
            solved=batch.solved[group],
            reasons=[score.reason for score in batch.scores[group]],
            heading=f"Step {batch.step}, group {group + 1} of {count}{contrast}",
        )

    def __len__(self) -> int:
        return len(self.texts)

    # -- as plain text -------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [f"{self.heading}: {visible(self.question)}"]
        for g, text in enumerate(self.texts):
            line = f"  {self._mark(g)}" if self.solved else " "
            line += f" reward {_number(self.rewards[g])} {self._text_bar(self.rewards, g)}"
            if self.advantages:
                value = _number(self.advantages[g], "+.2f")
                line += f"  advantage {value} {self._text_bar(self.advantages, g)}"
            lines.append(f"{line}  {_cut(visible(text)).replace(chr(10), ' ⏎ ')}")
        return "\n".join(lines)

    __repr__ = __str__

    def _text_bar(self, values: Sequence[float | None], g: int) -> str:
        length = round(_share(values, g) * _BAR_CHARS)
        return (("░" if (values[g] or 0) < 0 else "█") * length).ljust(_BAR_CHARS)

    # -- as HTML ---------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        heads = ["solved", "answer", "reward", *(["advantage"] if self.advantages else [])]
        head = "".join(f'<th scope="col" style="{_CELL}">{h}</th>' for h in heads)
        body = "".join(self._html_row(g) for g in range(len(self)))
        return (
            '<div style="overflow-x:auto" tabindex="0" role="region" aria-label="Answers">'
            '<table style="border-collapse:collapse;font-size:12px;line-height:1.3;margin:0">'
            '<caption style="caption-side:top;text-align:left;padding:4px 0">'
            f"<b>{escape(self.heading)}:</b> {escape(self.question)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _html_row(self, g: int) -> str:
        word = {True: "solved", False: "not solved", None: "no verdict"}
        solved = self.solved[g] if self.solved else None
        mark = f'<span role="img" aria-label="{word[solved]}">{self._mark(g)}</span>'
        reason = f' title="{escape(self.reasons[g])}"' if self.reasons else ""
        text = escape(_cut(self.texts[g])) or "<i>(empty)</i>"
        cells = [
            f'<th scope="row" style="{_CELL};font-size:15px">{mark}</th>',
            # Room for a line of code, also on a phone, where the table is scrolled sideways.
            f'<td style="{_CELL};min-width:15em"{reason}><pre style="margin:0;padding:0;'
            "background:none;"
            f'white-space:pre-wrap;overflow-wrap:anywhere;font-size:11px;line-height:1.25">'
            f"{text}</pre></td>",
            f'<td style="{_CELL};white-space:nowrap">{self._reward_bar(g)}</td>',
        ]
        if self.advantages:
            cells.append(f'<td style="{_CELL};white-space:nowrap">{self._advantage_bar(g)}</td>')
        line = "border-top:1px solid rgba(128,128,128,.25)"
        return f'<tr style="{line};background:none">{"".join(cells)}</tr>'

    def _reward_bar(self, g: int) -> str:
        bar = _html_bar(_share(self.rewards, g), _REWARD, _BAR_PIXELS, "left")
        return f"{bar}{_html_number(_number(self.rewards[g]))}"

    def _advantage_bar(self, g: int) -> str:
        value = self.advantages[g]
        share, half = _share(self.advantages, g), _BAR_PIXELS // 2
        # Below average to the left of the middle, above it to the right.
        left = _html_bar(share if (value or 0) < 0 else 0.0, _DOWN, half, "right")
        right = _html_bar(share if (value or 0) > 0 else 0.0, _UP, half, "left")
        middle = (
            '<span style="display:inline-block;vertical-align:middle;width:1px;height:18px;'
            'background:rgba(128,128,128,.8)"></span>'
        )
        return f"{left}{middle}{right}{_html_number(_number(value, '+.2f'))}"

    def _mark(self, g: int) -> str:
        return {True: "✓", False: "✗", None: MISSING}[self.solved[g] if self.solved else None]


def _share(values: Sequence[float | None], g: int) -> float:
    """Size of a value against the largest of its group and 1, so that bars stay comparable."""
    value = values[g]
    if value is None:
        return 0.0
    widest = max((abs(v) for v in values if v is not None), default=0.0)
    # Rewards are at most 1 in most lessons; a lone 0.1 must not look like everything.
    widest = max(widest, 1.0) if all((v or 0) >= 0 for v in values) else widest
    return abs(value) / widest if widest else 0.0


def _html_bar(share: float, colour: str, pixels: int, side: str) -> str:
    return (
        f'<span style="display:inline-block;vertical-align:middle;width:{pixels}px;height:11px;'
        f'text-align:{side};line-height:0"><span style="display:inline-block;height:11px;'
        f'width:{share * pixels:.0f}px;background:{colour}"></span></span>'
    )


def _html_number(text: str) -> str:
    style = "display:inline-block;min-width:44px;text-align:right;font-variant-numeric:tabular-nums"
    return f'<span style="{style}">{text}</span>'


def _number(value: float | None, form: str = ".2f") -> str:
    return MISSING.rjust(4) if value is None else format(value + 0.0, form)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARS else text[: MOST_CHARS - 1] + "…"
