"""Two processes under torchrun: together they do what one process does alone."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlkit.objectives import GRPO

HERE = Path(__file__).parent
#: Ends a hang: a rank that waits for the other for ever.
HANG_SECONDS = 150


def start(*arguments: str, ranks: int, folder: Path) -> subprocess.Popen:
    """Starts torchrun; what its processes leave behind would lie in `folder`."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
        "TMPDIR": str(folder),
    }
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc_per_node", str(ranks), *arguments),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def torchrun(*arguments: str, ranks: int, folder: Path) -> str:
    """Runs to the end; gives the output."""
    with start(*arguments, ranks=ranks, folder=folder) as launched:
        try:
            output, _ = launched.communicate(timeout=HANG_SECONDS)
        finally:
            launched.kill()
    assert launched.returncode == 0, output[-3000:]
    return output


@pytest.fixture(scope="module")
def seen(tmp_path_factory, untrained):
    """What rank 0 and rank 1 of two saw, and the same run in this one process."""
    both, alone = tmp_path_factory.mktemp("two"), tmp_path_factory.mktemp("one")
    torchrun(str(HERE / "ranks.py"), str(both), str(untrained), ranks=2, folder=both)
    spec = importlib.util.spec_from_file_location("ranks_of_scale", HERE / "ranks.py")
    ranks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ranks)
    found = [json.loads((both / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    one = json.loads(json.dumps({"train": ranks.train(alone, str(untrained))}))
    return (*found, one)


def test_both_ranks_see_the_whole_batch_alike(seen):
    first, second, _ = (s["train"] for s in seen)
    for name in ("advantages", "rewards", "keys", "texts", "probabilities", "weights"):
        assert first[name] == second[name], name
    assert len(first["advantages"]) == 12
    assert second["records"] == []  # rank 0 alone decides and writes


def test_two_ranks_have_the_advantages_of_one(seen):
    """And ask the same problems, say the same words, and are paid the same."""
    two, _, one = (s["train"] for s in seen)
    assert two["keys"] == one["keys"]
    assert two["texts"] == one["texts"]
    assert two["rewards"] == one["rewards"]
    assert two["advantages"] == pytest.approx(one["advantages"], abs=1e-5)
    assert two["probabilities"] == one["probabilities"]
    assert max(map(abs, one["advantages"])) > 0.1
    assert any(value is None for row in one["rewards"] for value in row)


def test_the_advantages_are_those_of_our_objective(seen):
    import torch

    two = seen[0]["train"]
    rows = [[float("nan") if r is None else r for r in row] for row in two["rewards"]]
    ours_BG, _ = GRPO().advantages(torch.tensor(rows, dtype=torch.float64))
    assert two["advantages"] == pytest.approx(ours_BG.flatten().tolist(), abs=1e-5)


def test_two_ranks_learn_what_one_learns(seen):
    two, _, one = (s["train"] for s in seen)
    for mine, theirs in zip(two["records"], one["records"], strict=True):
        assert mine["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=1e-4)
        assert mine["reward"] == pytest.approx(theirs["reward"], abs=1e-6)
    for name, total in one["weights"].items():
        assert two["weights"][name] == pytest.approx(total, abs=1e-4), name


def test_shards_are_gathered_while_a_rank_generates(seen):
    for shards in (seen[0]["shards"], seen[1]["shards"]):
        assert shards["apart"] < 1e-5
        assert shards["apart_again"] < 1e-5
        assert shards["in_shards"] == [True, False]
        assert shards["cut_afterwards"]


def test_a_killed_rank_leaves_nothing_and_the_run_goes_on(tmp_path):
    """`kill -9` of one of two ranks in the middle of a run, then `--resume`."""
    scratch, run = tmp_path / "scratch", tmp_path / "run"
    scratch.mkdir()
    config = tmp_path / "config.yaml"
    config.write_text(
        f"policy: tiny\nrun: {run}\ndomains: [pyfunc]\nlora: {{rank: 4}}\nsteps: 200\n"
        "problems_per_step: 2\ngroup_size: 4\nmax_new_tokens: 40\ndevice: cpu\n"
        "checkpoint_every: 2\nlearning_rate: 1.0e-3\n"
    )
    command = ("-m", "rlkit.scale.train", "--config", str(config))
    launched = start(*command, ranks=2, folder=scratch)
    family: list[psutil.Process] = []
    try:
        metrics = run / "metrics.jsonl"
        until = time.monotonic() + HANG_SECONDS
        while not metrics.exists() or metrics.read_text().count("\n") < 3:
            assert launched.poll() is None and time.monotonic() < until, "it did not begin"
            time.sleep(0.05)
        family = psutil.Process(launched.pid).children(recursive=True)
        ranks = [p for p in family if p.environ().get("RANK") == "1" and "rlkit.scale" in _line(p)]
        ranks[0].kill()
        output, _ = launched.communicate(timeout=HANG_SECONDS)
    finally:
        launched.kill()
    assert launched.returncode != 0, output[-2000:]
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive, [_line(p) for p in alive]
    assert not list(scratch.glob("rlkit-*")), list(scratch.iterdir())

    from rlkit.loop.run import Run
    from rlkit.policy import Policy

    done = len(Run.open(run).metrics())
    steps = str(done + 2)
    torchrun(*command, "--resume", "--max-steps", steps, ranks=2, folder=scratch)
    kept = Run.open(run)
    assert [row["step"] for row in kept.metrics()] == list(range(1, done + 3))
    events = kept.events()
    assert "resumed" in [event["kind"] for event in events]
    assert events[-1] | {"time": ""} == {"time": "", "step": done + 2, "kind": "finished"}
    assert Policy.load(run / "model", quantize=None).version == done + 2
    assert not list(scratch.glob("rlkit-*")), list(scratch.iterdir())


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
