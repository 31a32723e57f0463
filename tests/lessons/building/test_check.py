"""The lint of lessons: each thing it is there for is planted, and told in one sentence."""

from __future__ import annotations

import pytest

from rlkit.lessons.building.build import Shelf
from rlkit.lessons.building.check import ease

NAME = "05_doubling"


def test_a_built_lesson_is_clean(findings):
    assert findings() == []


def test_prose_is_scored(clone):
    # Short words in short sentences: easier than the 60 to 70 of plain English.
    assert ease(Shelf(clone), NAME) > 80


# -- the built files -----------------------------------------------------------------------


def output(notebook: dict) -> None:
    notebook["cells"][4]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "2"}]


def count(notebook: dict) -> None:
    notebook["cells"][4]["execution_count"] = 3


def by_hand(notebook: dict) -> None:
    notebook["cells"][4]["source"] = "FACTOR = 3"


def without_cell(notebook: dict) -> None:
    notebook["cells"].pop()


def widgets(notebook: dict) -> None:
    notebook["metadata"]["widgets"] = {"state": {}}


def colab(notebook: dict) -> None:
    notebook["metadata"]["colab"] = {"provenance": []}


def colab_cell(notebook: dict) -> None:
    notebook["cells"][4]["metadata"]["colab"] = {"height": 300}


def big(notebook: dict) -> None:
    notebook["metadata"]["big"] = "x" * 200_001


def no_kernel(notebook: dict) -> None:
    del notebook["metadata"]["kernelspec"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (output, "05_doubling.ipynb, cell 5: has an output left in"),
        (count, "05_doubling.ipynb, cell 5: has an execution count left in"),
        (by_hand, "05_doubling.ipynb, cell 5: was edited by hand"),
        (without_cell, "05_doubling.ipynb: has 9 cells, its source makes 10"),
        (widgets, "05_doubling.ipynb: has leftover metadata.widgets"),
        (colab, "05_doubling.ipynb: has leftover metadata.colab"),
        (colab_cell, "05_doubling.ipynb, cell 5: has leftover metadata.colab"),
        (big, "bytes, more than 200,000"),
        (no_kernel, "does not name the kernel python3"),
    ],
)
def test_a_spoilt_notebook_is_told(edit_notebook, findings, change, sentence):
    edit_notebook(change)
    assert any(sentence in finding for finding in findings()), findings()


def test_a_source_that_moved_on_is_told(edit_source, findings):
    edit_source("# That was it.", "# That was it, at last.")
    assert findings() == [
        "notebooks/05_doubling.ipynb, cell 7: differs from notebooks/src/05_doubling.py; "
        "`rlkit lessons build` brings them together"
    ]


def test_an_answer_book_that_fell_behind_is_told(edit_source, findings):
    edit_source("return FACTOR * x", "return x * FACTOR")
    assert findings() == [
        "rlkit/lessons/books/05_doubling.json: differs from notebooks/src/05_doubling.py; "
        "`rlkit lessons build` brings them together"
    ]


def test_files_that_are_missing_or_stray_are_told(clone, findings):
    (clone / "notebooks" / f"{NAME}.ipynb").rename(clone / "notebooks" / "06_other.ipynb")
    (clone / "rlkit" / "lessons" / "books" / "07_more.json").write_text("{}")
    assert findings() == [
        "notebooks/06_other.ipynb: has no source notebooks/src/06_other.py",
        "rlkit/lessons/books/07_more.json: has no source notebooks/src/07_more.py",
        "notebooks/05_doubling.ipynb: is missing; `rlkit lessons build` writes it",
    ]


def test_a_notebook_that_is_no_json_is_told(clone, findings):
    (clone / "notebooks" / f"{NAME}.ipynb").write_text("<<<<<<< HEAD")
    assert any("is no notebook" in finding for finding in findings())


# -- what a learner needs, planted in the source and built -----------------------------------


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("# ## 1. Twice\n", "# #### 1. Twice\n", "cell 4: the heading '1. Twice' is an H4 right"),
        ("# ## 1. Twice\n", "# # 1. Twice\n", "needs exactly one H1, first of all in cell 1"),
        ("# That was it.", "# ![](../docs/more.md)", "cell 7: has an image without alt text"),
        ("# That was it.", "# <img src='../docs/more.md'>", "has an image without alt text"),
        ("# That was it.", "# [x](nowhere.md)", "cell 7: has a dead link: nowhere.md does not"),
        ("# That was it.", "# [x](#nothing)", "#nothing names no heading of this lesson"),
        ("# That was it.", "# [x](../docs/more.md#none)", "names no heading of ../docs/more.md"),
        ("# That was it.", "# [x](../../up.md)", "leads out of the repository"),
        ("# That was it.", "# So $y_i = 2x$.", "cell 7: uses $y_i$, which docs/glossary.md lacks"),
        ("# That was it.", "# So\n# $$\\gamma$$", "uses $\\gamma$, which docs/glossary.md lacks"),
        ('print("the end")', "a = 1\n" * 26, "cell 8: has 26 lines, more than 25"),
        ('print("the end")', f'print("{"e" * 70}")', "cell 8: has a line of 79 characters"),
        ('print("the end")', 'print("/home/me/x")', "holds a path of one machine, '/home/me'"),
        ('print("the end")', "# %%\n2\n\n" * 45, "cells, more than 45"),
        ("# That was it.", "# word " * 30, "cell 7: has a line of 207 characters"),
    ],
)
def test_what_a_reader_would_stumble_over_is_told(
    edit_source, rebuild, findings, old, new, sentence
):
    edit_source(old, new)
    rebuild()
    assert any(sentence in finding for finding in findings()), findings()


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("You will be able to", "It would be nice to", "objectives"),
        ("0.1 minutes", "some time", "minutes"),
        ("memory: 2.0", "memory: enough", "memory"),
        ("**fast**", "quick", "mode badge"),
        ("What you have seen", "Well", "recap"),
        ("**Next:**", "Well:", "way on"),
        ("## Sources", "## Thanks", "sources"),
    ],
)
def test_a_header_or_footer_without_a_part_is_told(edit_notebook, findings, old, new, what):
    def change(notebook: dict) -> None:
        for cell in notebook["cells"]:
            cell["source"] = [line.replace(old, new) for line in cell["source"]]

    edit_notebook(change)
    assert any(f"has no {what} in the" in finding for finding in findings()), findings()


# -- the source ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("#     minutes: {fast: 0.1, full: 0.1}\n", "", "lacks rlkit.minutes.fast"),
        ("#     memory_mb: 2000\n", "", "lacks rlkit.memory_mb"),
        ("#     objectives: [double a number]\n", "", "lacks rlkit.objectives"),
        ('#     recap: ["Twice 2 is 4, and so is 2 squared."]\n', "", "lacks rlkit.recap"),
        ('#     sources: ["The example is our own."]\n', "", "lacks rlkit.sources"),
        ("#     needs: [to", "#     wants: [to", "has an unknown field rlkit.wants"),
        ("#     needs: [to read Python]\n", "#     next: 9_x\n", "rlkit.next names no lesson"),
        ("#   rlkit:\n", "#   rlkit: [\n", "its header is not YAML"),
        ("#     name: python3\n", "#     name: julia\n", "does not name the kernelspec python3"),
        ('says="it is twice the number"', "", 'a wrong answer needs says="'),
        ('["wrong"]', '["solution"]', "exercise 'double' has 2 'solution' cell"),
        ('["wrong"]', '["setup"]', "exercise 'double' has no 'wrong' cell"),
        ('["wrong"]', '["setup"]', "stands on a cell without one of the tags"),
        ('["checks"] exercise="double"', '["checks"]', "tagged 'checks' needs exercise=\"ID\""),
        ('["setup"]', '["header"]', "the tag 'header' belongs to cells that the build writes"),
        ("return ...  # TODO", "return 1", "must say TODO and leave `...`"),
        ('lesson.check("double", double)\n', "", "is checked 0 times, it needs one"),
        ('    "double",\n', '    "dubble",\n', "the checks of 'double' must hold `EXERCISE = "),
        ('"There is an operator.", ', "", "the checks of 'double' must hold `EXERCISE = "),
        ("FACTOR = 2\n", "FACTOR = = 2\n", "this code cell is no Python: invalid syntax"),
    ],
)
def test_an_unfinished_source_is_told(edit_source, findings, old, new, sentence):
    edit_source(old, new)
    found = findings()
    assert any(sentence in finding for finding in found), found
    assert any("src/05_doubling.py, line" in f or "src/05_doubling.py: " in f for f in found)
