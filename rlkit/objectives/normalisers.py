"""Normalisers: what a sum over tokens is divided by.

| name | an answer's weight | a token's weight |
|---|---|---|
| `token` | grows with its length | the same for all (DAPO) |
| `sequence` | the same for all | falls with the length of its answer (GRPO's paper) |
| `constant` | grows with its length | the same whatever the batch (Dr. GRPO) |

The denominator is that of the whole accumulation window, known before the first
micro-batch, so that parts add up to the whole however they were cut; nothing is
divided by the number of micro-batches. Numerator and denominator use one mask: a row
of which no token takes part counts in neither.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rlkit.errors import UserError

NORMALISERS = ("token", "sequence", "constant")


@dataclass(frozen=True)
class Window:
    """What one optimizer step runs over, all its micro-batches together.

    Attributes:
        tokens: tokens that take part.
        rollouts: rollouts with at least one of them.
        max_length: completion budget in tokens, for the `constant` normaliser.
        chosen: tokens that an objective picked out (see `Objective.choose`), or `None`.
    """

    tokens: int
    rollouts: int
    max_length: int = 1
    chosen: int | None = None

    @classmethod
    def of(
        cls,
        mask_NT: torch.Tensor,
        max_length: int | None = None,
        chosen_NT: torch.Tensor | None = None,
    ) -> Window:
        """The window of a batch that is not split.

        >>> Window.of(torch.tensor([[True, True], [False, False]]), max_length=8)
        Window(tokens=2, rollouts=1, max_length=8, chosen=None)
        """
        mask_NT = mask_NT.bool()
        return cls(
            int(mask_NT.sum()),
            int(mask_NT.any(-1).sum()),
            mask_NT.shape[-1] if max_length is None else max_length,
            None if chosen_NT is None else int((chosen_NT & mask_NT).sum()),
        )


def normalise(
    loss_NT: torch.Tensor, mask_NT: torch.Tensor, normaliser: str, window: Window
) -> torch.Tensor:
    """The share of these rows in the loss of the window: a scalar; shares add up.

    Args:
        loss_NT: loss of each token; what stands outside the mask never counts.
        mask_NT: true where a token takes part.
        normaliser: `token`, `sequence` or `constant`.
        window: the denominators.

    Raises:
        UserError: an unknown normaliser.

    >>> loss = torch.tensor([[-1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    >>> mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    >>> window = Window.of(mask, max_length=10)
    >>> [round(normalise(loss, mask, n, window).item(), 3) for n in NORMALISERS]
    [0.333, 0.0, 0.1]
    """
    mask_NT = mask_NT.bool()
    kept_NT = torch.where(mask_NT, loss_NT, 0.0)
    if normaliser == "token":
        return kept_NT.sum() / max(1, window.tokens)
    if normaliser == "sequence":
        length_N = mask_NT.sum(-1).clamp(min=1)
        return (kept_NT.sum(-1) / length_N).sum() / max(1, window.rollouts)
    if normaliser == "constant":
        return kept_NT.sum() / max(1, window.rollouts * window.max_length)
    raise UserError(f"unknown normaliser {normaliser!r}; choose {', '.join(NORMALISERS)}")
