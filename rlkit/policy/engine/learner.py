"""The learner's pass through the rollout copy: hidden states with gradient to the adapters.

The copy holds W' = W + s B A, so base and adapter cost one product in place of three, and
sampler and learner compute with the same numbers. The masters stay what they were: a frozen
base, in four bits or not, and adapters in float32, which get the gradients. All that is
differentiated is written out here, block by block, since nothing but the adapters learns:
no gradient of a frozen matrix is ever formed, and what is kept for the way back is one
normalised input and the products' outputs.

Where that would not fit, only each block's input is kept, and the block is computed once
more on the way back (gradient checkpointing, 1604.06174).

Axes: M packed tokens (see `packing`), H hidden size, D head size, K heads of keys and values,
R query heads that share one, S predicted tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from rlkit.policy.engine import adapters
from rlkit.policy.engine.attention import Attended
from rlkit.policy.engine.decoder import Decoder, turn
from rlkit.policy.engine.geometry import Geometry
from rlkit.policy.engine.packing import Packed
from rlkit.policy.engine.weights import LayerCopy

#: Rows of gate and up whose gradient is computed at a time.
ROWS = 256


@dataclass
class _Kept:
    """What one block leaves for its way back; `None` in `attended` when only `x` was kept."""

    x: torch.Tensor | None = None
    attention_norm: _Normed | None = None
    query_norm: _Normed | None = None
    key_norm: _Normed | None = None
    attended: Attended | None = None
    joined: torch.Tensor | None = None
    mlp_norm: _Normed | None = None
    gate_up: torch.Tensor | None = None


@dataclass
class _Normed:
    """An RMS norm: the normalised input, and what it was multiplied by."""

    unit: torch.Tensor
    rate: torch.Tensor
    weight: torch.Tensor

    @classmethod
    def of(cls, x: torch.Tensor, weight: torch.Tensor, eps: float, dtype: torch.dtype) -> _Normed:
        wide = x.float()
        rate = torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
        return cls((wide * rate).to(dtype), rate, weight)

    def output(self) -> torch.Tensor:
        return (self.unit * self.weight).to(self.unit.dtype)

    def backward(self, grad: torch.Tensor) -> torch.Tensor:
        """Float32, in the shape of the input."""
        unit = self.unit.float()
        grad = grad.float() * self.weight
        along = torch.linalg.vecdot(grad, unit)[..., None].div_(unit.shape[-1])
        return grad.addcmul_(unit, along, value=-1).mul_(self.rate)


class Learner:
    """Computes hidden states of packed tokens with a merged copy, and their gradients.

    Args:
        decoder: the copy, as the sampler uses it.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.copy = decoder.copy
        self.K, self.R, self.D = decoder.K, decoder.R, decoder.D
        self.stacks = adapters.stacks(decoder.blueprint)

    def parameters(self) -> list[torch.nn.Parameter]:
        """The adapters' matrices that get a gradient."""
        return [p for layer in self.stacks for p in layer.parameters()]

    def hidden(self, packed: Packed, keep_all: bool = True) -> torch.Tensor:
        """The last hidden states behind the predicted tokens, (S, H), of the copy's type.

        Args:
            packed: prompts and answers, on the copy's device.
            keep_all: whether all that the way back needs is kept, or only the blocks' inputs.
        """
        parameters = self.parameters()
        if not torch.is_grad_enabled() or not parameters:
            return self._forward(packed, None)[0]
        return _Trunk.apply(self, packed, keep_all, *parameters)

    # -- forward ------------------------------------------------------------------------

    def _forward(
        self, packed: Packed, kept: list[_Kept] | None, keep_all: bool = True
    ) -> tuple[torch.Tensor, _Normed]:
        x = functional.embedding(packed.ids_M, self.copy.embedding).float()
        geometry = Geometry.of(self.decoder, packed)
        for layer in self.copy.layers:
            record = _Kept(x=None if keep_all else x)
            x = self._block(layer, x, geometry, record)
            if kept is not None:
                kept.append(record if keep_all else _Kept(x=record.x))
        normed = _Normed.of(
            x[packed.predicts_S], self.copy.norm, self.copy.epsilon, self.copy.dtype
        )
        return normed.output(), normed

    def _block(
        self, layer: LayerCopy, x: torch.Tensor, geometry: Geometry, kept: _Kept
    ) -> torch.Tensor:
        eps, dtype = self.copy.epsilon, self.copy.dtype
        kept.attention_norm = _Normed.of(x, layer.attention_norm, eps, dtype)
        qkv = layer.qkv(kept.attention_norm.output()).view(len(x), -1, self.D)
        q, k, v = qkv.split([self.K * self.R, self.K, self.K], dim=1)
        if layer.query_norm is not None:
            kept.query_norm = _Normed.of(q, layer.query_norm, eps, dtype)
            kept.key_norm = _Normed.of(k, layer.key_norm, eps, dtype)
            q, k = kept.query_norm.output(), kept.key_norm.output()
        q, k = turn(q, geometry.cos, geometry.sin), turn(k, geometry.cos, geometry.sin)
        kept.attended = geometry.parts.forward(*geometry.spread(q, k, v))
        kept.joined = geometry.gather(kept.attended.prompt_out, kept.attended.out)
        x = x + layer.output(kept.joined)
        kept.mlp_norm = _Normed.of(x, layer.mlp_norm, eps, dtype)
        kept.gate_up = layer.gate_up(kept.mlp_norm.output())
        gate, up = kept.gate_up.chunk(2, dim=-1)
        return x + layer.down(functional.silu(gate).mul_(up))

    # -- and back -----------------------------------------------------------------------

    def _backward(
        self, packed: Packed, kept: list[_Kept], last: _Normed, grad_SH: torch.Tensor
    ) -> list[torch.Tensor]:
        """Gradients of `parameters()`."""
        geometry = Geometry.of(self.decoder, packed)
        grad = torch.zeros(len(packed.ids_M), last.unit.shape[-1], device=grad_SH.device)
        # A prompt's last token is followed by one token of each answer.
        grad.index_add_(0, packed.predicts_S, last.backward(grad_SH))
        found: list[list[torch.Tensor]] = []
        for layer, stack in zip(reversed(self.copy.layers), reversed(self.stacks), strict=True):
            record = kept.pop()
            if record.attended is None:
                self._block(layer, record.x, geometry, record)
            gradients, grad = self._block_backward(layer, stack, geometry, record, grad)
            found.append(gradients)
        return [g for gradients in reversed(found) for g in gradients]

    def _block_backward(
        self,
        layer: LayerCopy,
        stack: adapters.LayerStacks,
        geometry: Geometry,
        kept: _Kept,
        grad: torch.Tensor,
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Gradients of the block's adapters, and of its input, from that of its output."""
        dtype = self.copy.dtype
        low = grad.to(dtype)
        activated, grad_gate_up = _gate_backward(low @ layer.down.dense(), kept.gate_up)
        of_down = stack.down.gradients(activated, low)
        of_gate_up = stack.gate_up.gradients(kept.mlp_norm.output(), grad_gate_up)
        grad = grad + kept.mlp_norm.backward(grad_gate_up @ layer.gate_up.dense())

        low = grad.to(dtype)
        of_output = stack.output.gradients(kept.joined, low)
        grads = geometry.scatter(low @ layer.output.dense())
        dq, dk, dv = geometry.collect(*geometry.parts.backward(*grads, kept.attended))
        dq, dk = (
            turn_back(dq, geometry.cos, geometry.sin),
            turn_back(dk, geometry.cos, geometry.sin),
        )
        if kept.query_norm is not None:
            dq = kept.query_norm.backward(dq).to(dtype)
            dk = kept.key_norm.backward(dk).to(dtype)
        grad_qkv = torch.cat([dq, dk, dv], dim=1).flatten(1)
        of_qkv = stack.qkv.gradients(kept.attention_norm.output(), grad_qkv)
        grad = grad + kept.attention_norm.backward(grad_qkv @ layer.qkv.dense())
        return of_qkv + of_output + of_gate_up + of_down, grad


def _gate_backward(inner: torch.Tensor, gate_up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What silu(gate) up was, and the gradient of gate and up from that of it.

    Some rows at a time, so that what lies between stays in the processor's cache.
    """
    activated, found = torch.empty_like(inner), torch.empty_like(gate_up)
    for start in range(0, len(inner), ROWS):
        some = slice(start, start + ROWS)
        gate, up = gate_up[some].chunk(2, dim=-1)
        grad_gate, grad_up = found[some].chunk(2, dim=-1)
        sigma = torch.sigmoid(gate)
        active = gate * sigma
        torch.mul(inner[some], active, out=grad_up)
        torch.mul(active, up, out=activated[some])
        # silu'(z) = sigma + silu(z) (1 - sigma)
        slope = sigma.add_(active.mul_(1 - sigma))
        torch.mul(inner[some] * up, slope, out=grad_gate)
    return activated, found


def turn_back(grad: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The gradient of what was turned by `turn`: turned the other way."""
    return turn(grad, cos, -sin)


class _Trunk(torch.autograd.Function):
    """The pass as one node of the graph, from the adapters to the hidden states."""

    @staticmethod
    def forward(
        context: Any, learner: Learner, packed: Packed, keep_all: bool, *_: torch.Tensor
    ) -> torch.Tensor:
        kept: list[_Kept] = []
        hidden, last = learner._forward(packed, kept, keep_all)
        context.learner, context.packed, context.keep_all = learner, packed, keep_all
        context.kept, context.last = kept, last
        return hidden

    @staticmethod
    def backward(context: Any, grad_SH: torch.Tensor) -> tuple[Any, ...]:
        kept, context.kept = context.kept, None
        if kept is None:  # the way back is taken a second time
            kept = []
            context.learner._forward(context.packed, kept, context.keep_all)
        found = context.learner._backward(context.packed, kept, context.last, grad_SH)
        return None, None, None, *found
