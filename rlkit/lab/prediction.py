"""Prediction: a box for a number that you write down before you look.

To predict first and compare afterwards is how a surprise is noticed. Without a front
end, or with the box left empty, everything goes on and the answer is simply told.

Left out on purpose: scores, hints and a progress file; they belong to the lessons.
"""

from __future__ import annotations

import math
from typing import Any

from rlkit.lab.frontend import headless
from rlkit.lab.theme import escape, number


class Prediction:
    """A question with a box for a number. Make it the last line of a cell to see it.

    Args:
        question: what is asked, in plain words; say the unit.

    Attributes:
        answer: what stands in the box, as text; may be set from code, too.

    >>> guess = Prediction("How long is the gradient?")
    >>> guess.answer = "1.5"
    >>> print(guess.compare(0.0))
    You said 1.5; it is 0.
    """

    def __init__(self, question: str) -> None:
        self.question = question
        self._text = ""
        self._box: Any = None
        if not headless():
            import ipywidgets as w

            self._box = w.Text(
                description="My guess:",
                placeholder="a number",
                tooltip=question,
                layout=w.Layout(width="220px"),
            )

    @property
    def answer(self) -> str:
        return self._text if self._box is None else self._box.value

    @answer.setter
    def answer(self, text: str) -> None:
        self._text = str(text)
        if self._box is not None:
            self._box.value = self._text

    @property
    def value(self) -> float | None:
        """The number in the box; `None` while there is none."""
        try:
            value = float(self.answer.strip().replace(",", "."))
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def compare(self, truth: float) -> str:
        """One sentence with your guess and the truth."""
        if self.value is not None:
            return f"You said {number(self.value)}; it is {number(truth)}."
        if self.answer.strip():
            return f"You wrote {self.answer.strip()!r}, which is no number; it is {number(truth)}."
        return f"No guess was written down; it is {number(truth)}."

    def __repr__(self) -> str:
        return f"Prediction: {self.question} (write a number into `.answer`, or only think it)"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        static = {
            "text/plain": repr(self),
            "text/html": f"<p><b>Prediction:</b> {escape(self.question)}</p>",
        }
        if self._box is None:
            return static
        import ipywidgets as w

        question = w.HTML(f"<b>Prediction:</b> {escape(self.question)}")
        return {**w.VBox([question, self._box])._repr_mimebundle_(), **static}
