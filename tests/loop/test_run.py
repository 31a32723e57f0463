"""The run directory: append-only, readable while it is written, whole or absent."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from rlkit.errors import UserError
from rlkit.loop import Run

CONFIG = {"domains": ["arith"], "loop": {"seed": 0}}


def rows(step: int, *texts: str) -> list[dict]:
    return [{"step": step, "group": 0, "index": i, "text": t} for i, t in enumerate(texts)]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", CONFIG)
    run.append_metrics({"step": 1, "reward": None})
    run.append_metrics({"step": 2, "reward": 0.5})
    run.append_rollouts(rows(1, "a", "b"))
    run.append_rollouts(rows(2, "ü\n\x1b[31m", "</script>"))
    run.append_event("started", 0, steps=2)
    again = Run.open(tmp_path / "run")
    assert again.metrics() == [{"step": 1, "reward": None}, {"step": 2, "reward": 0.5}]
    assert [r["text"] for r in again.rollouts()] == ["a", "b", "ü\n\x1b[31m", "</script>"]
    assert [r["text"] for r in again.rollouts(step=2)] == ["ü\n\x1b[31m", "</script>"]
    assert again.events()[0]["kind"] == "started"
    # Any gzip tool reads it.
    with gzip.open(tmp_path / "run" / "rollouts.jsonl.gz", "rt", encoding="utf-8") as stream:
        assert len(stream.readlines()) == 4


def test_a_step_that_was_done_twice_counts_once(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", CONFIG)
    for reward in (0.1, 0.2):
        run.append_metrics({"step": 1, "reward": reward})
        run.append_rollouts(rows(1, f"{reward} a", f"{reward} b"))
    assert run.metrics() == [{"step": 1, "reward": 0.2}]
    assert [r["text"] for r in run.rollouts()] == ["0.2 a", "0.2 b"]


def test_a_line_that_was_cut_off_is_left_out_and_the_next_one_is_not_harmed(tmp_path) -> None:
    run = Run.create(tmp_path / "run", CONFIG)
    run.append_metrics({"step": 1, "reward": 0.1})
    with (run.path / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 2, "rew')
    assert run.metrics() == [{"step": 1, "reward": 0.1}]
    run.append_metrics({"step": 2, "reward": 0.2})
    assert [r["step"] for r in run.metrics()] == [1, 2]


@pytest.mark.parametrize("cut", [1, 5, 12, 30])
def test_a_gzip_member_that_was_cut_off_is_left_out(tmp_path: Path, cut: int) -> None:
    run = Run.create(tmp_path / "run", CONFIG)
    run.append_rollouts(rows(1, "a", "b"))
    file = run.path / "rollouts.jsonl.gz"
    whole = file.read_bytes()
    run.append_rollouts(rows(2, "c", "d"))
    member = file.read_bytes()[len(whole) :]
    file.write_bytes(whole + member[:cut])
    assert [r["text"] for r in run.rollouts()] == ["a", "b"]
    run.append_rollouts(rows(2, "e", "f"))
    assert [r["text"] for r in run.rollouts()] == ["a", "b", "e", "f"]


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run directory"):
        Run.open(tmp_path)
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="holds no run; choose an empty directory"):
        Run.create(tmp_path, CONFIG)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["thesis.txt"]
    Run.create(tmp_path / "run", CONFIG)
    with pytest.raises(UserError, match="another configuration"):
        Run.create(tmp_path / "run", {**CONFIG, "loop": {"seed": 1}})
    (tmp_path / "run" / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json .* cannot be read"):
        Run.open(tmp_path / "run")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", CONFIG)
    run.append_event("started", 0)
    (run.path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        run.append_metrics({"step": 1})
    assert len(run.events()) == 1
    assert not [p for p in os.listdir(run.path) if p.endswith(".part")]
