"""The memory ledger of a QLoRA set-up: every part's bytes, predicted from a shape, and counted.

    weights in four bits, their scales, what stays unquantised, adapter, its gradient and
    Adam's two moments, activations kept for the backward pass, and the copy that samples

`predict` needs numbers that stand in a model's config; `measure` counts the tensors of a
real policy while it takes a real (and empty) step. A test holds the two within 10 %.

Left out on purpose: gradient checkpointing, memory that the allocator keeps for later, and
the few megabytes of a score's last layer, which works in chunks.

Source of the shapes: the published `config.json` of each model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch

from rlkit.errors import UserError
from rlkit.lab.nf4 import BLOCK, SCALES

if TYPE_CHECKING:
    from rlkit.policy import Policy, Rollout

#: The parts, in the order of the ledger.
PARTS = (
    "weights, 4 bits",
    "scales",
    "unquantised",
    "adapter",
    "gradient",
    "Adam's moments",
    "activations",
    "rollout copy",
)


@dataclass(frozen=True)
class Shape:
    """The numbers of a Llama-like model that memory depends on.

    Attributes:
        hidden: width of the residual stream.
        layers: blocks.
        heads, key_value_heads, head_size: of the attention.
        mlp: inner width of the feed-forward part.
        vocabulary: tokens.
        tied: whether the output matrix is the embedding.
        qkv_bias: whether queries, keys and values have biases.
        qk_norm: whether queries and keys have norms of their own.
    """

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_size: int
    mlp: int
    vocabulary: int
    tied: bool = True
    qkv_bias: bool = False
    qk_norm: bool = False

    @classmethod
    def of(cls, config: Any) -> Shape:
        """The shape that a `transformers` config describes."""
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        kind = config.model_type
        return cls(
            config.hidden_size,
            config.num_hidden_layers,
            config.num_attention_heads,
            config.num_key_value_heads,
            size,
            config.intermediate_size,
            config.vocab_size,
            bool(config.tie_word_embeddings),
            kind == "qwen2" or bool(getattr(config, "attention_bias", False)),
            kind == "qwen3",
        )

    @property
    def matrices(self) -> list[tuple[int, int]]:
        """(out, in) of the seven matrices of one block."""
        queries, keys = self.heads * self.head_size, self.key_value_heads * self.head_size
        thin = [(queries, self.hidden), (keys, self.hidden), (keys, self.hidden)]
        wide = [(self.mlp, self.hidden), (self.mlp, self.hidden), (self.hidden, self.mlp)]
        return [*thin, (self.hidden, queries), *wide]

    @property
    def in_matrices(self) -> int:
        """Weights that are stored in four bits."""
        return self.layers * sum(out * into for out, into in self.matrices)

    @property
    def outside(self) -> int:
        """Weights that are not: embedding, head, norms, biases."""
        small = 2 * self.hidden
        if self.qkv_bias:
            small += (self.heads + 2 * self.key_value_heads) * self.head_size
        if self.qk_norm:
            small += 2 * self.head_size
        ends = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return ends + self.layers * small + self.hidden

    @property
    def parameters(self) -> int:
        """All weights of the base."""
        return self.in_matrices + self.outside

    def adapter(self, rank: int) -> int:
        """Numbers of an adapter of this rank on all seven matrices: rank x (in + out) each."""
        return self.layers * rank * sum(out + into for out, into in self.matrices)


#: Models that are often named, by the names they have on the hub.
KNOWN = {
    "SmolLM2-135M": Shape(576, 30, 9, 3, 64, 1536, 49152),
    "Qwen2.5-0.5B": Shape(896, 24, 14, 2, 64, 4864, 151936, qkv_bias=True),
    "Qwen3-0.6B": Shape(1024, 28, 16, 8, 128, 3072, 151936, qk_norm=True),
    "Llama-3.2-1B": Shape(2048, 16, 32, 8, 64, 8192, 128256),
    "Qwen3-1.7B": Shape(2048, 28, 16, 8, 128, 6144, 151936, qk_norm=True),
    "Llama-3.1-8B": Shape(4096, 32, 32, 8, 128, 14336, 128256, tied=False),
}


def predict(
    shape: Shape,
    *,
    rank: int,
    tokens: int,
    seen: int | None = None,
    outside: int = 2,
    compute: int = 2,
    copy: int | None = 2,
) -> dict[str, int]:
    """Bytes of each part.

    Args:
        shape: of the base.
        rank: of the adapter, kept in float32, on all linear layers.
        tokens: scored at once, prompts and padding included.
        seen: keys that attention keeps; more than `tokens` where answers share a prompt,
            because each has the prompt's keys beside it. `None` for as many.
        outside: bytes of a weight that is not quantised.
        compute: bytes of a number between the layers.
        copy: bytes of a weight in the copy that samples; `None` for no copy.

    Raises:
        UserError: a rank or a number of tokens below 1.
    """
    if rank < 1 or tokens < 1:
        raise UserError(f"rank and tokens must be at least 1, not {rank} and {tokens}")
    blocks = shape.in_matrices / BLOCK
    tables = 4 * (16 + 256 + 1)  # each matrix has its levels, its 256 steps and a mean
    adapter = 4 * shape.adapter(rank)
    # Kept for the backward pass, a token and a block: what goes into and comes out of the
    # MLP's gate (4 of its width), queries and what attention gives (2 of theirs), what both
    # halves and their norms read (4 of the stream's), the middles of 7 adapters; and keys
    # and values (2), repeated until each query head has its own.
    heads = shape.heads * shape.head_size
    of_a_token = 4 * (shape.mlp + shape.hidden) + 2 * heads + 7 * rank
    kept = of_a_token * tokens + 2 * heads * (tokens if seen is None else seen)
    merged = shape.in_matrices + 2 * shape.vocabulary * shape.hidden
    values = (
        shape.in_matrices / 2,
        blocks * (1 + 4 / SCALES) + tables * 7 * shape.layers,
        outside * shape.outside,
        adapter,
        adapter,
        2 * adapter,
        compute * shape.layers * kept,
        0 if copy is None else copy * merged,
    )
    return dict(zip(PARTS, map(round, values), strict=True))


def tokens_of(rollouts: Sequence[Rollout]) -> tuple[int, int]:
    """How many tokens are scored, and how many keys attention keeps, padding included.

    A prompt is read once for all its answers, and its keys stand beside each of them.
    """
    prompts = {r.prompt_ids for r in rollouts}
    longest = max(len(prompt) for prompt in prompts)
    answer = max(len(r) for r in rollouts)
    each = len(rollouts) * (longest + answer)
    if len(prompts) == len(rollouts):
        return each, each
    read = len(prompts) * longest
    return read + len(rollouts) * answer, read + each


def full_training(shape: Shape) -> dict[str, int]:
    """Bytes where all weights are trained, in the usual mixed precision; no activations.

    >>> sum(full_training(KNOWN["Llama-3.1-8B"]).values()) // 10**9  # 16 bytes a weight
    128
    """
    count = shape.parameters
    return {
        "weights, 16 bits": 2 * count,
        "gradient": 2 * count,
        "weights, 32 bits": 4 * count,
        "Adam's moments": 8 * count,
    }


def measure(policy: Policy, rollouts: Sequence[Rollout]) -> dict[str, int]:
    """Counts the bytes of each part, while the policy takes a step of length 0.

    Args:
        policy: with an adapter beside an NF4 base; it is the same afterwards.
        rollouts: scored at once, with gradient.

    Raises:
        UserError: no adapter, no layer in four bits, or a policy that learns through its
            copy, whose activations are its own.
    """
    from rlkit.policy.quantization import four_bit_layers

    if policy.scorer.kind != "model":
        raise UserError("load the policy with learner='model' to count what QLoRA itself keeps")
    layers = four_bit_layers(policy.model)
    trainable = policy.trainable()
    if not layers or not trainable:
        raise UserError("give a policy with quantize='nf4' and lora=LoraSpec()")
    four = [layer.weight for layer in layers]
    scales = [t for layer in layers for t in _scale_tensors(layer.weight.quant_state)]
    ours = {id(t) for t in (*four, *trainable.values())}
    rest = [p for p in policy.model.parameters() if id(p) not in ours]
    known = _storages([*four, *scales, *rest, *trainable.values()])
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    for parameter in trainable.values():
        parameter.grad = None
    alive = []  # storages must not be freed and given out again while they are counted
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (alive.append(t), keep(t))[1], _same):
        scored = policy.score(rollouts)
    scored.logprobs_NT.sum().backward()
    activations = sum(kept.values())
    alive.clear()
    adam = torch.optim.AdamW(trainable.values(), lr=0.0, weight_decay=0.0)
    adam.step()
    moments = [t for state in adam.state.values() for t in state.values() if t.dim()]
    gradients = [p.grad for p in trainable.values()]
    values = (
        _bytes(four),
        _bytes(scales),
        _bytes(rest),
        _bytes(trainable.values()),
        _bytes(gradients),
        _bytes(moments),
        activations,
        _copy_bytes(policy),
    )
    for parameter in trainable.values():
        parameter.grad = None
    return dict(zip(PARTS, values, strict=True))


def count_setup(matrices: Sequence[tuple[int, int]], outside: int, rank: int) -> int:
    """Bytes that a QLoRA set-up really keeps between two updates, counted on real layers.

    Args:
        matrices: (out, in) of each matrix that is put into NF4, with plain scales.
        outside: weights that stay in 16 bits.
        rank: of an adapter in float32 on each matrix, trained by AdamW.

    Raises:
        UserError: NF4 does not work here.
    """
    from rlkit.policy.quantization import probe_nf4

    reason = probe_nf4("cpu")
    if reason is not None:
        raise UserError(reason)
    import bitsandbytes.functional as library

    held = [torch.zeros(outside, dtype=torch.bfloat16)]
    adapter = []
    for out, into in matrices:
        packed, state = library.quantize_4bit(torch.ones(out, into), quant_type="nf4")
        held += [packed, state.absmax, state.code]
        adapter += [torch.zeros(rank, into), torch.zeros(out, rank)]
    for parameter in adapter:
        parameter.requires_grad_()
        parameter.grad = torch.ones_like(parameter)
    adam = torch.optim.AdamW(adapter, lr=0.0)
    adam.step()
    moments = [t for state in adam.state.values() for t in state.values() if t.dim()]
    return _bytes([*held, *adapter, *(p.grad for p in adapter), *moments])


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _scale_tensors(state: Any) -> Iterator[torch.Tensor]:
    """All tensors that a quantised weight needs beside itself."""
    for part in (state, state.state2 if state.nested else None):
        if part is not None:
            found = (part.absmax, part.code, part.offset)
            yield from (t for t in found if isinstance(t, torch.Tensor))


def _storages(tensors: Any) -> dict[int, int]:
    found = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
    return found


def _bytes(tensors: Any) -> int:
    return sum(_storages(tensors).values())


def _copy_bytes(policy: Policy) -> int:
    """Of the merged weights that the sampler uses; 0 where there are none."""
    from rlkit.policy.engine import blueprint, weights

    if policy.sampler.dtype is None:
        return 0
    copy = weights.merge(blueprint.read(policy.model), policy.sampler.dtype)
    return sum(t.numel() * t.element_size() for t in _tensors(copy))


def _tensors(part: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested dataclasses, lists and products."""
    if isinstance(part, torch.Tensor):
        yield part
    elif isinstance(part, (list, tuple)):
        for inner in part:
            yield from _tensors(inner)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _tensors(getattr(part, field.name))
    elif hasattr(part, "weight"):
        yield from _tensors(part.weight)
