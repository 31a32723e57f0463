"""The check of notebooks in `.ci/check_notebooks.py` finds what it is there to find."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import jupytext
import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = """# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A lesson

# %% tags=["exercise"]
answer = 41

# %%
answer + 1
"""


def load_checker():
    path = ROOT / ".ci" / "check_notebooks.py"
    spec = importlib.util.spec_from_file_location("check_notebooks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checker = load_checker()


@pytest.fixture(scope="module")
def written_tree(tmp_path_factory) -> Path:
    """A folder with one lesson, its notebook written by the checker from its source."""
    tree = tmp_path_factory.mktemp("written")
    shutil.copy(ROOT / "jupytext.toml", tree / "jupytext.toml")
    (tree / "notebooks" / "src").mkdir(parents=True)
    (tree / "notebooks" / "src" / "00_x.py").write_text(SOURCE)
    checker.write(tree)
    return tree


@pytest.fixture
def tree(written_tree, tmp_path) -> Path:
    """A copy of it, to spoil."""
    return shutil.copytree(written_tree, tmp_path / "tree")


def edit(tree: Path, change) -> None:
    path = tree / "notebooks" / "00_x.ipynb"
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    nbformat.write(notebook, path)


def test_a_written_pair_is_clean_and_keeps_tags(tree):
    assert checker.problems(tree) == []
    notebook = nbformat.read(tree / "notebooks" / "00_x.ipynb", as_version=4)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "code"]
    assert notebook.cells[1].metadata.tags == ["exercise"]
    assert jupytext.read(tree / "notebooks/src/00_x.py").cells[1].metadata.tags == ["exercise"]


def run_by_hand(notebook) -> None:
    notebook.cells[1].execution_count = 1
    notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="42")]
    notebook.metadata["widgets"] = {"state": {}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (run_by_hand, "cell 2, has outputs or an execution count"),
        (run_by_hand, "has metadata.widgets"),
        (lambda nb: nb.metadata.pop("kernelspec"), "does not name the kernel python3"),
        (lambda nb: nb.cells[2].update(source="answer"), "cell 3, differs from 00_x.py"),
        (lambda nb: nb.cells[1].metadata.pop("tags"), "cell 2, has other tags"),
        (lambda nb: nb.cells.pop(), "has 2 cells, 00_x.py has 3"),
        (lambda nb: nb.cells[0].update(source="#" * 200_001), "more than 200,000"),
    ],
)
def test_each_problem_is_named(tree, change, expected):
    edit(tree, change)
    found = checker.problems(tree)
    assert any(expected in sentence for sentence in found), found


def test_a_missing_twin_is_named(tree):
    (tree / "notebooks" / "src" / "00_x.py").unlink()
    assert checker.problems(tree) == ["notebooks/src/00_x.py is missing beside its twin"]


def test_writing_carries_an_edited_cell_to_the_source_and_strips_the_rest(tree):
    def change(notebook):
        run_by_hand(notebook)
        notebook.cells[1].source = "answer = 1"

    edit(tree, change)
    checker.write(tree)
    assert checker.problems(tree) == []
    assert "answer = 1" in (tree / "notebooks" / "src" / "00_x.py").read_text()
