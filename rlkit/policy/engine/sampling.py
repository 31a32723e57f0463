"""Drawing tokens: filters, the draw itself, and the log-probability of what was drawn.

The log-probability is that of the distribution the token was really drawn from: after
temperature and filters, renormalised. Each row draws by its own number between 0 and 1
(inversion of the cumulative sum), so that it gets the same token whoever else is in the
batch.

Axes: N rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from rlkit.errors import UserError

#: Above this vocabulary the cumulative sum is taken in two stages, block by block.
ONE_STAGE = 8192
_BLOCK = 256


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    Attributes:
        temperature: divides the logits; 0 takes the likeliest token each time.
        top_k: only so many of the likeliest tokens; 0 for all.
        top_p: only the likeliest tokens that together reach this probability; 1 for all
            (nucleus sampling, 1904.09751).
        min_p: only tokens at least this share as likely as the likeliest; 0 for all
            (2407.01082).
        stop: texts that end an answer when they appear in it.

    Raises:
        UserError: a value out of range.

    >>> Sampling(temperature=0.7, top_p=0.9).filtered
    True
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise UserError(f"temperature must not be negative, not {self.temperature}")
        if self.top_k < 0:
            raise UserError(f"top_k must be 0 (all) or a number of tokens, not {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise UserError(f"min_p must be between 0 and 1, not {self.min_p}")
        if isinstance(self.stop, str) or not all(isinstance(s, str) and s for s in self.stop):
            raise UserError(f"stop must be a tuple of texts that are not empty, not {self.stop!r}")
        object.__setattr__(self, "stop", tuple(self.stop))

    @property
    def filtered(self) -> bool:
        """Whether some tokens cannot be drawn at all."""
        return bool(self.top_k) or self.top_p < 1 or self.min_p > 0


def keep_likeliest(logits_NV: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Logits with minus infinity where a filter forbids the token; order: k, p, min-p.

    The likeliest token always stays.

    >>> keep_likeliest(torch.tensor([[3.0, 2.0, 1.0]]), Sampling(top_k=2))
    tensor([[3., 2., -inf]])
    """
    if 0 < sampling.top_k < logits_NV.shape[-1]:
        least_N1 = logits_NV.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits_NV = logits_NV.masked_fill(logits_NV < least_N1, -torch.inf)
    if sampling.top_p < 1:
        sorted_NV, order_NV = logits_NV.sort(dim=-1, descending=True)
        probability_NV = torch.softmax(sorted_NV, dim=-1)
        before_NV = probability_NV.cumsum(-1) - probability_NV
        beyond_NV = before_NV >= sampling.top_p
        beyond_NV[:, 0] = False
        forbidden_NV = torch.zeros_like(beyond_NV).scatter(-1, order_NV, beyond_NV)
        logits_NV = logits_NV.masked_fill(forbidden_NV, -torch.inf)
    if sampling.min_p > 0:
        lowest_N1 = logits_NV.amax(-1, keepdim=True) + torch.tensor(sampling.min_p).log()
        logits_NV = logits_NV.masked_fill(logits_NV < lowest_N1, -torch.inf)
    return logits_NV


def draw(
    logits_NV: torch.Tensor, sampling: Sampling, uniform_N: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token a row and its log-probability in nats.

    Args:
        logits_NV: of any floating type; computed with in float32.
        uniform_N: numbers in [0, 1), float64.

    Returns:
        Token ids (N,) and log-probabilities (N,) float32. At temperature 0 the latter
        are 0: nothing else could have been drawn.
    """
    if sampling.temperature == 0:
        chosen_N = logits_NV.argmax(-1)
        return chosen_N, torch.zeros(len(chosen_N), device=logits_NV.device)
    scaled_NV = logits_NV.float() / sampling.temperature
    if sampling.filtered:
        scaled_NV = keep_likeliest(scaled_NV, sampling)
    if logits_NV.shape[-1] <= ONE_STAGE:
        logprobs_NV = torch.log_softmax(scaled_NV, dim=-1)
        cumulative_NV = logprobs_NV.double().exp().cumsum(-1)
        threshold_N1 = (uniform_N.to(cumulative_NV) * cumulative_NV[:, -1])[:, None]
        chosen_N = torch.searchsorted(cumulative_NV, threshold_N1, right=True)[:, 0]
        chosen_N = chosen_N.clamp(max=logits_NV.shape[-1] - 1)
        return chosen_N, logprobs_NV.gather(-1, chosen_N[:, None])[:, 0]
    return _draw_in_two_stages(scaled_NV, uniform_N)


def _draw_in_two_stages(
    scaled_NV: torch.Tensor, uniform_N: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same draw with one pass over the vocabulary in float32."""
    rows, vocabulary = scaled_NV.shape
    top_N1 = scaled_NV.amax(-1, keepdim=True)
    weight_NV = (scaled_NV - top_N1).exp_()
    if vocabulary % _BLOCK:
        weight_NV = torch.nn.functional.pad(weight_NV, (0, _BLOCK - vocabulary % _BLOCK))
    blocks = weight_NV.view(rows, -1, _BLOCK)
    ends_NB = blocks.sum(-1).double().cumsum(-1)
    total_N = ends_NB[:, -1]
    threshold_N1 = (uniform_N.to(total_N) * total_N)[:, None]
    block_N = torch.searchsorted(ends_NB, threshold_N1, right=True)[:, 0]
    block_N = block_N.clamp(max=blocks.shape[1] - 1)
    every = torch.arange(rows, device=scaled_NV.device)
    inside_NC = blocks[every, block_N].double().cumsum(-1)
    before_N = torch.where(block_N > 0, ends_NB[every, (block_N - 1).clamp(min=0)], 0.0)
    rest_N1 = threshold_N1 - before_N[:, None]
    # Rounding may leave a rest at the very end of a block; its last possible token is meant.
    rest_N1 = torch.minimum(rest_N1, inside_NC[:, -1:] * (1 - 1e-12))
    place_N = torch.searchsorted(inside_NC, rest_N1, right=True)[:, 0].clamp(max=_BLOCK - 1)
    chosen_N = (block_N * _BLOCK + place_N).clamp(max=vocabulary - 1)
    logprob_N = scaled_NV[every, chosen_N] - top_N1[:, 0] - total_N.log().float()
    return chosen_N, logprob_N


def completes(
    ids: list[int], stop: tuple[str, ...], decode: Callable[[list[int]], str] | None
) -> bool:
    """Whether the answer's end has just completed one of the texts."""
    if decode is None:
        raise ValueError("texts to stop at need a function that decodes ids")
    # A text of n characters lies within the last n tokens; a few more hold its first one.
    tail = decode(ids[-(max(len(text) for text in stop) + 4) :])
    return any(text in tail for text in stop)
