"""`rlkit trainability`: a verdict, exit code 3 where it is bad, and --force to go on."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from rlkit.cli import app

SIZE = ["--group-size", "4", "--problems", "2", "--probe", "2"]


def test_verdict_exit_code_and_force(untrained) -> None:
    words = ["trainability", "--policy", str(untrained), "--domain", "arith", *SIZE]
    refused = CliRunner().invoke(app, [*words, "--json"])
    assert refused.exit_code == 3
    body = json.loads(refused.stdout)
    assert body["verdict"] == "too hard" and not body["trainable"]
    assert "go on with --force" in refused.stderr
    forced = CliRunner().invoke(app, [*words, "--force"])
    assert forced.exit_code == 0 and "too hard" in forced.stdout
    good = CliRunner().invoke(app, ["trainability", "--domain", "arith", *SIZE, "--json"])
    assert good.exit_code == 0 and json.loads(good.stdout)["trainable"]


def test_a_demo_can_ask_first(untrained, tmp_path) -> None:
    words = ["demo", "--policy", str(untrained), "--domain", "arith", "--run", str(tmp_path / "r")]
    refused = CliRunner().invoke(app, [*words, "--check", "--group-size", "2", "--problems", "2"])
    assert refused.exit_code == 3
    assert "would hardly learn (too hard)" in refused.stderr
    assert not (tmp_path / "r").exists()
