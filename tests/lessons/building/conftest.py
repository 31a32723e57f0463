"""A clone in small: one lesson with one exercise, built, to be broken in every way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlkit.lessons.building.build import Shelf, write
from rlkit.lessons.building.check import check, check_folder

NAME = "05_doubling"
SOURCE = '''# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
#   rlkit:
#     title: "Twice: a lesson in small"
#     promise: You will double a number.
#     minutes: {fast: 0.1, full: 0.1}
#     memory_mb: 2000
#     needs: [to read Python]
#     objectives: [double a number]
#     recap: ["Twice 2 is 4, and so is 2 squared."]
#     sources: ["The example is our own."]
# ---

# %% [markdown]
# ## 1. Twice
#
# The double of $x$ is $2x$. See [the section](#1.-Twice) and [more](../docs/more.md#all-of-it).

# %% tags=["setup"]
FACTOR = 2
print(FACTOR)

# %% tags=["exercise"] exercise="double"
def double(x):
    """Twice x."""
    return ...  # TODO


lesson.check("double", double)

# %% tags=["solution"] exercise="double"
def double(x):
    return FACTOR * x

# %% tags=["checks"] exercise="double"
from rlkit.lessons import Exercise, same_as

EXERCISE = Exercise(
    "double",
    title="Twice a number",
    hints=("What is 2 and 2?", "There is an operator.", "`2 * x`"),
    inputs=[2, 3, -1],
    properties=[same_as(lambda x: 2 * x, name="it is twice the number")],
)

# %% tags=["wrong"] exercise="double" says="it is twice the number"
def double(x):
    return x**FACTOR

# %% [markdown]
# That was it.

# %%
print("the end")
'''
GLOSSARY = "| symbol | words |\n|---|---|\n| $x$ | a number |\n"


@pytest.fixture(scope="session")
def small_lesson() -> str:
    """The source of the small lesson."""
    return SOURCE


@pytest.fixture(scope="session")
def _built(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("clone")
    (root / "notebooks" / "src").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / "notebooks" / "src" / f"{NAME}.py").write_text(SOURCE)
    (root / "docs" / "glossary.md").write_text(GLOSSARY)
    (root / "docs" / "more.md").write_text("# More\n\n## All of it\n")
    write(Shelf(root), [NAME])
    return root


@pytest.fixture
def clone(_built, tmp_path) -> Path:
    """A built clone of its own, to spoil."""
    return Path(shutil.copytree(_built, tmp_path / "clone"))


@pytest.fixture
def edit_source(clone) -> Callable[[str, str], None]:
    """Replaces one text in the small lesson's source."""
    path = clone / "notebooks" / "src" / f"{NAME}.py"

    def edit(old: str, new: str) -> None:
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} stands there {text.count(old)} times"
        path.write_text(text.replace(old, new))

    return edit


@pytest.fixture
def edit_notebook(clone) -> Callable[[Callable[[dict], None]], None]:
    """Changes the small lesson's notebook as JSON."""
    path = clone / "notebooks" / f"{NAME}.ipynb"

    def edit(change: Callable[[dict], None]) -> None:
        notebook = json.loads(path.read_text())
        change(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")

    return edit


@pytest.fixture
def rebuild(clone) -> Callable[[], None]:
    """Builds the small lesson again from its source."""

    def build() -> None:
        write(Shelf(clone), [NAME])

    return build


@pytest.fixture
def findings(clone) -> Callable[[], list[str]]:
    """What the lint says about the clone as it is now."""

    def find() -> list[str]:
        shelf = Shelf(clone)
        return [str(f) for f in [*check_folder(shelf), *check(shelf, NAME)]]

    return find
