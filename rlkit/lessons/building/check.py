"""The lint of lessons: what a machine can see that a reader would stumble over.

`check` returns findings, one sentence each with file and place; an empty list is a clean lesson.
It reads and never runs anything: whether a solution passes its check is for `answers`, whether a
lesson runs is for `execute`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from rlkit.lessons.building import build, frame, reading
from rlkit.lessons.building.build import Shelf
from rlkit.lessons.building.frame import MOST_LINES
from rlkit.lessons.building.source import Finding, LessonSource, find_check

MOST_BYTES = 200_000
MOST_CELLS = 45
#: Widest line of a code cell, and of prose.
WIDEST = {"code": 76, "markdown": 100}
#: What JupyterLab and Colab leave in a notebook's metadata when a widget was on the screen.
_LEFTOVERS = ("widgets", "colab", "accelerator")
_ABSOLUTE = re.compile(
    r"(?<![\w.:/])/(?:home|root|work|tmp|Users|content|mnt|opt)/[\w.-]+|\b[A-Z]:\\\w"
)


def check(shelf: Shelf, name: str) -> list[Finding]:
    """Everything that is wrong with one lesson."""
    return list(_Check(shelf, name).findings())


def check_folder(shelf: Shelf) -> list[Finding]:
    """What is wrong with the folder: notebooks and answer books without a source."""
    known = set(shelf.lessons)
    stray = [
        *sorted((shelf.root / "notebooks").glob("*.ipynb")),
        *sorted((shelf.root / "rlkit" / "lessons" / "books").glob("*.json")),
    ]
    return [
        Finding(str(path.relative_to(shelf.root)), f"has no source notebooks/src/{path.stem}.py")
        for path in stray
        if path.stem not in known
    ]


def ease(shelf: Shelf, name: str) -> float | None:
    """Flesch's reading ease of a lesson's own prose, and of its card."""
    lesson = shelf.lessons[name]
    written = [c.text for c in lesson.cells if c.kind == "markdown" and c.role == "plain"]
    card = (lesson.card.promise, *lesson.card.objectives, *lesson.card.recap)
    return reading.reading_ease([*written, *card])


class _Check:
    def __init__(self, shelf: Shelf, name: str) -> None:
        self.shelf = shelf
        self.name = name
        self.lesson: LessonSource = shelf.lessons[name]
        self.path = shelf.notebook_path(name)
        self.file = f"notebooks/{name}.ipynb"

    def findings(self) -> Iterator[Finding]:
        yield from self.lesson.problems
        yield from self.source_findings()
        if not self.path.exists():
            yield Finding(self.file, "is missing; `rlkit lessons build` writes it")
            return
        try:
            self.cells = self.notebook["cells"]
        except (ValueError, KeyError, TypeError):
            yield Finding(self.file, "is no notebook; `rlkit lessons build` writes it anew")
            return
        if not self.lesson.problems:
            yield from self.drift()
        yield from self.leftovers()
        yield from self.sizes()
        yield from self.frame_findings()
        yield from self.heading_findings()
        yield from self.image_and_link_findings()
        yield from self.symbol_findings()

    @cached_property
    def notebook(self) -> dict[str, Any]:
        return json.loads(self.path.read_text(encoding="utf-8"))

    def at(self, number: int, text: str) -> Finding:
        return Finding(self.file, text, f"cell {number}")

    def numbered(self, kind: str) -> Iterator[tuple[int, str]]:
        for number, cell in enumerate(self.cells, start=1):
            if cell["cell_type"] == kind:
                yield number, build.joined(cell["source"])

    # -- the source ------------------------------------------------------------------------

    def source_findings(self) -> Iterator[Finding]:
        for cell in self.lesson.cells:
            for offset, line in enumerate(cell.text.splitlines(), start=1):
                place = f"line {cell.line + offset}"
                if match := _ABSOLUTE.search(line):
                    yield Finding(
                        self.lesson.file, f"holds a path of one machine, {match[0]!r}", place
                    )
                if len(line) > WIDEST[cell.kind] and cell.role in ("solution", "wrong", "checks"):
                    yield Finding(
                        self.lesson.file,
                        f"this line has {len(line)} characters, more than {WIDEST[cell.kind]}",
                        place,
                    )
            if cell.role == "solution" and len(cell.text.splitlines()) > MOST_LINES:
                yield Finding(
                    self.lesson.file,
                    f"this solution has more than {MOST_LINES} lines",
                    f"line {cell.line}",
                )
        following = self.lesson.card.next
        if following is not None and following not in self.shelf.lessons:
            yield Finding(
                self.lesson.file, f"its rlkit.next names no lesson: {following!r}", "line 1"
            )

    # -- built files -----------------------------------------------------------------------

    def drift(self) -> Iterator[Finding]:
        """Differences between what the source builds and what lies there, outputs aside."""
        wanted = json.loads(build.student(self.shelf, self.name))
        again = f"differs from {self.lesson.file}; `rlkit lessons build` brings them together"
        if build.worked_in(self.path.read_text(encoding="utf-8")):
            again = f"was edited by hand; move the edit to {self.lesson.file}, which wins"
        for number, (here, there) in enumerate(zip(self.cells, wanted["cells"], strict=False), 1):
            if _content(here) != _content(there):
                yield self.at(number, again)
                break
        else:
            if len(self.cells) != len(wanted["cells"]):
                yield Finding(
                    self.file,
                    f"has {len(self.cells)} cells, its source makes {len(wanted['cells'])}; "
                    "`rlkit lessons build` brings them together",
                )
            elif _frame_of(self.notebook) != _frame_of(wanted):
                yield Finding(self.file, "has other metadata than its source makes; build it again")
        book = self.shelf.book_path(self.name)
        if not book.exists():
            yield Finding(f"rlkit/lessons/books/{book.name}", "is missing; build the lesson")
        elif book.read_text(encoding="utf-8") != build.book(self.shelf, self.name):
            yield Finding(
                f"rlkit/lessons/books/{book.name}",
                f"differs from {self.lesson.file}; `rlkit lessons build` brings them together",
            )

    def leftovers(self) -> Iterator[Finding]:
        metadata = self.notebook.get("metadata", {})
        for key in _LEFTOVERS:
            if key in metadata:
                yield Finding(self.file, f"has leftover metadata.{key}; build it again")
        if metadata.get("kernelspec", {}).get("name") != "python3":
            yield Finding(self.file, "does not name the kernel python3, so JupyterLab would ask")
        for number, cell in enumerate(self.cells, start=1):
            if cell.get("outputs"):
                yield self.at(number, "has an output left in; build the lesson again")
            elif cell.get("execution_count") is not None:
                yield self.at(number, "has an execution count left in; build the lesson again")
            for key in sorted(set(cell.get("metadata", {})) & {*_LEFTOVERS, "execution"}):
                yield self.at(number, f"has leftover metadata.{key}; build the lesson again")

    def sizes(self) -> Iterator[Finding]:
        size = self.path.stat().st_size
        if size > MOST_BYTES:
            yield Finding(self.file, f"has {size:,} bytes, more than {MOST_BYTES:,}")
        if len(self.cells) > MOST_CELLS:
            yield Finding(self.file, f"has {len(self.cells)} cells, more than {MOST_CELLS}")
        for kind, widest in WIDEST.items():
            for number, text in self.numbered(kind):
                lines = text.splitlines()
                if len(lines) > MOST_LINES:
                    yield self.at(number, f"has {len(lines)} lines, more than {MOST_LINES}")
                for line in lines:
                    if len(line) > widest and not re.search(r"https?://\S{40}", line):
                        yield self.at(
                            number, f"has a line of {len(line)} characters, more than {widest}"
                        )

    # -- what a learner needs --------------------------------------------------------------

    def frame_findings(self) -> Iterator[Finding]:
        """The header's and the footer's parts, looked for in the notebook as it lies there."""
        first = build.joined(self.cells[0]["source"]) if self.cells else ""
        for what, pattern in (
            ("objectives", r"\*\*You will be able to\*\*\n\n\* \S"),
            ("needs", r"\*\*You need\*\*\n\n\* \S"),
            ("minutes", r"\d minute"),
            ("memory", r"memory:\s+\d"),
            ("mode badge", r"\*\*fast\*\*: \d[\s\S]*\*\*full\*\*: \d"),
        ):
            if not re.search(pattern, first):
                yield self.at(1, f"has no {what} in the header")
        prose = "\n".join(text for _, text in self.numbered("markdown"))
        for what, pattern in (
            ("recap", r"^## What you have seen\n\n\* \S"),
            ("way on", r"^\*\*Next:\*\* \S"),
            ("sources", r"^## Sources\n\n\* \S"),
        ):
            if not re.search(pattern, prose, re.MULTILINE):
                yield Finding(self.file, f"has no {what} in the footer")
        code = [text for _, text in self.numbered("code")]
        wanted = [frame.install(self.shelf.published), frame.opener(self.lesson)]
        if code[:2] != wanted:
            yield Finding(self.file, "does not begin with the cells that install rlkit and open it")
        for number, text in self.numbered("code"):
            for exercise in self.lesson.exercises:
                if find_check(text, exercise.name) and exercise.solution.text in text:
                    yield self.at(number, f"gives the solution of {exercise.name!r} away")

    def heading_findings(self) -> Iterator[Finding]:
        found = reading.headings(self.numbered("markdown"))
        titles = [h for h in found if h.level == 1]
        if len(titles) != 1 or titles[0].cell != 1 or found[0].level != 1:
            places = ", ".join(f"cell {h.cell}" for h in titles) or "nowhere"
            yield Finding(
                self.file, f"needs exactly one H1, first of all in cell 1; it has: {places}"
            )
        for before, after in itertools.pairwise(found):
            if after.level > before.level + 1:
                yield self.at(
                    after.cell,
                    f"the heading {after.text!r} is an H{after.level} right under an "
                    f"H{before.level}; a level is left out",
                )

    def image_and_link_findings(self) -> Iterator[Finding]:
        for kind in ("markdown", "code"):
            for number, text in self.numbered(kind):
                for image in reading.images_without_words(text):
                    yield self.at(number, f"has an image without alt text: {image}")
        every = "\n".join(text for _, text in self.numbered("markdown"))
        for number, text in self.numbered("markdown"):
            for target in reading.links(text):
                if re.match(r"[a-z][a-z0-9+.-]*:", target):
                    continue
                sentence = self.dead(target, every)
                if sentence is not None:
                    yield self.at(number, f"has a dead link: {sentence}")

    def dead(self, target: str, here: str) -> str | None:
        """Why a link within the repository leads nowhere, or `None`."""
        place, _, anchor = target.partition("#")
        place = place.partition("?")[0]
        file = (self.path.parent / place).resolve() if place else self.path
        if not file.is_relative_to(self.shelf.root.resolve()):
            return f"{target} leads out of the repository"
        if not file.exists():
            return f"{target} does not exist"
        if not anchor:
            return None
        if place:
            here = _markdown_of(file)
        if anchor not in reading.anchors(here):
            return f"{target} names no heading of {place or 'this lesson'}"
        return None

    def symbol_findings(self) -> Iterator[Finding]:
        path = self.shelf.root / "docs" / "glossary.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        known = reading.glossary_symbols(text)
        told = set()
        for number, markdown in self.numbered("markdown"):
            for formula in reading.formulas(markdown):
                for symbol in reading.unexplained(formula, known):
                    if symbol not in told:
                        told.add(symbol)
                        yield self.at(number, f"uses ${symbol}$, which docs/glossary.md lacks")


def _content(cell: dict[str, Any]) -> tuple[Any, ...]:
    kept = {k: v for k, v in cell.get("metadata", {}).items() if k in ("tags", "rlkit")}
    return cell["cell_type"], build.joined(cell["source"]), kept, cell.get("id")


def _frame_of(notebook: dict[str, Any]) -> tuple[Any, ...]:
    metadata = notebook.get("metadata", {})
    return metadata.get("rlkit"), notebook.get("nbformat"), notebook.get("nbformat_minor")


def _markdown_of(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n".join(build.joined(c["source"]) for c in cells if c["cell_type"] == "markdown")
