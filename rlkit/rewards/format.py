"""format_reward, tag_count: whether a completion keeps to the layout it was asked for.

A layout is a template such as `<think>{}</think><answer>{}</answer>`: literal tags
and slots. A completion fits when it is these tags, once each and in this order, with
something visible in every slot, no tag inside a slot, and nothing but white space
around. White space between the tags is free, for a layout that forces line breaks
gives a small model no signal at all.

Known ways of cheating that earn nothing: empty or invisible contents, a tag left
open, tags nested, repeated or in another order, prose outside the blocks, tags in
another case or with attributes inside a slot, and, where the prompt opened the first
tag already, a bare closing tag or a second opening.

Left out: judging what is in the slots. That is the task's own reward.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.completions import prompt_ends_with
from rlkit.rewards.reward import Reward
from rlkit.rewards.score import Score

#: The two layouts most used: tags around both, or thoughts and then plain text.
THINK_ANSWER = "<think>{}</think><answer>{}</answer>"
THINK_TEXT = "<think>{}</think>{}"
ANSWER = "<answer>{}</answer>"
_SLOT = "{}"


def is_blank(text: str) -> bool:
    """Whether nothing of a text can be seen: white space, control and format characters only.

    >>> is_blank(" \\n\\u200b\\ufeff"), is_blank("0")
    (True, False)
    """
    if text.isascii():
        return not any(c.isprintable() and c != " " for c in text)
    return all(unicodedata.category(c)[0] in "ZCM" or c in _HOLLOW for c in text)


#: Letters and symbols by their category that nevertheless show nothing.
_HOLLOW = "\u115f\u1160\u3164\uffa0\u2800"


class Template:
    """A layout of literal tags and slots, taken apart once.

    Args:
        text: literals with `{}` for each slot; a slot must be followed by a literal or
            by the end.

    Raises:
        UserError: no slot, or two slots side by side.
    """

    def __init__(self, text: str) -> None:
        pieces = [piece.strip() for piece in text.split(_SLOT)]
        self.text = text
        if len(pieces) < 2:
            raise UserError(f"a layout needs at least one slot {{}}, and {text!r} has none")
        if any(not piece for piece in pieces[1:-1]):
            raise UserError(f"two slots of the layout {text!r} have no tag between them")
        #: Tags in order, each with whether a slot stands before it.
        self.tags: list[tuple[str, bool]] = []
        for place, piece in enumerate(pieces):
            parts = re.split(r"(?<=>)\s*(?=<)", piece) if piece else []
            self.tags += [(tag, place > 0 and i == 0) for i, tag in enumerate(parts)]
        if not self.tags:
            raise UserError(f"the layout {text!r} has no tag, so anything would fit it")
        self.ends_in_slot = not pieces[-1]
        self.counts = Counter(tag for tag, _ in self.tags)
        names = sorted(set(re.findall(r"</?\s*([\w-]+)", text)))
        alike = [rf"<\s*(?:/\s*)?(?:{'|'.join(map(re.escape, names))})\b[^<>]*>"] if names else []
        plain = [re.escape(tag) for tag in self.counts if not (alike and re.match(alike[0], tag))]
        # What a slot must not hold: any tag of the layout, however it is written.
        self.forbidden = re.compile("|".join([*alike, *plain]), re.IGNORECASE)

    @property
    def opening(self) -> str:
        """The tag that a prompt may have written already; `""` when a slot comes first."""
        return "" if self.tags[0][1] else self.tags[0][0]

    def problem(self, text: str) -> str | None:
        """What keeps a text from fitting, in words for a person; `None` when it fits."""
        for tag, wanted in self.counts.items():
            if (found := text.count(tag)) != wanted:
                return f"{tag} stands {_times(found)}, not {_times(wanted)}"
        contents, end = [], 0
        for tag, after_slot in self.tags:
            at = text.find(tag, end)
            if at < 0:
                return f"{tag} is out of order"
            if after_slot:
                contents.append(text[end:at])
            elif text[end:at].strip():
                return f"there is text before {tag}"
            end = at + len(tag)
        if self.ends_in_slot:
            contents.append(text[end:])
        elif text[end:].strip():
            return f"there is text after {self.tags[-1][0]}"
        for number, content in enumerate(contents, start=1):
            if is_blank(content):
                return f"block {number} is empty"
            if (tag := self.forbidden.search(content)) is not None:
                return f"block {number} holds the tag {tag.group()[:40]}"
        return None


def _times(count: int) -> str:
    return {0: "nowhere", 1: "once", 2: "twice"}.get(count, f"{count} times")


@lru_cache(maxsize=256)
def _template(text: str) -> Template:
    return Template(text)


class FormatReward(Reward):
    """1 for a completion that keeps to one of the given layouts, else 0.

    Args:
        templates: layouts with `{}` for each slot, as `"<think>{}</think>{}"`.
        code_block: whether one fenced block of Python is a layout too, with or without
            thoughts in think tags before it.
        preopened: whether the prompt ends with the first tag, so that the completion
            starts inside it; `None` looks at each prompt. Say `True` when a chat
            template adds the tag, since the prompt does not show it then.
        name: its name among the parts.

    >>> FormatReward("<think>{}</think>{}")(completions=["<think>2 + 2</think> It is 4.", "4"])
    [1.0, 0.0]
    """

    def __init__(
        self,
        *templates: str,
        code_block: bool = False,
        preopened: bool | None = None,
        name: str = "format_reward",
    ) -> None:
        if not templates and not code_block:
            raise UserError("a format reward needs at least one layout, as '<answer>{}</answer>'")
        for text in templates:
            _template(text)  # refuse a bad one now
        self.templates = templates
        self.code_block = code_block
        self.preopened = preopened
        super().__init__(self._judge, name, bounds=(0.0, 1.0))

    def _judge(self, *, completions: Sequence[str], prompts: Any = None, **_: Any) -> list[Score]:
        if prompts is None or len(prompts) != len(completions):
            prompts = [None] * len(completions)
        rows = []
        for text, prompt in zip(completions, prompts, strict=True):
            problem = self.problem(text, prompt)
            rows.append(
                Score(1.0, "OK", reason="well formed")
                if problem is None
                else Score(0.0, "BAD_FORMAT", reason=problem)
            )
        return rows

    def problem(self, text: str, prompt: Any = None) -> str | None:
        """What is wrong with the layout of one completion; `None` when it fits."""
        problems = []
        for layout in map(_template, self.templates):
            whole, tag = text, layout.opening
            if tag and opened_by_prompt(self.preopened, prompt, tag):
                whole = tag + text
            problem = layout.problem(whole)
            if problem is None:
                return None
            problems.append(problem)
        if self.code_block:
            opened = opened_by_prompt(self.preopened, prompt, "<think>")
            problem = _code_block_problem("<think>" + text if opened else text)
            if problem is None:
                return None
            problems.append(problem)
        # The layout named first is the one that is asked for.
        return problems[0]


def opened_by_prompt(preopened: bool | None, prompt: Any, tag: str) -> bool:
    """Whether the prompt opened this tag: as said, or as the prompt shows."""
    return prompt_ends_with(prompt, tag) if preopened is None else preopened


def _code_block_problem(text: str) -> str | None:
    """An optional non-empty think block, then one non-empty Python block and nothing else."""
    rest = text.strip()
    if rest.startswith("<think>"):
        thought, closed, rest = rest[len("<think>") :].partition("</think>")
        if not closed or is_blank(thought) or _template(THINK_ANSWER).forbidden.search(thought):
            return "the think block is empty, left open, or holds a tag"
        rest = rest.strip()
    if not (rest.startswith("```") and rest.endswith("```") and len(rest) > 6):
        return "not one code block and nothing else"
    first_line, _, inner = rest[3:-3].partition("\n")
    if first_line.strip() not in ("", "python", "py") or "```" in inner:
        return "not one block of Python"
    if is_blank(inner) or _template(THINK_ANSWER).forbidden.search(inner):
        return "the code block is empty or holds a tag"
    return None


class TagCount(Reward):
    """The share of the wanted tags that stand where they should: a gentle format reward.

    Every opening and closing tag is worth the same. It counts when it stands exactly
    once and after those before it. A closing tag counts only when its block shows
    something, and the last one only when nothing but white space follows. So the value
    stays in [0, 1], and a layout that is nearly right earns nearly all.

    Args:
        tags: names in order; alternatives are parted by `|`, the one that stands first
            in the completion is taken.
        preopened: as for `FormatReward`.
        name: its name among the parts.

    >>> TagCount()(completions=["<think>a</think><answer>4</answer>", "<answer>4</answer>"])
    [1.0, 0.5]
    """

    def __init__(
        self,
        tags: Sequence[str] = ("think|reasoning", "answer"),
        preopened: bool | None = None,
        name: str = "tag_count",
    ) -> None:
        if isinstance(tags, str) or not tags:
            raise UserError("tags are a list of names, as ('think', 'answer')")
        self.tags = tuple(tuple(tag.split("|")) for tag in tags)
        self.preopened = preopened
        super().__init__(self._judge, name, bounds=(0.0, 1.0))

    def _judge(self, *, completions: Sequence[str], prompts: Any = None, **_: Any) -> list[Score]:
        if prompts is None or len(prompts) != len(completions):
            prompts = [None] * len(completions)
        return [self._count(t, p) for t, p in zip(completions, prompts, strict=True)]

    def _count(self, text: str, prompt: Any) -> Score:
        for name in self.tags[0]:
            if opened_by_prompt(self.preopened, prompt, f"<{name}>"):
                text = f"<{name}>{text}"
                break
        missing, end = [], 0
        for place, choice in enumerate(self.tags):
            seen = [n for n in choice if f"<{n}>" in text or f"</{n}>" in text]
            name = min(seen, key=lambda n: _first_of(text, n), default=choice[0])
            opening, closing = f"<{name}>", f"</{name}>"
            started = None
            if text.count(opening) == 1 and text.index(opening) >= end:
                started = end = text.index(opening) + len(opening)
            else:
                missing.append(opening)
            at = text.find(closing)
            good = text.count(closing) == 1 and at >= end
            good = good and not is_blank(text[end if started is None else started : at])
            if good and place == len(self.tags) - 1:
                good = not text[at + len(closing) :].strip()
            if good:
                end = at + len(closing)
            else:
                missing.append(closing)
        total = 2 * len(self.tags)
        value = (total - len(missing)) / total
        reason = f"not in place: {', '.join(missing)}" if missing else "every tag is in place"
        return Score(value, "OK" if not missing else "BAD_FORMAT", reason=reason)


def _first_of(text: str, name: str) -> int:
    places = [text.find(f"<{name}>"), text.find(f"</{name}>")]
    return min(p for p in places if p >= 0)


#: Thoughts if there are any, then one answer block or one block of Python.
format_reward = FormatReward(THINK_ANSWER, ANSWER, code_block=True)
#: Exactly one think block, then exactly one answer block.
think_answer_format = FormatReward(THINK_ANSWER, name="think_answer_format")
#: One think block, then text.
think_text_format = FormatReward(THINK_TEXT, name="think_text_format")
tag_count = TagCount()
