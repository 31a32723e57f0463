"""Curves of finished runs: read from their directories, refused when they are not alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlkit.bench.curves import HELD_OUT, TRAINING, curves, markdown, read, svg
from rlkit.commands.bench import app
from rlkit.errors import UserError
from rlkit.loop.run import Run


def run_of(folder: Path, seed: int, rates: list[float], exams: dict[int, float], **loop) -> Path:
    config = {
        "policy": {"name": "tiny", "seed": seed},
        "domains": ["sort"],
        "loop": {"seed": seed, "group_size": 8, **loop},
    }
    run = Run.create(folder, config)
    for step, rate in enumerate(rates, 1):
        run.append_metrics({"step": step, "pass_rate": rate, "step_time": 0.5})
    for step, value in exams.items():
        run.append_event("evaluation", step, pass_at_1=value)
    return folder


def two(tmp_path: Path) -> list[Path]:
    # Means of five steps: 0.3 and 0.8; 0.1 and 0.6.
    return [
        run_of(tmp_path / "a", 0, [0.1, 0.2, 0.3, 0.4, 0.5] + [0.8] * 5, {0: 0.2, 10: 0.7}),
        run_of(tmp_path / "b", 1, [0.1] * 5 + [0.6] * 5 + [0.9], {0: 0.3, 10: 0.5}),
    ]


def test_numbers_of_both_seeds(tmp_path: Path) -> None:
    found = read(two(tmp_path))
    assert [run["seed"] for run in found["runs"]] == [0, 1]
    assert found["runs"][0]["seconds"] == 5.0
    made = curves(found)
    assert made[HELD_OUT] == {0: [0.2, 0.3], 10: [0.7, 0.5]}
    assert made[TRAINING] == {
        5: [pytest.approx(0.3), pytest.approx(0.1)],
        10: [pytest.approx(0.8), pytest.approx(0.6)],
    }
    assert "| 1 | 11 | 6 | 0.300 | 0.500 |" in markdown(found)
    text = svg(found)
    assert text.count("<polyline") == 2
    assert "seed 1 from 0.30 to 0.50" in text


def test_other_settings_are_refused(tmp_path: Path) -> None:
    one = two(tmp_path)[0]
    other = run_of(tmp_path / "c", 2, [0.1], {}, temperature=0.5)
    with pytest.raises(UserError, match="another setting"):
        read([one, other])
    with pytest.raises(UserError, match="at least one run"):
        read([])


def test_the_command_writes_figure_and_table(tmp_path: Path) -> None:
    folders = [str(folder) for folder in two(tmp_path)]
    figure = tmp_path / "f.svg"
    result = CliRunner().invoke(app, ["curves", *folders, "--svg", str(figure), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["policy"] == "tiny"
    assert figure.read_text().startswith("<svg")
