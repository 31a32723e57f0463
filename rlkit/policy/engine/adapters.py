"""Adapters of one fused product, and their gradients.

Queries, keys and values are one product of the rollout copy, gate and up another, so the
adapters of their parts are put side by side, too. With the product y = x W'^T, where
W' = W + s B A has the adapter merged, and g the gradient of y:

    dA = s (g B)^T x        dB = s g^T (x A^T)        dx = g W'

The last one needs no adapter at all; the first two are thin. (LoRA: Hu et al., 2106.09685.)

Axes: M tokens, I inputs, O outputs of the fused product, r ranks of all its adapters together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from rlkit.policy.engine.blueprint import Blueprint, active_adapters, base_of


@dataclass(frozen=True)
class Place:
    """One trainable adapter within a fused product.

    Attributes:
        a, b: its matrices (rank, in) and (out, rank).
        scale: what their product is multiplied by.
        rows: the outputs it acts on.
        ranks: its columns among all ranks of the product.
    """

    a: torch.nn.Parameter
    b: torch.nn.Parameter
    scale: float
    rows: slice
    ranks: slice


class Stack:
    """The trainable adapters of one fused product.

    Args:
        linears: the layers that the product consists of, in order.
    """

    def __init__(self, linears: tuple[Any, ...]) -> None:
        self.places: list[Place] = []
        start = rank = 0
        for linear in linears:
            out = base_of(linear).out_features
            for name in active_adapters(linear):
                a, b = linear.lora_A[name].weight, linear.lora_B[name].weight
                if not (a.requires_grad and b.requires_grad):
                    continue
                rows, ranks = slice(start, start + out), slice(rank, rank + len(a))
                self.places.append(Place(a, b, float(linear.scaling[name]), rows, ranks))
                rank += len(a)
            start += out
        self.outputs, self.rank = start, rank

    def parameters(self) -> list[torch.nn.Parameter]:
        """Each adapter's two matrices, in order."""
        return [p for place in self.places for p in (place.a, place.b)]

    def matrices(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """All A as one (r, I), and all s B as one (O, r) with 0 where they do not act."""
        a = torch.cat([place.a.detach() for place in self.places]).to(dtype)
        b = torch.zeros(self.outputs, self.rank, dtype=dtype, device=a.device)
        for place in self.places:
            b[place.rows, place.ranks] = (place.scale * place.b.detach()).to(dtype)
        return a, b

    def gradients(self, x_MI: torch.Tensor, grad_MO: torch.Tensor) -> list[torch.Tensor]:
        """Gradients of `parameters()`, in float32.

        Args:
            x_MI: input of the product.
            grad_MO: gradient of its output, of the same type.
        """
        if not self.places:
            return []
        a_rI, b_Or = self.matrices(x_MI.dtype)
        inner_Mr = x_MI @ a_rI.t()
        back_Mr = grad_MO @ b_Or
        grad_a_rI = (back_Mr.t() @ x_MI).float()
        grad_b_Or = (grad_MO.t() @ inner_Mr).float()
        found: list[torch.Tensor] = []
        for place in self.places:
            found.append(grad_a_rI[place.ranks].to(place.a.dtype))
            found.append((place.scale * grad_b_Or[place.rows, place.ranks]).to(place.b.dtype))
        return found


@dataclass(frozen=True)
class LayerStacks:
    """The stacks of one block, in the order of its products."""

    qkv: Stack
    output: Stack
    gate_up: Stack
    down: Stack

    def parameters(self) -> list[torch.nn.Parameter]:
        """Of all four, in order."""
        four = (self.qkv, self.output, self.gate_up, self.down)
        return [p for stack in four for p in stack.parameters()]


def stacks(blueprint: Blueprint) -> list[LayerStacks]:
    """The trainable adapters as they are switched on now, block by block."""
    return [
        LayerStacks(
            Stack((layer.query, layer.key, layer.value)),
            Stack((layer.output,)),
            Stack((layer.gate, layer.up)),
            Stack((layer.down,)),
        )
        for layer in blueprint.layers
    ]
