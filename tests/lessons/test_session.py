"""A learner's session in a real kernel: TODO, wrong twice, hint, right, a new kernel, kept.

`python tests/lessons/test_session.py` prints it, as a transcript, with the outputs as a
notebook without a front end shows them.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("desk")

PRACTICE = Path(__file__).with_name("practice.py")
OPEN = "from rlkit import lessons\nlesson = lessons.open('97_practice')"
TODO = "def share(answers, right):\n    return ...\n\nlesson.check('share', share)"
COUNT = (
    "def share(answers, right):\n    return sum(a == right for a in answers)\n\n"
    "lesson.check('share', share)"
)
SWAPPED = (
    "def share(answers, right):\n    wrong = [a for a in answers if a != right]\n"
    "    return len(wrong) / len(answers)\n\nlesson.check('share', share)"
)
RIGHT = (
    "def is_right(answer, right):\n    return answer == right",
    "def share(answers, right):\n"
    "    return sum(is_right(a, right) for a in answers) / len(answers)\n\n"
    "lesson.check('share', share)",
)
FIRST = [OPEN, TODO, COUNT, SWAPPED, "lesson.hint('share')", *RIGHT, "lesson.strip()"]
SECOND = [OPEN, "lesson.strip()", "lesson.hint('share')", "lessons.progress()"]


def session(cells: list[str]) -> list[dict[str, str]]:
    """Runs cells in a kernel of their own; gives what each shows, by type."""
    import nbclient
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbclient.NotebookClient(notebook, timeout=120).execute()
    shown = []
    for cell in notebook.cells:
        bundle: dict[str, str] = {}
        for output in cell.outputs:
            data = output.get("data") or {"text/plain": output.get("text", "")}
            for kind, text in data.items():
                text = text if isinstance(text, str) else json.dumps(text)
                bundle[kind] = bundle.get(kind, "") + text
        shown.append(bundle)
    return shown


def transcript(cells: list[str], shown: list[dict[str, str]]) -> str:
    """Cells and their plain outputs, one after the other."""
    lines = []
    for cell, bundle in zip(cells, shown, strict=True):
        lines += [f">>> {line}" for line in cell.splitlines()]
        lines += [bundle["text/plain"].rstrip()] if "text/plain" in bundle else []
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize("headless", ["1", "0"])
def test_a_session_and_what_is_left_of_it(monkeypatch, headless):
    monkeypatch.setenv("RLKIT_HEADLESS", headless)
    _, todo, count, swapped, hint, _, right, strip = session(FIRST)
    assert todo["text/plain"].splitlines() == [
        "○ TODO: The share of right answers",
        "  TODO: line 2 still has `...` where your code belongs. Write your answer",
        "  and run this again.",
    ]
    # three of three are right: a count of 3 instead of a share of 3/3
    assert "share(['a', 'a', 'a'], 'a'): the share is 3, outside of 0 to 1" in flat(count)
    assert "Did you divide by the number of answers?" in flat(count)
    assert "✓ holds: a share lies between 0 and 1" in swapped["text/plain"]
    assert "the share is 0, expected 1: off by 1. Did you count the right ones?" in flat(swapped)
    assert hint["text/plain"].startswith("→ Hint 1 of 3")
    assert flat(right) == (
        # two fixed inputs and twenty random ones, two of which are alike
        "✓ Right: The share of right answers All 2 properties hold, on 21 different calls. This "
        "number is the pass rate."
    )
    assert "✓ The share of right answers: right after 3 tries, 1 hint" in strip["text/plain"]
    assert "role=" in right["text/html"]
    assert ("application/vnd.jupyter.widget-view+json" in strip) is (headless == "0")

    _, strip, hint, progress = session(SECOND)
    assert "✓ The share of right answers: right after 3 tries, 1 hint" in strip["text/plain"]
    assert hint["text/plain"].startswith("→ Hint 2 of 3")
    assert "97_practice (Practice): 1 of 2 done" in progress["text/plain"]


def flat(bundle: dict[str, str]) -> str:
    return " ".join(bundle["text/plain"].split())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        book = runpy.run_path(str(PRACTICE))["BOOK"]
        Path(folder, f"{book['lesson']}.json").write_text(json.dumps(book), encoding="utf-8")
        os.environ.update(RLKIT_BOOKS=folder, RLKIT_HOME=f"{folder}/home", RLKIT_HEADLESS="1")
        sys.stdout.write(transcript(FIRST, session(FIRST)))
        sys.stdout.write("\n--- the kernel is restarted ---\n\n")
        sys.stdout.write(transcript(SECOND, session(SECOND)))
