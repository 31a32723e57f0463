"""The answer book of a lesson: hints, solutions and the checks of its exercises.

`rlkit lessons build` writes one JSON file per lesson into `rlkit/lessons/books`, out of
the lesson's source:

    {"lesson": "02_rewards", "title": "...", "exercises":
        {"ID": {"title": "...", "hints": ["", "", ""], "solution": "...", "checks": "..."}}}

The text under `checks` is Python that defines `EXERCISE`. It is our own code, shipped in
the package like any module, and it is executed here and nowhere else. A learner's answer or
a model's text never comes this way.

`RLKIT_BOOKS` names another folder to look into first, for somebody who writes lessons; it
deserves the same trust as `PYTHONPATH`.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.lessons.exercise import Exercise

#: The package's own shelf.
FOLDER = Path(__file__).parent / "books"


@dataclass(frozen=True)
class Entry:
    """One exercise as it stands in the book.

    Attributes:
        title: what a learner calls it.
        hints: three texts.
        solution: source of a right answer.
        checks: source that defines `EXERCISE`.
    """

    title: str
    hints: tuple[str, ...]
    solution: str
    checks: str


@dataclass(frozen=True)
class AnswerBook:
    """All that is known about the exercises of one lesson.

    Attributes:
        lesson: its name, such as `02_rewards`.
        title: for people.
        exercises: by ID, in the lesson's order.
    """

    lesson: str
    title: str
    exercises: Mapping[str, Entry]
    _built: dict[str, Exercise] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, lesson: str) -> AnswerBook:
        """Reads the book of a lesson.

        Raises:
            UserError: there is no such lesson, with a list of those there are; or the file
                is not an answer book.
        """
        known = _paths()
        if not isinstance(lesson, str) or lesson not in known:
            raise UserError(f"there is no lesson {lesson!r}{_nearest(str(lesson), list(known))}")
        path = known[lesson]
        try:
            return cls._parse(lesson, json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"the answer book {path.name} cannot be read ({type(error).__name__}: {error}); "
                "write it again with `rlkit lessons build`, or install rlkit again"
            ) from None

    @classmethod
    def _parse(cls, lesson: str, content: dict[str, Any]) -> AnswerBook:
        exercises = {}
        for name, given in content["exercises"].items():
            hints = tuple(given["hints"])
            texts = (given["title"], given["solution"], given["checks"], *hints)
            if len(hints) != 3 or not all(isinstance(text, str) and text for text in texts):
                raise ValueError(f"exercise {name!r} needs title, three hints, solution and checks")
            exercises[name] = Entry(given["title"], hints, given["solution"], given["checks"])
        return cls(lesson, str(content["title"]), exercises)

    def entry(self, name: str) -> Entry:
        """The exercise with this ID.

        Raises:
            UserError: the lesson has none of that name.
        """
        if name not in self.exercises:
            near = _nearest(str(name), list(self.exercises), "its exercises are")
            raise UserError(f"lesson {self.lesson} has no exercise {name!r}{near}")
        return self.exercises[name]

    def exercise(self, name: str) -> Exercise:
        """The exercise with its properties; executes the book's own checks, once.

        Raises:
            UserError: no such exercise, or its checks do not define it.
        """
        entry = self.entry(name)
        if name not in self._built:
            space: dict[str, Any] = {"__name__": f"rlkit.lessons.books.{self.lesson}.{name}"}
            code = compile(entry.checks, f"<checks of {self.lesson}, {name}>", "exec")
            exec(code, space)
            exercise = space.get("EXERCISE")
            if not isinstance(exercise, Exercise) or exercise.id != name:
                raise UserError(
                    f"the checks of exercise {name!r} in lesson {self.lesson} must define "
                    f"EXERCISE = Exercise({name!r}, ...)"
                )
            self._built[name] = exercise
        return self._built[name]


def known_lessons() -> list[str]:
    """The names of all lessons that `lessons.open` can open, in order."""
    return sorted(_paths())


def _paths() -> dict[str, Path]:
    folders = [FOLDER]
    if os.environ.get("RLKIT_BOOKS"):
        folders.append(Path(os.environ["RLKIT_BOOKS"]))
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.json"))}


def _nearest(name: str, known: list[str], are: str = "there are") -> str:
    if not known:
        return f"; {are} none"
    near = difflib.get_close_matches(name, known, 1, 0.5)
    meant = f"; did you mean {near[0]!r}?" if near else ";"
    listed = ", ".join(sorted(known))
    return f"{meant} {are[0].upper() + are[1:] if near else are} {listed}"
