"""The four-bit trap, sprung on purpose: an evaluation after which nothing is learned.

On a processor with AVX512-BF16 bitsandbytes repacks a layer's weight for a faster product,
the first time it is asked in eval mode without a gradient. That product has no backward
pass: nothing flows through the layer any more, also in train mode. What still flows takes
the ways around it, along the residual stream and through the adapters.

`Policy.load` switches the repacking off. Here it is switched on again, on a policy that is
thrown away afterwards. `rlkit.lab.trap_records` keeps what was measured, for machines on
which it cannot be shown.

Left out on purpose: other devices, which have no such product.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from rlkit.errors import UserError

DOMAIN, SEEDS = "sort", (0, 1, 2)


@dataclass(frozen=True)
class Trap:
    """A policy's gradient before and after one evaluation without gradient.

    Attributes:
        policy: its name.
        where: `here`, or where the stored numbers come from.
        largest, mean: how far log-probs moved, nats.
        before, after: length of the adapter's gradient, on the same answers.
        cosine: between the two gradients; 1 would be the same direction.
        by_block: for each block of the model, the length before and after.
    """

    policy: str
    where: str
    largest: float
    mean: float
    before: float
    after: float
    cosine: float
    by_block: tuple[tuple[float, float], ...]

    def __str__(self) -> str:
        return (
            f"log-probs moved by {self.mean:.4f} nats on average and {self.largest:.3f} at most\n"
            f"gradient of the adapter: {self.before:.3f} before, {self.after:.3f} after\n"
            f"cosine between the two: {self.cosine:.2f}"
        )


@dataclass(frozen=True)
class TrapRun:
    """A short training, with the trap or without it.

    Attributes:
        sprung: whether the layers were allowed to repack their weights.
        where: `here`, or where the stored numbers come from.
        seed: of adapter, problems and answers.
        before, after: share of held-out problems solved at the first try.
        grad_norms: length of the gradient at each update.
    """

    sprung: bool
    where: str
    seed: int
    before: float
    after: float
    grad_norms: tuple[float, ...]

    def __str__(self) -> str:
        mean = sum(self.grad_norms) / len(self.grad_norms)
        return (
            f"{'with the trap' if self.sprung else 'without it':<14}seed {self.seed}: pass@1 "
            f"{self.before:.3f} before, {self.after:.3f} after {len(self.grad_norms)} updates; "
            f"gradient {mean:.2f}"
        )


def why_not() -> str:
    """Why the trap cannot be shown on this machine, in a sentence; empty where it can."""
    from rlkit.policy.quantization import probe_nf4

    reason = probe_nf4("cpu")
    if reason is not None:
        return f"The trap cannot be shown here: {reason}."
    import bitsandbytes.functional as library

    if not getattr(library, "has_avx512bf16", bool)():
        return (
            "The trap cannot be shown here: it needs a processor with AVX512-BF16, and this one "
            "has none."
        )
    return ""


def spring(
    name: str = "tiny",
    *,
    problems: int = 8,
    group_size: int = 8,
    max_new_tokens: int = 12,
    domain: str = DOMAIN,
    seed: int = 0,
) -> Trap:
    """Loads a policy, springs the trap, and says what became of its gradient.

    The gradient is GRPO's, with the task's own reward, on answers that were drawn before;
    where no group has contrast, on advantages of +1 and -1 in turn.

    Raises:
        UserError: the trap cannot be shown here.
    """
    from rlkit.policy import LoraSpec, Policy
    from rlkit.policy.quantization import four_bit_layers
    from rlkit.policy.rollout import flatten
    from rlkit.tasks import get_domain

    reason = why_not()
    if reason:
        raise UserError(reason)
    policy = Policy.load(
        name, quantize="nf4", lora=LoraSpec(), seed=seed, rollouts="plain", learner="model"
    )
    _first_step(policy, seed)
    asked = list(itertools.islice(get_domain(domain).stream(seed=seed), problems))
    groups = policy.generate(asked, group_size, max_new_tokens)
    rollouts = flatten(groups)
    advantages_N = _advantages(groups)
    before = _gradient(policy, rollouts, advantages_N)
    with torch.no_grad():
        healthy = policy.score(rollouts)
    for layer in four_bit_layers(policy.model):
        layer.support_avx512bf16_for_cpu = True
    with torch.no_grad():
        ill = policy.score(rollouts)
    after = _gradient(policy, rollouts, advantages_N)
    moved = (ill.logprobs_NT - healthy.logprobs_NT)[healthy.mask_NT].abs()
    blocks = sorted({_block(name) for name in before})
    return Trap(
        name,
        "here",
        float(moved.max()),
        float(moved.mean()),
        _length(before),
        _length(after),
        _cosine(before, after),
        tuple(
            (
                _length({n: g for n, g in before.items() if _block(n) == block}),
                _length({n: g for n, g in after.items() if _block(n) == block}),
            )
            for block in blocks
        ),
    )


def train(sprung: bool, *, steps: int = 20, held_out: int = 200, seed: int = 0) -> TrapRun:
    """Trains `tiny` on numbers to sort, through its 4-bit layers, one evaluation before.

    Args:
        sprung: whether the trap is on.
        steps: updates of 8 problems and 8 answers.

    Raises:
        UserError: the trap is on and cannot be shown here.
    """
    from rlkit.loop import ClosedLoop, LoopConfig
    from rlkit.objectives import GRPO
    from rlkit.policy import LoraSpec, Policy
    from rlkit.policy.quantization import four_bit_layers

    if sprung and why_not():
        raise UserError(why_not())
    policy = Policy.load(
        "tiny", quantize="nf4", lora=LoraSpec(), seed=seed, rollouts="plain", learner="model"
    )
    for layer in four_bit_layers(policy.model):
        layer.support_avx512bf16_for_cpu = sprung
    # The loop's own check of the ratio, at 1 %, now and then stops a run with the trap.
    config = LoopConfig(problems_per_step=8, group_size=8, seed=seed, ratio_tolerance=1.0)
    loop = ClosedLoop(policy, [DOMAIN], GRPO(), config)
    before = loop.evaluate(held_out).pass_at_1
    with _quiet():
        records = loop.run(steps, progress=False)
    norms = tuple(round(record["grad_norm"] or 0.0, 4) for record in records)
    return TrapRun(sprung, "here", seed, before, loop.evaluate(held_out).pass_at_1, norms)


# -- gradients ------------------------------------------------------------------------------


def _first_step(policy: Any, seed: int) -> None:
    """Gives B matrices, which begin at 0, the size that a few updates give them."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.trainable().items():
            if "lora_B" in name:
                parameter.copy_(0.01 * torch.randn(parameter.shape, generator=draw))


def _advantages(groups: Sequence[Any]) -> torch.Tensor:
    """GRPO's advantages of the task's own reward; shape (N,)."""
    from rlkit.loop.judging import Judge
    from rlkit.objectives import GRPO
    from rlkit.tasks import get_domain

    judged = Judge([get_domain(groups[0].problem.domain)]).judge(groups)
    values = [[math.nan if s.value is None else s.value for s in row] for row in judged.scores]
    found_BG, alive_B = GRPO().advantages(torch.tensor(values))
    if bool(alive_B.any()):
        return found_BG.flatten()
    return torch.tensor([1.0, -1.0]).repeat(found_BG.numel())[: found_BG.numel()]


def _gradient(policy: Any, rollouts: Sequence[Any], advantages_N: torch.Tensor) -> dict:
    from rlkit.objectives import GRPO

    for parameter in policy.trainable().values():
        parameter.grad = None
    scored = policy.score(rollouts)
    now_NT = scored.logprobs_NT
    found = GRPO().loss(now_NT, now_NT.detach(), advantages_N, scored.mask_NT)
    with _quiet():
        found.loss.backward()
    return {n: p.grad.clone() for n, p in policy.trainable().items()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's warning that a product has no backward pass: all the noise there is."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*autograd kernel was not registered.*")
        yield


def _block(name: str) -> int:
    return int(re.search(r"layers\.(\d+)\.", name)[1])


def _length(gradient: dict[str, torch.Tensor]) -> float:
    return float(sum(g.double().square().sum() for g in gradient.values())) ** 0.5


def _cosine(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    product = sum(float((one[n].double() * other[n].double()).sum()) for n in one)
    return product / (_length(one) * _length(other))
