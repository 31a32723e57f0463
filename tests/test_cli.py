"""The command line: JSON for programs, one sentence and exit code 2 for mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def rlkit(*words: str, cwd: Path, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "rlkit.cli", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=250, **options)


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["demo", "--domain", "nope"], "unknown domain 'nope'; known domains: arith, sort"),
        (["demo", "--policy", "nope", "--run", "r"], "unknown policy 'nope'; give 'tiny'"),
        (["demo", "--group-size", "1", "--run", "r"], "group_size=1 with a group baseline"),
        (["demo", "--group-size", "0", "--run", "r"], "group_size must be at least 1"),
        (["demo", "--steps", "0", "--run", "r"], "steps must be at least 1"),
        (["demo", "--weighting", "magic", "--run", "r"], "unknown weighting 'magic'"),
        (["demo", "--rollouts", "magic", "--run", "r"], "rollouts='magic' is not a way"),
        (["report", "nowhere"], "no run directory"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(tmp_path, words, sentence) -> None:
    result = rlkit(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert result.stderr.strip().splitlines()[-1].startswith("rlkit: ")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_doctor(tmp_path: Path) -> None:
    found = json.loads(rlkit("doctor", "--json", cwd=tmp_path).stdout)
    assert found["versions"]["torch"].startswith("2.")
    assert "NF4" in found["precision"]
    assert found["cores"] >= 1
    assert found["isolation"]
    text = rlkit("doctor", cwd=tmp_path).stdout
    assert "precision" in text
    assert "sandbox" in text


DEMO = ["demo", "--domain", "arith", "--problems", "2", "--group-size", "4", "--held-out", "8"]


def test_demo_goes_on_and_reports(tmp_path: Path) -> None:
    words = [*DEMO, "--run", "run", "--json"]
    first = json.loads(rlkit(*words, "--steps", "2", cwd=tmp_path).stdout)
    assert set(first["pass_at_1"]) == {"before", "after"}
    assert first["steps"] == 2
    assert first["seconds"] > 0
    assert first["peak_memory_mb"] > 50
    assert Path(tmp_path / first["run"] / "metrics.jsonl").exists()
    page = (tmp_path / first["report"]).read_text()
    assert page.lower().startswith("<!doctype html>")
    second = json.loads(rlkit(*words, "--steps", "4", cwd=tmp_path).stdout)
    assert second["steps"] == 4
    assert second["pass_at_1"]["before"] == first["pass_at_1"]["before"]
    other = rlkit(*words, "--steps", "4", "--seed", "5", cwd=tmp_path)
    assert other.returncode == 2
    assert "belongs to another configuration" in other.stderr
    out = json.loads(rlkit("report", "run", "--out", "page.html", "--json", cwd=tmp_path).stdout)
    assert (tmp_path / out["report"]).exists()


@pytest.mark.skipif(os.name == "nt", reason="signals are different on Windows")
def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rlkit.cli", *DEMO, "--run", "run", "--steps", "4000"]
    child = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and child.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") >= 3:
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130, errors
    from rlkit.loop import Run
    from rlkit.loop.checkpoint import newest_checkpoint

    run = Run.open(tmp_path / "run")
    assert run.events()[-1]["kind"] == "interrupted"
    newest, passed = newest_checkpoint(run.checkpoints)
    assert newest is not None
    assert passed == []
    assert newest.name == f"step-{run.metrics()[-1]['step']:06d}"
