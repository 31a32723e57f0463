"""Lesson: what a notebook talks to. Checks, hints, solutions, predictions, quizzes, progress.

    from rlkit import lessons
    lesson = lessons.open("02_rewards")
    lesson.check("exact_match", my_function)

Left out on purpose: all the work; it is done by `examination`, `hints`, `prediction`, `quiz`,
`strip` and `store`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rlkit.errors import UserError
from rlkit.lessons.book import AnswerBook
from rlkit.lessons.cards import Card
from rlkit.lessons.checked import Checked, State
from rlkit.lessons.examination import examine
from rlkit.lessons.hints import Solution, hint_card
from rlkit.lessons.length import mode
from rlkit.lessons.prediction import Prediction
from rlkit.lessons.quiz import Question, Quiz
from rlkit.lessons.store import Data, Store, of_lesson
from rlkit.lessons.strip import Strip, parts_of
from rlkit.lessons.unfinished import MISSING


def open_lesson(name: str) -> Lesson:
    """Opens a lesson, and says in one sentence which length of it runs here.

    Args:
        name: such as `02_rewards`.

    Raises:
        UserError: there is no such lesson, with a list of those there are.
    """
    lesson = Lesson(AnswerBook.load(name), Store())
    print(mode().sentence)
    note = lesson._update(lambda _: None)
    if note:
        print(f"Note: {note}.")
    return lesson


class Lesson:
    """One lesson and what a learner has done of it.

    Attributes:
        name: such as `02_rewards`.
        title: for people.
    """

    def __init__(self, book: AnswerBook, store: Store) -> None:
        self.name, self.title = book.lesson, book.title
        self._book, self._store = book, store
        self._asked: set[str] = set()  # exercises whose solution was asked for once
        self._seen: dict[str, str] = {}  # predictions and quizzes of this session
        self._strips: list[Strip] = []

    # -- exercises -------------------------------------------------------------------------

    def check(self, exercise: str, answer: Any = MISSING) -> Checked:
        """Says whether an answer is still to be written, wrong or right, and why.

        A learner's mistake never raises here. Without `answer`, the variable that the
        exercise is about is looked up in the notebook.

        Args:
            exercise: its ID.
            answer: a function or a value.

        Raises:
            UserError: the lesson has no such exercise.
        """
        task = self._book.exercise(exercise)
        if answer is MISSING:
            answer = sys._getframe(1).f_globals.get(task.entry or task.id, MISSING)
        checked = examine(task, answer)
        attempts = 0

        def count(data: Data) -> None:
            nonlocal attempts
            saved = self._exercise(data, exercise)
            saved["state"] = str(checked.state)
            saved["right"] = bool(saved.get("right")) or checked.right
            if checked.state is not State.TODO:
                saved["attempts"] = saved.get("attempts", 0) + 1
            attempts = saved.get("attempts", 0)

        note = self._update(count)
        notes = checked.notes if note is None else (*checked.notes, note)
        return replace(checked, attempts=attempts, notes=notes)

    def hint(self, exercise: str) -> Card:
        """The next hint to an exercise, below those you had: three levels in all.

        Raises:
            UserError: the lesson has no such exercise.
        """
        entry = self._book.entry(exercise)
        level = 0

        def count(data: Data) -> None:
            nonlocal level
            saved = self._exercise(data, exercise)
            level = saved["hints"] = min(saved.get("hints", 0) + 1, len(entry.hints))

        self._update(count)
        return hint_card(exercise, entry.title, entry.hints, level)

    def solution(self, exercise: str, confirm: bool = False) -> Solution:
        """A right answer, after a button, a second call, or with `confirm=True`.

        Raises:
            UserError: the lesson has no such exercise.
        """
        entry = self._book.entry(exercise)
        again = exercise in self._asked
        self._asked.add(exercise)

        def seen(data: Data) -> None:
            self._exercise(data, exercise)["solution_seen"] = True

        return Solution(
            exercise, entry.title, entry.solution, confirm or again, lambda: self._update(seen)
        )

    # -- predictions and quizzes -----------------------------------------------------------

    def predict(
        self,
        name: str,
        question: str,
        *,
        low: float | None = None,
        high: float | None = None,
        unit: str = "",
    ) -> Prediction:
        """A box for a number to write down before you look; see `Prediction.reveal`.

        Args:
            name: in the progress file.
            question: what is asked.
            low, high: the range of sensible guesses; both or none.
            unit: of the number, in words.

        Raises:
            UserError: a range that is none.
        """
        self._meet(name, "prediction")
        saved = self._saved()["predictions"].get(name, {})
        remembered = saved.get("guess")

        def record(guess: float | None, truth: float | None, score: float | None) -> None:
            def write(data: Data) -> None:
                if guess is not None:  # nobody's guess does not replace somebody's
                    made = {"guess": guess, "truth": truth, "score": score}
                    of_lesson(data, self.name)["predictions"][name] = made

            self._update(write)

        return Prediction(
            name,
            question,
            low=low,
            high=high,
            unit=unit,
            remembered=remembered if isinstance(remembered, (int, float)) else None,
            record=record,
        )

    def quiz(self, name: str, questions: Sequence[Question]) -> Quiz:
        """Questions with an explanation for every answer.

        Args:
            name: in the progress file.
            questions: `Question(...)` each.

        Raises:
            UserError: no questions.
        """
        self._meet(name, "quiz")
        saved = self._saved()["quizzes"].get(name, {})
        answers = saved.get("answers")

        def record(given: dict[str, str], right: int) -> None:
            def write(data: Data) -> None:
                found = {"answers": given, "right": right, "of": len(questions)}
                of_lesson(data, self.name)["quizzes"][name] = found

            self._update(write)

        remembered = answers if isinstance(answers, dict) else None
        return Quiz(name, questions, answers=remembered, record=record)

    # -- progress --------------------------------------------------------------------------

    def strip(self) -> Strip:
        """What is done of this lesson; it follows along where there is a front end."""
        strip = Strip(self.title, self._parts(self._store.read()))
        self._strips.append(strip)
        return strip

    def __str__(self) -> str:
        return f"{self.title}\n{mode().sentence}\n{self._new_strip()}"

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from rlkit.lessons.cards import inline_html

        html = f"<p>{inline_html(mode().sentence)}</p>{self._new_strip().html()}"
        return {"text/plain": str(self), "text/html": html}

    def _new_strip(self) -> Strip:
        return Strip(self.title, self._parts(self._store.read()))

    def _saved(self) -> Data:
        return of_lesson(self._store.read(), self.name)

    def _exercise(self, data: Data, exercise: str) -> Data:
        return of_lesson(data, self.name)["exercises"].setdefault(exercise, {})

    def _meet(self, name: str, kind: str) -> None:
        if not isinstance(name, str) or not name:
            raise UserError(f"a {kind} needs a name for the progress file, not {name!r}")
        self._seen[name] = kind

    def _parts(self, data: Data) -> list[Any]:
        titles = {name: entry.title for name, entry in self._book.exercises.items()}
        return parts_of(titles, of_lesson(data, self.name), self._seen)

    def _update(self, change: Callable[[Data], None]) -> str | None:
        """Changes the progress, brings the strips up to date, and gives a sentence on trouble."""
        data = self._store.update(change)
        for strip in self._strips:
            strip.update(self._parts(data))
        return self._store.note
