"""The benchmarks of the policy engine on a GPU, in one run of some minutes.

The model has random weights in the shape of Qwen2.5-0.5B, so nothing has to be fetched: speed
does not depend on what a model knows. Texts of random weights are noise, so the reward looks at
token ids, which tell answers apart as well.

Memory is what torch allocates on the GPU, see `rlkit.bench.step_side`.

Left out: several GPUs; see `rlkit.scale`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlkit.bench.fixed_work import CASES, Case
from rlkit.errors import UserError

#: Sizes of Qwen2.5-0.5B, and of a very small model of the same kind.
QWEN = {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
    "max_position_embeddings": 4096,
}
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 2048,
    "max_position_embeddings": 256,
}


@dataclass(frozen=True)
class Plan:
    """What is run: the sizes of each part.

    Attributes:
        shape: of the model.
        rollout, score: their cases.
        steps: cases of whole steps.
        sequences: batch sizes of the sampler.
        repeats: rounds of each part.
        device: where.
        peer_dtype: what TRL multiplies in.
        ceilings: arguments of `rlkit.bench.ceilings.measure`.
    """

    shape: dict[str, int]
    rollout: Case
    score: Case
    steps: tuple[Case, ...]
    sequences: tuple[int, ...]
    repeats: int
    device: str
    peer_dtype: str
    ceilings: dict[str, Any]


FULL = Plan(
    QWEN,
    Case("rollout", new_tokens=64),
    Case("score", new_tokens=64),
    tuple(CASES.values()),
    (1, 8, 32, 128),
    3,
    "cuda",
    "bfloat16",
    {"width": 4096, "streamed": 1 << 30},
)
DRY = Plan(
    SMALL,
    Case("rollout", 2, 2, 48, 4),
    Case("score", 2, 2, 48, 4),
    (Case("4", 2, 2, 48, 4),),
    (1, 2),
    1,
    "cpu",
    "float32",
    {"width": 128, "streamed": 1 << 20, "seconds": 0.01},
)


def measure(
    *, dry: bool = False, minutes: float = 5.0, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Rollout, score and step, one after the other, as far as the minutes last.

    Args:
        dry: on the CPU with a very small model, to see that everything runs; no result.
        minutes: after these no further part is begun.

    Returns:
        `rollout`, `score`, `step` as from their own modules, `left_out` with the parts that
        found no time, `seconds` in all.

    Raises:
        UserError: there is no GPU, or a limit of 0.
    """
    import torch

    if minutes <= 0:
        raise UserError(f"the minutes must be above 0, not {minutes}")
    if not dry and not torch.cuda.is_available():
        raise UserError("there is no CUDA device here; --dry runs it on the CPU, very small")
    plan = DRY if dry else FULL
    begun = time.perf_counter()
    found: dict[str, Any] = {"dry": dry, "device": _device_name(plan.device), "left_out": []}
    with tempfile.TemporaryDirectory(prefix="rlkit-bench-") as folder:
        say("making a model of random weights ...")
        model = str(random_model(Path(folder), plan.shape))
        from rlkit.bench.ceilings import measure as measure_ceilings

        found["ceilings"] = measure_ceilings(plan.device, **plan.ceilings)
        for name, part in _parts(plan, model, found["ceilings"], say).items():
            if time.perf_counter() - begun > 60 * minutes:
                say(f"no time is left for {name}")
                found["left_out"].append(name)
                continue
            say(f"{name} ...")
            found[name] = part()
    found["seconds"] = round(time.perf_counter() - begun, 1)
    return found


def _parts(
    plan: Plan, model: str, ceilings: dict[str, Any], say: Callable[[str], None]
) -> dict[str, Callable[[], dict[str, Any]]]:
    from rlkit.bench import rollout, score, step

    common = {"repeats": plan.repeats, "ceilings": ceilings, "say": say}
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "rollout": lambda: rollout.measure(
            model, case=plan.rollout, sequences=plan.sequences, device=plan.device, **common
        ),
        "score": lambda: score.measure(model, case=plan.score, device=plan.device, **common),
    }
    for case in plan.steps:
        parts[f"step {case.name}"] = lambda case=case: step.measure(
            [case],
            policy=model,
            device=plan.device,
            peer_dtype=plan.peer_dtype,
            reward="ids",
            **common,
        )
    return parts


def random_model(folder: Path, shape: dict[str, int]) -> Path:
    """A model of Qwen2's kind with random weights, and a small tokenizer beside it."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from rlkit.policy.pretrain import PretrainConfig, new_tokenizer

    tokenizer = new_tokenizer(PretrainConfig(), examples=500)
    config = Qwen2Config(
        **shape,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def page(found: dict[str, Any]) -> str:
    """All of it as Markdown, for `docs/speed.md`."""
    from rlkit.bench import rollout, score, step

    shape = "a very small model" if found["dry"] else "random weights in the shape of Qwen 0.5 B"
    parts = [f"{found['device']}, {shape}, {found['seconds']:.0f} s in all."]
    for name in ("rollout", "score"):
        if name in found:
            parts += [f"**{name}**", (rollout if name == "rollout" else score).page(found[name])]
    steps = [found[name] for name in found if name.startswith("step ")]
    if steps:
        cases = [case for one in steps for case in one["cases"]]
        parts += ["**step**", step.page({**steps[0], "cases": cases})]
    if found["left_out"]:
        parts.append(f"No time was left for {', '.join(found['left_out'])}.")
    return "\n\n".join(parts)
