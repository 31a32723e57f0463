"""`rlkit audit`: what it takes, what it prints, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlkit.errors import UserError
from rlkit.rewards import exact_answer
from rlkit.rewards.audit.load import load_reward

SOURCE = '''
def lenient(completions, answer):
    """Pays when the answer stands anywhere."""
    return [float(str(a) in t) for t, a in zip(completions, answer)]
'''


def rlkit(*words: str, cwd: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "rlkit.cli", "audit", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_by_name():
    assert load_reward("exact_answer") is exact_answer


def test_by_module_and_object():
    assert load_reward("rlkit.rewards.audit.bad:last_number").name == "last_number"
    assert load_reward("rlkit.rewards:exact_answer") is exact_answer


@pytest.mark.parametrize(
    "named, words",
    [
        ("nope", "unknown reward 'nope'; known rewards: .* or give module:object"),
        ("no_such_module:x", "module 'no_such_module' cannot be imported"),
        ("rlkit.rewards:nope", "module 'rlkit.rewards' has no 'nope'"),
        ("rlkit.rewards:Reward", "rlkit.rewards:Reward is no reward"),
        ("rlkit.rewards:__all__", "rlkit.rewards:__all__ is no reward"),
        ("nowhere/reward.py", "there is no file 'nowhere/reward.py'"),
    ],
)
def test_what_is_no_reward(named, words):
    with pytest.raises(UserError, match=words):
        load_reward(named)


def test_a_file_is_audited_without_running_it_here(tmp_path):
    (tmp_path / "lenient.py").write_text(SOURCE)
    result = rlkit("lenient.py", "--json", cwd=tmp_path)
    assert result.returncode == 1, result.stderr
    card = json.loads(result.stdout)
    assert card["reward"] == "lenient"
    assert card["passed"] is False
    assert "pays a list of guesses ('superset_list', 1 of 1)" in card["verdict"]


def test_a_card_that_passes_ends_with_zero_and_writes_its_page(tmp_path):
    result = rlkit("format_reward", "--html", "card.html", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "Report card of format_reward: ✓ passed" in result.stdout
    assert "Report card of format_reward" in (tmp_path / "card.html").read_text()


def test_a_mistake_is_one_sentence(tmp_path):
    result = rlkit("nope", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("rlkit: unknown reward 'nope'")
    assert "Traceback" not in result.stderr
