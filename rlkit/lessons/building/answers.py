"""Tries every answer that a lesson's author wrote: scaffold, solution, wrong answers.

They run in one kernel, with the network cut off, after the cells tagged `setup` and nothing else
of the lesson, so a lesson that trains for minutes is tried in seconds. A scaffold must be told
as TODO, a solution as RIGHT, and a wrong answer as WRONG, with the text that its author expects
in the message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rlkit.lessons.building import frame
from rlkit.lessons.building.build import Shelf, joined
from rlkit.lessons.building.execute import Cut, execute, text_of
from rlkit.lessons.building.source import Cell, ExerciseCells, Finding, LessonSource

_MARK = "rlkit-answer:"
_WANTED = {"exercise": "TODO", "solution": "RIGHT", "wrong": "WRONG"}


@dataclass(frozen=True)
class Tried:
    """What `check` said to one answer; `state` is `RAISED` when the answer's own code raised."""

    exercise: str
    role: str
    line: int
    state: str
    message: str


def try_answers(
    shelf: Shelf, name: str, cut: Cut | None = None
) -> tuple[list[Tried], list[Finding]]:
    """Tries the answers of one lesson; gives what was said, and what should not be so.

    Raises:
        UserError: the kernel could not be started.
    """
    lesson = shelf.lessons[name]
    if not lesson.exercises:
        return [], []
    answers = [
        (exercise, cell)
        for exercise in lesson.exercises
        for cell in (exercise.scaffold, exercise.solution, *exercise.wrongs)
    ]
    before = [frame.opener(lesson)]
    before += [cell.text for cell in lesson.cells if "setup" in cell.tags and cell.kind == "code"]
    texts = [*before, *(_trial(exercise, cell) for exercise, cell in answers)]
    books = {"RLKIT_BOOKS": str(shelf.book_path(name).parent)}
    ran = execute(_notebook(texts), go_on=True, cut=cut, environment=books)
    raised = {failure.cell: failure.error for failure in ran.failures}
    findings = [
        Finding(lesson.file, f"a cell that opens or sets up the lesson raised {raised[number]}")
        for number in range(1, len(before) + 1)
        if number in raised
    ]
    if findings:
        return [], findings
    tried = []
    for number, (exercise, cell) in enumerate(answers, start=len(before) + 1):
        if number in raised:
            state, message = "RAISED", raised[number]
        else:
            state, message = _read(ran.notebook["cells"][number - 1])
        tried.append(Tried(exercise.name, cell.role, cell.line, state, message))
    cells = [cell for _, cell in answers]
    return tried, [
        f for one, cell in zip(tried, cells, strict=True) for f in _judge(lesson, one, cell)
    ]


def _judge(lesson: LessonSource, one: Tried, cell: Cell) -> list[Finding]:
    what = {
        "exercise": f"the scaffold of {one.exercise!r}",
        "solution": f"the solution of {one.exercise!r}",
        "wrong": f"this wrong answer to {one.exercise!r}",
    }[one.role]
    place = f"line {one.line}"
    said = " ".join(one.message.split())
    if one.state == "RAISED":
        text = f"{what} raised {said}"
        if said.startswith("NameError"):
            text += "; does it need a cell tagged 'setup'?"
    elif one.state != _WANTED[one.role]:
        text = {
            "exercise": f"{what} should be told as TODO and is told as {one.state}: {said}",
            "solution": f"{what} no longer passes its check: {one.state}: {said}",
            "wrong": f"{what} is told as {one.state}: {said}",
        }[one.role]
    elif one.role == "wrong" and not _holds(said, cell.says or ""):
        text = f"the check of {what} should say {cell.says!r} and says {said!r}"
    else:
        return []
    return [Finding(lesson.file, text, place)]


def _holds(message: str, wanted: str) -> bool:
    """Whether a message holds a text; a sentence may begin with it, so case does not count."""
    return " ".join(wanted.split()).casefold() in message.casefold()


def _trial(exercise: ExerciseCells, cell: Cell) -> str:
    code = cell.text.replace(exercise.check_line, "") if exercise.check_line else cell.text
    arguments = f"{exercise.name!r}, {exercise.answer}" if exercise.answer else f"{exercise.name!r}"
    return (
        f"{code.rstrip()}\n\n_tried = lesson.check({arguments})\n"
        f"import json as _json\n"
        f"print({_MARK!r} + _json.dumps([_tried.state.name, str(_tried.message)]))"
    )


def _read(cell: dict[str, Any]) -> tuple[str, str]:
    for line in reversed(text_of(cell).splitlines()):
        if line.startswith(_MARK):
            state, message = json.loads(line[len(_MARK) :])
            return state, message
    return "RAISED", "nothing: the check gave no answer"


def _notebook(texts: list[str]) -> str:
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"cell-{number}",
            "metadata": {},
            "outputs": [],
            "source": joined(text),
        }
        for number, text in enumerate(texts)
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return json.dumps(
        {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    )
