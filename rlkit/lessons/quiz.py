"""Quiz: questions with a few answers each, and an explanation for every answer.

The explanation is the point: a wrong answer says why somebody may think so, a right one why
it holds. Radio buttons and one button work by mouse and by keyboard; without a front end
the answers have letters, and `quiz.answer("b", "a")` answers in order.

Left out on purpose: several right answers to one question, and marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.frontend import headless
from rlkit.lessons.cards import Block, Card, inline_html, with_widget

LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Question:
    """A question, its answers with an explanation each, and the letter of the right one.

    Attributes:
        text: the question.
        options: pairs of an answer and the explanation that follows it.
        right: the letter of the right answer, `a` being the first.

    Raises:
        UserError: fewer than two answers, one without explanation, or no such letter.

    >>> Question("2 + 2?", [("4", "Yes."), ("5", "One too many.")], right="a").right
    'a'
    """

    text: str
    options: Sequence[tuple[str, str]]
    right: str

    def __post_init__(self) -> None:
        pairs = [tuple(option) for option in self.options]
        if not 2 <= len(pairs) <= len(LETTERS):
            raise UserError(f"question {self.text!r} needs 2 to {len(LETTERS)} answers")
        if not all(len(pair) == 2 and all(map(str.strip, pair)) for pair in pairs):
            raise UserError(f"question {self.text!r}: each answer needs an explanation")
        if self.right not in tuple(self.letters):
            raise UserError(f"question {self.text!r}: right={self.right!r} is no letter of it")
        object.__setattr__(self, "options", tuple(pairs))

    @property
    def letters(self) -> str:
        """The letters of its answers."""
        return LETTERS[: len(self.options)]

    def explain(self, letter: str) -> str:
        """Whether this answer is right, and why."""
        word = "✓ Right" if letter == self.right else "✗ Not quite"
        return f"{letter}) {word}: {self.options[LETTERS.index(letter)][1]}"


class Quiz:
    """Some questions to answer. Make it the last line of a cell to see it.

    Args:
        name: in the progress file.
        questions: at least one.
        answers: letters given in an earlier session, by number of the question from 1.
        record: called with all answers so far, by number, and how many are right.

    Raises:
        UserError: no questions.

    >>> quiz = Quiz("sums", [Question("2 + 2?", [("4", "Yes."), ("5", "One too many.")], "a")])
    >>> print(quiz.answer("b"))
    → Quiz: 0 of 1 right
      1. 2 + 2?
      Your answer: 5
      b) ✗ Not quite: One too many.
    """

    def __init__(
        self,
        name: str,
        questions: Sequence[Question],
        *,
        answers: Mapping[str, str] | None = None,
        record: Callable[[dict[str, str], int], Any] | None = None,
    ) -> None:
        if not questions or not all(isinstance(q, Question) for q in questions):
            raise UserError(f"quiz {name!r} needs a list of Question(...)")
        self.name, self.questions = name, tuple(questions)
        self._record = record
        # Answers of another version of the quiz may name letters that are gone.
        self._given = {
            number: letter
            for number, letter in (answers or {}).items()
            if number.isdigit()
            and 0 < int(number) <= len(self.questions)
            and letter in tuple(self.questions[int(number) - 1].letters)
        }
        self._rows: list[tuple[Any, Any]] = []
        self._box: Any = None

    @property
    def right(self) -> int:
        """How many questions are answered rightly so far."""
        return sum(
            self._given.get(str(number)) == question.right
            for number, question in enumerate(self.questions, start=1)
        )

    def answer(self, *letters: str, question: int | None = None) -> Card:
        """Answers the questions in order, or the one with this number, and explains.

        Args:
            letters: such as `"b", "a"`; fewer than there are questions is fine.
            question: number of the question that a single letter is for, from 1.

        Raises:
            UserError: a letter or a number that is none.
        """
        if question is not None and len(letters) != 1:
            raise UserError("give one letter with question=, for example answer('b', question=2)")
        first = 1 if question is None else question
        for number, letter in enumerate(letters, start=first):
            if not isinstance(number, int) or not 0 < number <= len(self.questions):
                raise UserError(f"there are {len(self.questions)} questions, and no {number!r}")
            asked = self.questions[number - 1]
            if not isinstance(letter, str) or letter.strip().lower() not in tuple(asked.letters):
                raise UserError(
                    f"question {number} has the answers {', '.join(asked.letters)}, not {letter!r}"
                )
            self._given[str(number)] = letter.strip().lower()
        if letters and self._record is not None:
            self._record(dict(self._given), self.right)
        self._show()
        return self.card(only=range(first, first + len(letters)))

    def card(self, only: Sequence[int] | None = None) -> Card:
        """The questions as a card, with explanations of what was answered."""
        blocks = []
        for number, asked in enumerate(self.questions, start=1):
            if only is not None and number not in only:
                continue
            letter = self._given.get(str(number))
            shown = [f"{a}) {o[0]}" for a, o in zip(asked.letters, asked.options, strict=True)]
            if only is not None:
                shown = [f"Your answer: {asked.options[LETTERS.index(letter)][0]}"]
            said = [asked.explain(letter)] if letter is not None else []
            blocks.append(Block(f"{number}. {asked.text}", items=[*shown, *said]))
        if only is None and len(self._given) < len(self.questions):
            letters = ", ".join(f'"{"ba"[i % 2]}"' for i in range(min(2, len(self.questions))))
            blocks.append(Block(f"Answer with letters, in order: `quiz.answer({letters})`."))
        count = len(self.questions)
        heading = f"Quiz: {self.right} of {count} right"
        if not self._given:
            heading = f"Quiz: {count} question{'s' if count > 1 else ''}"
        return Card("note", "→" if self._given else "?", heading, tuple(blocks))

    def __str__(self) -> str:
        return str(self.card())

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        static = self.card()._repr_mimebundle_()
        if headless():
            return static
        if self._box is None:
            self._build()
        return with_widget(self._box, static)

    def _build(self) -> None:
        import ipywidgets as w

        parts = [w.HTML()]
        for number, asked in enumerate(self.questions, start=1):
            letter = self._given.get(str(number))
            pairs = zip(asked.letters, asked.options, strict=True)
            radio = w.RadioButtons(
                options=[(f"{a}) {option[0]}", a) for a, option in pairs],
                value=letter,
                description="Answers",
                tooltip=asked.text,
                layout=w.Layout(width="auto", max_width="52em"),
            )
            said = w.HTML()
            button = w.Button(
                description="Answer",
                tooltip=f"Answer question {number}: {asked.text}",
                layout=w.Layout(width="110px"),
            )
            button.on_click(lambda _, number=number, radio=radio: self._pressed(number, radio))
            self._rows.append((radio, said))
            heading = w.HTML(f"<b>{number}. {inline_html(asked.text)}</b>")
            parts += [heading, radio, button, said]
        self._box = w.VBox(parts)
        self._show()

    def _pressed(self, number: int, radio: Any) -> None:
        if radio.value is None:
            self._rows[number - 1][1].value = _live("⚠ Choose an answer first.")
            return
        self.answer(radio.value, question=number)

    def _show(self) -> None:
        """Brings the widgets up to date."""
        if self._box is None:
            return
        count = len(self.questions)
        title = f"Quiz: {len(self._given)} of {count} answered, {self.right} right"
        self._box.children[0].value = f'<div role="status">{title}</div>'
        for number, (radio, said) in enumerate(self._rows, start=1):
            letter = self._given.get(str(number))
            if letter is not None:
                if radio.value != letter:
                    radio.value = letter
                said.value = _live(self.questions[number - 1].explain(letter))


def _live(sentence: str) -> str:
    """A sentence that a screen reader reads out when it changes."""
    return f'<div role="status" aria-live="polite">{inline_html(sentence)}</div>'
