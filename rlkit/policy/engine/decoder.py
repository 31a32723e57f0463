"""The forward pass of a Llama-like decoder, written out for answers that share prompts.

Prompts are read once and their keys and values kept once for each problem; the answers of
a group read them from there. What the answers add themselves lies in buffers that are
allocated once and written in place, one column a token. Attention over the two parts is
one softmax over both scores, so the numbers are those of the plain model.

Axes: B problems, G answers of each that are still running, N = B x G rows, P prompt
tokens, T completion tokens, D head size, K heads of keys and values, R query heads that
share one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from rlkit.policy.engine.blueprint import Blueprint
from rlkit.policy.engine.weights import Copy

#: Widths of the answers' keys and values go in steps of so many columns in low precision.
COLUMNS = 16


@dataclass
class Prompts:
    """What B prompts left behind: keys and values for each layer, (B, K, P, D).

    Attributes:
        keys, values: one tensor a layer.
        lengths_B: tokens of each prompt; what lies to the right of them is padding.
        logits_BV: after the last token of each prompt.
    """

    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    lengths_B: torch.Tensor
    logits_BV: torch.Tensor

    def select(self, rows: torch.Tensor) -> Prompts:
        """Those of some problems, in this order."""
        return Prompts(
            [k[rows] for k in self.keys],
            [v[rows] for v in self.values],
            self.lengths_B[rows],
            self.logits_BV[rows],
        )

    def first(self, tokens: int) -> Prompts:
        """The beginning of one prompt; it has no logits, as they belong to the last token."""
        return Prompts(
            [k[:1, :, :tokens] for k in self.keys],
            [v[:1, :, :tokens] for v in self.values],
            self.lengths_B.new_full((1,), tokens),
            self.logits_BV[:0],
        )

    @classmethod
    def join(cls, parts: Sequence[Prompts]) -> Prompts:
        """Those of several readings, one after another, padded to the longest."""
        width = max(part.keys[0].shape[2] for part in parts)

        def joined(name: str, layer: int) -> torch.Tensor:
            rows = [getattr(part, name)[layer] for part in parts]
            return torch.cat([functional.pad(x, (0, 0, 0, width - x.shape[2])) for x in rows])

        layers = range(len(parts[0].keys))
        return cls(
            [joined("keys", i) for i in layers],
            [joined("values", i) for i in layers],
            torch.cat([part.lengths_B for part in parts]),
            torch.cat([part.logits_BV for part in parts]),
        )

    def bytes(self) -> int:
        """What the keys and values take."""
        return sum(x.numel() * x.element_size() for x in (*self.keys, *self.values))


class Decoder:
    """Computes with a merged copy; holds no state of its own between calls."""

    def __init__(self, blueprint: Blueprint, copy: Copy) -> None:
        self.blueprint = blueprint
        self.copy = copy
        self.K = blueprint.key_value_heads
        self.R = blueprint.heads // blueprint.key_value_heads
        self.D = blueprint.head_size

    @torch.no_grad()
    def read_prompts(self, prompts: list[list[int]], begun: Prompts | None = None) -> Prompts:
        """Runs B prompts once.

        Args:
            begun: what one beginning left behind that all of them share; `prompts` are then
                what follows it, at least one token each, and the result is for the whole.
        """
        device = self.copy.embedding.device
        lengths = [len(prompt) for prompt in prompts]
        ids_BP = torch.zeros(len(prompts), max(lengths), dtype=torch.long)
        for i, prompt in enumerate(prompts):
            ids_BP[i, : len(prompt)] = torch.tensor(prompt)
        ids_BP = ids_BP.to(device)
        B, P = ids_BP.shape
        before = 0 if begun is None else begun.keys[0].shape[2]
        mask = None
        if begun is not None:  # all of the beginning, and one's own up to here
            mask = torch.ones(P, before + P, dtype=torch.bool, device=device).tril(before)
        x = functional.embedding(ids_BP, self.copy.embedding).float()
        cos, sin = self.rotary(torch.arange(before, before + P, device=device)[None])
        keys, values = [], []
        for i, layer in enumerate(self.copy.layers):
            q, k, v = self._project(layer, x, cos, sin)
            if begun is not None:
                k = torch.cat([begun.keys[i].expand(B, -1, -1, -1), k], dim=2)
                v = torch.cat([begun.values[i].expand(B, -1, -1, -1), v], dim=2)
            # Padding stands on the right, where no earlier token looks.
            y = functional.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=mask,
                is_causal=mask is None,
                scale=self.blueprint.scale,
                enable_gqa=self.R > 1,
            )
            y = y.transpose(1, 2).reshape(B, P, -1)
            x = x + layer.output(y)
            x = self._mlp(layer, x)
            if begun is None:  # they are parts of the projection, which is several times as large
                k, v = (part.clone(memory_format=torch.contiguous_format) for part in (k, v))
            keys.append(k)
            values.append(v)
        lengths_B = torch.tensor(lengths, device=device)
        last_BH = x[torch.arange(B, device=device), lengths_B - 1]
        return Prompts(keys, values, lengths_B + before, self._logits(last_BH))

    def begin(self, prompts: Prompts, group: int, tokens: int) -> Answers:
        """Room for `group` answers to each prompt, of so many tokens each."""
        return Answers(self, prompts, group, tokens)

    def rotary(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of positions (rows, tokens), each (rows, 1, tokens, D)."""
        cos, sin = self.blueprint.rotary(self.copy.embedding[:1, :1].float(), positions)
        dtype = self.copy.dtype
        return cos[:, None].to(dtype), sin[:, None].to(dtype)

    def _project(
        self, layer: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries (rows, heads, tokens, D), keys and values (rows, K, tokens, D), turned."""
        rows, tokens, _ = x.shape
        h = self._norm(x, layer.attention_norm)
        qkv = layer.qkv(h)
        qkv = qkv.view(rows, tokens, -1, self.D).transpose(1, 2)
        q, k, v = qkv.split([self.K * self.R, self.K, self.K], dim=1)
        if layer.query_norm is not None:
            eps = self.copy.epsilon
            q = functional.rms_norm(q.float(), (self.D,), layer.query_norm, eps).to(v.dtype)
            k = functional.rms_norm(k.float(), (self.D,), layer.key_norm, eps).to(v.dtype)
            return turn(q, cos, sin), turn(k, cos, sin), v
        both = turn(qkv[:, : self.K * (self.R + 1)], cos, sin)
        return both[:, : self.K * self.R], both[:, self.K * self.R :], v

    def _mlp(self, layer: Any, x: torch.Tensor) -> torch.Tensor:
        h = self._norm(x, layer.mlp_norm)
        gate, up = layer.gate_up(h).chunk(2, dim=-1)
        return x + layer.down(functional.silu(gate) * up)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The residual stream stays in float32; what goes into a product is cast."""
        h = functional.rms_norm(x, x.shape[-1:], weight, self.copy.epsilon)
        return h.to(self.copy.dtype)

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        x = self._norm(x, self.copy.norm)
        return self.copy.head(x)


class Answers:
    """N = B x G answers in the making; each `step` adds one token to all of them."""

    def __init__(self, decoder: Decoder, prompts: Prompts, group: int, tokens: int) -> None:
        self.decoder = decoder
        self.prompts = prompts
        self.group = group
        B, K, _, D = prompts.keys[0].shape
        self.length = 0
        shape = (B * group, K, tokens, D)
        like = prompts.keys[0]
        # Zeros, since a step may read a few columns more than were written, weighed with 0.
        self.keys = [like.new_zeros(shape) for _ in prompts.keys]
        self.values = [like.new_zeros(shape) for _ in prompts.keys]
        self._look_at_prompts()

    def _look_at_prompts(self) -> None:
        lengths_B, P = self.prompts.lengths_B, self.prompts.keys[0].shape[2]
        self.position_N = lengths_B.repeat_interleave(self.group)
        self.bias: torch.Tensor | None = None
        if bool((lengths_B != P).any()):
            beyond = torch.arange(P, device=lengths_B.device)[None] >= lengths_B[:, None]
            bias = torch.zeros(beyond.shape, device=lengths_B.device)
            bias = bias.masked_fill(beyond, -torch.inf)
            self.bias = bias[:, None, None, None]  # (B, 1, 1, 1, P)

    @torch.no_grad()
    def step(self, ids_N: torch.Tensor) -> torch.Tensor:
        """Logits (N, V) after one more token a row."""
        of = self.decoder
        B, G, K, R, D = len(self.prompts.lengths_B), self.group, of.K, of.R, of.D
        t, read = self.length, self._columns()
        x = functional.embedding(ids_N, of.copy.embedding)[:, None].float()
        cos, sin = of.rotary((self.position_N + t)[:, None])
        for i, layer in enumerate(of.copy.layers):
            q, k, v = of._project(layer, x, cos, sin)
            self.keys[i][:, :, t] = k[:, :, 0]
            self.values[i][:, :, t] = v[:, :, 0]
            q = (q * of.blueprint.scale).view(B, G, K, R, D)
            shared = q.permute(0, 2, 1, 3, 4).reshape(B, K, G * R, D)
            own = q.view(B * G, K, R, D)
            over_prompt = torch.matmul(shared, self.prompts.keys[i].transpose(2, 3))
            over_own = torch.matmul(own, self.keys[i][:, :, :read].transpose(2, 3))
            scores = torch.cat(
                [
                    over_prompt.view(B, K, G, R, -1).transpose(1, 2),
                    over_own.view(B, G, K, R, read),
                ],
                dim=-1,
            ).float()
            P = scores.shape[-1] - read
            scores[..., P + t + 1 :] = -torch.inf
            if self.bias is not None:
                scores[..., :P] += self.bias
            weights = torch.softmax(scores, dim=-1).to(q.dtype)
            shared = weights[..., :P].transpose(1, 2).reshape(B, K, G * R, P)
            y = torch.matmul(shared, self.prompts.values[i])
            y = y.view(B, K, G, R, D).transpose(1, 2)
            own = weights[..., P:].reshape(B * G, K, R, read)
            y = y + torch.matmul(own, self.values[i][:, :, :read]).view(B, G, K, R, D)
            y = y.reshape(B * G, 1, K * R * D)
            x = x + layer.output(y)
            x = of._mlp(layer, x)
        self.length += 1
        return of._logits(x[:, 0])

    def _columns(self) -> int:
        """How many columns of the buffers a step reads: those there are, and a few more in low
        precision, whose kernels are compiled for each width and kept."""
        there = self.length + 1
        if self.decoder.copy.dtype == torch.float32:
            return there
        return min(self.keys[0].shape[2], -(-there // COLUMNS) * COLUMNS)

    def keep(self, problems: torch.Tensor, rows: torch.Tensor, group: int) -> None:
        """Goes on with some rows only.

        Args:
            problems: which problems, B' of them.
            rows: which rows, B' x `group`, ordered by problem.
        """
        used = self.length
        for buffers in (self.keys, self.values):
            for i, kept in enumerate(buffers):
                smaller = kept.new_zeros(len(rows), *kept.shape[1:])
                smaller[:, :, :used] = kept[rows, :, :used]
                buffers[i] = smaller
        if len(problems) != len(self.prompts.lengths_B):
            self.prompts = self.prompts.select(problems)
        self.group = group
        self._look_at_prompts()


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position, first half against second half of each head (2104.09864)."""
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + turned * sin
