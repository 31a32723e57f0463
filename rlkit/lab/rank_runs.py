"""Rank runs: the same short GRPO training at several ranks of the adapter, stored and live.

    python -m rlkit.lab.rank_runs --make OUT.json

The adapter's output is multiplied by `alpha / rank` (Hu et al., 2106.09685). So there are two
ways to compare ranks: with that factor held (alpha grows with the rank), or with alpha held.
Both are trained, with three seeds each, on numbers to sort. What was measured lies in the
package; `rank_run` trains one live, in seconds.

Left out on purpose: other learning rates, and other tasks.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean

import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.theme import describe, line_style, number, template

FILE = Path(__file__).parent / "data" / "rank_runs.json"
RANKS, SEEDS, STEPS, EVERY = (1, 4, 16, 64), (0, 1, 2), 45, 15
#: Which alpha a rank gets: `factor` keeps alpha / rank at 2, `alpha` keeps alpha at 32.
HELD: dict[str, Callable[[int], int]] = {"factor": lambda rank: 2 * rank, "alpha": lambda rank: 32}
DOMAIN, HELD_OUT = "sort", 200


@dataclass(frozen=True)
class RankRun:
    """One training.

    Attributes:
        rank, alpha: of the adapter.
        held: what was the same at all ranks, `factor` or `alpha`.
        seed: of adapter, problems and answers.
        trained: how many numbers the adapter has.
        steps: updates taken when it was measured, from 0.
        pass_at_1: share of held-out problems solved, at each of them.
    """

    rank: int
    alpha: int
    held: str
    seed: int
    trained: int
    steps: tuple[int, ...]
    pass_at_1: tuple[float, ...]


def rank_run(
    rank: int,
    *,
    held: str = "factor",
    seed: int = 0,
    steps: int = STEPS,
    every: int = EVERY,
    held_out: int = HELD_OUT,
    policy: str | Path = "tiny",
) -> RankRun:
    """Trains an adapter of this rank on numbers to sort, beside an NF4 base.

    Args:
        steps: updates, 8 problems and 8 answers each.
        every: updates between two measurements.
        held_out: problems that are never trained on.

    Raises:
        UserError: an unknown `held`, or a policy that cannot be loaded.
    """
    from rlkit.loop import ClosedLoop, LoopConfig
    from rlkit.objectives import GRPO
    from rlkit.policy import LoraSpec, Policy

    if held not in HELD:
        raise UserError(f"held={held!r} is unknown; choose {' or '.join(HELD)}")
    if not 1 <= every <= steps:
        raise UserError(f"every must be 1 to {steps} updates, not {every}")
    spec = LoraSpec(rank=rank, alpha=HELD[held](rank))
    learner = Policy.load(policy, quantize="nf4", lora=spec, seed=seed)
    config = LoopConfig(problems_per_step=8, group_size=8, seed=seed)
    loop = ClosedLoop(learner, [DOMAIN], GRPO(), config)
    marks = sorted({0, *range(every, steps + 1, every), steps})
    solved = []
    for mark in marks:
        loop.run(mark, progress=False)
        solved.append(round(loop.evaluate(held_out).pass_at_1, 4))
    trained = learner.parameter_counts()[1]
    return RankRun(rank, spec.alpha, held, seed, trained, tuple(marks), tuple(solved))


def make(
    out: str | Path,
    *,
    ranks: Sequence[int] = RANKS,
    seeds: Sequence[int] = SEEDS,
    steps: int = STEPS,
    every: int = EVERY,
    policy: str | Path = "tiny",
    say: Callable[[str], None] = lambda text: None,
) -> list[RankRun]:
    """Trains all of them and writes them into `out`.

    Raises:
        UserError: there is such a file already.
    """
    out = Path(out)
    if out.exists():
        raise UserError(f"{out} exists already; give another name, or delete it")
    runs: list[RankRun] = []
    for held, rank, seed in itertools.product(HELD, ranks, seeds):
        # Where both ways give a rank the same alpha, it is the same training.
        same = [r for r in runs if (r.rank, r.alpha, r.seed) == (rank, HELD[held](rank), seed)]
        if same:
            runs.append(replace(same[0], held=held))
            continue
        run = rank_run(rank, held=held, seed=seed, steps=steps, every=every, policy=policy)
        say(f"rank {rank}, {held} held, seed {seed}: {run.pass_at_1}")
        runs.append(run)
    out.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")
    return runs


@cache
def stored_runs(file: Path = FILE) -> tuple[RankRun, ...]:
    """The runs that lie in the package.

    >>> sorted({run.rank for run in stored_runs()})
    [1, 4, 16, 64]
    """
    rows = json.loads(file.read_text())
    return tuple(
        RankRun(**{**row, "steps": tuple(row["steps"]), "pass_at_1": tuple(row["pass_at_1"])})
        for row in rows
    )


def rank_figure(
    held: str, live: Sequence[RankRun] = (), runs: Sequence[RankRun] | None = None
) -> go.Figure:
    """Mean curve of each rank with the spread of its seeds, and live runs as marks.

    Args:
        held: which comparison, `factor` or `alpha`.
        live: runs to draw on top.
        runs: the stored ones, when None.
    """
    figure = go.Figure(layout={"template": template()})
    chosen = [r for r in (stored_runs() if runs is None else runs) if r.held == held]
    if not chosen:
        raise UserError(f"no run holds {held!r}; there are {' and '.join(HELD)}")
    last = {}
    for index, rank in enumerate(sorted({r.rank for r in chosen})):
        same = [r for r in chosen if r.rank == rank]
        solved = list(zip(*(r.pass_at_1 for r in same), strict=True))
        means = [fmean(values) for values in solved]
        last[rank] = means[-1]
        style = line_style(index)
        figure.add_scatter(
            x=same[0].steps,
            y=[round(m, 4) for m in means],
            name=f"rank {rank}",
            mode="lines+markers",
            line={"color": style["color"], "dash": style["dash"], "width": 2},
            marker={"symbol": style["symbol"], "size": 7},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [max(v) - m for v, m in zip(solved, means, strict=True)],
                "arrayminus": [m - min(v) for v, m in zip(solved, means, strict=True)],
                "thickness": 1,
                "width": 4,
            },
        )
    for index, run in enumerate(live):
        style = line_style(index + len(last))
        figure.add_scatter(
            x=run.steps,
            y=run.pass_at_1,
            name=f"live: rank {run.rank}",
            mode="lines+markers",
            line={"color": style["color"], "dash": style["dash"], "width": 3},
            marker={"symbol": style["symbol"], "size": 10},
        )
    figure.update_xaxes(title_text="updates (number)")
    figure.update_yaxes(title_text="pass@1, held out (0 to 1)", rangemode="tozero")
    what = "alpha / rank held at 2" if held == "factor" else "alpha held at 32"
    figure.update_layout(title=what.capitalize(), height=430)
    figure.update_layout(legend={"y": -0.22, "yanchor": "top"}, margin={"t": 48, "b": 125})
    sizes = {r.rank: r.trained for r in chosen}
    ends = ", ".join(
        f"rank {rank} ({sizes[rank]:,} numbers) {number(round(value, 3))}"
        for rank, value in last.items()
    )
    seeds = len({r.seed for r in chosen})
    caption = (
        f"Mean of {seeds} seeds, and from the least to the largest of them. After "
        f"{chosen[0].steps[-1]} updates: {ends}."
    )
    return describe(figure, caption, f"Rising curves, one for each rank, {what}. {caption}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command that makes the package's runs."""
    parser = argparse.ArgumentParser(prog="python -m rlkit.lab.rank_runs")
    parser.add_argument("--make", required=True, metavar="OUT", help="the file to write")
    try:
        make(parser.parse_args(arguments).make, say=lambda text: print(text, flush=True))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
