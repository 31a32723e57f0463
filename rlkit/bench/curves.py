"""Curves of runs that are done: the same setting with other seeds, as one figure and table.

Nothing is run; all is read from the runs' directories, so a figure in the docs is made from
what `rlkit demo` left behind.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlkit.bench.svg import Curve, ribbons_svg
from rlkit.errors import UserError
from rlkit.loop.run import Run, difference

#: Steps whose mean is one point of the training curve.
WINDOW = 5
HELD_OUT, TRAINING = "held-out problems", "while training"


def read(folders: Sequence[str | Path]) -> dict[str, Any]:
    """What the runs have in common, and the numbers of each.

    Returns:
        `policy`, `domains`, and `runs`: each with `seed`, `steps`, `held_out` (step and
        pass@1), `pass_rate` of each training step, `seconds` of all steps.

    Raises:
        UserError: no runs, a folder that holds none, or runs that differ in more than the seed.
    """
    if not folders:
        raise UserError("give the directory of at least one run")
    runs = [Run.open(folder) for folder in folders]
    first = _without_seed(runs[0].config)
    for run in runs[1:]:
        if apart := difference(first, _without_seed(run.config)):
            raise UserError(f"{run.path} is a run of another setting than {runs[0].path}: {apart}")
    return {
        "policy": first["policy"]["name"],
        "domains": first["domains"],
        "runs": [_numbers(run) for run in runs],
    }


def _without_seed(config: dict[str, Any]) -> dict[str, Any]:
    return {
        **config,
        "policy": {n: v for n, v in config["policy"].items() if n != "seed"},
        "loop": {n: v for n, v in config["loop"].items() if n != "seed"},
    }


def _numbers(run: Run) -> dict[str, Any]:
    rows = run.metrics()
    exams: dict[int, list[float | None]] = {}
    for event in run.events():
        if event["kind"] == "evaluation":
            exams.setdefault(event["step"], []).append(event["pass_at_1"])
    return {
        "seed": run.config["loop"]["seed"],
        "steps": len(rows),
        "held_out": [[step, _mean(values)] for step, values in sorted(exams.items())],
        "pass_rate": [row["pass_rate"] for row in rows],
        "seconds": sum(row["step_time"] for row in rows),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def curves(found: dict[str, Any]) -> dict[str, Curve]:
    """Both curves: pass@1 on held-out problems, and the pass rate while training."""
    held_out: dict[float, list[float | None]] = {}
    training: dict[float, list[float | None]] = {}
    for run in found["runs"]:
        for step, value in run["held_out"]:
            held_out.setdefault(step, []).append(value)
        rates = run["pass_rate"]
        for end in range(WINDOW, len(rates) + 1, WINDOW):
            training.setdefault(end, []).append(_mean(rates[end - WINDOW : end]))
    made = {HELD_OUT: held_out, TRAINING: training}
    return {name: curve for name, curve in made.items() if curve}


def svg(found: dict[str, Any]) -> str:
    """The curves, median and range over seeds.

    Raises:
        UserError: the runs are too short for a curve.
    """
    made = curves(found)
    if not made:
        raise UserError(f"nothing to draw: no evaluation, and fewer than {WINDOW} steps")
    told = "; ".join(
        f"seed {run['seed']} from {run['held_out'][0][1]:.2f} to {run['held_out'][-1][1]:.2f}"
        for run in found["runs"]
        if run["held_out"]
    )
    what = f"{found['policy']} on {', '.join(found['domains'])}"
    return ribbons_svg(
        made,
        title=f"{what}: answers that pass, {len(found['runs'])} seeds",
        description=f"Median and range over seeds. Held out: {told}. Training: means of "
        f"{WINDOW} steps.",
        x_title="steps",
        y_title="share that passes (0 to 1)",
    )


def markdown(found: dict[str, Any]) -> str:
    """A row for each run."""
    lines = [
        "| seed | steps | seconds | held-out pass@1 before | after |",
        "|---:|---:|---:|---:|---:|",
    ]
    for run in found["runs"]:
        exams = [value for _, value in run["held_out"]]
        shown = ["–" if value is None else f"{value:.3f}" for value in exams] or ["–"]
        lines.append(
            f"| {run['seed']} | {run['steps']} | {run['seconds']:.0f} | {shown[0]} | {shown[-1]} |"
        )
    return "\n".join(lines)
