"""Cards: a short text with a sign, a word and a coloured edge, for a notebook or a terminal.

Every card says in words what its colour says, has a heading that a screen reader finds,
and takes its text colour from the page, so that it is readable in light and dark.

Left out on purpose: widgets; a card is static, and what can be pressed stands below it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Tone = Literal["right", "wrong", "todo", "note"]

#: Edge colours out of the kit's palette; they stand beside a sign and a word, never alone.
EDGES: dict[Tone, str] = {
    "right": "#009E73",
    "wrong": "#D55E00",
    "todo": "#6A6A6A",
    "note": "#0072B2",
}
WIDTH = 76


@dataclass(frozen=True)
class Block:
    """One part of a card: a paragraph, perhaps with a label, or a list, or code.

    Attributes:
        text: the paragraph or the code; backticks mark code within a sentence.
        label: a word before it, such as "Cause".
        items: lines of a list below it.
        code: whether the text is code and keeps its lines.
    """

    text: str = ""
    label: str = ""
    items: Sequence[str] = ()
    code: bool = False


@dataclass(frozen=True)
class Card:
    """What a learner is shown: a heading and some blocks, as HTML and as plain text.

    >>> print(Card("note", "→", "Hint 1 of 3", (Block("Look at the mean."),)))
    → Hint 1 of 3
      Look at the mean.
    """

    tone: Tone
    sign: str
    heading: str
    blocks: tuple[Block, ...] = ()
    announced: bool = False  # whether a screen reader reads it out when it appears

    def __str__(self) -> str:
        lines = [f"{self.sign} {self.heading}"]
        for block in self.blocks:
            label = f"{block.label}: " if block.label else ""
            if block.code:
                lines += [*([f"  {label.strip()}"] if label else [])]
                lines += [f"    {line}".rstrip() for line in block.text.splitlines()]
            elif block.text:
                lines += _filled(label + block.text, "  ", "  ")
            for item in block.items:
                lines += _filled(item, "  ", "    ")
        return "\n".join(lines)

    __repr__ = __str__

    def html(self) -> str:
        """The card as HTML; everything in it is escaped."""
        from rlkit.lab.theme import escape

        body = ""
        for block in self.blocks:
            label = f"<b>{escape(block.label)}:</b> " if block.label else ""
            if block.code:
                body += (
                    f"{_paragraph(label)}<pre tabindex='0'><code>{escape(block.text)}</code></pre>"
                )
            elif block.text:
                for text in block.text.split("\n\n"):
                    body += _paragraph(label + inline_html(text))
                    label = ""
            if block.items:
                rows = "".join(f"<li>{inline_html(item)}</li>" for item in block.items)
                body += f'<ul style="list-style:none;margin:4px 0;padding-left:8px">{rows}</ul>'
        live = ' role="status" aria-live="polite"' if self.announced else ' role="note"'
        return (
            f'<div class="rlkit-card"{live} aria-label="{escape(self.heading)}" style="'
            f"border-left:4px solid {EDGES[self.tone]};padding:6px 12px;margin:6px 0;"
            'background:rgba(128,128,128,0.08);color:inherit;line-height:1.45;max-width:52em">'
            f'<div style="font-weight:600"><span aria-hidden="true">{escape(self.sign)}</span> '
            f"{inline_html(self.heading)}</div>{body}</div>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": str(self), "text/html": self.html()}


def failure_card(title: str, *, see: str, cause: str, do: str) -> Card:
    """A card about something that goes wrong often: what one sees, why, and what to do.

    >>> print(failure_card("All eight wrong", see="reward 0", cause="too hard", do="ease it"))
    ⚠ When it fails: All eight wrong
      You see: reward 0
      Cause: too hard
      Do: ease it
    """
    blocks = (Block(see, "You see"), Block(cause, "Cause"), Block(do, "Do"))
    return Card("wrong", "⚠", f"When it fails: {title}", blocks)


def inline_html(text: str) -> str:
    """A sentence as HTML, with code where it has backticks.

    >>> inline_html("use `a < b`")
    'use <code>a &lt; b</code>'
    """
    from rlkit.lab.theme import escape

    parts = re.split(r"`([^`\n]+)`", text)
    return "".join(
        f"<code>{escape(part)}</code>" if i % 2 else escape(part).replace("\n", "<br>")
        for i, part in enumerate(parts)
    )


def with_widget(widget: Any, static: dict[str, Any]) -> dict[str, Any]:
    """A display that is the widget where there is a front end, and static elsewhere."""
    return {**widget._repr_mimebundle_(), **static}


def _paragraph(html: str) -> str:
    return f'<p style="margin:4px 0">{html}</p>' if html else ""


def _filled(text: str, first: str, later: str) -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(
            paragraph,
            WIDTH,
            initial_indent=first,
            subsequent_indent=later,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return lines
