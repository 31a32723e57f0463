"""math_answer: is the final answer of a completion the right one.

A `Reward` over the column `answer`: 1 for the right answer in whatever notation, 0
for a wrong or missing one, `None` where there is no verdict (a gold answer that
cannot be read, a time-out of the fallback). See the modules beside this one for the
steps: extraction, reading, comparison, fallback.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.completions import prompt_ends_with
from rlkit.rewards.maths.answers import Beyond
from rlkit.rewards.maths.extraction import MODES, Mode
from rlkit.rewards.maths.fallback import Fallback, shared
from rlkit.rewards.maths.judging import Judgement, gold_text, judge
from rlkit.rewards.maths.reading import read
from rlkit.rewards.reward import ERROR, Reward, Score

_OPENING = ("<think>", "<thinking>", "<reasoning>", "<thought>")


class MathAnswer(Reward):
    """1 when the completion's final answer equals the gold answer, else 0.

    Args:
        mode: `strict` wants a box, an answer block or an announced answer ("The answer
            is"); `flexible` also takes the last number or formula of the text.
        tolerance: largest relative difference of a decimal from what it rounds.
        column: the column with the gold answers: text, or numbers of any kind.
        preopened: whether the prompt has opened the reasoning; `None` looks at each prompt.
        fallback: whether math-verify may be asked where our own comparison cannot tell.
        name: its name among the parts.

    Raises:
        UserError: an unknown mode or a tolerance outside [0, 0.1].

    >>> MathAnswer()(completions=[r"\\boxed{0.5}", r"\\boxed{2}"], answer=[r"\\frac12", "1/2"])
    [1.0, 0.0]
    """

    def __init__(
        self,
        mode: Mode = "strict",
        *,
        tolerance: float = 1e-6,
        column: str = "answer",
        preopened: bool | None = None,
        fallback: bool = True,
        name: str = "math_answer",
    ) -> None:
        if mode not in MODES:
            raise UserError(f"math_answer has the modes {' and '.join(MODES)}, not {mode!r}")
        if not 0 <= tolerance <= 0.1:
            raise UserError(f"the tolerance must lie between 0 and 0.1, not {tolerance}")
        super().__init__(self._run, name, columns=(column,), bounds=(0.0, 1.0))
        self.mode: Mode = mode
        self.tolerance = tolerance
        self.column = column
        self.preopened = preopened
        self.uses_fallback = fallback
        #: How often each status was given: OK, WRONG, NO_ANSWER, NO_GOLD, TIMEOUT, ...
        self.statuses: Counter[str] = Counter()

    def _run(
        self, *, completions: Sequence[str], prompts: Any = None, **columns: Any
    ) -> list[Score]:
        golds = columns[self.column]
        fallback: Fallback | None = shared if self.uses_fallback else None
        if fallback is not None and any(_may_need_fallback(gold) for gold in golds):
            fallback.warm_up()  # it starts while the rows before it are judged
        rows = []
        for place, (text, gold) in enumerate(zip(completions, golds, strict=True)):
            try:
                found = judge(
                    text,
                    gold,
                    mode=self.mode,
                    tolerance=self.tolerance,
                    opened=self._opened(prompts, place),
                    fallback=fallback,
                )
            except Exception as error:  # one odd row must not cost the batch its verdicts
                found = self._failed(error)
            self.statuses[found.status] += 1
            rows.append(Score(found.value, found.status, reason=found.reason))
        return rows

    def _failed(self, error: Exception) -> Judgement:
        self.errors += 1
        if self.first_traceback is None:
            self.first_traceback = traceback.format_exc()
        return Judgement(None, ERROR, f"{self.name} raised {type(error).__name__}: {error}")

    def _opened(self, prompts: Any, place: int) -> bool:
        if self.preopened is not None:
            return self.preopened
        if not isinstance(prompts, (list, tuple)) or place >= len(prompts):
            return False
        return any(prompt_ends_with(prompts[place], tag) for tag in _OPENING)


def _may_need_fallback(gold: Any) -> bool:
    text = gold_text(gold)
    return text is not None and "\\" in text and isinstance(read(text), Beyond)


math_answer = MathAnswer()
