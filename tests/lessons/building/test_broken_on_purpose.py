"""A lesson broken in five ways, as its author would meet them, at the command line.

Drift, an output left in, headings out of order, a cell that raises, a solution that no longer
passes its check. Each ends with exit code 1 and says in one sentence what to repair and where.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from rlkit.commands.lessons import app
from rlkit.errors import UserError

Command = Callable[..., Result]


@pytest.fixture
def rlkit(clone) -> Command:
    """Runs `rlkit lessons ...` on the small clone, in this process."""
    return lambda *words: CliRunner().invoke(app, [words[0], "--root", str(clone), *words[1:]])


def one_finding(done: Result) -> str:
    assert done.exit_code == 1, done.output
    found = json.loads(done.stdout)
    assert found["ok"] is False
    (finding,) = found.get("findings") or found["lessons"][0]["findings"]
    return f"{finding['file']}, {finding['place']}: {finding['text']}"


def test_nothing_is_wrong_at_first(rlkit):
    done = rlkit("check", "--run", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["findings"] == []
    (row,) = found["lessons"]
    assert row["lesson"] == "05_doubling"
    assert (row["minutes_fast"], row["memory_mb"], row["exercises"]) == (0.1, 2000, 1)
    assert row["reading_ease"] > 80


def test_1_drift(rlkit, edit_source):
    edit_source("# That was it.", "# That was it, at last.")
    assert one_finding(rlkit("check", "--json")) == (
        "notebooks/05_doubling.ipynb, cell 7: differs from notebooks/src/05_doubling.py; "
        "`rlkit lessons build` brings them together"
    )


def test_2_an_output_left_in(rlkit, edit_notebook):
    def run(notebook: dict) -> None:
        cell = notebook["cells"][4]
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["2\n"]}]

    edit_notebook(run)
    assert one_finding(rlkit("check", "--json")) == (
        "notebooks/05_doubling.ipynb, cell 5: has an output left in; build the lesson again"
    )


def test_3_headings_out_of_order(rlkit, edit_source, rebuild):
    edit_source("# That was it.", "# #### That was it.")
    rebuild()
    assert one_finding(rlkit("check", "--json")) == (
        "notebooks/05_doubling.ipynb, cell 7: the heading 'That was it.' is an H4 right under an "
        "H2; a level is left out"
    )


def test_4_a_cell_that_raises(rlkit, edit_source):
    edit_source('print("the end")', 'print("the end", 1 / (FACTOR - 2))')
    assert one_finding(rlkit("run", "--json")) == (
        "05_doubling (solved), cell 8: ZeroDivisionError: division by zero"
    )


def test_5_a_solution_that_no_longer_passes_its_check(rlkit, edit_source, rebuild):
    edit_source("return FACTOR * x", "return FACTOR + x")
    rebuild()
    assert one_finding(rlkit("check", "--run", "--json")) == (
        "notebooks/src/05_doubling.py, line 35: the solution of 'double' no longer passes its "
        "check: WRONG: It is twice the number: broken for 2 of 3 inputs. For double(3): the result "
        "is 5, expected 6: off by 1."
    )


# -- and what the same commands say of answers and of the student's version -------------------


def test_a_wrong_answer_that_passes_is_told(rlkit, edit_source, rebuild):
    edit_source("return x**FACTOR", "return x + x")
    rebuild()
    assert "this wrong answer to 'double' is told as RIGHT" in one_finding(
        rlkit("check", "--run", "--json")
    )


def test_a_wrong_answer_with_another_message_is_told(rlkit, edit_source, rebuild):
    edit_source('says="it is twice the number"', 'says="you squared it"')
    rebuild()
    assert "should say 'you squared it' and says 'It is twice" in one_finding(
        rlkit("check", "--run", "--json")
    )


def test_a_solution_that_needs_a_cell_without_the_tag_is_told(rlkit, edit_source, rebuild):
    edit_source('# %% tags=["setup"]\n', "# %%\n")
    rebuild()
    done = json.loads(rlkit("check", "--run", "--json").stdout)
    assert any("FACTOR" in finding["text"] for finding in done["findings"]), done


def test_both_versions_run_say_how_it_stands_and_leave_progress_alone(rlkit, tmp_path, monkeypatch):
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path / "learner"))
    for version, state in (("solved", "RIGHT"), ("student", "TODO")):
        out = tmp_path / version
        done = rlkit("run", "05", "--version", version, "--out", str(out), "--json")
        (ran,) = json.loads(done.stdout)["lessons"]
        assert (done.exit_code, ran["ok"], ran["findings"]) == (0, True, [])
        assert ran["exercises"] == {"double": state}
        assert 0 < ran["slowest_seconds"] <= ran["seconds"]
        assert ran["network"] in ("namespace", "guard")
        assert "the end" in (out / "05_doubling.ipynb").read_text()
    assert not (tmp_path / "learner").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["build", "77"], "no lesson '77'; there are: 05_doubling"),
        (["run", "--version", "both"], "--version must be solved or student, not 'both'"),
        (["run", "--mode", "slow"], "--mode must be fast or full, not 'slow'"),
        (["badges"], "give --repo OWNER/NAME and --ref TAG, or --clear alone"),
        (["badges", "--repo", "x", "--ref", "v1"], "--repo must be OWNER/NAME, not 'x'"),
    ],
)
def test_a_mistake_at_the_command_line_is_one_sentence(rlkit, words, sentence):
    done = rlkit(*words)
    assert isinstance(done.exception, UserError)
    assert (str(done.exception), done.output) == (sentence, "")


def test_the_whole_command_line_knows_lessons(clone):
    words = [sys.executable, "-m", "rlkit.cli", "lessons", "build", "77"]
    done = subprocess.run(words, cwd=clone, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "rlkit: no lesson '77'; there are: 05_doubling"


def test_build_list_and_badges(rlkit, clone: Path, tmp_path):
    done = json.loads(rlkit("build", "--json", "--solved", str(tmp_path / "s")).stdout)
    assert [Path(b["file"]).name for b in done["built"]] == [
        "05_doubling.ipynb",
        "05_doubling.json",
        "05_doubling.ipynb",
    ]
    assert [b["changed"] for b in done["built"]] == [False, False, True]
    (row,) = json.loads(rlkit("list", "--json").stdout)["lessons"]
    assert row["title"] == "Twice: a lesson in small"
    assert "05_doubling" in rlkit("list").stdout
    assert rlkit("badges", "--repo", "a/b", "--ref", "v1").exit_code == 0
    assert json.loads((clone / "notebooks" / "published.json").read_text())["ref"] == "v1"
    assert "colab-badge" in (clone / "notebooks" / "05_doubling.ipynb").read_text()
    assert rlkit("check").exit_code == 0
    assert rlkit("badges", "--clear").exit_code == 0
    assert "colab-badge" not in (clone / "notebooks" / "05_doubling.ipynb").read_text()
    assert not (clone / "notebooks" / "published.json").exists()
