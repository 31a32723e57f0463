"""The learner's progress: one small JSON file, safe for two kernels and for a broken disk.

It lies in `RLKIT_HOME`, or `.rlkit` in the home folder, as `progress.json`. A change takes
a lock, reads the file, changes it, writes it aside and renames it, so that two notebooks
never lose each other's work and nobody sees half a file. A file that cannot be read is set
aside and kept. Where nothing can be written, progress lasts as long as the kernel, and a
sentence says so.

    {"version": 1, "lessons": {NAME: {
        "exercises": {ID: {"state", "right", "attempts", "hints", "solution_seen"}},
        "predictions": {NAME: {"guess", "truth", "score"}},
        "quizzes": {NAME: {"answers": {"1": "b"}, "right", "of"}}}}}

Left out on purpose: names, times, and anything the learner wrote.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlkit.home import home

VERSION = 1
Data = dict[str, Any]


def empty() -> Data:
    """The progress of somebody who has not begun."""
    return {"version": VERSION, "lessons": {}}


def of_lesson(data: Data, lesson: str) -> Data:
    """The part of one lesson, made when it is not there."""
    found = data["lessons"].setdefault(lesson, {})
    for name in ("exercises", "predictions", "quizzes"):
        found.setdefault(name, {})
    return found


class Store:
    """Reads and changes the progress file.

    Attributes:
        path: of the file.
        note: a sentence about what went wrong last, or None.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (home() if folder is None else folder) / "progress.json"
        self.note: str | None = None
        self._memory: Data | None = None  # in place of a file that cannot be written

    def read(self) -> Data:
        """The progress so far; of nobody's when there is no file."""
        if self._memory is not None:
            return json.loads(json.dumps(self._memory))
        return self._load(set_aside=False)

    def update(self, change: Callable[[Data], None]) -> Data:
        """Changes the progress under a lock and writes it; returns what is now known.

        Args:
            change: gets the progress and changes it in place.
        """
        self.note = None
        if self._memory is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with _locked(self.path.with_suffix(".lock")):
                    data = self._load(set_aside=True)
                    change(data)
                    write_json(self.path, data)
                return data
            except OSError as error:
                self._memory = self._load(set_aside=False)
                reason = error.strerror or type(error).__name__
            except NewerFile as error:
                self._memory, reason = empty(), str(error)
            self.note = (
                f"progress cannot be saved in {self.path.parent} ({reason}), so it lasts until "
                "this kernel ends; set RLKIT_HOME to another folder to keep it"
            )
        change(self._memory)
        return json.loads(json.dumps(self._memory))

    def _load(self, set_aside: bool) -> Data:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            problem = _problem(data)
        except (FileNotFoundError, NotADirectoryError):
            return empty()
        except (UnicodeDecodeError, ValueError, RecursionError):
            data, problem = None, "it is not JSON"
        except OSError as error:
            if set_aside:
                raise
            self.note = f"{self.path} cannot be read: {error.strerror}"
            return empty()
        if not problem:
            return data
        if data is not None and _is_newer(data):
            if set_aside:
                raise NewerFile(problem)
            self.note = f"{self.path}: {problem}"
            return empty()
        self.note = f"{self.path} could not be read ({problem})"
        if set_aside:
            kept = _free_name(self.path)
            os.replace(self.path, kept)
            self.note += f"; it is kept as {kept.name}, and progress begins anew"
        return empty()


class NewerFile(Exception):
    """The file was written by a newer rlkit, and is left alone."""


def write_json(path: Path, data: Data) -> None:
    """Writes a JSON file aside and renames it, so that nobody ever sees half of it."""
    text = json.dumps(data, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    handle, aside = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise


def _problem(data: Any) -> str:
    """Why this is not a progress file; empty when it is one."""
    if not isinstance(data, dict) or not isinstance(data.get("version"), int):
        return "it has no version"
    if _is_newer(data):
        return f"it was written by a newer rlkit (version {data['version']}); update rlkit"
    lessons = data.get("lessons")
    if not isinstance(lessons, dict):
        return "it has no lessons"
    for lesson in lessons.values():
        if not isinstance(lesson, dict):
            return "a lesson in it is not a table"
        for name in ("exercises", "predictions", "quizzes"):
            part = lesson.get(name, {})
            if not isinstance(part, dict) or not all(isinstance(v, dict) for v in part.values()):
                return f"the {name} of a lesson in it are not a table"
            for saved in part.values():
                wrong = [key for key, value in saved.items() if not _fits(key, value)]
                if wrong:
                    return f"{wrong[0]} of {name} in it is not what it should be"
    return ""


def _fits(key: str, value: Any) -> bool:
    """Whether a saved value is of the kind that its name stands for."""
    if key in ("attempts", "hints", "of"):
        return type(value) is int and value >= 0
    if key in ("guess", "truth", "score"):
        return value is None or type(value) in (int, float)
    return type(value) is dict if key == "answers" else type(value) in (str, bool, int)


def _is_newer(data: Any) -> bool:
    version = data.get("version") if isinstance(data, dict) else None
    return isinstance(version, int) and version > VERSION


def _free_name(path: Path) -> Path:
    number = 1
    while (kept := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    return kept


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock that other processes and threads wait for; it ends with the process."""
    with open(path, "a+b") as file:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            try:
                yield
            finally:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
