"""The bench of objectives: real runs, kept and not done again, a table and curves."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from typer.testing import CliRunner

from rlkit.bench.objectives import RUNS, Setting, markdown, measure, svg, table
from rlkit.bench.svg import ribbons_svg
from rlkit.cli import app
from rlkit.errors import UserError

SMALL = {"problems_per_step": 2, "group_size": 4, "held_out": 4, "samples": 1}


def test_runs_are_kept_and_not_done_again(tmp_path) -> None:
    setting = Setting(domain="arith", steps=2, evaluate_every=1, **SMALL)
    told = []
    found = measure(["grpo", "ppo"], [0], setting, out=tmp_path, say=told.append)
    assert [run["objective"] for run in found["runs"]] == ["GRPO", "PPO"]
    assert [step for step, _ in found["runs"][0]["held_out"]] == [0, 1, 2]
    assert len(told) == 2
    # A line that a kill cut off is passed over; the others are taken as they are.
    with (tmp_path / RUNS).open("a") as stream:
        stream.write('{"objective": "GRPO", "se')
    again = measure(["grpo", "ppo"], [0], setting, out=tmp_path, say=told.append)
    assert len(told) == 2
    assert json.loads(json.dumps(found["runs"])) == json.loads(json.dumps(again["runs"]))
    assert "| GRPO |" in markdown(found)
    ET.fromstring(svg(found))
    with pytest.raises(UserError, match="unknown objective"):
        measure(["magic"], [0], setting)
    with pytest.raises(UserError, match="steps must be at least 1"):
        Setting(steps=0)


def test_the_table_takes_medians_and_ranges() -> None:
    rest = {"clipped": 0.0, "entropy": [1.0], "grad_norm": 0.1, "seconds": 3.0}
    runs = [
        {"objective": "GRPO", "held_out": [[0, 0.4], [5, end - 0.1], [9, end]], **rest}
        for end in (0.6, 0.9, 0.8)
    ]
    (row,) = table(runs)
    assert (row["after"], row["low"], row["high"]) == (0.8, 0.6, 0.9)
    assert row["first"] == pytest.approx(0.7) and row["first_step"] == 5
    assert row["gain"] == pytest.approx(0.4) and row["seeds"] == 3


def test_curves_stand_where_their_values_say() -> None:
    curves = {"a<b": {0: [0.0, 0.0], 10: [1.0, 0.5]}, "c": {0: [0.5, 0.5], 10: [0.5, 0.5]}}
    text = ribbons_svg(curves, title="T & t", description="d", x_title="x", y_title="y", beside="c")
    root = ET.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    lines = [e.get("points").split() for e in root.iter(f"{name}polyline")]
    # a<b with c beside it, and c alone; in the first panel y runs from 178 (0) to 46 (1).
    assert len(lines) == 3
    assert [p.split(",")[1] for p in lines[0]] == ["112.0", "112.0"]
    # The median of 1 and 0.5 is 0.75: 178 - 0.75 * 132 = 79.
    assert [p.split(",")[1] for p in lines[1]] == ["178.0", "79.0"]
    (ribbon, _) = [e.get("points").split() for e in root.iter(f"{name}polygon")]
    assert [p.split(",")[1] for p in ribbon] == ["178.0", "46.0", "112.0", "178.0"]
    assert root.find(f"{name}title").text == "T & t"


def test_commands(tmp_path) -> None:
    words = ["bench", "objectives", "--objective", "grpo", "--seeds", "1", "--steps", "1"]
    words += ["--domain", "arith", "--held-out", "2", "--svg", str(tmp_path / "a.svg"), "--json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    body = json.loads(found.stdout)
    assert body["table"][0]["objective"] == "GRPO" and body["setting"]["steps"] == 1
    ET.parse(tmp_path / "a.svg")
