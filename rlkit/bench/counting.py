"""How many operations and bytes a piece of work needs, counted from a model's shape.

Counted is what the work needs, not what an engine does: each prompt is read once, answers are
scored once, each token of a batch streams the weights once. An engine that repeats prompts
does more than that and reaches a smaller share, which is the point of the number.

A multiplication and an addition count as two operations. The backward pass through frozen
weights needs as many as the forward pass; gradients of the weights themselves are needed for
the adapter only. Norms, rotary positions and softmax are left out: they are few.

Axes: B problems, G answers a problem, N = B x G, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlkit.bench.fixed_work import Case
from rlkit.scale.memory import Shape


@dataclass(frozen=True)
class Needs:
    """What a piece of work needs.

    Attributes:
        flops: operations.
        bytes: of weights, keys and values that must come from memory.
    """

    flops: float
    bytes: float = 0.0

    def shares(self, seconds: float, ceilings: dict) -> dict[str, float | None]:
        """Shares of the machine's ceilings that are reached in this time.

        >>> Needs(1e9, 2e9).shares(1.0, {"best_gflops": 10.0, "best_gb_s": 8.0})
        {'matmul_share': 0.1, 'memory_share': 0.25}
        """
        return {
            "matmul_share": self.flops / seconds / 1e9 / ceilings["best_gflops"],
            "memory_share": self.bytes / seconds / 1e9 / ceilings["best_gb_s"]
            if self.bytes
            else None,
        }


def generation(shape: Shape, case: Case, weight_bytes: float) -> Needs:
    """Prompts read once, then T - 1 steps that each stream all weights once.

    Args:
        weight_bytes: of one weight, as the engine keeps it: 2 for bfloat16.
    """
    prompt, tokens, rows = case.prompt_tokens, case.new_tokens, case.answers
    flops = _products(shape, case.problems * prompt, case.problems)
    flops += _attention(shape, case.problems * prompt * (prompt + 1) / 2)
    flops += _products(shape, rows * (tokens - 1), rows * (tokens - 1))
    seen = sum(prompt + t for t in range(1, tokens))
    flops += _attention(shape, rows * seen)
    weights = (shape.in_linears() + shape.vocab * shape.hidden) * weight_bytes
    each = 2 * shape.layers * shape.kv_heads * shape.head_dim * weight_bytes
    cache = sum(case.problems * prompt + rows * t for t in range(1, tokens)) * each
    return Needs(flops, weights * tokens + cache)


def update(shape: Shape, case: Case, rank: int) -> Needs:
    """Forward and backward over prompts once and all answers; the base frozen, the adapter not."""
    prompt, tokens = case.prompt_tokens, case.new_tokens
    read = case.problems * prompt + case.answers * tokens
    pairs = case.problems * prompt * (prompt + 1) / 2
    pairs += case.answers * sum(prompt + t for t in range(1, tokens + 1))
    forward = _products(shape, read, case.answers * tokens) + _attention(shape, pairs)
    # The attention has two products of activations, so its backward pass has four.
    backward = _products(shape, read, case.answers * tokens) + 2 * _attention(shape, pairs)
    adapter = 3 * 2 * shape.lora_parameters(rank) * read
    return Needs(forward + backward + adapter)


def _products(shape: Shape, tokens: float, scored: float) -> float:
    return 2.0 * (shape.in_linears() * tokens + shape.vocab * shape.hidden * scored)


def _attention(shape: Shape, pairs: float) -> float:
    """Products of queries with keys, and of weights with values, for pairs of tokens."""
    return 4.0 * shape.layers * shape.heads * shape.head_dim * pairs
