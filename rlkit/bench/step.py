"""A whole GRPO step: ours beside TRL's, each in a process of its own, in turns.

Ours is `ClosedLoop.step`: problems from the curriculum, answers, rewards, advantages, update,
record, monitor. TRL's is one step of `GRPOTrainer`. Same NF4 model, same adapter on all linear
layers, same prompts in the same order, same reward, and exactly the same number of tokens,
which is checked. The first step of each warms up and is left out of the seconds.

Memory is the largest resident memory of the whole process during its steps (python, libraries,
model, copy, optimizer, activations), so that nothing can hide; what the process held before its
first step is given beside it.

Axes: B problems, G answers a problem, T completion tokens.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from rlkit.bench.counting import generation, update
from rlkit.bench.fixed_work import CASES, Case
from rlkit.bench.side_process import SideProcess
from rlkit.bench.spread import in_turns, machine, machine_line, percent, processors, spread
from rlkit.errors import UserError

_MODULE = "rlkit.bench.step_side"
SIDES = ("ours", "peer")
PEER_DTYPES = ("float32", "bfloat16")


def measure(
    cases: Sequence[str | Case] = tuple(CASES),
    *,
    policy: str = "smol",
    repeats: int = 3,
    threads: int | None = None,
    quantize: str | None = "nf4",
    rank: int = 16,
    seed: int = 0,
    learner: str | None = None,
    peer_dtype: str = "float32",
    device: str = "auto",
    reward: str = "text",
    ceilings: dict[str, Any] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Steps of both sides for each case.

    Args:
        cases: names out of `CASES`, or cases of other sizes.
        policy: name of a policy, or a folder.
        repeats: measured steps of each side; one more of each comes first.
        threads: of each side; all processors by default.
        learner: which way ours learns, where the policy has several.
        peer_dtype: what TRL multiplies in: `float32`, or `bfloat16` (its `bf16=True`).
        device: as in `Policy.load`.
        reward: a name of `rlkit.bench.fixed_work.REWARDS`; `ids` for models that know no text.
        ceilings: from `rlkit.bench.ceilings.measure`; measured now when not given.
        say: told how it goes.

    Returns:
        `cases`, each with `ours_s`, `peer_s` (medians), `speedup` (median of the rounds' own
        ratios), `ours_mb`, `peer_mb` (peaks) and what is behind them; `ceilings`, `machine`.

    Raises:
        UserError: an unknown case, sizes out of range, or a policy that cannot be loaded.
        RuntimeError: the two sides did not do the same work.
    """
    chosen = [case if isinstance(case, Case) else _case(case) for case in cases]
    threads = processors() if threads is None else threads
    if repeats < 1 or threads < 1:
        raise UserError(f"repeats and threads must be 1 or more, not {repeats} and {threads}")
    if peer_dtype not in PEER_DTYPES:
        raise UserError(f"the peer's type must be {' or '.join(PEER_DTYPES)}, not {peer_dtype!r}")
    check_policy(policy)
    if ceilings is None:
        ceilings = measured_ceilings(threads, say)
    settings = {
        "policy": policy,
        "quantize": quantize,
        "rank": rank,
        "seed": seed,
        "learning_rate": 1e-5,
        "learner": learner,
        "peer_dtype": peer_dtype,
        "device": device,
        "reward": reward,
    }
    found = [_measure_case(case, settings, repeats, threads, ceilings, say) for case in chosen]
    return {
        "policy": policy,
        "threads": threads,
        "repeats": repeats,
        "rank": rank,
        "cases": found,
        "ceilings": ceilings,
        "machine": machine(),
    }


def _case(name: str) -> Case:
    if name not in CASES:
        raise UserError(f"unknown case {name!r}; choose {', '.join(CASES)}")
    return CASES[name]


def check_policy(policy: str) -> None:
    """Says at once, in one sentence, when a policy is not here.

    Raises:
        UserError: it is not.
    """
    from rlkit.policy.loading import resolve_source

    resolve_source(policy)


def measured_ceilings(threads: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The ceilings with so many threads; what was set before is put back."""
    import torch

    from rlkit.bench.ceilings import measure as measure_ceilings

    say("measuring the machine's ceilings ...")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return measure_ceilings()
    finally:
        torch.set_num_threads(before)


def _measure_case(
    case: Case,
    settings: dict[str, Any],
    repeats: int,
    threads: int,
    ceilings: dict[str, Any],
    say: Callable[[str], None],
) -> dict[str, Any]:
    say(f"case {case.name}: loading both sides ...")
    with ExitStack() as stack:
        side = {
            name: stack.enter_context(
                SideProcess(_MODULE, {**settings, "side": name, "case": case.to_dict()}, threads)
            )
            for name in SIDES
        }
        ready = {name: process.answer() for name, process in side.items()}
        answers: dict[str, list[dict[str, Any]]] = {name: [] for name in SIDES}

        def step(name: str) -> float:
            answers[name].append(side[name].ask(step=True))
            return answers[name][-1]["seconds"]

        seconds = in_turns({name: lambda n=name: step(n) for name in SIDES}, repeats, say)
    _check_equal(case, answers)
    shape = _shape(settings["policy"])
    made = {
        name: _side(ready[name], answers[name], shape, case, settings["rank"], ceilings)
        for name in SIDES
    }
    ratios = [p / o for o, p in zip(seconds["ours"], seconds["peer"], strict=True)]
    return {
        "case": case.name,
        **{f"{name}_s": made[name]["seconds"]["median"] for name in SIDES},
        "speedup": round(statistics.median(ratios), 2),
        "speedups": spread(ratios),
        **{f"{name}_mb": made[name]["peak_mb"] for name in SIDES},
        "memory_share": _ratio(made["ours"]["peak_mb"], made["peer"]["peak_mb"]),
        "size": case.to_dict(),
        "tokens": answers["ours"][0]["tokens"],
        "prompt_tokens": answers["ours"][0]["prompt_tokens"],
        "ours": made["ours"],
        "peer": made["peer"],
    }


def _check_equal(case: Case, answers: dict[str, list[dict[str, Any]]]) -> None:
    """Both sides must have made all tokens of the case, and read prompts of the same length."""
    counts = {
        name: {(one["prompt_tokens"], one["tokens"]) for one in of} for name, of in answers.items()
    }
    expected = counts["ours"]
    if counts["peer"] != expected or {tokens for _, tokens in expected} != {case.tokens}:
        raise RuntimeError(
            f"case {case.name}: the work is not the same; (prompt tokens, completion tokens) are "
            f"{sorted(counts['ours'])} for ours and {sorted(counts['peer'])} for the peer, and "
            f"{case.tokens} completion tokens were asked for"
        )


def _side(
    ready: dict[str, Any],
    answers: list[dict[str, Any]],
    shape: Any,
    case: Case,
    rank: int,
    ceilings: dict[str, Any],
) -> dict[str, Any]:
    measured = answers[1:]
    seconds = {name: [one[name] for one in measured] for name in ("generation_s", "update_s")}
    peaks = [one["peak_mb"] for one in answers if one["peak_mb"] is not None]
    peak = max(peaks) if peaks else None
    held = ready["held_mb"]
    made = {
        "seconds": spread([one["seconds"] for one in measured]),
        "generation_s": spread(seconds["generation_s"]),
        "update_s": spread(seconds["update_s"]),
        "peak_mb": _whole(peak),
        "loaded_mb": _whole(held),
        "rise_mb": None if peak is None or held is None else _whole(peak - held),
        "dead_groups": [one["dead"] for one in answers],
        "stepped": all(one["stepped"] for one in answers),
        "about": ready["about"],
    }
    if shape is not None:
        each = 2.0 if "bfloat16" in str(ready["about"].get("rollouts")) else 4.0
        work = generation(shape, case, each)
        made["shares"] = {
            "generation": work.shares(made["generation_s"]["median"], ceilings),
            "update": update(shape, case, rank).shares(made["update_s"]["median"], ceilings),
        }
    return made


def _shape(policy: str) -> Any:
    """The model's shape, for counting; `None` where it cannot be read."""
    from rlkit.scale.memory import shape_of

    try:
        return shape_of(policy)
    except (UserError, AttributeError):
        return None


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else round(above / below, 3)


def _whole(mb: float | None) -> float | None:
    return None if mb is None else round(mb)


def page(found: dict[str, Any]) -> str:
    """All of it as Markdown, for `docs/speed.md`."""
    from rlkit.bench.ceilings import line

    first = found["cases"][0]["size"] if found["cases"] else None
    rows = [
        "| case | side | s a step | least | most | generation | update | peak MB | of it before "
        "the first step | speedup | memory |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    shares = [
        "| case | side | generation, of the products' ceiling | of the memory's | update, of the "
        "products' |",
        "|---|---|---:|---:|---:|",
    ]
    for case in found["cases"]:
        for name in ("peer", "ours"):
            one = case[name]
            shown = "TRL" if name == "peer" else "rlkit"
            ending = (
                f" {case['speedup']:.1f} ({case['speedups']['least']:.1f} to "
                f"{case['speedups']['largest']:.1f}) | {percent(case['memory_share'])} |"
                if name == "ours"
                else " 1 | |"
            )
            rows.append(
                f"| {case['case']} | {shown} | {one['seconds']['median']:.2f} | "
                f"{one['seconds']['least']:.2f} | {one['seconds']['largest']:.2f} | "
                f"{one['generation_s']['median']:.2f} | {one['update_s']['median']:.2f} | "
                f"{_shown(one['peak_mb'])} | {_shown(one['loaded_mb'])} |{ending}"
            )
            if "shares" in one:
                parts = one["shares"]
                shares.append(
                    f"| {case['case']} | {shown} | "
                    f"{percent(parts['generation']['matmul_share'])} | "
                    f"{percent(parts['generation']['memory_share'])} | "
                    f"{percent(parts['update']['matmul_share'])} |"
                )
    about = [
        f"{found['policy']}, LoRA r={found['rank']}, {first['problems']} problems x "
        f"{first['group_size']} answers, {found['threads']} threads, {found['repeats']} steps of "
        "each side in turns. "
        if first
        else "",
        machine_line(found["machine"]),
    ]
    parts = ["".join(about), "\n".join(rows)]
    if len(shares) > 2:
        parts += ["\n".join(shares), line(found["ceilings"])]
    return "\n\n".join(parts)


def _shown(mb: float | None) -> str:
    return "unknown" if mb is None else f"{mb:,.0f}"
