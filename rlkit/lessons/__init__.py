"""Lessons, the learner's side: exercises that check themselves, hints, quizzes, progress.

    from rlkit import lessons
    lesson = lessons.open("02_rewards")
    lesson.check("exact_match", my_function)

Nothing heavy is imported here: no torch, no widgets, no plotly. Names are resolved when
they are first used. Everything works the same in JupyterLab, Colab, VS Code, Binder and
without a front end, where each widget has a plain text in its place.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "open": ("rlkit.lessons.lesson", "open_lesson"),
    "Lesson": ("rlkit.lessons.lesson", "Lesson"),
    "known": ("rlkit.lessons.book", "known_lessons"),
    "AnswerBook": ("rlkit.lessons.book", "AnswerBook"),
    "Checked": ("rlkit.lessons.checked", "Checked"),
    "State": ("rlkit.lessons.checked", "State"),
    "Question": ("rlkit.lessons.quiz", "Question"),
    "failure_card": ("rlkit.lessons.cards", "failure_card"),
    "progress": ("rlkit.lessons.learner_progress", "progress"),
    "export_progress": ("rlkit.lessons.learner_progress", "export_progress"),
    "reset_progress": ("rlkit.lessons.learner_progress", "reset_progress"),
    "mode": ("rlkit.lessons.length", "mode"),
    "pick": ("rlkit.lessons.length", "pick"),
    # for the cells that check an exercise
    "Exercise": ("rlkit.lessons.exercise", "Exercise"),
    "Property": ("rlkit.lessons.exercise", "Property"),
    "call": ("rlkit.lessons.exercise", "call"),
    "random_inputs": ("rlkit.lessons.exercise", "random_inputs"),
    "same_as": ("rlkit.lessons.exercise", "same_as"),
    "examine": ("rlkit.lessons.examination", "examine"),
    "Broken": ("rlkit.lessons.expect", "Broken"),
    "close": ("rlkit.lessons.expect", "close"),
    "equal": ("rlkit.lessons.expect", "equal"),
    "holds": ("rlkit.lessons.expect", "holds"),
    "raises": ("rlkit.lessons.expect", "raises"),
    "shape": ("rlkit.lessons.expect", "shape"),
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rlkit.lessons' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
