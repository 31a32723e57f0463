"""The lanes of every lesson, the network cut off: solved, student's, and every answer tried.

Each lesson is built from its source, run in its fast length in a kernel of its own, and looked
at: what it printed, what it showed, what its exercises said. What only lesson 00 promises is
in `test_lesson_00.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlkit.lessons.building.answers import try_answers
from rlkit.lessons.building.build import Shelf, joined
from rlkit.lessons.building.check import check, check_folder
from rlkit.lessons.building.lanes import run_lesson
from rlkit.lessons.building.source import lesson_names

ROOT = Path(__file__).resolve().parents[2]
SHELF = Shelf(ROOT)
LESSONS = lesson_names(ROOT)
PLOTLY = "application/vnd.plotly.v1+json"

every_lesson = pytest.mark.parametrize("name", LESSONS)
pytestmark = pytest.mark.timeout(900)


def test_there_are_lessons_and_no_stray_files():
    assert "00_start_here" in LESSONS
    assert check_folder(SHELF) == []


@every_lesson
def test_a_lesson_passes_the_lint(name):
    assert [str(finding) for finding in check(SHELF, name)] == []


@every_lesson
def test_every_scaffold_solution_and_wrong_answer_is_told_for_what_it_is(name):
    tried, findings = try_answers(SHELF, name)
    assert [str(finding) for finding in findings] == []
    roles = [one.role for one in tried]
    exercises = SHELF.lessons[name].exercises
    assert len(exercises) >= 3
    assert roles.count("exercise") == roles.count("solution") == len(exercises)
    assert roles.count("wrong") >= len(exercises)


@every_lesson
def test_the_students_version_runs_to_its_end_and_says_todo(name):
    ran = run_lesson(SHELF, name, version="student")
    assert [str(finding) for finding in ran.findings] == []
    assert set(ran.exercises.values()) == {"TODO"}


@every_lesson
def test_the_solved_version_runs_clean(name, solved):
    ran = solved(name)
    assert [str(finding) for finding in ran.findings] == []
    assert set(ran.exercises.values()) == {"RIGHT"}
    # No more memory than the header says.
    assert ran.peak_memory_mb <= SHELF.lessons[name].card.memory_mb


def outputs(ran):
    """(number of the cell, output) of everything that a run printed or showed."""
    for number, cell in enumerate(ran.execution.notebook["cells"], start=1):
        for output in cell.get("outputs", ()):
            yield number, output


@every_lesson
def test_a_run_shows_no_warning_and_no_dead_widget(name, solved):
    shown = list(outputs(solved(name)))
    assert [(n, joined(o["text"])) for n, o in shown if o.get("name") == "stderr"] == []
    assert [n for n, o in shown if "widget-view" in str(list(o.get("data", {})))] == []


@every_lesson
def test_every_figure_has_a_caption_a_description_and_its_data(name, solved):
    shown = [output for _, output in outputs(solved(name))]
    for i, output in enumerate(shown):
        if PLOTLY not in output.get("data", {}):
            continue
        layout = output["data"][PLOTLY]["layout"]
        for axis in [key for key in layout if re.fullmatch(r"[xy]axis\d*", key)]:
            assert layout[axis].get("title", {}).get("text"), f"{axis} of figure {i} has no title"
        notes = joined(shown[i + 1]["data"]["text/html"])
        caption, description = re.findall(r"<p>([^<]+)</p>", notes)[:2]
        assert len(caption) > 40
        assert len(description) > 40
        assert notes.count("<tr>") > 3
