"""The rollout copy: every adapter merged into its matrix, in the machine's fastest type.

A token of an answer costs a pass over all weights, and with adapters two more thin
products for each matrix. The copy has them merged once, after each update, so that
decoding pays for the plain model only. Queries, keys and values are one product, and
gate and up another.

What is left of the merge is rounding: in float32 the copy agrees with base and adapter
to about 1e-6; in bfloat16 a log-probability moves by some hundredths of a nat. The loop
measures that gap at every step (`sampling/sampling_logp_difference`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.nn import functional

from rlkit.policy.engine.blueprint import Blueprint, active_adapters, base_of


class Product:
    """One matrix (out, in) that inputs are multiplied by, laid out for this machine.

    bfloat16 on a CPU is kept in the blocked order that oneDNN computes in; a plain matrix
    would be brought into that order at every call, a fifth to a third of a token's time.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.bias = bias
        self.packed = weight.dtype is torch.bfloat16 and weight.device.type == "cpu" and packs()
        self.weight = _packed(weight) if self.packed else weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.packed:
            call = torch.ops.mkldnn._linear_pointwise
            return call(x, self.weight, self.bias, "none", [], "")
        return functional.linear(x, self.weight, self.bias)

    def dense(self) -> torch.Tensor:
        """The matrix (out, in) as a plain tensor, for products in the other direction."""
        return self.weight.to_dense() if self.packed else self.weight


def _packed(weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight, 32)


@cache
def packs() -> bool:
    """Whether this build of torch has the packed product, and it computes the right thing."""
    try:
        weight = torch.arange(-32.0, 32.0).view(8, 8).bfloat16()
        x = torch.eye(8).bfloat16()
        got = torch.ops.mkldnn._linear_pointwise(x, _packed(weight), None, "none", [], "")
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    return bool(torch.equal(got, weight.t()))


@dataclass
class LayerCopy:
    """The products of one block and its norms' weights."""

    attention_norm: torch.Tensor
    qkv: Product
    query_norm: torch.Tensor | None
    key_norm: torch.Tensor | None
    output: Product
    mlp_norm: torch.Tensor
    gate_up: Product
    down: Product


@dataclass
class Copy:
    """All weights of a model with its adapters merged.

    Attributes:
        embedding: matrix (V, H) of the token embedding.
        layers: the blocks.
        norm: weight of the last norm.
        head: the product that gives the logits.
        epsilon: of all norms.
        dtype: what products are computed in; the residual stream is float32.
        tied: whether the head is the embedding once more.
    """

    embedding: torch.Tensor
    layers: list[LayerCopy]
    norm: torch.Tensor
    head: Product
    epsilon: float
    dtype: torch.dtype
    tied: bool

    def output(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The head as a plain matrix (V, H), and its bias."""
        return self.embedding if self.tied else self.head.dense(), self.head.bias


def merged_weight(linear: Any) -> torch.Tensor:
    """Weight of a product with its active adapters, float32, shape (out, in)."""
    weight = base_weight(base_of(linear))
    for name in active_adapters(linear):
        a, b = linear.lora_A[name].weight, linear.lora_B[name].weight
        weight = torch.addmm(weight, b.float(), a.float(), alpha=linear.scaling[name])
    return weight


def base_weight(layer: Any) -> torch.Tensor:
    """Weight of a plain or a 4-bit layer as float32; never the layer's own memory."""
    weight = layer.weight
    state = getattr(weight, "quant_state", None)
    if state is None:
        return weight.detach().float().clone()
    import bitsandbytes.functional as four_bit

    return four_bit.dequantize_4bit(weight.data, state).float().clone()


def fingerprint(blueprint: Blueprint) -> tuple[Any, ...]:
    """Changes whenever a weight or the choice of adapters does.

    A sum alone could stay equal by accident, so the first element of each matrix and the
    tensors' own change counters go with it.
    """
    parts: list[Any] = []
    for linear in blueprint.linears():
        names = active_adapters(linear)
        base = base_of(linear).weight
        parts.append((tuple(names), base.data_ptr(), base._version))
        tensors = [base] if base.requires_grad else []
        for name in names:
            tensors += [linear.lora_A[name].weight, linear.lora_B[name].weight]
            parts.append(linear.scaling[name])
        for tensor in tensors:
            flat = tensor.detach().flatten()
            parts.append((tensor._version, float(flat.sum()), float(flat[0])))
    for other in (blueprint.embedding, blueprint.norm):
        if other.weight.requires_grad:
            parts.append((other.weight._version, float(other.weight.detach().sum())))
    return tuple(parts)


@torch.no_grad()
def merge(blueprint: Blueprint, dtype: torch.dtype) -> Copy:
    """A copy of the weights as they are now, with the active adapters merged.

    Args:
        dtype: what the products are kept and computed in.
    """
    layers = [
        LayerCopy(
            attention_norm=_norm(layer.attention_norm),
            qkv=_product((layer.query, layer.key, layer.value), dtype),
            query_norm=_norm(layer.query_norm),
            key_norm=_norm(layer.key_norm),
            output=_product((layer.output,), dtype),
            mlp_norm=_norm(layer.mlp_norm),
            gate_up=_product((layer.gate, layer.up), dtype),
            down=_product((layer.down,), dtype),
        )
        for layer in blueprint.layers
    ]
    norm = blueprint.norm
    embedding = blueprint.embedding.weight.detach().to(dtype)
    head = blueprint.head
    tied = head.weight is blueprint.embedding.weight and head.bias is None
    return Copy(
        embedding=embedding,
        layers=layers,
        norm=_norm(norm),
        head=Product(embedding, None) if tied else _product((head,), dtype),
        epsilon=float(getattr(norm, "variance_epsilon", getattr(norm, "eps", 1e-6))),
        dtype=dtype,
        tied=tied,
    )


def _norm(module: Any) -> torch.Tensor | None:
    return None if module is None else module.weight.detach().float().clone()


def _product(linears: tuple[Any, ...], dtype: torch.dtype) -> Product:
    """Several matrices on the same input as one, with their biases."""
    sizes = [base_of(linear).out_features for linear in linears]
    first = base_of(linears[0])
    device = first.weight.device
    weight = torch.empty(sum(sizes), first.in_features, dtype=dtype, device=device)
    for part, linear in zip(weight.split(sizes), linears, strict=True):
        part.copy_(merged_weight(linear))
    biases = [base_of(linear).bias for linear in linears]
    if all(bias is None for bias in biases):
        return Product(weight, None)
    kept = [
        torch.zeros(size, device=device) if bias is None else bias.detach()
        for size, bias in zip(sizes, biases, strict=True)
    ]
    return Product(weight, torch.cat(kept).to(dtype))
