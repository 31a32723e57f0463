"""The learner's progress over all lessons: to look at, to take along, to begin anew.

Left out on purpose: the file itself; see `store`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.lessons.book import AnswerBook, known_lessons
from rlkit.lessons.cards import inline_html
from rlkit.lessons.store import Data, Store, empty, write_json
from rlkit.lessons.strip import Part, parts_of


class Progress:
    """What is done of every lesson. Shown as a table.

    Attributes:
        lessons: parts by name of the lesson, in order.
        path: of the progress file.
        note: a sentence about a file that could not be read, or None.
    """

    def __init__(self, data: Data, path: Path, note: str | None) -> None:
        self._data, self.path, self.note = data, path, note
        self.lessons: dict[str, list[Part]] = {}
        self._titles: dict[str, str] = {}
        known = known_lessons()
        for name in [*known, *(n for n in sorted(data["lessons"]) if n not in known)]:
            saved = data["lessons"].get(name, {})
            titles = {exercise: exercise for exercise in saved.get("exercises", {})}
            self._titles[name] = name
            if name in known:
                book = AnswerBook.load(name)
                titles = {exercise: entry.title for exercise, entry in book.exercises.items()}
                self._titles[name] = f"{name} ({book.title})"
            self.lessons[name] = parts_of(titles, saved)

    def to_dict(self) -> Data:
        """The progress as plain data, as in the file."""
        return self._data

    def __str__(self) -> str:
        lines = [] if self.note is None else [f"Note: {self.note}"]
        for name, parts in self.lessons.items():
            lines.append(f"{self._titles[name]}: {_done(parts)} of {len(parts)} done")
            lines += [f"  {part}" for part in parts]
        return "\n".join(lines or ["There are no lessons here."])

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{inline_html(self._titles[name])}</th>'
            f'<td>{_done(parts)} of {len(parts)}</td><td style="text-align:left">'
            f"{'<br>'.join(inline_html(str(part)) for part in parts)}</td></tr>"
            for name, parts in self.lessons.items()
        )
        note = "" if self.note is None else f"<p><b>Note:</b> {inline_html(self.note)}</p>"
        html = (
            f"{note}<table><caption>Your progress</caption><thead><tr>"
            '<th scope="col">Lesson</th><th scope="col">Done</th><th scope="col">Parts</th>'
            f"</tr></thead><tbody>{rows}</tbody></table>"
        )
        return {"text/plain": str(self), "text/html": html}


def progress() -> Progress:
    """What you have done so far, lesson by lesson."""
    store = Store()
    data = store.read()
    return Progress(data, store.path, store.note)


def export_progress(path: str | os.PathLike[str]) -> Path:
    """Writes your progress to a file of your own, to keep it or to take it elsewhere.

    To bring it back, put the file into `RLKIT_HOME` (or `~/.rlkit`) as `progress.json`.

    Args:
        path: of the file, which is replaced when it is there; or of a folder.

    Returns:
        the path of what was written.

    Raises:
        UserError: it cannot be written there.
    """
    target = Path(path).expanduser()
    if target.is_dir():
        target = target / "progress.json"
    store = Store()
    if target.absolute() == store.path.absolute():
        raise UserError(f"{target} is the progress file itself; choose another path")
    try:
        write_json(target, store.read())
    except OSError as error:
        raise UserError(
            f"progress cannot be written to {target}: {error.strerror}; choose another path"
        ) from None
    return target


def reset_progress(lesson: str | None = None) -> str:
    """Forgets your progress in one lesson, or in all; the file as it was is kept beside it.

    Args:
        lesson: its name; None for all of them.

    Returns:
        a sentence that says what was forgotten and where the old file is.

    Raises:
        UserError: there is no progress in a lesson of this name.
    """
    store = Store()
    before = store.read()
    if lesson is not None and lesson not in before["lessons"]:
        begun = ", ".join(sorted(before["lessons"])) or "none"
        raise UserError(f"there is no progress in lesson {lesson!r}; begun are: {begun}")
    kept = ""
    if before["lessons"] and store.path.exists():
        copy = store.path.with_name("progress-before-reset.json")
        try:
            write_json(copy, before)
            kept = f" What was there is kept in {copy}."
        except OSError as error:
            raise UserError(
                f"nothing was reset: the old progress cannot be kept in {copy} ({error.strerror})"
            ) from None

    def forget(data: Data) -> None:
        if lesson is None:
            data.update(empty())
        else:
            data["lessons"].pop(lesson, None)

    store.update(forget)
    what = "all lessons" if lesson is None else f"lesson {lesson}"
    note = "" if store.note is None else f" Note: {store.note}."
    return f"Progress in {what} begins anew.{kept}{note}"


def _done(parts: list[Part]) -> int:
    return sum(part.state == "right" for part in parts)
