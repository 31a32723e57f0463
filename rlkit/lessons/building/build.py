"""From a source to its three products: the student's notebook, the solved one, the answer book.

A build is a pure function of the source, the names and titles of the other lessons, and the stamp
of where they are published: the same input gives the same bytes, cell ids included. A notebook
remembers a hash of its cells as they were built (`metadata.rlkit.built`), so a notebook in which
somebody has worked is told from one that is merely older than its source, and is not overwritten
unasked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.lessons.building import frame
from rlkit.lessons.building.published import Published, read_published
from rlkit.lessons.building.source import Cell, LessonSource, lesson_names, read_lesson

#: Tags that stay on a cell of a notebook.
_KEPT_TAGS = ("exercise", "setup")
#: A quiz's questions, which are written together with their answers.
_QUESTION = re.compile(r"^\s*(?:\w+ = )?(?:lessons\.)?Question\(", re.MULTILINE)


@dataclass
class Shelf:
    """All lessons of a clone: what one lesson's build needs to know of the others."""

    root: Path

    @cached_property
    def lessons(self) -> dict[str, LessonSource]:
        return {name: read_lesson(self.root, name) for name in lesson_names(self.root)}

    @cached_property
    def titles(self) -> dict[str, str]:
        return {name: lesson.card.title for name, lesson in self.lessons.items()}

    @cached_property
    def published(self) -> Published | None:
        return read_published(self.root)

    def notebook_path(self, name: str) -> Path:
        return self.root / "notebooks" / f"{name}.ipynb"

    def book_path(self, name: str) -> Path:
        return self.root / "rlkit" / "lessons" / "books" / f"{name}.json"


@dataclass(frozen=True)
class Built:
    """What one build wrote: paths, and whether the bytes are new."""

    name: str
    path: Path
    changed: bool


def student(shelf: Shelf, name: str) -> str:
    """The student's notebook, as the text of its file."""
    lesson = shelf.lessons[name]
    cells = [cell for cell in lesson.cells if cell.role in ("plain", "exercise")]
    return _notebook(shelf, lesson, [(cell, cell.text) for cell in cells], "student")


def solved(shelf: Shelf, name: str) -> str:
    """The solved notebook: every exercise replaced by its solution, and checked all the same."""
    lesson = shelf.lessons[name]
    cells = []
    for cell in lesson.cells:
        if cell.role == "exercise":
            cells.append(
                (cell, answered(lesson, cell.exercise, lesson.by_name[cell.exercise].solution))
            )
        elif cell.role == "plain":
            cells.append((cell, cell.text))
    return _notebook(shelf, lesson, cells, "solved")


def answered(lesson: LessonSource, name: str, answer: Cell) -> str:
    """The text of an exercise cell with `answer` in place of the scaffold, check line included."""
    exercise = lesson.by_name[name]
    if exercise.check_line in exercise.scaffold.text and exercise.check_line not in answer.text:
        return f"{answer.text}\n\n{exercise.check_line}"
    return answer.text


def book(shelf: Shelf, name: str) -> str:
    """The answer book, as the text of its JSON file."""
    lesson = shelf.lessons[name]
    exercises = {
        exercise.name: {
            "title": exercise.title,
            "hints": list(exercise.hints),
            "solution": exercise.solution.text,
            "checks": exercise.checks.text,
        }
        for exercise in lesson.exercises
    }
    content = {"lesson": name, "title": lesson.card.title, "exercises": exercises}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def write(
    shelf: Shelf, names: list[str], solved_folder: Path | None = None, *, force: bool = False
) -> list[Built]:
    """Writes notebooks and answer books of these lessons; solved ones too, if a folder is given.

    Raises:
        UserError: a source has problems (all are named), or a notebook holds somebody's work and
            `force` is not set.
    """
    problems = [str(p) for name in names for p in shelf.lessons[name].problems]
    if problems:
        raise UserError("nothing was built; first repair\n" + "\n".join(problems))
    texts: list[tuple[str, Path, str]] = []
    for name in names:
        path = shelf.notebook_path(name)
        if not force and path.exists() and worked_in(path.read_text(encoding="utf-8")):
            raise UserError(
                f"nothing was built: notebooks/{path.name} was edited since it was built. Its "
                "source wins, so move the edits there (or copy the notebook elsewhere), then "
                "build with --force"
            )
        texts += [
            (name, path, student(shelf, name)),
            (name, shelf.book_path(name), book(shelf, name)),
        ]
        if solved_folder is not None:
            texts.append((name, solved_folder / path.name, solved(shelf, name)))
    return [_write(*what) for what in texts]


def worked_in(text: str) -> bool:
    """Whether a notebook's cells differ from what was built into it; outputs do not count."""
    try:
        notebook = json.loads(text)
        cells = [(c["cell_type"], joined(c["source"])) for c in notebook["cells"]]
    except (ValueError, KeyError, TypeError):
        return True  # not a notebook any more: surely not what was built
    built = notebook.get("metadata", {}).get("rlkit", {}).get("built")
    return built is not None and built != _fingerprint(cells)


def _write(name: str, path: Path, text: str) -> Built:
    changed = not path.exists() or path.read_text(encoding="utf-8") != text
    if changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.new")
        aside.write_text(text, encoding="utf-8", newline="\n")
        aside.replace(path)
    return Built(name, path, changed)


# -- the notebook --------------------------------------------------------------------------


def _notebook(
    shelf: Shelf, lesson: LessonSource, written: list[tuple[Cell, str]], version: str
) -> str:
    cells = [
        _cell(
            "markdown", frame.header(lesson, shelf.published, shelf.titles), "header", ["header"]
        ),
        _cell("code", frame.install(shelf.published), "install", ["header"]),
        _cell("code", frame.opener(lesson), "open", ["header", "setup"]),
    ]
    seen: Counter[str] = Counter()
    for cell, text in written:
        digest = hashlib.sha256(f"{cell.kind}\n{cell.text}".encode()).hexdigest()[:8]
        seen[digest] += 1
        again = "" if seen[digest] == 1 else f"-{seen[digest]}"
        tags = [tag for tag in cell.tags if tag in _KEPT_TAGS]
        identity = f"exercise-{cell.exercise}" if cell.role == "exercise" else f"{digest}{again}"
        cells.append(_cell(cell.kind, text, identity, tags, cell.exercise))
    cells.append(_cell("code", frame.STRIP, "strip", ["footer"]))
    for name, text in zip(("recap", "sources"), frame.footer(lesson, shelf.titles), strict=False):
        cells.append(_cell("markdown", text, name, ["footer"]))
    content = {
        "cells": cells,
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
            "rlkit": {
                "built": _fingerprint([(c["cell_type"], joined(c["source"])) for c in cells]),
                "version": version,
            },
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _cell(
    kind: str, text: str, identity: str, tags: list[str], exercise: str | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if tags:
        metadata["tags"] = tags
    if exercise is not None:
        metadata["rlkit"] = {"exercise": exercise}
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": identity.replace("_", "-")[:64],
        "metadata": metadata,
        "source": text.splitlines(keepends=True),
    }
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
        if _QUESTION.search(text):  # the right answers stand in it: shown on request only
            metadata |= {"cellView": "form", "jupyter": {"source_hidden": True}}
    return {key: cell[key] for key in sorted(cell)}


def _fingerprint(cells: list[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]


def joined(source: str | list[str]) -> str:
    """A cell's text; files hold it as one text or as a list of lines."""
    return source if isinstance(source, str) else "".join(source)
