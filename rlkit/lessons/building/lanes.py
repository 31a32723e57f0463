"""The two lanes that run a whole lesson: the solved one, and the student's as it is handed out.

Solved, every exercise must come out RIGHT; the student's must run from top to bottom all the same,
with every exercise told as TODO. What `check` said is read from the cells' own outputs, as a
learner would see it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rlkit.errors import UserError
from rlkit.lessons.building import build
from rlkit.lessons.building.build import Shelf
from rlkit.lessons.building.execute import Cut, Execution, execute, text_of
from rlkit.lessons.building.source import Finding

_STATES = {"solved": "RIGHT", "student": "TODO"}


@dataclass(frozen=True)
class LessonRun:
    """One lesson, run once: what `rlkit lessons run` says of it.

    Attributes:
        exercises: what the learner sees for each, by ID: `TODO`, `WRONG`, `RIGHT`, or `nothing`.
        findings: what should not be so; empty when all is well.
        peak_memory_mb: the most that one of its processes took.
    """

    lesson: str
    version: str
    mode: str
    seconds: float
    slowest_cell: int | None
    slowest_seconds: float | None
    peak_memory_mb: float | None
    network: Cut
    exercises: dict[str, str]
    findings: list[Finding]
    execution: Execution

    @property
    def ok(self) -> bool:
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        found = {k: v for k, v in self.__dict__.items() if k not in ("execution", "findings")}
        return {**found, "ok": self.ok, "findings": [asdict(f) for f in self.findings]}

    def sentence(self) -> str:
        memory = "unknown" if self.peak_memory_mb is None else f"{self.peak_memory_mb:.0f} MB"
        told = f"{self.seconds:.1f} s, at most {memory}"
        if self.exercises:
            states = sorted(set(self.exercises.values()))
            told += f", {len(self.exercises)} exercises {' and '.join(states)}"
        return "\n".join([told, *(f"  {finding}" for finding in self.findings)])


def run_lesson(
    shelf: Shelf,
    name: str,
    *,
    version: Literal["solved", "student"] | str = "solved",
    mode: str = "fast",
    cut: Cut | None = None,
    out: Path | None = None,
    tail: str = "",
) -> LessonRun:
    """Builds one version of a lesson in memory and runs it.

    Args:
        version: `solved` or `student`.
        mode: `fast` or `full`.
        cut: how to cut the network off; the best way that there is when None.
        out: folder to keep the executed notebook in.
        tail: code of one more cell at the end, for somebody who wants numbers out of it.

    Raises:
        UserError: the source has problems, or the kernel could not be started.
    """
    lesson = shelf.lessons[name]
    if lesson.problems:
        raise UserError("\n".join(str(problem) for problem in lesson.problems))
    text = build.solved(shelf, name) if version == "solved" else build.student(shelf, name)
    if tail:
        text = _with_tail(text, tail)
    books = {"RLKIT_BOOKS": str(shelf.book_path(name).parent)}
    ran = execute(text, mode=mode, cut=cut, environment=books)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        file = out / f"{name}.ipynb"
        file.write_text(json.dumps(ran.notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
    place = f"{name} ({version})"
    findings = [Finding(place, f.error, f"cell {f.cell}") for f in ran.failures]
    exercises = {} if ran.failures else _states(ran)
    for exercise in lesson.exercises if not ran.failures else ():
        said = exercises.setdefault(exercise.name, "nothing")
        if said != _STATES[version]:
            findings.append(
                Finding(place, f"exercise {exercise.name!r} says {said}, not {_STATES[version]}")
            )
    number, seconds = ran.slowest or (None, None)
    return LessonRun(
        lesson=name,
        version=version,
        mode=mode,
        seconds=ran.seconds,
        slowest_cell=number,
        slowest_seconds=seconds,
        peak_memory_mb=ran.peak_memory_mb,
        network=ran.network,
        exercises=exercises,
        findings=findings,
        execution=ran,
    )


def _with_tail(text: str, code: str) -> str:
    notebook = json.loads(text)
    cell = {"cell_type": "code", "execution_count": None, "id": "tail", "metadata": {}}
    notebook["cells"].append({**cell, "outputs": [], "source": code})
    return json.dumps(notebook)


def _states(ran: Execution) -> dict[str, str]:
    """What every cell that checks an exercise shows, by the first word of its card."""
    words = {"TODO": "TODO", "Not yet": "WRONG", "Right": "RIGHT"}
    found = {}
    for cell in ran.notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = build.joined(cell["source"])
        for name in re.findall(r"\blesson\.check\(\s*[\"']([^\"']+)[\"']", source):
            state = re.search(r"\b(TODO|Not yet|Right):", text_of(cell))
            found[name] = words[state[1]] if state else "nothing"
    return found
