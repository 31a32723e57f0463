"""exact_answer, numeric_answer, countdown_answer: judging what stands in the tags.

The answer of a completion is what its only `<answer>` block holds. Two blocks
are no answer: a completion that lists several candidates is not paid for one
of them. Thoughts are no answer either, also where the prompt has opened the think
tag already. Nothing here evaluates the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.completions import prompt_ends_with
from rlkit.rewards.number import last_number, parse_number, same_number
from rlkit.rewards.reward import Reward
from rlkit.rewards.score import Score
from rlkit.tasks.countdown import verify_countdown


def extract_answer(text: str, preopened: bool = False) -> str | None:
    """The text of the only answer block, or `None` when there is not exactly one.

    Args:
        text: a completion.
        preopened: whether the prompt ended with `<think>`, so that it starts in thoughts.

    >>> extract_answer("<think>6 * 7</think><answer> 42 </answer>")
    '42'
    >>> extract_answer("<answer>41</answer><answer>42</answer>") is None
    True
    """
    if preopened and not text.lstrip().startswith("<think>"):
        text = "<think>" + text
    # What is thought is not answered: an answer block inside the thoughts is no answer.
    outside = _without_thoughts(text)
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


def _without_thoughts(text: str) -> str:
    """The text without its closed think blocks; read once, whatever the text is."""
    kept, place = [], 0
    while (start := text.find("<think>", place)) >= 0:
        end = text.find("</think>", start)
        if end < 0:
            break
        kept.append(text[place:start])
        place = end + len("</think>")
    return "".join([*kept, text[place:]])


def answers_of(completions: Sequence[str], prompts: Any = None) -> list[str | None]:
    """The answer of each completion, read with its prompt where there is one."""
    if prompts is None or len(prompts) != len(completions):
        return [extract_answer(text) for text in completions]
    return [
        extract_answer(text, prompt_ends_with(prompt, "<think>"))
        for text, prompt in zip(completions, prompts, strict=True)
    ]


def _exact(
    *, completions: Sequence[str], answer: Sequence[str], prompts: Any = None, **_: Any
) -> list[Score]:
    rows = []
    for given, wanted in zip(answers_of(completions, prompts), answer, strict=True):
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
    prompts: Any = None,
    **_: Any,
) -> list[Score]:
    rows = []
    expressions = answers_of(completions, prompts)
    for expression, given, wanted in zip(expressions, numbers, target, strict=True):
        if expression is None:
            rows.append(Score(0.0, "NO_ANSWER", reason="there is not exactly one answer block"))
            continue
        right, reason = verify_countdown(expression, given, wanted)
        rows.append(Score(float(right), "OK" if right else "WRONG", reason=reason))
    return rows


class NumericAnswer(Reward):
    """1 when the answer is one plain number and equal to the problem's, else 0.

    Integers and fractions are compared exactly, decimals within a tolerance; `28%` is
    0.28, see `rlkit.rewards.number`. A right answer that is no plain number (`x = 4`,
    a set) is not for this reward but for `math_answer`. A problem whose own answer
    cannot be read gives no verdict.

    Args:
        relative: largest difference as a share of the problem's answer.
        absolute: largest difference that is always allowed, for answers near zero.
        where: `tags` for what the only answer block holds; `last` for the last number of
            the text, thoughts left out, where no layout was asked for.
        name: its name among the parts.

    >>> numeric_answer(completions=["<answer>1,234.0</answer>", "<answer>12 or 34</answer>"],
    ...                answer=["1234", "#### 12"])
    [1.0, 0.0]
    """

    def __init__(
        self,
        relative: float = 1e-6,
        absolute: float = 1e-9,
        where: str = "tags",
        name: str = "numeric_answer",
    ) -> None:
        if where not in ("tags", "last"):
            raise UserError(f"where must be 'tags' or 'last', not {where!r}")
        if not (0 <= relative < 1 and 0 <= absolute < float("inf")):
            raise UserError(
                f"tolerances must be small numbers from 0 on, not relative={relative}, "
                f"absolute={absolute}"
            )
        self.relative, self.absolute, self.where = relative, absolute, where
        super().__init__(self._compare, name, ("answer",), bounds=(0.0, 1.0))

    def _compare(
        self, *, completions: Sequence[str], answer: Sequence[Any], prompts: Any = None, **_: Any
    ) -> list[Score]:
        found: Sequence[str | None] = answers_of(completions, prompts)
        if self.where == "last":
            spoken = [_without_thoughts(text).partition("<think>")[0] for text in completions]
            found = [last_number(text) for text in spoken]
        return [self._row(f, w) for f, w in zip(found, answer, strict=True)]

    def _row(self, found: str | None, wanted: Any) -> Score:
        gold = None if wanted is None else parse_number(str(wanted).rpartition("####")[2])
        if gold is None:
            reason = f"the problem's answer is no plain number: {_short(wanted)}"
            return Score(None, "NO_GOLD", reason=reason)
        if found is None:
            where = "answer block" if self.where == "tags" else "number"
            return Score(0.0, "NO_ANSWER", reason=f"there is not exactly one {where}")
        given = parse_number(found)
        if given is None:
            return Score(0.0, "NO_NUMBER", reason=f"answered {_short(found)}, not one number")
        if same_number(given, gold, self.relative, self.absolute):
            return Score(1.0, "OK", reason=f"answered {_short(found)}")
        reason = f"answered {_short(found)}, expected {_short(wanted)}"
        return Score(0.0, "WRONG", reason=reason)


def _short(value: object, limit: int = 40) -> str:
    text = str(value)
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


exact_answer = Reward(_exact, "exact_answer", columns=("answer",), bounds=(0.0, 1.0))
numeric_answer = NumericAnswer()
countdown_answer = Reward(
    _countdown, "countdown_answer", columns=("numbers", "target"), bounds=(0.0, 1.0)
)
