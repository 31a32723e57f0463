"""`rlkit replay`: JSON for programs, a table and a page for people, a sentence for mistakes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rlkit.cli import app
from rlkit.errors import UserError


@pytest.fixture(scope="module")
def run_folder(untrained, tmp_path_factory):
    from rlkit import ClosedLoop, LoopConfig, LoraSpec, Policy, reward

    @reward
    def variety(completions, **columns):
        return [len(set(text)) / max(1, len(text)) for text in completions]

    folder = tmp_path_factory.mktemp("replay") / "run"
    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4))
    config = LoopConfig(problems_per_step=2, group_size=4, max_new_tokens=8)
    ClosedLoop(policy, ["arith"], config=config, reward=variety, run=folder).run(3, progress=False)
    return folder


def test_json_table_and_page(run_folder, tmp_path) -> None:
    words = ["replay", str(run_folder), "--step", "2", "--objectives", "grpo,ppo"]
    found = CliRunner().invoke(app, [*words, "--held-out", "2", "--json"])
    body = json.loads(found.stdout)
    assert body["step"] == 2 and body["exact"]
    assert [o["name"] for o in body["objectives"]] == ["GRPO", "PPO"]
    assert len(body["rollouts"]) == 8 and body["problems"] == 2
    page = tmp_path / "page.html"
    shown = CliRunner().invoke(app, [*words, "--held-out", "0", "--html", str(page)])
    assert shown.exit_code == 0
    assert "they drew the batch" in shown.stdout
    assert "gradient norm" in shown.stdout and "GRPO" in shown.stdout
    text = page.read_text()
    assert "Content-Security-Policy" in text and "Heat map of cosines" in text


def test_mistakes(run_folder, tmp_path) -> None:
    for words, sentence in (
        (["nowhere"], "no run directory"),
        ([str(run_folder), "--step", "99"], "it has steps 1 to 3"),
        ([str(run_folder), "--objectives", "magic"], "unknown objective 'magic'"),
        ([str(run_folder), "--html", str(tmp_path / "no" / "p.html")], "cannot be written"),
    ):
        failed = CliRunner().invoke(app, ["replay", *words, "--held-out", "0"])
        assert isinstance(failed.exception, UserError)
        assert sentence in str(failed.exception)
