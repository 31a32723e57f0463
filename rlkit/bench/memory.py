"""Peak memory of a step of the loop, and where it goes, each size in a fresh process.

What a process holds, once it has given back what is free, is read after each stage: libraries
loaded, model loaded, first answers (which make the merged copy), first step (which makes the
optimizer's moments), and the largest within a step. What is counted from shapes stands beside it:
the rest is what torch's allocator keeps and what libraries need.

Left out: memory of a GPU, which `torch.cuda` reports by itself.

Axes: B problems, G answers a problem, T completion tokens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rlkit.bench.fixed_work import Case
from rlkit.bench.resident import held_mb, peak_mb, reset_peak
from rlkit.bench.side_process import Channel, SideProcess, channel
from rlkit.bench.spread import machine, machine_line, processors
from rlkit.errors import UserError

NEW_TOKENS = (24, 64)
#: Tokens of a micro-batch; `None` leaves it to the loop.
BUDGETS: tuple[int | None, ...] = (None, 1024)
MIB = 1 << 20


def measure(
    policy: str = "smol",
    *,
    new_tokens: Sequence[int] = NEW_TOKENS,
    budgets: Sequence[int | None] = BUDGETS,
    case: Case | None = None,
    steps: int = 2,
    threads: int | None = None,
    quantize: str | None = "nf4",
    rank: int = 16,
    learner: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """A fresh process for each size.

    Args:
        new_tokens: values of T.
        budgets: tokens of a micro-batch; `None` for the loop's own choice.
        case: the other sizes; 4 x 8 answers after prompts of 48 tokens when not given.
        steps: of each process.

    Returns:
        `sizes`: each with `peak_mb` (of the steps), `stages` (held after each) and `counted`
        (what the shapes say, in MiB).

    Raises:
        UserError: sizes out of range, or a policy that cannot be loaded.
    """
    from rlkit.bench.step import check_policy

    if not new_tokens or not budgets or any(b is not None and b < 1 for b in budgets) or steps < 1:
        raise UserError("new tokens, micro-batch tokens and steps must be 1 or more")
    check_policy(policy)
    base = case or Case("memory")
    found = []
    for tokens in new_tokens:
        size = Case("memory", base.problems, base.group_size, base.prompt_tokens, tokens)
        for budget in budgets:
            settings = {
                "side": "ours",
                "policy": policy,
                "quantize": quantize,
                "rank": rank,
                "seed": 0,
                "learning_rate": 1e-5,
                "learner": learner,
                "micro_batch_tokens": budget,
                "case": size.to_dict(),
            }
            with SideProcess(__name__, settings, threads or processors()) as process:
                stages = process.answer()
                peaks = [process.ask(step=True) for _ in range(steps)]
            counted = stages.pop("counted")
            one = _sizes(tokens, budget, stages, peaks, counted)
            say(f"{tokens} tokens, micro-batch {_budget(budget)}: peak {one['peak_mb']} MB")
            found.append(one)
    return {"policy": policy, "size": base.to_dict(), "sizes": found, "machine": machine()}


def _sizes(
    tokens: int,
    budget: int | None,
    stages: dict[str, Any],
    peaks: list[dict[str, Any]],
    counted: dict[str, float],
) -> dict[str, Any]:
    known = [one["peak_mb"] for one in peaks if one["peak_mb"] is not None]
    held = [stages[name] for name in ("start_mb", "libraries_mb", "model_mb", "answered_mb")]
    kept = [*held, peaks[0]["held_mb"]]
    last = max(known) if known else None
    names = ("python", "libraries", "model and adapter", "rollout copy", "first step, kept")
    rises: dict[str, float | None] = {}
    before: float | None = 0.0
    for name, now in zip(names, kept, strict=True):
        rises[name] = None if now is None or before is None else round(now - before, 1)
        before = now
    most = max((value for value in kept if value is not None), default=None)
    rises["within a step, given back"] = (
        None if last is None or most is None else round(max(0.0, last - most), 1)
    )
    return {
        "new_tokens": tokens,
        "micro_batch_tokens": budget,
        "peak_mb": None if last is None else round(last),
        "loading_peak_mb": stages["loading_peak_mb"],
        "stages": rises,
        "counted": counted,
        "tokens": peaks[0]["tokens"],
        "seconds": [round(one["seconds"], 3) for one in peaks],
    }


def _serve(settings: dict[str, Any], line: Channel) -> None:
    """The fresh process: stages first, then a step for each request."""
    import time

    start = held_mb()  # before anything that could give memory back is imported
    import peft  # noqa: F401
    import transformers  # noqa: F401

    import rlkit.loop  # noqa: F401  (with all that it needs, torch among it)
    from rlkit.bench.step_side import load_ours, our_loop
    from rlkit.policy.quantization import probe_nf4

    if settings["quantize"] == "nf4":
        probe_nf4()  # loads bitsandbytes
    libraries = _kept_mb()
    policy = load_ours(settings, rollouts="fast")
    loading, model = peak_mb(), _kept_mb()
    loop = our_loop(policy, settings)
    problems = loop.domains[0].held_out(1)
    policy.generate(problems, 2, 2, 1.0)
    line.say(
        start_mb=start,
        libraries_mb=libraries,
        model_mb=model,
        loading_peak_mb=loading,
        answered_mb=_kept_mb(),
        counted=_counted(policy),
    )
    for _ in line:
        reset_peak()
        begun = time.perf_counter()
        loop.step()
        seconds = time.perf_counter() - begun
        line.say(seconds=seconds, peak_mb=peak_mb(), held_mb=_kept_mb(), tokens=loop.batch.tokens)


def _kept_mb() -> float | None:
    """What is in use: freed memory that the C library keeps is given back first."""
    from rlkit.loop.given_back import give_back

    give_back()
    return held_mb()


def _counted(policy: Any) -> dict[str, float]:
    """MiB by the shapes of tensors."""
    tensors = {
        tensor.data_ptr(): tensor.numel() * tensor.element_size()
        for tensor in (*policy.model.parameters(), *policy.model.buffers())
    }
    for parameter in policy.model.parameters():
        state = getattr(parameter, "quant_state", None)
        scales = [] if state is None else [state.absmax, getattr(state.state2, "absmax", None)]
        for tensor in scales:
            if tensor is not None:
                tensors[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
    total, trained = policy.parameter_counts()
    adapter = sum(p.numel() * p.element_size() for p in policy.trainable().values())
    each = 0 if policy.sampler.dtype is None else policy.sampler.dtype.itemsize
    counted = {
        "model and adapter": sum(tensors.values()),
        "of it adapter": adapter,
        "merged copy": (total - trained) * each,
        "gradients": adapter,
        "optimizer's moments": 2 * adapter,
    }
    return {name: round(value / MIB, 1) for name, value in counted.items()}


def _budget(budget: int | None) -> str:
    return "the loop's own" if budget is None else f"{budget:,} tokens"


def page(found: dict[str, Any]) -> str:
    """All of it as Markdown, for `docs/speed.md`."""
    size = found["size"]
    stages = list(found["sizes"][0]["stages"]) if found["sizes"] else []
    rows = [
        f"| tokens | micro-batch | peak MB | {' | '.join(stages)} |",
        "|---:|---|---:|" + "---:|" * len(stages),
    ]
    for one in found["sizes"]:
        cells = " | ".join(_shown(one["stages"][name]) for name in stages)
        rows.append(
            f"| {one['new_tokens']} | {_budget(one['micro_batch_tokens'])} | "
            f"{_shown(one['peak_mb'])} | {cells} |"
        )
    counted = found["sizes"][0]["counted"] if found["sizes"] else {}
    return "\n\n".join(
        [
            f"{found['policy']}, {size['problems']} problems x {size['group_size']} answers after "
            f"prompts of {size['prompt_tokens']} tokens; MB of resident memory, each row a fresh "
            f"process. " + machine_line(found["machine"]),
            "\n".join(rows),
            "Counted from the shapes, in MB: "
            + ", ".join(f"{name} {value:,.1f}" for name, value in counted.items())
            + ".",
        ]
    )


def _shown(mb: float | None) -> str:
    return "unknown" if mb is None else f"{mb:,.0f}"


def main() -> None:
    with channel() as line:
        _serve(json.loads(sys.argv[1]), line)


if __name__ == "__main__":
    main()
