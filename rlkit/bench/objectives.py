"""Eight objectives on one task: the same seeds, the same batches, the same number of steps.

Each run trains `tiny` with a fresh adapter and asks the same held-out problems now and
then. Every objective gets the same learning rate and the same inner epochs, none is tuned:
what is compared is what one gets who changes the preset's name and nothing else.

Runs that are done are kept in a file and not done again, so that a bench may be broken off.

Left out: tuned settings for each objective, and enough seeds to rank those that are close.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlkit.bench.svg import ribbons_svg
from rlkit.errors import UserError

#: In the order in which the docs tell of them.
NAMES = ("GRPO", "DrGRPO", "DAPO", "GSPO", "CISPO", "RLOO", "Reinforce", "PPO")
#: File of finished runs, in the folder given.
RUNS = "objectives.jsonl"


@dataclass(frozen=True)
class Setting:
    """What all runs share."""

    policy: str = "tiny"
    domain: str = "pyfunc"
    steps: int = 40
    problems_per_step: int = 8
    group_size: int = 8
    inner_epochs: int = 2
    learning_rate: float = 1e-3
    evaluate_every: int = 10
    held_out: int = 128
    samples: int = 2

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, int) and value < 1:
                raise UserError(f"{name} must be at least 1, not {value}")


def measure(
    names: Sequence[str] = NAMES,
    seeds: Sequence[int] = (0, 1, 2),
    setting: Setting | None = None,
    *,
    out: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Trains every objective with every seed.

    Args:
        names: presets, see `rlkit.objectives.PRESETS`.
        seeds: decide problems, adapter and everything that is sampled.
        setting: what all runs share.
        out: folder whose file of finished runs is read and added to.
        say: called with a sentence after each run.

    Returns:
        `setting`, `runs` (one row each) and `table` (one row an objective).

    Raises:
        UserError: an unknown name, no names, or no seeds.
    """
    from rlkit.objectives import get_objective

    setting = setting or Setting()
    labels = [type(get_objective(name)).__name__ for name in names]
    if not labels or not seeds:
        raise UserError("give at least one objective and one seed")
    done = _finished(out, setting)
    runs = []
    for label in labels:
        for seed in seeds:
            row = done.get((label, seed))
            if row is None:
                row = _run(label, seed, setting)
                _keep(out, row)
                ends = row["held_out"]
                say(f"{label}, seed {seed}: {ends[0][1]:.3f} to {ends[-1][1]:.3f} "
                    f"in {row['seconds']:.0f} s")  # fmt: skip
            runs.append(row)
    return {"setting": asdict(setting), "runs": runs, "table": table(runs)}


def table(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row an objective: medians and ranges over its seeds."""
    rows = []
    for name in dict.fromkeys(run["objective"] for run in runs):
        mine = [run for run in runs if run["objective"] == name]
        before, after = ([run["held_out"][i][1] for run in mine] for i in (0, -1))
        first = [run["held_out"][1] for run in mine]
        gains = [b - a for a, b in zip(before, after, strict=True)]
        rows.append(
            {
                "objective": name,
                "seeds": len(mine),
                "before": statistics.median(before),
                "first_step": first[0][0],
                "first": statistics.median(value for _, value in first),
                "after": statistics.median(after),
                "low": min(after),
                "high": max(after),
                "gain": statistics.median(gains),
                "clipped": statistics.median(run["clipped"] for run in mine),
                "entropy": statistics.median(run["entropy"][-1] for run in mine),
                "grad_norm": statistics.median(run["grad_norm"] for run in mine),
                "seconds": statistics.median(run["seconds"] for run in mine),
            }
        )
    return rows


def markdown(found: dict[str, Any]) -> str:
    """The table as the docs show it."""
    step = found["table"][0]["first_step"]
    lines = [
        f"| objective | before | after {step} steps | at the end, median [range] | gain "
        "| tokens clipped | entropy at the end | gradient norm | seconds a run |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in found["table"]:
        lines.append(
            f"| {row['objective']} | {row['before']:.3f} | {row['first']:.3f} | {row['after']:.3f} "
            f"[{row['low']:.3f}, {row['high']:.3f}] | {row['gain']:+.3f} | {row['clipped']:.1%} "
            f"| {row['entropy']:.2f} | {row['grad_norm']:.3g} | {row['seconds']:.0f} |"
        )
    return "\n".join(lines)


def svg(found: dict[str, Any]) -> str:
    """The curves: held-out pass@1, median and range over seeds, GRPO in grey beside."""
    setting = found["setting"]
    curves: dict[str, dict[float, list[float | None]]] = {}
    for run in found["runs"]:
        curve = curves.setdefault(run["objective"], {})
        for step, value in run["held_out"]:
            curve.setdefault(step, []).append(value)
    told = "; ".join(
        f"{row['objective']} from {row['before']:.2f} to {row['after']:.2f} "
        f"({row['low']:.2f} to {row['high']:.2f})"
        for row in found["table"]
    )
    lowest = min(value for run in found["runs"] for _, value in run["held_out"])
    return ribbons_svg(
        curves,
        low=math.floor(lowest * 10) / 10,
        title=f"{setting['policy']} on {setting['domain']}, {setting['steps']} steps: "
        "held-out pass@1",
        description=f"Median and range over seeds, GRPO's median dashed in grey. {told}.",
        x_title="steps",
        y_title="held-out pass@1 (0 to 1)",
        beside="GRPO" if "GRPO" in curves and len(curves) > 1 else None,
    )


def _run(label: str, seed: int, setting: Setting) -> dict[str, Any]:
    from rlkit.loop import ClosedLoop, LoopConfig
    from rlkit.objectives import get_objective
    from rlkit.policy import LoraSpec, Policy

    started = time.perf_counter()
    policy = Policy.load(setting.policy, quantize="nf4", lora=LoraSpec(), seed=seed)
    config = LoopConfig(
        problems_per_step=setting.problems_per_step,
        group_size=setting.group_size,
        inner_epochs=setting.inner_epochs,
        learning_rate=setting.learning_rate,
        seed=seed,
    )
    loop = ClosedLoop(policy, [setting.domain], get_objective(label), config)
    held_out: list[tuple[int, float | None]] = []
    records = []

    def examine() -> None:
        found = loop.evaluate(setting.held_out, setting.samples)
        held_out.append((loop.steps_done, found.pass_at_1))

    examine()
    while loop.steps_done < setting.steps:
        records += loop.run(
            min(setting.steps, loop.steps_done + setting.evaluate_every), progress=False
        )
        examine()
    clips = [r["clip_ratio/region_mean"] for r in records]
    norms = [r["grad_norm"] for r in records if r["grad_norm"] is not None]
    return {
        "objective": label,
        "seed": seed,
        "setting": asdict(setting),
        "held_out": held_out,
        "pass_rate": [r["pass_rate"] for r in records],
        "entropy": [r["entropy"] for r in records],
        "clipped": statistics.fmean(c for c in clips if c is not None),
        "grad_norm": statistics.median(norms),
        "tokens": loop.tokens_done,
        "seconds": round(time.perf_counter() - started, 1),
    }


def _finished(out: Path | None, setting: Setting) -> dict[tuple[str, int], dict[str, Any]]:
    """Runs of the same setting that the folder holds already."""
    file = None if out is None else out / RUNS
    if file is None or not file.exists():
        return {}
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # cut off by a kill: that run is done again
        if row.get("setting") == asdict(setting):
            found[row["objective"], row["seed"]] = row
    return found


def _keep(out: Path | None, row: dict[str, Any]) -> None:
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    with (out / RUNS).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")
