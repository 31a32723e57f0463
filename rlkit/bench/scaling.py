"""The shape of the curve: seconds of generation and update against group, prompt and answer.

One size is varied at a time, the others stay. To each curve two descriptions are fitted: a
line, seconds = start + slope x size, and a power, seconds ~ size ^ exponent. An exponent well
below 1 says that most of the cost is shared, as a prompt is by its group; one above 1 that
something grows faster than the work.

The step is the loop's own, with REINFORCE in place of GRPO, so that a group may be one answer;
the cost is the same. Axes: B problems, G answers a problem, P prompt tokens, T completion
tokens.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlkit.bench.fixed_work import NEVER, SHARE_OF_E, sized_prompts
from rlkit.bench.spread import in_turns, machine, machine_line, spread
from rlkit.errors import UserError

#: What is varied, and over which sizes.
SWEEPS: dict[str, tuple[int, ...]] = {
    "group_size": (1, 2, 4, 8, 16, 32),
    "prompt_tokens": (48, 128, 256, 512, 1024),
    "new_tokens": (16, 32, 64, 128),
}
PARTS = ("generation", "update")
WORDS = {
    "group_size": "answers a problem",
    "prompt_tokens": "prompt tokens",
    "new_tokens": "tokens of an answer",
}
#: The same over a panel of the figure, where there is little room.
SHORT = {"group_size": "group", "prompt_tokens": "prompt", "new_tokens": "answer"}


@dataclass(frozen=True)
class Middle:
    """The sizes that stay while another is varied."""

    problems: int = 4
    group_size: int = 8
    prompt_tokens: int = 48
    new_tokens: int = 24


def measure(
    policy: str = "smol",
    *,
    sweeps: Sequence[str] = tuple(SWEEPS),
    sizes: Mapping[str, Sequence[int]] | None = None,
    middle: Middle | None = None,
    repeats: int = 2,
    quantize: str | None = "nf4",
    rank: int = 16,
    seed: int = 0,
    learner: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """All curves; sizes of a curve are measured in turns.

    Args:
        sizes: of each sweep. When not given, those of `SWEEPS` that this policy can do.

    Returns:
        `curves`: for each varied size its `points` (size, generation and update as spreads)
        and for generation and update the fitted `start_s`, `slope_s`, `exponent`.

    Raises:
        UserError: an unknown sweep, sizes out of range, or a policy that cannot be loaded.
    """
    import torch

    from rlkit.bench.step import check_policy
    from rlkit.bench.step_side import load_ours

    for name in sweeps:
        if name not in SWEEPS:
            raise UserError(f"unknown sweep {name!r}; choose {', '.join(SWEEPS)}")
        if sizes is not None and (len(set(sizes[name])) < 2 or min(sizes[name]) < 1):
            raise UserError(f"{name} needs two different sizes of 1 or more, not {sizes[name]}")
    if repeats < 1:
        raise UserError(f"repeats must be 1 or more, not {repeats}")
    check_policy(policy)
    say("loading the policy ...")
    settings = {"policy": policy, "quantize": quantize, "rank": rank, "seed": seed}
    loaded = load_ours({**settings, "learner": learner}, rollouts="fast")
    loaded.end_ids = NEVER
    middle = middle or Middle()
    # A size that cannot be is told before anything is measured.
    able = {name: _able(loaded, name, sizes, middle, say) for name in sweeps}
    curves = {}
    for name, chosen in able.items():
        say(f"{WORDS[name]}: {', '.join(map(str, chosen))}; seconds ...")
        curves[name] = _curve(loaded, name, chosen, middle, repeats, say)
    return {
        "policy": policy,
        "threads": torch.get_num_threads(),
        "middle": vars(middle),
        "repeats": repeats,
        "curves": curves,
        "machine": machine(),
    }


def _able(
    policy: Any,
    name: str,
    sizes: Mapping[str, Sequence[int]] | None,
    middle: Middle,
    say: Callable[[str], None],
) -> list[int]:
    """The sizes of a sweep that this policy can do; those that were asked for must be."""
    able = []
    for size in SWEEPS[name] if sizes is None else sizes[name]:
        try:
            _loop(policy, _with(middle, name, size))
        except UserError as error:
            if sizes is not None:
                raise
            say(f"{size} {WORDS[name]} left out: {error}")
        else:
            able.append(size)
    if len(able) < 2:
        raise UserError(f"{policy.name!r} can do fewer than two of the sizes of {name}")
    return able


def _with(middle: Middle, name: str, size: int) -> Middle:
    return replace(middle, **{name: size})


def _curve(
    policy: Any,
    name: str,
    sizes: Sequence[int],
    middle: Middle,
    repeats: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    loops = {size: _loop(policy, _with(middle, name, size)) for size in sizes}
    seen: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}

    def step(size: int) -> float:
        record = loops[size].step()
        made = {"generation": record["time/generate"], "update": record["time/update"]}
        seen[size].append({**made, "tokens": loops[size].batch.tokens})
        return made["generation"] + made["update"]

    in_turns({str(size): lambda s=size: step(s) for size in sizes}, repeats, say)
    points = [
        {
            "size": size,
            "tokens": seen[size][0]["tokens"],
            **{part: spread([one[part] for one in seen[size][1:]]) for part in PARTS},
        }
        for size in sizes
    ]
    fits = {
        part: fit([p["size"] for p in points], [p[part]["median"] for p in points])
        for part in PARTS
    }
    return {"points": points, **fits}


def _loop(policy: Any, size: Middle) -> Any:
    from rlkit.loop import ClosedLoop, LoopConfig
    from rlkit.objectives import Reinforce, Truncate

    if size.prompt_tokens + size.new_tokens > policy.context:
        raise UserError(
            f"{size.prompt_tokens} prompt tokens and {size.new_tokens} new ones do not fit the "
            f"context of {policy.context} tokens of {policy.name!r}"
        )
    return ClosedLoop(
        policy,
        [sized_prompts(policy, size.prompt_tokens)],
        Reinforce(off_policy=Truncate(2.0)),
        LoopConfig(
            problems_per_step=size.problems,
            group_size=size.group_size,
            max_new_tokens=size.new_tokens,
            learning_rate=1e-6,
        ),
        reward=SHARE_OF_E,
    )


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> dict[str, float]:
    """A line and a power through some points, by least squares.

    >>> fit([1, 2, 4], [3.0, 5.0, 9.0])["slope_s"], fit([1, 2, 4], [3.0, 6.0, 12.0])["exponent"]
    (2.0, 1.0)
    """
    line = statistics.linear_regression(sizes, seconds)
    logs = [math.log(max(value, 1e-9)) for value in seconds]
    power = statistics.linear_regression([math.log(size) for size in sizes], logs)
    return {
        "start_s": round(line.intercept, 5),
        "slope_s": round(line.slope, 6),
        "exponent": round(power.slope, 3),
    }


def page(found: dict[str, Any]) -> str:
    """All of it as Markdown, for `docs/speed.md`."""
    middle = found["middle"]
    parts = [
        f"{found['policy']}, {middle['problems']} problems; {middle['group_size']} answers, "
        f"{middle['prompt_tokens']} prompt tokens and {middle['new_tokens']} new ones where not "
        f"varied; {found['threads']} threads, {found['repeats']} rounds in turns. "
        + machine_line(found["machine"])
    ]
    for name, curve in found["curves"].items():
        rows = [
            f"| {WORDS[name]} | generation s | least to most | update s | least to most |",
            "|---:|---:|---:|---:|---:|",
        ]
        for point in curve["points"]:
            cells = " | ".join(
                f"{point[part]['median']:.3f} | {point[part]['least']:.3f} to "
                f"{point[part]['largest']:.3f}"
                for part in PARTS
            )
            rows.append(f"| {point['size']} | {cells} |")
        fits = "; ".join(
            f"{part} {curve[part]['start_s']:.3f} s + {1000 * curve[part]['slope_s']:.2f} ms for "
            f"each, exponent {curve[part]['exponent']:.2f}"
            for part in PARTS
        )
        parts.append("\n".join([*rows, "", f"Fitted: {fits}."]))
    return "\n\n".join(parts)


def svg(found: dict[str, Any]) -> str:
    """The curves as an SVG: seconds against the share of the largest size."""
    from rlkit.bench.svg import ribbons_svg

    curves = {}
    for name, curve in found["curves"].items():
        largest = max(point["size"] for point in curve["points"])
        for part in PARTS:
            curves[f"{part}, {SHORT[name]} to {largest}"] = {
                100 * point["size"] / largest: point[part]["all"] for point in curve["points"]
            }
    highest = max(max(values) for curve in curves.values() for values in curve.values())
    return ribbons_svg(
        curves,
        title="Seconds of a step's two parts as sizes grow",
        description="One panel for generation and one for the update, for each size that is "
        "varied: answers a problem, prompt tokens, tokens of an answer.",
        x_title="size, per cent of the largest",
        y_title="seconds",
        columns=2,
        high=_round_up(highest),
    )


def _round_up(value: float) -> float:
    """The next of 1, 2, 4 and 10 times a power of ten.

    >>> _round_up(0.13), _round_up(3.0)
    (0.2, 4.0)
    """
    power = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    return next(round(step * power, 9) for step in (1, 2, 4, 10) if step * power >= value)
