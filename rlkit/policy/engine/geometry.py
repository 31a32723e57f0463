"""Geometry: packed tokens laid out for attention, and gathered again.

Products take all tokens as one column of rows; attention takes prompts and answers on their
grids, padded. This module moves between the two and knows the positions.

Axes: M packed tokens, B prompts, G answers of the one that has most, P and T tokens of the
longest prompt and answer, K heads of keys and values, R query heads that share one, D head
size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rlkit.policy.engine.attention import TwoParts
from rlkit.policy.engine.decoder import Decoder
from rlkit.policy.engine.packing import Packed

Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass
class Geometry:
    """Where each packed token of a batch belongs.

    Attributes:
        packed: the batch.
        cos, sin: rotary positions, (M, 1, D), of the copy's type.
        parts: the attention of this batch.
        K, R, D: see above.
    """

    packed: Packed
    cos: torch.Tensor
    sin: torch.Tensor
    parts: TwoParts
    K: int
    R: int
    D: int

    @classmethod
    def of(cls, decoder: Decoder, packed: Packed) -> Geometry:
        _, P, _, T = packed.grid
        cos, sin = decoder.rotary(packed.positions_M[None])
        parts = TwoParts(
            packed.lengths_B, P, T, decoder.R, decoder.K, decoder.blueprint.scale,
            decoder.copy.dtype,
        )  # fmt: skip
        cos, sin = cos[0, 0][:, None], sin[0, 0][:, None]
        return cls(packed, cos, sin, parts, decoder.K, decoder.R, decoder.D)

    def spread(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[Triple, Triple | None]:
        """Queries (M, K R, D), keys and values (M, K, D) on both grids.

        See `attention.Attended` for the shapes.
        """
        prompt = self._prompt_queries(q), self._prompt_keys(k), self._prompt_keys(v)
        if not self._answers():
            return prompt, None
        return prompt, (self._answer_queries(q), self._answer_keys(k), self._answer_keys(v))

    def gather(self, prompt: torch.Tensor, answers: torch.Tensor | None) -> torch.Tensor:
        """Outputs of attention on the grids as rows (M, K R D)."""
        return self._from_queries(prompt, answers).flatten(1)

    def scatter(self, grad_MC: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The other way: rows (M, K R D) on both grids, 0 at padding."""
        grad = grad_MC.view(len(grad_MC), -1, self.D)
        return self._prompt_queries(grad), self._answer_queries(grad) if self._answers() else None

    def collect(self, prompt: Triple, answers: Triple | None) -> Triple:
        """Gradients of queries, keys and values on the grids as rows, see `spread`."""
        q, k, v = answers or (None, None, None)
        return (
            self._from_queries(prompt[0], q),
            self._from_keys(prompt[1], k),
            self._from_keys(prompt[2], v),
        )

    def _answers(self) -> bool:
        return len(self.packed.answer_slot) > 0

    def _on_grid(self, rows: torch.Tensor, slot: torch.Tensor, places: int) -> torch.Tensor:
        if len(slot) == places:  # slots are ascending, so nothing has to move
            return rows
        grid = rows.new_zeros(places, *rows.shape[1:])
        grid[slot] = rows
        return grid

    def _prompt_grid(self, x: torch.Tensor) -> torch.Tensor:
        B, P, _, _ = self.packed.grid
        return self._on_grid(x[: self.packed.prompts], self.packed.prompt_slot, B * P)

    def _answer_grid(self, x: torch.Tensor) -> torch.Tensor:
        B, _, G, T = self.packed.grid
        own = x[self.packed.prompts : len(x) - self.packed.filling]
        return self._on_grid(own, self.packed.answer_slot, B * G * T)

    def _prompt_queries(self, x: torch.Tensor) -> torch.Tensor:
        B, P, _, _ = self.packed.grid
        grid = self._prompt_grid(x).view(B, P, self.K, self.R, self.D)
        grid = grid.permute(0, 2, 3, 1, 4).reshape(B * self.K, self.R, P, self.D)
        return grid.contiguous()  # or with one prompt all rows would stay behind it

    def _prompt_keys(self, x: torch.Tensor) -> torch.Tensor:
        B, P, _, _ = self.packed.grid
        grid = self._prompt_grid(x).view(B, P, self.K, self.D)
        return grid.transpose(1, 2).reshape(B * self.K, 1, P, self.D).contiguous()

    def _answer_queries(self, x: torch.Tensor) -> torch.Tensor:
        B, _, G, T = self.packed.grid
        grid = self._answer_grid(x).view(B, G, T, self.K, self.R, self.D)
        return grid.permute(0, 3, 1, 4, 2, 5).reshape(B * self.K, 1, G * self.R * T, self.D)

    def _answer_keys(self, x: torch.Tensor) -> torch.Tensor:
        B, _, G, T = self.packed.grid
        grid = self._answer_grid(x).view(B, G, T, self.K, self.D)
        return grid.permute(0, 3, 1, 2, 4).reshape(B * self.K * G, 1, T, self.D)

    def _from_queries(self, prompt: torch.Tensor, answers: torch.Tensor | None) -> torch.Tensor:
        B, P, G, T = self.packed.grid
        rows = prompt.view(B, self.K, self.R, P, self.D).permute(0, 3, 1, 2, 4)
        rows = rows.reshape(B * P, self.K * self.R, self.D)
        if answers is None:
            return self._rows(rows, None)
        other = answers.view(B, self.K, G, self.R, T, self.D).permute(0, 2, 4, 1, 3, 5)
        return self._rows(rows, other.reshape(B * G * T, self.K * self.R, self.D))

    def _from_keys(self, prompt: torch.Tensor, answers: torch.Tensor | None) -> torch.Tensor:
        B, P, G, T = self.packed.grid
        rows = prompt.view(B, self.K, P, self.D).transpose(1, 2).reshape(B * P, self.K, self.D)
        if answers is None:
            return self._rows(rows, None)
        other = answers.view(B, self.K, G, T, self.D).permute(0, 2, 3, 1, 4)
        return self._rows(rows, other.reshape(B * G * T, self.K, self.D))

    def _rows(self, prompt: torch.Tensor, answers: torch.Tensor | None) -> torch.Tensor:
        packed = self.packed
        if len(packed.prompt_slot) != len(prompt):
            prompt = prompt[packed.prompt_slot]
        parts = [prompt]
        if answers is not None:
            full = len(packed.answer_slot) == len(answers)
            parts.append(answers if full else answers[packed.answer_slot])
        if packed.filling:
            parts.append(prompt.new_zeros(packed.filling, *prompt.shape[1:]))
        return torch.cat(parts) if len(parts) > 1 else prompt
