"""A run that was broken off goes on as if it never had been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlkit.errors import UserError
from rlkit.loop import Run
from rlkit.loop.checkpoint import newest_checkpoint, why_broken

TIMES = ("step_time", "time/generate", "time/reward", "time/update")


def numbers(rows: list[dict]) -> list[dict]:
    return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]


def test_resumed_equals_uninterrupted(make_loop, tmp_path: Path) -> None:
    steady = make_loop(run=tmp_path / "steady", weighting="learnability")
    steady.run(7, progress=False)
    broken = make_loop(run=tmp_path / "broken", weighting="learnability")
    broken.run(3, progress=False)
    for _ in range(2):  # steps that no checkpoint keeps: they are done again
        broken.step()
    del broken
    for folder in (tmp_path / "broken" / "checkpoints").glob("step-000004"):
        (folder / "COMPLETE").unlink()
    with pytest.warns(UserWarning, match="step-000004 is not whole"):
        resumed = make_loop(run=tmp_path / "broken", weighting="learnability")
    assert resumed.steps_done == 3
    resumed.run(7, progress=False)
    assert resumed.policy.fingerprint() == steady.policy.fingerprint()
    assert resumed.learning_rate == steady.learning_rate
    kept, expected = Run.open(tmp_path / "broken"), Run.open(tmp_path / "steady")
    assert numbers(kept.metrics()) == numbers(expected.metrics())
    assert kept.rollouts() == expected.rollouts()
    kinds = [e["kind"] for e in kept.events()]
    assert "resumed" in kinds
    assert "checkpoint_ignored" in kinds
    # Nothing was lost: the steps that were done twice are still in the file.
    lines = (tmp_path / "broken" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4, 5, 4, 5, 6, 7]


def test_another_configuration_is_refused(make_loop, tmp_path: Path) -> None:
    make_loop(run=tmp_path / "run").run(1, progress=False)
    with pytest.raises(UserError, match=r"another configuration \(loop\.learning_rate is"):
        make_loop(run=tmp_path / "run", learning_rate=0.5)
    with pytest.raises(UserError, match="has done 1 steps already"):
        make_loop(run=tmp_path / "run").run(0, progress=False)


@pytest.mark.parametrize(
    "damage, reason",
    [
        (lambda c: _truncate(c / "tensors.safetensors"), "does not match its hash"),
        (lambda c: _truncate(c / "state.json"), "does not match its hash"),
        (lambda c: (c / "COMPLETE").unlink(), "marker COMPLETE is missing"),
        (lambda c: (c / "COMPLETE").write_text("{"), "cannot be read"),
        (lambda c: (c / "state.json").unlink(), "state.json is missing"),
    ],
)
def test_a_broken_checkpoint_is_passed_over(make_loop, tmp_path, damage, reason) -> None:
    loop = make_loop(run=tmp_path / "run")
    loop.run(4, progress=False)
    newest, passed = newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert newest is not None
    assert newest.name == "step-000004"
    assert passed == []
    damage(newest)
    assert reason in (why_broken(newest) or "")
    with pytest.warns(UserWarning, match="going on from step-000002"):
        resumed = make_loop(run=tmp_path / "run")
    assert resumed.steps_done == 2
    resumed.run(4, progress=False)
    assert resumed.policy.fingerprint() == loop.policy.fingerprint()


def test_with_no_whole_checkpoint_it_starts_anew(make_loop, tmp_path: Path) -> None:
    loop = make_loop(run=tmp_path / "run")
    loop.run(2, progress=False)
    (tmp_path / "run" / "checkpoints" / "step-000002" / "COMPLETE").unlink()
    with pytest.warns(UserWarning, match="going on from the start"):
        resumed = make_loop(run=tmp_path / "run")
    assert resumed.steps_done == 0
    assert newest_checkpoint(tmp_path / "empty") == (None, [])


def test_only_the_newest_checkpoints_are_kept(make_loop, tmp_path: Path) -> None:
    loop = make_loop(run=tmp_path / "run", keep_checkpoints=2, checkpoint_every=1)
    loop.run(5, progress=False)
    names = sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-000004", "step-000005"]


_CHILD = """
import sys
from rlkit.loop import ClosedLoop, LoopConfig
from rlkit.policy import LoraSpec, Policy
from rlkit.rewards import Reward
letters = Reward(lambda completions, **_: [float(t.count("e")) for t in completions], "letters")
config = LoopConfig(problems_per_step=2, group_size=4, max_new_tokens=8, checkpoint_every=1)
policy = Policy.load(sys.argv[1], quantize="nf4", lora=LoraSpec(rank=4))
loop = ClosedLoop(policy, ["arith"], config=config, reward=letters, run=sys.argv[2])
loop.run(int(sys.argv[3]), progress=False)
print(loop.policy.fingerprint())
"""


def test_killed_at_any_moment_it_goes_on(untrained: Path, tmp_path: Path) -> None:
    """kill -9, twice, at moments of no one's choosing; then to the end."""

    def start(run: Path, steps: int) -> subprocess.Popen:
        command = [sys.executable, "-W", "ignore", "-c", _CHILD, str(untrained), str(run)]
        return subprocess.Popen([*command, str(steps)], stdout=subprocess.PIPE, text=True)

    run = tmp_path / "killed"
    for kill in range(2):
        child = start(run, 400)
        wanted = 2 + 3 * kill
        metrics = run / "metrics.jsonl"
        while child.poll() is None:
            if metrics.exists() and metrics.read_text().count("\n") >= wanted:
                break
            time.sleep(0.003)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    last = Run.open(run).metrics()[-1]["step"]
    finished = start(run, last + 3)
    fingerprint = finished.communicate(timeout=240)[0].strip()
    assert finished.returncode == 0
    steady = start(tmp_path / "steady", last + 3)
    assert steady.communicate(timeout=240)[0].strip() == fingerprint
    kept, expected = Run.open(run), Run.open(tmp_path / "steady")
    assert numbers(kept.metrics()) == numbers(expected.metrics())
    assert kept.rollouts() == expected.rollouts()
    assert [e["kind"] for e in kept.events()].count("resumed") >= 1


def _truncate(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
