"""Prediction: a number that you write down before you look, and its distance to the truth.

To predict first and compare afterwards is how a surprise is noticed. In a front end
nothing is revealed before a number stands in the box; the kernel never waits for it, so
the rest of the notebook runs on. Without a front end everything is told at once, and says
whether a guess was written down.

The score is 1 for the truth itself and 0 from half of the range on:
`max(0, 1 - 2 * |guess - truth| / (high - low))`; without a range,
`max(0, 1 - |guess - truth| / max(|guess|, |truth|))`. Without a guess there is no score.

Left out on purpose: ranges of confidence; one number is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.frontend import headless
from rlkit.lessons.cards import Block, Card, inline_html, with_widget
from rlkit.lessons.expect import say


def distance_score(
    guess: float | None, truth: float | None, low: float | None, high: float | None
) -> float | None:
    """How close a guess came, from 0 to 1; None without a guess or a truth.

    Args:
        guess, truth: two numbers.
        low, high: the range of sensible guesses, or None.

    >>> distance_score(0.5, 0.75, 0, 1), distance_score(8.0, 10.0, None, None)
    (0.5, 0.8)
    >>> distance_score(None, 0.75, 0, 1) is None
    True
    """
    if guess is None or truth is None or not math.isfinite(truth):
        return None
    distance = abs(guess - truth)
    if distance == 0:
        return 1.0
    if low is not None and high is not None:
        return max(0.0, 1.0 - 2.0 * distance / (high - low))
    return max(0.0, 1.0 - distance / max(abs(guess), abs(truth)))


class Prediction:
    """A question with a box for a number. Make it the last line of a cell to see it.

    Args:
        name: in the progress file.
        question: what is asked, in plain words.
        low, high: the range of sensible guesses; both or none.
        unit: of the number, in words.
        remembered: a guess of an earlier session, shown in the box.
        record: called with guess, truth and score when something was revealed.

    Raises:
        UserError: a range that is none.

    >>> guess = Prediction("slope", "How steep is it?", low=0, high=2, unit="percent")
    >>> guess.answer = "1.5"
    >>> print(guess.compare(1.0))
    You said 1.5 percent; it is 1 percent. You are off by 0.5: score 0.50 of 1.
    """

    def __init__(
        self,
        name: str,
        question: str,
        *,
        low: float | None = None,
        high: float | None = None,
        unit: str = "",
        remembered: float | None = None,
        record: Callable[[float | None, float | None, float | None], Any] | None = None,
    ) -> None:
        if (low is None) != (high is None) or (low is not None and not low < high):
            raise UserError(
                f"prediction {name!r}: give low and high with low < high, or none of them; "
                f"not low={low!r}, high={high!r}"
            )
        self.name, self.question, self.unit = name, question, unit
        self.low, self.high = low, high
        self._record = record
        self._text = "" if remembered is None else say(remembered)
        self._remembered = remembered is not None
        self._boxes: list[Any] = []
        self._box = None if headless() else self._new_box()

    @property
    def answer(self) -> str:
        """What stands in the box; may be set from code, as a number or as text."""
        return self._text

    @answer.setter
    def answer(self, text: object) -> None:
        self._text = "" if text is None else str(text)
        self._remembered = False
        for box in self._boxes:
            if box.value != self._text:
                box.value = self._text

    @property
    def value(self) -> float | None:
        """The number in the box; None while there is none within the range."""
        number = _number(self._text)
        if number is None or self._outside(number):
            return None
        return number

    @property
    def problem(self) -> str:
        """Why what stands in the box is not taken; empty when it is."""
        number = _number(self._text)
        if not self._text.strip():
            return "Write a number first; then it is shown how close you came."
        if number is None:
            return f"{self._text.strip()!r} is not a number."
        if self._outside(number):
            return f"{say(number)} is not between {say(self.low)} and {say(self.high)}."
        return ""

    def compare(self, truth: float | None) -> str:
        """One or two sentences: your guess, the truth, the distance and the score."""
        if truth is None or not math.isfinite(truth):
            return "There is no number to compare with this time."
        told = f"it is {self._with_unit(truth)}."
        guess = self.value
        if guess is None:
            if not self._text.strip():
                return f"No guess was written down; {told}"
            return f"{self.problem} So there is no guess; {told}"
        score = distance_score(guess, truth, self.low, self.high)
        said = f"You said {self._with_unit(guess)}; {told}"
        if guess == truth:
            return f"{said} That is it exactly: score 1 of 1."
        return f"{said} You are off by {say(_short(abs(guess - truth)))}: score {score:.2f} of 1."

    def reveal(self, shown: Any, truth: Any = None) -> Reveal:
        """Shows a result, in a front end only after a number was written down.

        Args:
            shown: text, a figure, or anything that a notebook can display.
            truth: the number that was asked for; None when there is none this time.
        """
        if truth is not None:
            truth = float(truth)  # also of a tensor or an array with one number
        reveal = Reveal(self, shown, truth)
        if headless() or self.value is not None:
            reveal.open()
        return reveal

    def _outside(self, number: float) -> bool:
        return self.low is not None and not self.low <= number <= self.high

    def _with_unit(self, number: float) -> str:
        return f"{say(_short(number))} {self.unit}".rstrip()

    def _range(self) -> str:
        between = "" if self.low is None else f" from {say(self.low)} to {say(self.high)}"
        return f"a number{between}" + (f" ({self.unit})" if self.unit else "")

    def _new_box(self) -> Any:
        """A box for the number; all boxes of a prediction show the same."""
        import ipywidgets as w

        box = w.Text(
            value=self._text,
            description="My guess:",
            placeholder=self._range(),
            tooltip=f"{self.question} Write {self._range()}.",
            style={"description_width": "initial"},
            layout=w.Layout(width="320px", max_width="100%"),
        )

        def take(change: Any) -> None:
            self.answer = change["new"]

        box.observe(take, "value")
        self._boxes.append(box)
        return box

    def card(self) -> Card:
        """The question as a card."""
        last = f" Last time you said {self._text}." if self._remembered else ""
        how = f"Write {self._range()} into `.answer`, or only think it.{last}"
        return Card("note", "?", f"Predict: {self.question}", (Block(how),))

    def __str__(self) -> str:
        return str(self.card())

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        static = self.card()._repr_mimebundle_()
        if self._box is None:
            return static
        import ipywidgets as w

        last = " Last time you said this; write another number to change it."
        how = f"Write {self._range()} before you look.{last if self._remembered else ''}"
        card = Card("note", "?", f"Predict: {self.question}", (Block(how),))
        return with_widget(w.VBox([w.HTML(card.html()), self._box]), static)


class Reveal:
    """A result that waits for a guess. Make it the last line of a cell to see it.

    Attributes:
        opened: whether the result is shown.
        score: how close the guess came, from 0 to 1; None when there was none.
    """

    def __init__(self, prediction: Prediction, shown: Any, truth: float | None) -> None:
        self._prediction, self._shown, self._truth = prediction, shown, truth
        self.opened = False
        self.score: float | None = None
        self._sentence = ""
        self._box: Any = None
        self._said: Any = None

    def open(self) -> None:
        """Shows the result; in a front end only when a number was written down."""
        guess = self._prediction
        if guess.value is None and not headless():
            if self._said is not None:
                problem = f"⚠ {inline_html(guess.problem)}"
                self._said.value = f'<div role="alert" style="padding:4px 12px">{problem}</div>'
            return
        if not self.opened:
            self.opened = True
            self.score = distance_score(guess.value, self._truth, guess.low, guess.high)
            self._sentence = guess.compare(self._truth)
            if guess._record is not None:
                guess._record(guess.value, self._truth, self.score)
        if self._box is not None:
            self._box.children = [_html(self.card().html()), *_widgets_of(self._shown)]

    def card(self) -> Card:
        """The comparison as a card, or what is still missing."""
        guess = self._prediction
        if not self.opened:
            return Card("todo", "○", f"Predict first: {guess.question}", (Block(guess.problem),))
        return Card("note", "→", guess.question, (Block(self._sentence),), announced=True)

    def __str__(self) -> str:
        if not self.opened:
            return str(self.card())
        return f"{self.card()}\n{_plain_text(self._shown)}"

    __repr__ = __str__

    def _ipython_display_(self) -> None:
        from IPython.display import display

        if self.opened:
            display(self.card())
            _display(self._shown)
            return
        import ipywidgets as w

        if self._box is None:
            button = w.Button(
                description="Show the result", tooltip="Compare your guess with the result"
            )
            button.on_click(lambda _: self.open())
            self._said = w.HTML()
            box = self._prediction._new_box()
            self._box = w.VBox([_html(self.card().html()), box, button, self._said])
        display(with_widget(self._box, self.card()._repr_mimebundle_()), raw=True)


def _html(text: str) -> Any:
    import ipywidgets as w

    return w.HTML(text)


def _is_figure(shown: Any) -> bool:
    return type(shown).__module__.startswith("plotly.")


def _caption(figure: Any) -> bool:
    """Whether a figure brings its caption and description along."""
    return bool((figure.layout.meta or {}).get("caption"))


def _plain_text(shown: Any) -> str:
    if _is_figure(shown):
        return (shown.layout.meta or {}).get("alt") or "A figure, shown in a notebook only."
    return str(shown)


def _display(shown: Any) -> None:
    """Displays text, a figure with its notes, or anything else."""
    from IPython.display import display

    if isinstance(shown, str):
        print(shown)
    elif _is_figure(shown) and _caption(shown):
        from rlkit.lab.theme import show_figure

        show_figure(shown)
    else:
        display(shown)


def _widgets_of(shown: Any) -> list[Any]:
    """The same as widgets, for a box that is already on the page."""
    import ipywidgets as w

    notes = []
    if _is_figure(shown):
        from rlkit.lab.theme import figure_bundle, figure_notes

        data = {**figure_bundle(shown), "text/plain": _plain_text(shown)}
        notes = [_html(figure_notes(shown))] if _caption(shown) else []
    elif isinstance(shown, str):
        data = {"text/plain": shown}
    else:
        from IPython.core.formatters import format_display_data

        data, _ = format_display_data(shown)
    out = w.Output()
    # Set as a whole: a `with` block would also catch what other cells print meanwhile.
    out.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
    return [out, *notes]


def _number(text: str) -> float | None:
    """The number that somebody wrote, with a comma or a point; a percent sign divides by 100.

    >>> _number("0,5"), _number("50 %"), _number("many")
    (0.5, 0.5, None)
    """
    text = text.strip().replace(",", ".")
    percent = text.endswith("%")
    try:
        number = float(text.rstrip("% "))
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return number / 100 if percent else number


def _short(number: float) -> float:
    """Four significant digits, which is as much as anybody predicts."""
    return float(f"{number:.4g}")
