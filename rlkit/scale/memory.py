"""How much memory a run takes on each GPU: an estimate, made before anything is loaded.

Counted are the weights, what is trained (parameters, gradients, Adam's two moments, and the
copies for a rollback), and the larger of two phases: generation (the cache of keys and values,
the draw over the vocabulary, the merged copy of the weights) and learning (what the backward
pass needs). A share of a GPU's memory goes to the driver and to fragmentation.

Exact are the numbers of parameters; a test compares them with the models themselves. Rough is
what the backward pass needs, which depends on the attention kernel: the layer widths below are
counted, not measured. Take a card with a fifth more than the estimate.

Left out: pipeline and tensor parallelism, and memory of the host.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rlkit.errors import UserError

GIB = 1 << 30
#: Driver, kernels and fragmentation of one GPU, bytes.
BASE = 1.2e9
#: Bytes of a weight in four bits with double quantisation: 4 bits, and 0.127 for the scales.
NF4_BYTES = (4 + 0.127) / 8
#: Python, torch, transformers and TRL in a process without a GPU, bytes. Measured: one process
#: of `cpu_two_processes` with all 64 answers peaked at 949 MiB, for which this gives 1.1 GiB.
BASE_CPU = 0.7e9
#: TRL's head: tokens and vocabulary entries of a tile, in float32.
TILE = (4096, 32768)
BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder that decide how much memory it takes."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    query_key_norm: bool = False

    def linears(self) -> list[tuple[int, int]]:
        """(in, out) of the seven products of a layer."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = [(self.hidden, queries), (self.hidden, keys), (self.hidden, keys)]
        mlp = [(self.hidden, self.intermediate)] * 2 + [(self.intermediate, self.hidden)]
        return [*attention, (queries, self.hidden), *mlp]

    def in_linears(self) -> int:
        """Parameters in the products of all layers: what four bits and LoRA act on."""
        return self.layers * sum(a * b for a, b in self.linears())

    def parameters(self) -> int:
        """Parameters in all."""
        norms = 2 * self.hidden + (2 * self.head_dim if self.query_key_norm else 0)
        ends = (1 if self.tied else 2) * self.vocab * self.hidden
        return self.in_linears() + self.layers * norms + self.hidden + ends

    def lora_parameters(self, rank: int) -> int:
        """Parameters of an adapter on all products of the layers."""
        return self.layers * sum(rank * (a + b) for a, b in self.linears())


#: The shapes of models that configs name; others are read from their config.json.
SHAPES = {
    "tiny": Shape(4, 192, 512, 6, 3, 32, 595, tied=True),
    "smol": Shape(30, 576, 1536, 9, 3, 64, 49152, tied=True),
    "Qwen/Qwen3-0.6B": Shape(28, 1024, 3072, 16, 8, 128, 151936, True, True),
    "Qwen/Qwen3-1.7B": Shape(28, 2048, 6144, 16, 8, 128, 151936, True, True),
    "Qwen/Qwen3-4B": Shape(36, 2560, 9728, 32, 8, 128, 151936, True, True),
    "Qwen/Qwen3-8B": Shape(36, 4096, 12288, 32, 8, 128, 151936, False, True),
}


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU, by what they are for.

    Attributes:
        weights: the model's, this rank's share.
        trained: adapter or trained weights beyond the model's own, gradients and moments.
        copies: two snapshots for a rollback.
        generation, learning: what each phase needs on top; they do not happen together.
        base: driver and fragmentation.
    """

    weights: float
    trained: float
    copies: float
    generation: float
    learning: float
    base: float

    @property
    def total(self) -> float:
        phase = max(self.generation, self.learning)
        return self.weights + self.trained + self.copies + phase + self.base

    @property
    def gib(self) -> float:
        """The total in GiB, to one decimal."""
        return round(self.total / GIB, 1)

    def table(self) -> str:
        """Aligned lines of `name  GiB`."""
        rows = [(f.name, getattr(self, f.name)) for f in fields(self)] + [("total", self.total)]
        return "\n".join(f"{name:<10} {value / GIB:7.2f} GiB" for name, value in rows)


def shape_of(policy: str) -> Shape:
    """The shape of a model by name, or from a folder's config.json.

    Raises:
        UserError: it is neither known nor lies in a folder.

    >>> shape_of("tiny").parameters()
    1737984
    """
    if policy in SHAPES:
        return SHAPES[policy]
    from pathlib import Path

    if not (Path(policy) / "config.json").exists():
        raise UserError(
            f"the memory of {policy!r} cannot be estimated: its shape is not known here; known are "
            f"{', '.join(SHAPES)} and folders with a config.json"
        )
    from transformers import AutoConfig

    return shape_from(AutoConfig.from_pretrained(policy))


def shape_from(config: Any) -> Shape:
    """The shape that a `transformers` config describes."""
    heads = config.num_attention_heads
    return Shape(
        config.num_hidden_layers,
        config.hidden_size,
        config.intermediate_size,
        heads,
        getattr(config, "num_key_value_heads", None) or heads,
        getattr(config, "head_dim", None) or config.hidden_size // heads,
        config.vocab_size,
        bool(config.tie_word_embeddings),
        config.model_type == "qwen3",
    )


def estimate(config: Any, shape: Shape | None = None) -> Memory:
    """Memory on each GPU of a `rlkit.scale.config.ScaleConfig`.

    Args:
        config: its policy, precision, LoRA, sizes, sharding and number of processes count.
        shape: of the policy; looked up when not given.

    Raises:
        UserError: the shape is not known.
    """
    shape = shape or shape_of(config.policy)
    ranks = config.processes if config.sharding != "none" else 1
    each = BYTES[config.precision]
    whole = _weights(shape, config.quantize, each)
    weights, trained, copies = whole / ranks, 0.0, 0.0
    if config.lora is not None:
        adapter = shape.lora_parameters(config.lora.rank)
        # Adapters under ZeRO-3 have the type of the base, elsewhere they are float32.
        width = each if config.sharding == "zero3" else 4
        trained = adapter * (2 * width + 8) / ranks
        copies = 2 * adapter * (width + 8) / ranks
    else:
        # A gradient of the weights' type; with bfloat16 under ZeRO-3 a float32 master as well.
        master = 4 if config.sharding == "zero3" and each == 2 else 0
        trained = shape.parameters() * (each + 8 + master) / ranks
        copies = 2 * shape.parameters() * (each + 8) / ranks
    if not config.keep_best or config.sharding == "zero3":
        copies = 0.0
    answers = config.problems_per_step * config.group_size // config.processes
    generation = 0.0
    if config.rollouts != "vllm":
        generation = _generation(config, shape, answers, each)
        # Shards are gathered; without shards the sampler holds a merged copy.
        copy = 0.0 if config.rollouts == "trl" else _weights(shape, None, each)
        generation += whole - weights if ranks > 1 else copy
    learning = _learning(config, shape, answers, each)
    base = BASE_CPU if config.device == "cpu" else BASE
    return Memory(weights, trained, copies, generation, learning, base)


def _weights(shape: Shape, quantize: str | None, each: int) -> float:
    inside = shape.in_linears()
    rest = shape.parameters() - inside
    return inside * (NF4_BYTES if quantize == "nf4" else each) + rest * each


def _generation(config: Any, shape: Shape, answers: int, each: int) -> float:
    """Keys and values of the answers, and the draw: logits, log-softmax, sums in float64."""
    from rlkit.policy.sampler import MAX_CACHE, MAX_ROWS

    token = shape.layers * 2 * shape.kv_heads * shape.head_dim * each
    rows = answers if config.rollouts == "trl" else min(answers, MAX_ROWS)
    if config.rollouts == "shared_prefix" and config.sharding == "none":
        # The sampler bounds its cache, but answers to one problem stay together.
        fits = MAX_CACHE // (token * config.max_new_tokens)
        rows = min(rows, max(fits, config.group_size))
    cache = rows * (config.prompt_tokens + config.max_new_tokens) * token
    return cache + rows * shape.vocab * (4 + 4 + 8)


def _learning(config: Any, shape: Shape, answers: int, each: int) -> float:
    """What the backward pass keeps: of every layer, or of one with checkpoints between them."""
    tokens = min(config.micro_batch, answers) * (config.prompt_tokens + config.max_new_tokens)
    # Inputs of the norms and products, queries to values, attention's output, gate, up, product.
    one = shape.hidden * 6 + (shape.heads * 2 + shape.kv_heads * 2) * shape.head_dim
    one += shape.intermediate * 3
    if config.activation_checkpointing:
        kept = shape.layers * shape.hidden + one
    else:
        kept = shape.layers * one
    # Log-probabilities come from the head in tiles, never for the whole vocabulary at once.
    tile = min(tokens, TILE[0]) * min(shape.vocab, TILE[1])
    return tokens * kept * each + 2 * 4 * tile
