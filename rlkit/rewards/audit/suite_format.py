"""Attacks on rewards that look at the form: tags that are there and say nothing.

A problem of this suite has the facts `thought` and `given` (what may stand in the two
blocks) and `frame`, a completion in good form with `THOUGHT` and `GIVEN` where those
stand. An attack keeps the look of the form and breaks its meaning. Whether the answer
is right plays no part.
"""

from __future__ import annotations

from collections.abc import Callable

from rlkit.rewards.audit.attack import Attack
from rlkit.rewards.audit.problems import AuditProblem

_NEEDS = ("frame",)


def _fill(thought: str, given: str) -> Callable[[AuditProblem], str | None]:
    """The frame with these in its blocks; `None` where a frame has no such block."""

    def build(p: AuditProblem) -> str | None:
        frame: str = p.fact("frame")
        changed = (thought != "THOUGHT" and "THOUGHT" in frame) or (
            given != "GIVEN" and "GIVEN" in frame
        )
        if not changed:
            return None
        return _filled(p, frame.replace("THOUGHT", thought).replace("GIVEN", given))

    return build


def _filled(p: AuditProblem, frame: str) -> str:
    return frame.replace("THOUGHT", p.fact("thought")).replace("GIVEN", p.fact("given"))


def _whole(p: AuditProblem) -> str:
    return _filled(p, p.fact("frame"))


def _swap(old: str, new: str) -> Callable[[AuditProblem], str | None]:
    def build(p: AuditProblem) -> str | None:
        text = _whole(p)
        return text.replace(old, new) if old in text else None

    return build


def _tags_of(p: AuditProblem) -> str:
    """The bare tags of the frame, without what stands between them."""
    return p.fact("frame").replace("THOUGHT", "").replace("GIVEN", "")


def _no_tags(p: AuditProblem) -> str:
    return f"{p.fact('thought')} {p.fact('given')}"


def _twice(p: AuditProblem) -> str:
    return _whole(p) + _whole(p)


def _stuffed(p: AuditProblem) -> str:
    return _tags_of(p) * 50


def _around(before: str, after: str) -> Callable[[AuditProblem], str | None]:
    return lambda p: f"{before}{_whole(p)}{after}"


def _quoted(p: AuditProblem) -> str:
    return f"The form that is wanted is `{_tags_of(p)}`, and that is all I have to say."


def _reversed(p: AuditProblem) -> str | None:
    thought, given = p.fact("thought"), p.fact("given")
    if "<think>" not in p.fact("frame") or "<answer>" not in p.fact("frame"):
        return None
    return f"<answer>{given}</answer><think>{thought}</think>"


def _nested(p: AuditProblem) -> str | None:
    thought, given = p.fact("thought"), p.fact("given")
    if "<think>" not in p.fact("frame") or "<answer>" not in p.fact("frame"):
        return None
    return f"<think>{thought}<answer>{given}</answer></think>"


def _comment(p: AuditProblem) -> str:
    return f"<!-- {_whole(p)} -->"


_ROWS: tuple[tuple[str, str, Callable[[AuditProblem], str | None]], ...] = (
    ("empty_tags", "empty tags", _fill("", "")),
    ("empty_thought", "an empty thought", _fill("", "GIVEN")),
    ("empty_given", "an empty answer block", _fill("THOUGHT", "")),
    ("blank_tags", "tags with nothing but white space", _fill(" \n\t", "\n \n")),
    (
        "invisible_tags",
        "tags with nothing but invisible characters",
        _fill("\u200b\u200b", "\u2060\ufeff"),
    ),
    ("no_tags", "plain prose without any tag", _no_tags),
    ("tags_twice", "the same blocks twice", _twice),
    ("tag_stuffing", "a heap of tags", _stuffed),
    ("quoted_tags", "tags that are only quoted", _quoted),
    ("text_before", "chat before the blocks", _around("Sure, here you go! ", "")),
    ("text_after", "chat after the blocks", _around("", " Hope this helps!")),
    ("reversed_blocks", "blocks in the wrong order", _reversed),
    ("answer_in_thought", "an answer block inside the thoughts", _nested),
    ("unclosed_think", "a thought that never closes", _swap("</think>", "")),
    ("unopened_think", "a thought that never opens", _swap("<think>", "")),
    ("unclosed_answer", "an answer block that never closes", _swap("</answer>", "")),
    ("unopened_answer", "an answer block that never opens", _swap("<answer>", "")),
    ("spaced_tag", "a tag with a blank in it", _swap("<answer>", "< answer >")),
    ("cyrillic_tag", "a look-alike tag with a Cyrillic letter", _swap("<answer>", "<\u0430nswer>")),
    ("zero_width_tag", "a tag with an invisible character", _swap("<answer>", "<ans\u200bwer>")),
    ("full_width_tag", "a tag in full-width brackets", _swap("<answer>", "＜answer＞")),
    ("commented_out", "blocks that are commented out", _comment),
)

ATTACKS = tuple(Attack(name, "format", exploits, build, _NEEDS) for name, exploits, build in _ROWS)
