"""Building: who sees which cell, the same bytes each time, and nobody's work overwritten."""

from __future__ import annotations

import ast
import json
import re

import nbformat
import pytest

from rlkit.errors import UserError
from rlkit.lessons.building import build
from rlkit.lessons.building.build import Shelf, write
from rlkit.lessons.building.published import Published, write_published

NAME = "05_doubling"


def cells(text: str) -> list[str]:
    return [cell.source for cell in nbformat.reads(text, as_version=4).cells]


def test_each_version_holds_the_cells_that_are_meant_for_it(clone):
    shelf = Shelf(clone)
    student, solved = build.student(shelf, NAME), build.solved(shelf, NAME)
    book = json.loads(build.book(shelf, NAME))
    for text in (student, solved):
        assert "x**FACTOR" not in text  # the wrong answer
        assert "EXERCISE" not in text
        nbformat.validate(nbformat.reads(text, as_version=4))
    assert "return FACTOR * x" not in student
    assert 'return ...  # TODO\n\n\nlesson.check("double", double)' in "\n".join(cells(student))
    # The solution takes the scaffold's place, and is checked by the scaffold's own line.
    assert 'def double(x):\n    return FACTOR * x\n\nlesson.check("double", double)' in cells(
        solved
    )
    assert len(cells(student)) == len(cells(solved))
    assert book["title"] == "Twice: a lesson in small"
    assert book["exercises"]["double"]["hints"][2] == "`2 * x`"
    assert book["exercises"]["double"]["solution"] == "def double(x):\n    return FACTOR * x"
    assert "EXERCISE = Exercise(" in book["exercises"]["double"]["checks"]


def test_the_frame_is_made_from_the_card(clone):
    written = cells(build.student(Shelf(clone), NAME))
    head, install, opener = written[:3]
    assert head.startswith("# Twice: a lesson in small\n\n**You will double a number.**")
    assert "**fast**: 0.1 minutes" in head
    assert "memory: 2.0 GB" in head
    assert "1 exercise that checks itself" in " ".join(head.split())
    assert "* to read Python" in head
    assert "* double a number" in head
    assert 'find_spec("rlkit") is None' in install
    assert install.endswith("rlkit.doctor()")
    assert 'lesson = lessons.open("05_doubling")' in opener
    assert written[-2] == "lesson.strip()"
    assert "## What you have seen\n\n* Twice 2 is 4" in written[-1]
    assert "## Sources\n\n* The example is our own." in written[-1]


def test_the_same_source_gives_the_same_bytes_and_other_cells_keep_their_ids(clone, edit_source):
    first = build.student(Shelf(clone), NAME)
    assert build.student(Shelf(clone), NAME) == first
    edit_source("# That was it.", "# That was it, at last.")
    second = build.student(Shelf(clone), NAME)
    before, after = (
        {c.source: c.id for c in nbformat.reads(text, as_version=4).cells}
        for text in (first, second)
    )
    assert len(set(before.values())) == len(before)
    same = set(before) & set(after)
    assert len(same) == len(before) - 1
    assert all(before[source] == after[source] for source in same)


def test_two_equal_cells_have_two_ids(clone, edit_source):
    edit_source('print("the end")\n', 'print("the end")\n\n# %%\nprint("the end")\n')
    notebook = nbformat.reads(build.student(Shelf(clone), NAME), as_version=4)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)


def test_a_second_build_writes_nothing(clone):
    assert [one.changed for one in write(Shelf(clone), [NAME])] == [False, False]


def test_the_solved_notebook_is_written_where_it_is_asked_for(clone, tmp_path):
    write(Shelf(clone), [NAME], tmp_path / "solved")
    assert "FACTOR * x" in (tmp_path / "solved" / f"{NAME}.ipynb").read_text()


def answer(notebook: dict) -> None:
    (cell,) = (c for c in notebook["cells"] if c["id"] == "exercise-double")
    cell["source"] = "def double(x):\n    return x + x"
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "mine"}]


def test_a_learners_answer_is_not_overwritten_unasked(clone, edit_notebook):
    edit_notebook(answer)
    with pytest.raises(UserError, match="was edited since it was built"):
        write(Shelf(clone), [NAME])
    assert "x + x" in (clone / "notebooks" / f"{NAME}.ipynb").read_text()
    write(Shelf(clone), [NAME], force=True)
    assert "x + x" not in (clone / "notebooks" / f"{NAME}.ipynb").read_text()


def test_outputs_alone_and_an_older_build_are_overwritten(
    clone, edit_notebook, edit_source, findings
):
    def run(notebook: dict) -> None:
        notebook["cells"][1]["execution_count"] = 7

    edit_notebook(run)
    edit_source("# That was it.", "# That was it, at last.")
    write(Shelf(clone), [NAME])
    assert findings() == []


def test_nothing_is_built_from_a_source_with_a_problem(clone, edit_source):
    before = (clone / "notebooks" / f"{NAME}.ipynb").read_bytes()
    edit_source("#     memory_mb: 2000\n", "")
    with pytest.raises(UserError, match=r"first repair\n.*lacks rlkit.memory_mb"):
        write(Shelf(clone), [NAME])
    assert (clone / "notebooks" / f"{NAME}.ipynb").read_bytes() == before


def test_needs_and_next_lead_to_lessons_that_are_there(clone, edit_source):
    edit_source("[to read Python]", "[lesson 06 and lesson 77]")
    other = (clone / "notebooks" / "src" / f"{NAME}.py").read_text()
    (clone / "notebooks" / "src" / "06_tripling.py").write_text(
        other.replace("Twice: a lesson", "Thrice: a lesson")
    )
    written = cells(build.student(Shelf(clone), NAME))
    assert "* [lesson 06](06_tripling.ipynb) and lesson 77" in written[0]
    assert "**Next:** [Thrice: a lesson in small](06_tripling.ipynb)" in written[-1]
    assert "**Next:** This is the last" in cells(build.student(Shelf(clone), "06_tripling"))[-1]


# -- badges --------------------------------------------------------------------------------


def test_the_answers_of_a_quiz_are_not_shown_unasked(clone):
    quiz = '# %%\nq = lessons.Question("?", [("a", "")], right="a")\n\n# %%\nprint("no quiz")\n'
    source = clone / "notebooks" / "src" / f"{NAME}.py"
    source.write_text(f"{source.read_text().rstrip()}\n\n{quiz}")
    cells = json.loads(build.student(Shelf(clone), NAME))["cells"]
    hidden = ["Question(" in "".join(c["source"]) for c in cells if "jupyter" in c["metadata"]]
    open_ones = [c for c in cells if "jupyter" not in c["metadata"]]
    assert hidden and all(hidden)
    assert not any(" = Question(" in "".join(c["source"]) for c in open_ones)


def test_badges_are_there_only_with_a_stamp(clone):
    plain = cells(build.student(Shelf(clone), NAME))
    assert "badge" not in "".join(plain[0])
    assert 'PUBLISHED = ""' in plain[1]
    assert "github.com" not in "".join(plain)
    write_published(clone, Published("somebody/kit", "v1.2"))
    stamped = cells(build.student(Shelf(clone), NAME))
    links = re.findall(r"\]\((https://[^)]+)\)", stamped[0])
    assert (
        "https://colab.research.google.com/github/somebody/kit/blob/v1.2/notebooks/05_doubling.ipynb"
        in links
    )
    assert (
        "https://mybinder.org/v2/gh/somebody/kit/v1.2?urlpath=lab/tree/notebooks/05_doubling.ipynb"
        in links
    )
    assert "git+https://github.com/somebody/kit@v1.2" in stamped[1]
    assert stamped[2:-1] == plain[2:-1]
    write_published(clone, None)
    assert cells(build.student(Shelf(clone), NAME)) == plain


@pytest.mark.parametrize(
    ("repo", "ref"), [("kit", "v1"), ("a/b/c", "v1"), ("a b/c", "v1"), ("a/b", ""), ("a/b", "x y")]
)
def test_a_stamp_that_leads_nowhere_is_refused(repo, ref):
    with pytest.raises(UserError, match="must be"):
        Published(repo, ref)


def test_the_install_cell_keeps_the_torch_and_numpy_that_are_there(clone, monkeypatch):
    """Runs the cell where rlkit is missing, with a shell that only notes its commands."""
    import importlib.metadata
    import importlib.util

    import IPython

    write_published(clone, Published("somebody/kit", "v1.2"))
    source = cells(build.student(Shelf(clone), NAME))[1]
    asked = []

    class Shell:
        def run_line_magic(self, name: str, line: str) -> None:
            asked.append((name, line))

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    exec(compile(ast.parse(source.replace("rlkit.doctor()", "")), "install", "exec"), {})
    ((name, line),) = asked
    assert name == "pip"
    assert line.startswith('install -q "rlkit[colab] @ git+https://github.com/somebody/kit@v1.2" ')
    for package in ("torch", "numpy"):
        assert f" {package}=={importlib.metadata.version(package)}" in line
    write_published(clone, None)
    source = cells(build.student(Shelf(clone), NAME))[1]
    with pytest.raises(RuntimeError, match="rlkit is not installed"):
        exec(compile(source, "install", "exec"), {})
