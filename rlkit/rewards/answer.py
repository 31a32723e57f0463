"""exact_answer, countdown_answer, format_reward: judging what stands in the tags.

The answer of a completion is what its only `<answer>` block holds. Two blocks
are no answer: a completion that lists several candidates is not paid for one
of them. Nothing here evaluates the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rlkit.rewards.reward import Reward, Score
from rlkit.tasks.countdown import verify_countdown

_TAG = re.compile(r"</?(?:think|answer)>")


def extract_answer(text: str) -> str | None:
    """The text of the only answer block, or `None` when there is not exactly one.

    >>> extract_answer("<think>6 * 7</think><answer> 42 </answer>")
    '42'
    >>> extract_answer("<answer>41</answer><answer>42</answer>") is None
    True
    """
    # What is thought is not answered: an answer block inside the thoughts is no answer.
    outside = re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)
    if "<think>" in outside or "</think>" in outside:
        return None
    if outside.count("<answer>") != 1 or outside.count("</answer>") != 1:
        return None
    start = outside.index("<answer>") + len("<answer>")
    end = outside.find("</answer>", start)
    return outside[start:end].strip() if end >= 0 else None


def normalise(answer: str) -> str:
    """White space collapsed; nothing else is forgiven."""
    return " ".join(answer.split())


def _exact(*, completions: Sequence[str], answer: Sequence[str], **_: Any) -> list[Score]:
    rows = []
    for text, wanted in zip(completions, answer, strict=True):
        given = extract_answer(text)
        if wanted is None or not str(wanted).strip():
            rows.append(Score(None, "NO_GOLD", reason="the problem has no answer to compare with"))
        elif given is None:
            rows.append(Score(0.0, "NO_ANSWER", reason="there is not exactly one answer block"))
        elif normalise(given) == normalise(str(wanted)):
            rows.append(Score(1.0, "OK", reason=f"answered {_short(given)}"))
        else:
            rows.append(
                Score(0.0, "WRONG", reason=f"answered {_short(given)}, expected {_short(wanted)}")
            )
    return rows


def _countdown(
    *,
    completions: Sequence[str],
    numbers: Sequence[Sequence[int]],
    target: Sequence[int],
    **_: Any,
) -> list[Score]:
    rows = []
    for text, given, wanted in zip(completions, numbers, target, strict=True):
        expression = extract_answer(text)
        if expression is None:
            rows.append(Score(0.0, "NO_ANSWER", reason="there is not exactly one answer block"))
            continue
        right, reason = verify_countdown(expression, given, wanted)
        rows.append(Score(float(right), "OK" if right else "WRONG", reason=reason))
    return rows


def _well_formed(text: str) -> bool:
    """An optional non-empty think block, then one non-empty answer block or code block."""
    rest = text.strip()
    if rest.startswith("<think>"):
        thought, closed, rest = rest[len("<think>") :].partition("</think>")
        if not closed or not thought.strip() or _TAG.search(thought):
            return False
        rest = rest.strip()
    if rest.startswith("<answer>") and rest.endswith("</answer>"):
        inner = rest[len("<answer>") : -len("</answer>")]
    elif rest.startswith("```") and rest.endswith("```") and len(rest) > 6:
        first_line, _, inner = rest[3:-3].partition("\n")
        if first_line.strip() not in ("", "python", "py") or "```" in inner:
            return False
    else:
        return False
    return bool(inner.strip()) and not _TAG.search(inner)


def _format(*, completions: Sequence[str], **_: Any) -> list[Score]:
    return [
        Score(1.0, "OK", reason="well formed")
        if _well_formed(text)
        else Score(0.0, "BAD_FORMAT", reason="not one answer or code block and nothing else")
        for text in completions
    ]


def _short(value: object, limit: int = 40) -> str:
    text = str(value)
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


exact_answer = Reward(_exact, "exact_answer", columns=("answer",))
countdown_answer = Reward(_countdown, "countdown_answer", columns=("numbers", "target"))
format_reward = Reward(_format, "format_reward")
