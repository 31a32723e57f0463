"""What trainability says against what happens: real runs, small."""

from __future__ import annotations

from typer.testing import CliRunner

from rlkit.bench.trainability import CASES, Case, markdown, measure
from rlkit.cli import app


def test_the_twelve(tmp_path) -> None:
    """Two real settings of the twelve's kind: one that lives, one that is flat on purpose."""
    assert len(CASES) == len(set(CASES)) == 12
    cases = (Case("arith", 1, 4, 0), Case("sort", 3, 4, 0))
    size = {"steps": 5, "problems": 4, "held_out": 4}
    rows = measure(cases, out=tmp_path, **size)
    assert [row["verdict"] for row in rows] == ["trainable", "too hard"]
    assert rows[0]["seen"] > rows[1]["seen"]
    said = []
    assert measure(cases, out=tmp_path, say=said.append, **size) == rows and not said
    assert "| sort 3, G=4, seed 0 | too hard |" in markdown(rows)
    failed = CliRunner().invoke(app, ["bench", "trainability", "--steps", "2"])
    assert "at least 5" in str(failed.exception)
