"""Graders side by side: rows read, outcomes told apart, hangs counted, the page written."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rlkit import UserError
from rlkit.bench.accuracy import Tally, default_rows, load_rows, markdown, measure
from rlkit.cli import app


def row(name, completion, gold, expected, op="math_correct"):
    given = {"op": op, "completion": completion, "gold": gold, "mode": "strict"}
    return {"id": name, "kind": "a", "input": given, "expected": expected, "symptom": "s | t"}


ROWS = [
    row("right", r"\boxed{0.5}", r"\frac12", True),
    row("thread", r"\boxed{2}", "2", True, "math_correct_in_thread"),
    row("expected_otherwise_1", r"\boxed{0.5}", r"\frac12", False),
    row("expected_otherwise_2", r"\boxed{0.4}", r"\frac12", True),
    row("no_gold", r"\boxed{1}", "?", True),
]


def test_the_rows_of_a_checkout_are_found():
    assert len(load_rows()) == 84
    assert default_rows().is_file()


def test_outcomes_are_told_apart():
    (tally,) = measure(ROWS, ["rlkit"]).tallies
    assert [o.kind for o in tally.outcomes] == ["right", "right", "paid", "refused", "abstained"]
    assert tally.to_dict()["paid"] == 1
    assert 0 < tally.slowest < 10


def test_a_call_past_the_limit_is_a_hang_and_the_next_row_is_asked_again():
    (tally,) = measure(ROWS[:2], ["rlkit"], limit_s=0.0).tallies
    assert [o.kind for o in tally.outcomes] == ["hung", "hung"]


def test_math_verify_is_measured_on_the_same_rows():
    pytest.importorskip("math_verify")
    (tally,) = measure(ROWS[:3], ["math-verify-wrapped"]).tallies
    # It uses signals by default, and those work in the main thread alone.
    assert [o.kind for o in tally.outcomes] == ["right", "raised", "paid"]
    assert "signal" in tally.outcomes[1].says or "Value" in tally.outcomes[1].says


def test_the_page_has_a_line_for_each_grader_and_each_wrong_row():
    page = markdown(measure(ROWS, ["rlkit"]))
    assert "| rlkit `math_answer` | 5 | 2 | 1 | 1 | 1 | 0 | 0 |" in page
    assert r"| `no_gold` | s \| t | abstained |" in page
    assert "`right`" not in page


def test_the_slowest_of_no_rows_is_zero():
    assert Tally("rlkit").slowest == 0.0


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "no rows of kind a"), ("{", "line 1"), ('{"kind": "a"}', "line 1"), (None, "--rows")],
)
def test_a_file_that_is_no_set_of_cases_is_refused(tmp_path, text, says):
    file = tmp_path / "rows.jsonl"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match=says):
        load_rows(file)


def test_an_unknown_grader_is_refused():
    with pytest.raises(UserError, match="known: rlkit"):
        measure(ROWS, ["nobody"])


def test_the_command(tmp_path):
    rows, page = tmp_path / "rows.jsonl", tmp_path / "page.md"
    rows.write_text("\n".join(map(json.dumps, ROWS[:2])))
    done = CliRunner().invoke(
        app,
        ["bench", "accuracy", "--rows", str(rows), "--grader", "rlkit", "--write", str(page)],
    )
    assert done.exit_code == 0
    assert page.read_text().startswith("# Accuracy of the maths reward\n")
    done = CliRunner().invoke(
        app, ["bench", "accuracy", "--rows", str(rows), "--grader", "rlkit", "--json"]
    )
    found = json.loads(done.stdout)
    assert (found["rows"], found["graders"][0]["right"]) == (2, 2)
