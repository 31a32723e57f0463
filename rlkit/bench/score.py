"""Seconds of scoring answers and of the backward pass: ours beside the plain way.

The same answers, 4 x 8 of them, for all. The plain way runs the whole model over each prompt
with its answer, the prompt repeated for every answer, and holds all logits. TRL's is the same
with its own head, which computes log-probabilities and entropies in tiles. Both take all
answers at once. Ours is `policy.score` in the loop's own micro-batches. Each is followed by the
backward pass of the mean log-probability; that all give the same log-probabilities and the same
gradient is measured too, and shown.

Left out: gradient checkpointing, which trades seconds for memory; `rlkit bench step` has it.

Axes: B problems, G answers a problem, N = B x G, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rlkit.bench.counting import update
from rlkit.bench.fixed_work import NEVER, Case, some_problems
from rlkit.bench.spread import in_turns, machine, machine_line, percent, spread
from rlkit.errors import UserError

PEER, TRL = "transformers, all logits", "transformers, TRL's head"
DEFAULT = Case("score", new_tokens=64)
#: Ours: through the model, and through the sampler's copy in float32 and in the fastest type.
WAYS = {
    "rlkit, model": ("model", "exact"),
    "rlkit, exact copy": ("copy", "exact"),
    "rlkit, fast copy": ("copy", "fast"),
}


def measure(
    policy: str = "smol",
    *,
    case: Case = DEFAULT,
    repeats: int = 3,
    quantize: str | None = "nf4",
    rank: int = 16,
    seed: int = 0,
    device: str = "auto",
    ceilings: dict[str, Any] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """All ways to score, in turns.

    Returns:
        `contestants`: each with `seconds` (a spread), `forward_s`, `backward_s` (medians),
        `speedup` over the plain way, how far log-probabilities (nats, mean and largest) and
        gradients (relative length of the difference) are from the plain way's.

    Raises:
        UserError: sizes out of range, or a policy that cannot be loaded.
    """
    import torch

    from rlkit.bench.step import check_policy, measured_ceilings
    from rlkit.policy import flatten

    if repeats < 1:
        raise UserError(f"repeats must be 1 or more, not {repeats}")
    check_policy(policy)
    if ceilings is None:
        ceilings = measured_ceilings(torch.get_num_threads(), say)
    say("loading the policies ...")
    plain = _load(policy, "model", "exact", quantize, rank, seed, device)
    rollouts = flatten(
        plain.generate(
            some_problems(plain, case.prompt_tokens, case.problems, seed),
            case.group_size,
            case.new_tokens,
            1.0,
        )
    )
    tokens = sum(len(rollout) for rollout in rollouts)
    ways: dict[str, tuple[Any, Callable[[], Iterable[Any]]]] = {
        PEER: (plain, lambda: [_all_logits(plain, rollouts)])
    }
    trl = _load(policy, "model", "exact", quantize, rank, seed, device)
    if _add_trl_head(trl.model):
        ways[TRL] = (trl, lambda: [_trl_head(trl, rollouts)])
    for name, (learner, rollouts_kind) in WAYS.items():
        own = _load(policy, learner, rollouts_kind, quantize, rank, seed, device)
        ways[name] = (own, lambda own=own: _in_parts(own, rollouts))
    wait = torch.cuda.synchronize if plain.device.type == "cuda" else lambda: None
    parts: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}

    def timed(name: str) -> Callable[[], float]:
        own, way = ways[name]

        def run() -> float:
            for parameter in own.trainable().values():
                parameter.grad = None
            wait()
            forward = backward = 0.0
            begun = time.perf_counter()
            for logprobs_NT in way():
                wait()
                between = time.perf_counter()
                (logprobs_NT.sum() / tokens).backward()
                wait()
                ended = time.perf_counter()
                forward, backward = forward + between - begun, backward + ended - between
                begun = ended
            parts[name].append((forward, backward))
            return forward + backward

        return run

    say(f"{case.answers} answers of {case.new_tokens} tokens, seconds ...")
    seconds = in_turns({name: timed(name) for name in ways}, repeats, say)
    needs = update(_shape_of(plain), case, rank)
    truth = _result(*ways[PEER])
    found = []
    for name, values in seconds.items():
        measured = parts[name][1:]
        one = {"name": name, "seconds": spread(values)}
        one["forward_s"] = round(statistics.median(f for f, _ in measured), 4)
        one["backward_s"] = round(statistics.median(b for _, b in measured), 4)
        ratios = [p / v for p, v in zip(seconds[PEER], values, strict=True)]
        one["speedup"] = round(statistics.median(ratios), 2)
        one.update(_apart(_result(*ways[name]), truth))
        one["share"] = needs.shares(one["seconds"]["median"], ceilings)["matmul_share"]
        found.append(one)
    return {
        "policy": policy,
        "threads": torch.get_num_threads(),
        "size": case.to_dict(),
        "tokens": tokens,
        "repeats": repeats,
        "contestants": found,
        "ceilings": ceilings,
        "machine": machine(),
    }


def _load(
    policy: str,
    learner: str,
    rollouts: str,
    quantize: str | None,
    rank: int,
    seed: int,
    device: str,
) -> Any:
    from rlkit.bench.step_side import load_ours

    settings = {"policy": policy, "quantize": quantize, "rank": rank, "seed": seed}
    settings |= {"device": device, "learner": learner}
    loaded = load_ours(settings, rollouts=rollouts)
    loaded.end_ids = NEVER
    _stir(loaded, seed)
    return loaded


def _stir(policy: Any, seed: int) -> None:
    """Gives the adapter's second matrices small numbers, as after some updates.

    A fresh adapter has zeros there, so that half of its gradients would be zero.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(policy.trainable().items()):
            if "lora_B" in name:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.copy_((0.01 * noise).to(parameter))


def _inputs(policy: Any, rollouts: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Prompts repeated and padded on the left, answers behind them: ids, mask, answers' ids."""
    import torch

    from rlkit.policy.generation import pad_left

    prompt_NP, seen_NP = pad_left([r.prompt_ids for r in rollouts], policy.pad_id)
    answer_NT = torch.tensor([r.completion_ids for r in rollouts])
    ids = torch.cat([prompt_NP, answer_NT], dim=1).to(policy.device)
    seen = torch.cat([seen_NP, torch.ones_like(answer_NT)], dim=1).to(policy.device)
    return ids, seen, answer_NT.to(policy.device)


def _all_logits(policy: Any, rollouts: Sequence[Any]) -> Any:
    """As a user of transformers would write it."""
    import torch

    ids, seen, answer_NT = _inputs(policy, rollouts)
    length = answer_NT.shape[1]
    logits_NTV = policy.model(input_ids=ids, attention_mask=seen, use_cache=False).logits
    logits_NTV = logits_NTV[:, -(length + 1) : -1].float()
    logprobs_NTV = torch.log_softmax(logits_NTV, dim=-1)
    return logprobs_NTV.gather(-1, answer_NT[:, :, None])[:, :, 0]


def _add_trl_head(model: Any) -> bool:
    """Gives a model TRL's head; says whether this TRL has one."""
    try:
        from trl.trainer.utils import add_fused_lm_head
    except ImportError:
        return False
    inside = model.get_base_model() if hasattr(model, "get_base_model") else model
    add_fused_lm_head(inside, temperature=1.0, outputs=("log_probs", "entropy"))
    return True


def _trl_head(policy: Any, rollouts: Sequence[Any]) -> Any:
    """As TRL's trainer calls the model."""
    ids, seen, answer_NT = _inputs(policy, rollouts)
    labels = ids.masked_fill(seen == 0, -100)
    labels[:, : -answer_NT.shape[1]] = -100
    out = policy.model(input_ids=ids, attention_mask=seen, labels=labels, fused_lm_head=True)
    return out.log_probs[:, -answer_NT.shape[1] :]


def _in_parts(policy: Any, rollouts: Sequence[Any]) -> Iterator[Any]:
    """As the loop does: in micro-batches of as many tokens as the policy can bear."""
    from rlkit.loop import LoopConfig
    from rlkit.loop.micro_batches import budget_of, split

    config = LoopConfig()
    for part in split(rollouts, config.micro_batch, budget_of(config, policy)):
        yield policy.score(part).logprobs_NT


def _result(policy: Any, way: Callable[[], Iterable[Any]]) -> tuple[Any, Any]:
    """Log-probabilities, and all gradients in one row."""
    import torch

    for parameter in policy.trainable().values():
        parameter.grad = None
    seen = []
    for logprobs_NT in way():
        logprobs_NT.sum().backward()
        seen.append(logprobs_NT.detach().float().cpu())
    gradients = [
        torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten()
        for _, p in sorted(policy.trainable().items())
    ]
    return torch.cat(seen), torch.cat(gradients).float().cpu()


def _apart(found: tuple[Any, Any], truth: tuple[Any, Any]) -> dict[str, float]:
    gap_NT = (found[0] - truth[0]).abs()
    length = float(truth[1].norm())
    return {
        "logprob_apart_mean": float(gap_NT.mean()),
        "logprob_apart_max": float(gap_NT.max()),
        "gradient_apart": float((found[1] - truth[1]).norm()) / length if length else 0.0,
    }


def _shape_of(policy: Any) -> Any:
    from rlkit.scale.memory import shape_from

    return shape_from(policy.model.config)


def page(found: dict[str, Any]) -> str:
    """All of it as Markdown, for `docs/speed.md`."""
    from rlkit.bench.ceilings import line

    size = found["size"]
    rows = [
        "| way | s | least | most | forward | backward | times the plain way | of the products' "
        "ceiling | log-probs apart, mean and largest | gradients apart |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found["contestants"]:
        seconds = one["seconds"]
        rows.append(
            f"| {one['name']} | {seconds['median']:.2f} | {seconds['least']:.2f} | "
            f"{seconds['largest']:.2f} | {one['forward_s']:.2f} | {one['backward_s']:.2f} | "
            f"{one['speedup']:.1f} | {percent(one['share'])} | {one['logprob_apart_mean']:.1e}, "
            f"{one['logprob_apart_max']:.1e} | {one['gradient_apart']:.1e} |"
        )
    return "\n\n".join(
        [
            f"{found['policy']}, {size['problems']} problems x {size['group_size']} answers x "
            f"{size['new_tokens']} tokens after prompts of {size['prompt_tokens']}, "
            f"{found['threads']} threads, {found['repeats']} rounds in turns. "
            + machine_line(found["machine"]),
            "\n".join(rows),
            line(found["ceilings"]),
        ]
    )
