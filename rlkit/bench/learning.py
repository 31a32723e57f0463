"""The same learning: reward curves of ours and of TRL's trainer on one fixed task.

Same model, adapter, prompts, reward, learning rate and number of answers; the answers differ,
since each side draws from its own random numbers. So curves are compared over several seeds:
they overlap within noise when the mean of the last steps of one side lies within what the seeds
scatter.

The task is fixed and dense: write texts with many an e. A model can raise that in 20 steps.
TRL's adapter is kept in float32 here, as ours is; in bfloat16 it would lose small updates.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from rlkit.bench.fixed_work import Case
from rlkit.bench.side_process import SideProcess
from rlkit.bench.spread import processors
from rlkit.bench.step import SIDES, check_policy
from rlkit.errors import UserError

#: Small enough for an hour's patience, large enough to be seen to learn.
LEARNING = Case("learning", problems=4, group_size=8, prompt_tokens=48, new_tokens=16)
#: Steps at the start and at the end that are averaged.
WINDOW = 5


def measure(
    *,
    policy: str = "smol",
    steps: int = 20,
    seeds: Sequence[int] = (0, 1),
    learning_rate: float = 5e-4,
    case: Case = LEARNING,
    threads: int | None = None,
    quantize: str | None = "nf4",
    rank: int = 16,
    learner: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Both sides for each seed.

    Returns:
        `ours` and `peer`: for each seed the mean reward of each step; `gains` and `verdict`,
        see `compare`.

    Raises:
        UserError: sizes out of range, or a policy that cannot be loaded.
    """
    if steps < 2 or not seeds or learning_rate <= 0:
        raise UserError(
            f"steps must be 2 or more, the learning rate above 0 and the seeds one or more, not "
            f"{steps}, {learning_rate} and {list(seeds)}"
        )
    check_policy(policy)
    curves: dict[str, list[list[float]]] = {name: [] for name in SIDES}
    for seed in seeds:
        for name in SIDES:
            settings = {
                "side": name,
                "policy": policy,
                "quantize": quantize,
                "rank": rank,
                "seed": seed,
                "learning_rate": learning_rate,
                "learner": learner,
                "keep_float32": True,
                "case": case.to_dict(),
            }
            with SideProcess("rlkit.bench.step_side", settings, threads or processors()) as process:
                process.answer()
                curve = [process.ask(step=True)["reward"] for _ in range(steps)]
            curves[name].append([round(value, 4) for value in curve])
            say(f"seed {seed}, {name}: {curve[0]:.3f} to {curve[-1]:.3f}")
    return {
        "steps": steps,
        "seeds": list(seeds),
        "learning_rate": learning_rate,
        "size": case.to_dict(),
        **curves,
        **compare(curves["ours"], curves["peer"]),
    }


def compare(ours: Sequence[Sequence[float]], peer: Sequence[Sequence[float]]) -> dict[str, Any]:
    """How much each side gained, and whether the curves overlap within noise.

    The gain is the mean of the last steps less the mean of the first. Noise is the larger of
    two: how much the gains scatter over seeds, and how much a mean of so many steps scatters
    by itself.

    >>> found = compare([[0.1, 0.1, 0.3, 0.3]], [[0.1, 0.1, 0.31, 0.29]])
    >>> found["gains"], found["overlap"]
    ({'ours': [0.2], 'peer': [0.2]}, True)
    """
    gains = {
        "ours": [_gain(curve) for curve in ours],
        "peer": [_gain(curve) for curve in peer],
    }
    means = {name: statistics.fmean(of) for name, of in gains.items()}
    apart = abs(means["ours"] - means["peer"])
    scatter = [statistics.stdev(of) for of in gains.values() if len(of) > 1]
    wobble = [_wobble(curve) for curve in (*ours, *peer)]
    count = min(len(ours), len(peer))
    noise = 2 * max([*scatter, max(wobble)]) * (2 / count) ** 0.5
    return {
        "gains": {name: [round(value, 4) for value in of] for name, of in gains.items()},
        "apart": round(apart, 4),
        "noise": round(noise, 4),
        "overlap": apart <= noise,
    }


def _window(curve: Sequence[float]) -> int:
    return max(1, min(WINDOW, len(curve) // 2))


def _gain(curve: Sequence[float]) -> float:
    n = _window(curve)
    return statistics.fmean(curve[-n:]) - statistics.fmean(curve[:n])


def _wobble(curve: Sequence[float]) -> float:
    """Standard error of a gain, from differences of neighbouring steps."""
    steps = [b - a for a, b in itertools.pairwise(curve)]
    each = statistics.fmean(d * d for d in steps) / 2
    return (2 * each / _window(curve)) ** 0.5


def page(found: dict[str, Any]) -> str:
    """The curves side by side, as Markdown."""
    seeds = found["seeds"]
    heads = [f"rlkit, seed {s}" for s in seeds] + [f"TRL, seed {s}" for s in seeds]
    rows = [
        f"| step | {' | '.join(heads)} |",
        "|---:|" + "---:|" * len(heads),
    ]
    for step in range(found["steps"]):
        cells = [f"{curve[step]:.3f}" for curve in (*found["ours"], *found["peer"])]
        rows.append(f"| {step + 1} | {' | '.join(cells)} |")
    gains = found["gains"]
    shown = {name: ", ".join(f"{value:+.3f}" for value in of) for name, of in gains.items()}
    verdict = "overlap" if found["overlap"] else "do not overlap"
    return "\n".join(
        [
            *rows,
            "",
            f"Gain from the first steps to the last: rlkit {shown['ours']}; TRL {shown['peer']}. "
            f"The means are {found['apart']:.3f} apart, noise is {found['noise']:.3f}: the curves "
            f"{verdict} within noise.",
        ]
    )
