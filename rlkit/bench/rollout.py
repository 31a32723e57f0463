"""Tokens a second: our sampler beside `model.generate`, and ours at several batch sizes.

The peer is what a user of `transformers` would write: the same NF4 model with its adapter,
prompts repeated for the group and padded on the left, `do_sample`. Where the processor has a
kernel of bitsandbytes for inference in four bits, it is shown as a peer of its own: it repacks
the weights, and from then on no gradient passes through them, so it cannot train.

No answer ends early, so that all make equally many tokens. Our copy of the weights is merged
anew after each update; that is measured apart, as `merge_s`.

Axes: B problems, G answers a problem, N = B x G, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from rlkit.bench.counting import generation
from rlkit.bench.fixed_work import NEVER, Case, some_problems
from rlkit.bench.spread import in_turns, machine, machine_line, percent, spread
from rlkit.errors import UserError

PEER, REPACKED = "model.generate", "model.generate, repacked"
KINDS = ("exact", "fast")
SEQUENCES = (1, 8, 32, 128)
DEFAULT = Case("rollout", new_tokens=64)


def measure(
    policy: str = "smol",
    *,
    case: Case = DEFAULT,
    sequences: Sequence[int] = SEQUENCES,
    repeats: int = 3,
    quantize: str | None = "nf4",
    rank: int = 16,
    seed: int = 0,
    device: str = "auto",
    ceilings: dict[str, Any] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """All ways to generate, in turns.

    Args:
        policy: name of a policy, or a folder.
        case: B, G, P and T of the comparison.
        sequences: batch sizes at which ours is measured; up to 8 of them share a prompt.
        repeats: rounds; one more comes first.
        ceilings: from `rlkit.bench.ceilings.measure`; measured now when not given.

    Returns:
        `contestants`: each with `tokens_s` (a spread), `tokens`, `speedup` over the peer and
        shares of the ceilings; `sequences`: tokens/s of ours by batch size; `merge_s`.

    Raises:
        UserError: sizes out of range, or a policy that cannot be loaded.
    """
    import torch

    from rlkit.bench.step import check_policy, measured_ceilings

    if repeats < 1 or any(count < 1 for count in sequences):
        raise UserError("repeats and numbers of sequences must be 1 or more")
    check_policy(policy)
    if ceilings is None:
        ceilings = measured_ceilings(torch.get_num_threads(), say)

    say("loading the policies ...")
    plain = _load(policy, "plain", quantize, rank, seed, device)
    ours = {kind: _load(policy, kind, quantize, rank, seed, device) for kind in KINDS}
    problems = some_problems(plain, case.prompt_tokens, case.problems, seed)
    wait = torch.cuda.synchronize if plain.device.type == "cuda" else lambda: None
    made: dict[str, set[int]] = {}

    def timed(name: str, work: Callable[[], int]) -> Callable[[], float]:
        def run() -> float:
            wait()
            begun = time.perf_counter()
            tokens = work()
            wait()
            made.setdefault(name, set()).add(tokens)
            return tokens / (time.perf_counter() - begun)

        return run

    contestants = {PEER: timed(PEER, _peer(plain, problems, case))}
    repacked = _repacked(policy, quantize, rank, seed, device)
    if repacked is not None:
        contestants[REPACKED] = timed(REPACKED, _peer(repacked, problems, case))
    for kind, one in ours.items():
        name = f"rlkit, {kind}"
        contestants[name] = timed(name, _ours(one, problems, case.group_size, case.new_tokens))
    say(f"{case.problems} x {case.group_size} answers of {case.new_tokens} tokens, tokens/s ...")
    speeds = in_turns(contestants, repeats, say)
    wrong = {name: counts for name, counts in made.items() if counts != {case.tokens}}
    if wrong:
        raise RuntimeError(f"{case.tokens} tokens were asked for, and not all made them: {wrong}")

    shape = _shape_of(plain)
    found = []
    for name, values in speeds.items():
        one = {"name": name, "tokens_s": spread(values), "tokens": case.tokens}
        one["speedup"] = round(
            statistics.median(v / p for v, p in zip(values, speeds[PEER], strict=True)), 2
        )
        kind = name.removeprefix("rlkit, ")
        one["about"] = str(ours[kind].sampler) if kind in ours else str(plain.precision)
        each = _bytes_of(ours[kind].sampler.dtype) if kind in ours else _NF4
        needs = generation(shape, case, each)
        one["shares"] = needs.shares(case.tokens / one["tokens_s"]["median"], ceilings)
        found.append(one)
    return {
        "policy": policy,
        "threads": torch.get_num_threads(),
        "size": case.to_dict(),
        "repeats": repeats,
        "contestants": found,
        "merge_s": {kind: _merge_seconds(one, problems, wait) for kind, one in ours.items()},
        "sequences": _by_sequences(ours, sequences, case, repeats, seed, timed, say),
        "ceilings": ceilings,
        "machine": machine(),
    }


#: Bytes of a weight in four bits, scales included; see `rlkit.scale.memory`.
_NF4 = (4 + 0.127) / 8


def _load(policy: str, kind: str, quantize: str | None, rank: int, seed: int, device: str) -> Any:
    from rlkit.bench.step_side import load_ours

    settings = {"policy": policy, "quantize": quantize, "rank": rank, "seed": seed}
    loaded = load_ours({**settings, "device": device}, rollouts=kind)
    loaded.end_ids = NEVER
    return loaded


def _repacked(policy: str, quantize: str | None, rank: int, seed: int, device: str) -> Any | None:
    """A model that bitsandbytes may repack for inference; `None` where it would not."""
    from rlkit.policy.quantization import four_bit_layers

    if quantize is None:
        return None
    try:
        from bitsandbytes.functional import has_avx512bf16
    except ImportError:
        return None
    if not has_avx512bf16():
        return None
    loaded = _load(policy, "plain", quantize, rank, seed, device)
    if loaded.device.type != "cpu":
        return None
    layers = four_bit_layers(loaded.model)
    touched = [layer for layer in layers if hasattr(layer, "support_avx512bf16_for_cpu")]
    for layer in touched:
        layer.support_avx512bf16_for_cpu = True
    return loaded if touched else None


def _peer(policy: Any, problems: Sequence[Any], case: Case) -> Callable[[], int]:
    """`model.generate`, as its documentation shows it."""
    import torch

    messages = [[dict(m) for m in p.prompt] for p in problems for _ in range(case.group_size)]
    tokenizer = policy.tokenizer
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    texts = [
        tokenizer.apply_chat_template(m, tokenize=False, add_generation_prompt=True)
        for m in messages
    ]
    batch = tokenizer(
        texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False
    ).to(policy.device)
    seen = batch["input_ids"].shape[1]

    @torch.no_grad()
    def run() -> int:
        out = policy.model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            min_new_tokens=case.new_tokens,
            max_new_tokens=case.new_tokens,
            pad_token_id=policy.pad_id,
        )
        return out[:, seen:].numel()

    return run


def _ours(policy: Any, problems: Sequence[Any], group_size: int, tokens: int) -> Callable[[], int]:
    def run() -> int:
        groups = policy.generate(problems, group_size, tokens, 1.0)
        return sum(len(rollout) for group in groups for rollout in group.rollouts)

    return run


def _merge_seconds(policy: Any, problems: Sequence[Any], wait: Callable[[], None]) -> float:
    """What the first generation after an update costs more: the weights are merged anew."""

    def one_token() -> float:
        wait()
        begun = time.perf_counter()
        policy.generate(problems[:1], 1, 1, 1.0)
        wait()
        return time.perf_counter() - begun

    known = min(one_token() for _ in range(3))
    policy.restore(policy.snapshot())  # the same numbers, written again: a change to the sampler
    return round(max(0.0, one_token() - known), 4)


def _by_sequences(
    ours: dict[str, Any],
    sequences: Sequence[int],
    case: Case,
    repeats: int,
    seed: int,
    timed: Callable[..., Callable[[], float]],
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    rows = []
    for count in sequences:
        group = next(size for size in (8, 4, 2, 1) if count % size == 0)
        some = some_problems(next(iter(ours.values())), case.prompt_tokens, count // group, seed)
        say(f"{count} sequences, tokens/s ...")
        speeds = in_turns(
            {
                kind: timed(f"{kind} {count}", _ours(one, some, group, case.new_tokens))
                for kind, one in ours.items()
            },
            repeats,
            say,
        )
        row = {"sequences": count, "problems": count // group, "group_size": group}
        row["tokens"] = count * case.new_tokens
        rows.append({**row, **{kind: spread(values) for kind, values in speeds.items()}})
    return rows


def _shape_of(policy: Any) -> Any:
    from rlkit.scale.memory import shape_from

    return shape_from(policy.model.config)


def _bytes_of(dtype: Any) -> float:
    return 4.0 if dtype is None else float(dtype.itemsize)


def page(found: dict[str, Any]) -> str:
    """All of it as Markdown, for `docs/speed.md`."""
    from rlkit.bench.ceilings import line

    size = found["size"]
    rows = [
        "| generator | computes with | tokens/s | least | most | times the peer | of the products' "
        "ceiling | of the memory's |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found["contestants"]:
        speed, shares = one["tokens_s"], one["shares"]
        rows.append(
            f"| {one['name']} | {one['about']} | {speed['median']:,.0f} | {speed['least']:,.0f} | "
            f"{speed['largest']:,.0f} | {one['speedup']:.1f} | {percent(shares['matmul_share'])} | "
            f"{percent(shares['memory_share'])} |"
        )
    kinds = [kind for kind in KINDS if found["sequences"] and kind in found["sequences"][0]]
    many = [
        "| sequences | " + " | ".join(f"{kind}, tokens/s (least to most)" for kind in kinds) + " |",
        "|---:|" + "---:|" * len(kinds),
    ]
    for row in found["sequences"]:
        cells = " | ".join(
            f"{row[kind]['median']:,.0f} ({row[kind]['least']:,.0f} to {row[kind]['largest']:,.0f})"
            for kind in kinds
        )
        many.append(f"| {row['sequences']} | {cells} |")
    merges = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in found["merge_s"].items())
    parts = [
        f"{found['policy']}, {size['problems']} problems x {size['group_size']} answers x "
        f"{size['new_tokens']} tokens after prompts of {size['prompt_tokens']}, "
        f"{found['threads']} threads, {found['repeats']} rounds in turns. "
        + machine_line(found["machine"]),
        "\n".join(rows),
    ]
    if found["sequences"]:
        parts.append("\n".join(many))
    parts += [f"Merging the weights after an update: {merges}.", line(found["ceilings"])]
    return "\n\n".join(parts)
