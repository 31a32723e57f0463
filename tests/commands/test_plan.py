"""`rlkit plan`: numbers from a real probe, and exit code 2 with a way out where it cannot fit."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from rlkit.cli import app

SIZE = ["--problems", "2", "--group-size", "4", "--max-new-tokens", "8", "--prompt-tokens", "20"]


def test_a_plan_has_numbers_and_fits() -> None:
    found = CliRunner().invoke(app, ["plan", *SIZE, "--rank", "4", "--json"])
    assert found.exit_code == 0, found.stderr
    body = json.loads(found.stdout)
    assert body["fits"] is True and body["tight"] is False and body["advice"] == []
    assert body["size"]["problems"] == 2 and body["rank"] == 4
    assert 100 < body["peak_mb"] < 2000 and 0 < body["seconds"] < 60
    parts = body["prediction"]
    total = parts["generate_s"] + parts["update_s"] + parts["other_s"]
    assert abs(total - body["seconds"]) < 1e-9
    assert body["peak_mb"] == max(parts["load_mb"], parts["generate_mb"], parts["update_mb"])


def test_a_step_that_cannot_fit_is_refused_politely() -> None:
    words = ["plan", *SIZE, "--memory-limit", "40"]
    refused = CliRunner().invoke(app, [*words, "--json"])
    assert refused.exit_code == 2
    body = json.loads(refused.stdout)
    assert body["fits"] is False and body["prediction"] is None and body["advice"]
    assert "there are 40 MB; " in refused.stderr
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 2 and "it does not fit" in shown.stdout


def test_bad_words_are_said() -> None:
    found = CliRunner().invoke(app, ["plan", *SIZE, "--quantize", "int3"])
    assert "--quantize must be nf4 or none" in str(found.exception)
