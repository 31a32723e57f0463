"""Log-probabilities of chosen tokens from hidden states, without the table of all logits.

The logits of 2,000 tokens over 49,152 words are 400 MB, and softmax and gradient would
hold as much again each. Here some hundred tokens at a time are multiplied by the head,
reduced to two numbers (log-probability and entropy), and forgotten; the backward pass
computes them once more. With p the softmax, y the chosen token, H the entropy:

    d log p_y / d z_j = [j = y] - p_j          d H / d z_j = -p_j (log p_j + H)

Axes: M tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

#: Logits that are held at once: 4 bytes each, and a few copies of them.
AT_ONCE = 1 << 23


def token_logprobs(
    hidden_MH: torch.Tensor,
    weight_VH: torch.Tensor,
    chosen_M: torch.Tensor,
    temperature: float = 1.0,
    bias_V: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability and entropy (nats) of each token's distribution, both (M,) float32.

    Args:
        hidden_MH: last hidden states.
        weight_VH: the head; the product is computed in its type.
        chosen_M: ids of the tokens whose log-probability is asked for.
        temperature: divides the logits.

    >>> hidden = torch.eye(2)
    >>> logprob, entropy = token_logprobs(hidden, torch.zeros(4, 2), torch.tensor([0, 3]))
    >>> [round(x, 4) for x in (*logprob.tolist(), *entropy.tolist())]  # log 1/4, and log 4
    [-1.3863, -1.3863, 1.3863, 1.3863]
    """
    return _TokenLogprobs.apply(hidden_MH, weight_VH, bias_V, chosen_M, temperature)


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        bias_V: torch.Tensor | None,
        chosen_M: torch.Tensor,
        temperature: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        kind = torch.promote_types(torch.float32, hidden_MH.dtype)
        logprobs, entropies, norms = [], [], []
        for part, chosen in _parts(hidden_MH, chosen_M, len(weight_VH)):
            logits = _logits(part, weight_VH, bias_V, temperature, kind)
            norm = torch.logsumexp(logits, dim=-1)
            logprobs.append(logits.gather(-1, chosen[:, None])[:, 0] - norm)
            logits.sub_(norm[:, None])
            entropies.append(-(logits.exp() * logits).sum(-1))
            norms.append(norm)
        if not logprobs:
            empty = hidden_MH.new_zeros(0, dtype=kind)
            logprobs, entropies, norms = [empty], [empty], [empty]
        context.save_for_backward(
            hidden_MH, weight_VH, bias_V, chosen_M, torch.cat(norms), torch.cat(entropies)
        )
        context.temperature = temperature
        return torch.cat(logprobs), torch.cat(entropies)

    @staticmethod
    def backward(
        context: Any, grad_logprob_M: torch.Tensor, grad_entropy_M: torch.Tensor
    ) -> tuple[Any, ...]:
        hidden_MH, weight_VH, bias_V, chosen_M, norm_M, entropy_M = context.saved_tensors
        temperature = context.temperature
        needs_hidden, needs_weight, needs_bias = context.needs_input_grad[:3]
        grad_hidden = torch.empty_like(hidden_MH) if needs_hidden else None
        grad_weight = torch.zeros_like(weight_VH, dtype=norm_M.dtype) if needs_weight else None
        grad_bias = torch.zeros_like(bias_V, dtype=norm_M.dtype) if needs_bias else None
        with_entropy = bool((grad_entropy_M != 0).any())
        start = 0
        for part, chosen in _parts(hidden_MH, chosen_M, len(weight_VH)):
            rows = slice(start, start + len(part))
            start += len(part)
            logprob = _logits(part, weight_VH, bias_V, temperature, norm_M.dtype)
            logprob.sub_(norm_M[rows, None])
            p = logprob.exp()
            if with_entropy:
                slope = logprob.add_(entropy_M[rows, None]).mul_(-grad_entropy_M[rows, None])
                slope.sub_(grad_logprob_M[rows, None])
            else:
                slope = -grad_logprob_M[rows, None]
            grad = p.mul_(slope)
            grad[torch.arange(len(part), device=grad.device), chosen] += grad_logprob_M[rows]
            grad.div_(temperature)
            low = grad.to(weight_VH.dtype)
            if grad_hidden is not None:
                grad_hidden[rows] = (low @ weight_VH).to(grad_hidden.dtype)
            if grad_weight is not None:
                grad_weight += (low.t() @ part.to(low.dtype)).to(grad_weight.dtype)
            if grad_bias is not None:
                grad_bias += grad.sum(0)
        if grad_weight is not None:
            grad_weight = grad_weight.to(weight_VH.dtype)
        if grad_bias is not None:
            grad_bias = grad_bias.to(bias_V.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None


def _parts(hidden_MH: torch.Tensor, chosen_M: torch.Tensor, vocabulary: int) -> Any:
    size = max(1, AT_ONCE // vocabulary)
    return zip(hidden_MH.split(size), chosen_M.split(size), strict=True)


def _logits(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    temperature: float,
    kind: torch.dtype,
) -> torch.Tensor:
    """Logits by temperature, in memory of their own."""
    logits = functional.linear(hidden.to(weight.dtype), weight).to(kind)
    if bias is not None:
        logits = logits + bias.to(kind)
    return logits if temperature == 1 else logits.div_(temperature)
