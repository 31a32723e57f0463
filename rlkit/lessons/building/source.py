"""The source of a lesson: `notebooks/src/NN_title.py`, read into a card and cells.

The file is jupytext's percent format. Its YAML header carries a block `rlkit` (the `Card`: title,
promise, minutes and so on), its cells carry tags that say who sees them:

| tag | student's notebook | solved notebook | answer book |
|---|---|---|---|
| none, `setup` | yes | yes | |
| `exercise` | yes | the solution instead | |
| `solution` | | instead of the exercise | yes |
| `checks` | | | yes |
| `wrong` | | | |

`exercise="ID"` beside the tag says which exercise a cell belongs to, `says="..."` on a wrong
answer what the check must answer. Reading never raises for what an author forgot: it is
collected in `LessonSource.problems`, one sentence each, so that all of it is told at once.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rlkit.errors import UserError
from rlkit.lessons.building.card import HEADER, Card, read_card

#: Tags that take a cell out of the student's notebook, or replace it in the solved one.
EXERCISE_TAGS = ("exercise", "solution", "checks", "wrong")
#: Tags of the cells that `frame` writes; an author may not use them.
GENERATED_TAGS = ("header", "footer")
_NAME = re.compile(r"\d\d_[a-z0-9_]+")
_MARKER = re.compile(r"^# %%", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a lesson: where, and a sentence.

    >>> print(Finding("notebooks/00_x.ipynb", "has an output", "cell 3"))
    notebooks/00_x.ipynb, cell 3: has an output
    """

    file: str
    text: str
    place: str = ""

    def __str__(self) -> str:
        return (
            f"{self.file}, {self.place}: {self.text}" if self.place else f"{self.file}: {self.text}"
        )


@dataclass(frozen=True)
class Cell:
    """One cell of a source: `kind` is `code` or `markdown`, `line` where it begins in the file."""

    kind: str
    text: str
    line: int
    tags: tuple[str, ...] = ()
    exercise: str | None = None
    says: str | None = None

    @property
    def role(self) -> str:
        """`exercise`, `solution`, `checks`, `wrong`, or `plain`."""
        return next((tag for tag in self.tags if tag in EXERCISE_TAGS), "plain")


@dataclass(frozen=True)
class ExerciseCells:
    """The cells of one exercise, brought together by its ID.

    Attributes:
        title, hints: read from the `Exercise(...)` call of the checks cell, without running it.
        check_line: the statement `lesson.check("ID", ...)`, as the learner has it.
        answer: the expression that this statement hands over, as text; empty when it gives none.
    """

    name: str
    scaffold: Cell
    solution: Cell
    checks: Cell
    wrongs: tuple[Cell, ...]
    title: str
    hints: tuple[str, ...]
    check_line: str
    answer: str


@dataclass
class LessonSource:
    """A lesson as its author wrote it.

    Attributes:
        name: `NN_title`, the name of all of its files.
        card: what its header promises.
        cells: every cell of the file, in order.
        exercises: the complete ones, in the order of the lesson.
        problems: what is missing or wrong; empty when the lesson can be built.
    """

    name: str
    path: Path
    card: Card = field(default_factory=Card)
    cells: list[Cell] = field(default_factory=list)
    exercises: list[ExerciseCells] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)

    @property
    def file(self) -> str:
        """The source as it is named in sentences, from the repository's root."""
        return f"notebooks/src/{self.path.name}"

    @cached_property
    def by_name(self) -> dict[str, ExerciseCells]:
        return {exercise.name: exercise for exercise in self.exercises}

    def complain(self, text: str, line: int | None = None) -> None:
        self.problems.append(Finding(self.file, text, "" if line is None else f"line {line}"))


def find_root(start: Path | None = None) -> Path:
    """The folder that holds `notebooks/src`: here, above here, or where rlkit is installed from.

    Raises:
        UserError: there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[3]):
        if (folder / "notebooks" / "src").is_dir():
            return folder
    raise UserError(
        f"no folder notebooks/src in or above {here}; lessons are built and run in a clone of the "
        "repository: go there, or give --root"
    )


def lesson_names(root: Path) -> list[str]:
    """Names of all lessons that have a source, in order."""
    return sorted(path.stem for path in (root / "notebooks" / "src").glob("*.py"))


def choose(root: Path, names: list[str] | None) -> list[str]:
    """The lessons that are meant: all of them, or those named; `02` or a path is enough.

    Raises:
        UserError: a name fits no lesson.
    """
    known = lesson_names(root)
    if not names:
        return known
    chosen = []
    for name in names:
        stem = Path(name).stem
        fitting = [k for k in known if k == stem or k.split("_")[0] == stem]
        if not fitting:
            raise UserError(f"no lesson {name!r}; there are: {', '.join(known) or 'none'}")
        chosen += fitting
    return sorted(set(chosen))


def read_lesson(root: Path, name: str) -> LessonSource:
    """Reads the source of one lesson; what is wrong with it stands in `problems`.

    Raises:
        UserError: the file is missing, or jupytext is not installed.
    """
    path = root / "notebooks" / "src" / f"{name}.py"
    if not path.exists():
        raise UserError(f"no source {path.name} in notebooks/src")
    lesson = LessonSource(name, path)
    if not _NAME.fullmatch(name):
        lesson.complain("a source is named NN_title.py: two digits, then small letters")
    text = path.read_text(encoding="utf-8")
    lesson.card = read_card(text, lesson.complain)
    lesson.cells = _read_cells(lesson, text)
    lesson.exercises = _pair(lesson)
    return lesson


# -- the cells -----------------------------------------------------------------------------


def _read_cells(lesson: LessonSource, text: str) -> list[Cell]:
    try:
        import jupytext
    except ImportError as error:
        raise UserError('lessons are read by jupytext: pip install "rlkit[lab]"') from error
    lines = [text.count("\n", 0, m.start()) + 1 for m in _MARKER.finditer(text)]
    # Without the header, which is read by itself, and told if it is no YAML.
    body = HEADER.sub("", text, count=1).lstrip("\n")
    read = jupytext.reads(body, fmt="py:percent").cells
    if len(read) != len(lines):
        lesson.complain(
            f"has {len(lines)} cell markers and {len(read)} cells: begin each cell with `# %%`, "
            "and write no code before the first"
        )
        lines += [0] * len(read)
    cells = []
    for node, line in zip(read, lines, strict=False):
        tags = tuple(node.metadata.get("tags", ()))
        cell = Cell(
            kind=node.cell_type,
            text=node.source.rstrip(),
            line=line,
            tags=tags,
            exercise=node.metadata.get("exercise"),
            says=node.metadata.get("says"),
        )
        _check_cell(lesson, cell)
        cells.append(cell)
    return cells


def _check_cell(lesson: LessonSource, cell: Cell) -> None:
    for tag in set(cell.tags) & set(GENERATED_TAGS):
        lesson.complain(f"the tag {tag!r} belongs to cells that the build writes", cell.line)
    if cell.role == "plain":
        if cell.exercise is not None:
            lesson.complain(
                f'exercise="{cell.exercise}" stands on a cell without one of the tags '
                f"{', '.join(EXERCISE_TAGS)}",
                cell.line,
            )
    elif not isinstance(cell.exercise, str):
        lesson.complain(f'a cell tagged {cell.role!r} needs exercise="ID"', cell.line)
    elif cell.kind != "code":
        lesson.complain(f"a cell tagged {cell.role!r} must be a code cell", cell.line)
    if cell.role == "wrong" and not (isinstance(cell.says, str) and cell.says.strip()):
        lesson.complain('a wrong answer needs says="what the check must answer"', cell.line)
    if cell.kind == "code":
        try:
            ast.parse(cell.text)
        except SyntaxError as error:
            lesson.complain(f"this code cell is no Python: {error.msg}", cell.line)


def find_check(text: str, name: str) -> tuple[str, str] | None:
    """The statement `lesson.check("name", answer)` in a cell, and the text of `answer`.

    The answer is empty in `lesson.check("name")`, which finds it by its name.

    >>> find_check('x = 1\\nlesson.check("a", x)', "a")
    ('lesson.check("a", x)', 'x')
    """
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None  # told by _check_cell
    for statement in body:
        for node in ast.walk(statement):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) == "lesson.check"
                and len(node.args) in (1, 2)
                and isinstance(node.args[0], ast.Constant)
                and node.args[0].value == name
            ):
                answer = "" if len(node.args) == 1 else ast.unparse(node.args[1])
                return ast.get_source_segment(text, statement) or "", answer
    return None


def _pair(lesson: LessonSource) -> list[ExerciseCells]:
    groups: dict[str, dict[str, list[Cell]]] = {}
    for cell in lesson.cells:
        if cell.role != "plain" and isinstance(cell.exercise, str):
            groups.setdefault(cell.exercise, {}).setdefault(cell.role, []).append(cell)
    exercises = []
    for name, found in groups.items():
        whole = True
        for role in ("exercise", "solution", "checks"):
            count = len(found.get(role, ()))
            if count != 1:
                number = "no" if count == 0 else count
                lesson.complain(f"exercise {name!r} has {number} {role!r} cell, it needs one")
                whole = False
        if "wrong" not in found:
            lesson.complain(f"exercise {name!r} has no 'wrong' cell, it needs at least one")
        if whole:
            exercises.append(_join(lesson, name, found))
    return exercises


def _join(lesson: LessonSource, name: str, found: dict[str, list[Cell]]) -> ExerciseCells:
    (scaffold,), (solution,), (checks,) = (found[r] for r in ("exercise", "solution", "checks"))
    if "TODO" not in scaffold.text or "..." not in scaffold.text:
        lesson.complain(
            f"the scaffold of {name!r} must say TODO and leave `...` in its place", scaffold.line
        )
    seen = [cell for cell in lesson.cells if cell.role in ("plain", "exercise")]
    calls = [call for cell in seen if cell.kind == "code" and (call := find_check(cell.text, name))]
    if len(calls) != 1:
        lesson.complain(
            f"exercise {name!r} is checked {len(calls)} times, it needs one "
            f'`lesson.check("{name}", answer)`, best as the last line of its scaffold',
            scaffold.line,
        )
    title, hints = _read_exercise_call(lesson, name, checks)
    line, answer = calls[0] if calls else ("", "")
    return ExerciseCells(
        name, scaffold, solution, checks, tuple(found.get("wrong", ())), title, hints, line, answer
    )


def _read_exercise_call(
    lesson: LessonSource, name: str, checks: Cell
) -> tuple[str, tuple[str, ...]]:
    """Title and hints out of `EXERCISE = Exercise("ID", title=..., hints=(...))`."""
    wanted = f'`EXERCISE = Exercise("{name}", title="...", hints=("...", "...", "..."), ...)`'
    try:
        body = ast.parse(checks.text).body
    except SyntaxError:
        return "", ()  # told by _check_cell
    for statement in body:
        if not (
            isinstance(statement, ast.Assign)
            and ast.unparse(statement.targets[0]) == "EXERCISE"
            and isinstance(statement.value, ast.Call)
        ):
            continue
        call = statement.value
        given = {k.arg: k.value for k in call.keywords}
        try:
            identity = ast.literal_eval(call.args[0])
            title, hints = (ast.literal_eval(given[key]) for key in ("title", "hints"))
        except (IndexError, KeyError, ValueError):
            break
        if identity != name or not isinstance(title, str) or len(hints) != 3:
            break
        return title, tuple(hints)
    lesson.complain(f"the checks of {name!r} must hold {wanted}, texts written out", checks.line)
    return "", ()
