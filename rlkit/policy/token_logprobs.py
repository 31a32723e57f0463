"""Log-probabilities of chosen tokens from hidden states, without the table of all logits.

The logits of 2,000 tokens over 49,152 words are 400 MB, and softmax and gradient would
hold as much again each. Here some hundred tokens at a time are multiplied by the head,
reduced to two numbers (log-probability and entropy), and forgotten; the backward pass
computes them once more. With p the softmax, y the chosen token, H the entropy:

    d log p_y / d z_j = [j = y] - p_j          d H / d z_j = -p_j (log p_j + H)

Axes: M tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

#: Logits that one product gives, and how many of them are reduced at a time: the product
#: wants many rows, and what is reduced should fit the processor's cache.
AT_ONCE = 1 << 24
REDUCED = 1 << 20


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
        logprob_M = hidden_MH.new_empty(len(hidden_MH), dtype=kind)
        entropy_M, norm_M = torch.empty_like(logprob_M), torch.empty_like(logprob_M)
        few = _Few(hidden_MH, weight_VH, bias_V, temperature, kind)
        for rows, logits in few:
            top = logits.amax(-1, keepdim=True)
            chosen = logits.gather(-1, chosen_M[rows, None])
            weight = torch.exp(logits.sub_(top), out=few.second(len(logits)))
            total = weight.sum(-1, keepdim=True)
            norm = total.log()
            logprob_M[rows] = (chosen - top - norm)[:, 0]
            # H = log sum e^z - sum p z, with z counted from the largest.
            mean = torch.linalg.vecdot(weight, logits)[:, None] / total
            entropy_M[rows] = (norm - mean)[:, 0]
            norm_M[rows] = (norm + top)[:, 0]
        context.save_for_backward(hidden_MH, weight_VH, bias_V, chosen_M, norm_M, entropy_M)
        context.temperature = temperature
        return logprob_M, entropy_M

    @staticmethod
    def backward(
        context: Any, grad_logprob_M: torch.Tensor, grad_entropy_M: torch.Tensor
    ) -> tuple[Any, ...]:
        hidden_MH, weight_VH, bias_V, chosen_M, norm_M, entropy_M = context.saved_tensors
        temperature, kind = context.temperature, norm_M.dtype
        needs_hidden, needs_weight, needs_bias = context.needs_input_grad[:3]
        grad_hidden = torch.empty_like(hidden_MH) if needs_hidden else None
        grad_weight = torch.zeros_like(weight_VH, dtype=kind) if needs_weight else None
        grad_bias = torch.zeros_like(bias_V, dtype=kind) if needs_bias else None
        with_entropy = bool((grad_entropy_M != 0).any())
        few = _Few(hidden_MH, weight_VH, bias_V, temperature, kind)

        def product(start: int, low: torch.Tensor) -> None:
            rows = slice(start, start + len(low))
            if grad_hidden is not None:
                grad_hidden[rows] = (low @ weight_VH).to(grad_hidden.dtype)
            if grad_weight is not None:
                part = hidden_MH[rows].to(low.dtype)
                grad_weight.add_((low.t() @ part).to(kind))

        low, first = weight_VH.new_empty(min(few.many, len(hidden_MH)), len(weight_VH)), 0
        for rows, logits in few:
            if rows.start - first == few.many:
                product(first, low)
                first = rows.start
            logits.sub_(norm_M[rows, None])
            grad = torch.exp(logits, out=few.second(len(logits)))
            if with_entropy:
                slope = logits.add_(entropy_M[rows, None]).mul_(-grad_entropy_M[rows, None])
                grad.mul_(slope.sub_(grad_logprob_M[rows, None]))
            else:
                grad.mul_(-grad_logprob_M[rows, None])
            grad[torch.arange(len(grad), device=grad.device), chosen_M[rows]] += grad_logprob_M[
                rows
            ]
            if temperature != 1:
                grad.div_(temperature)
            low[rows.start - first : rows.stop - first] = grad
            if grad_bias is not None:
                grad_bias += grad.sum(0)
        if len(hidden_MH):
            product(first, low[: len(hidden_MH) - first])
        if grad_weight is not None:
            grad_weight = grad_weight.to(weight_VH.dtype)
        if grad_bias is not None:
            grad_bias = grad_bias.to(bias_V.dtype)
        return grad_hidden, grad_weight, grad_bias, None, None


class _Few:
    """Logits by temperature, a few rows at a time, in memory that is used again.

    Gives pairs of rows and their logits (rows, V), which are overwritten by the next.
    """

    def __init__(
        self,
        hidden_MH: torch.Tensor,
        weight_VH: torch.Tensor,
        bias_V: torch.Tensor | None,
        temperature: float,
        kind: torch.dtype,
    ) -> None:
        self.hidden, self.weight, self.bias = hidden_MH, weight_VH, bias_V
        self.temperature, self.kind = temperature, kind
        vocabulary = len(weight_VH)
        self.few = max(1, REDUCED // vocabulary)
        self.many = max(self.few, AT_ONCE // vocabulary // self.few * self.few)
        size = (min(self.few, len(hidden_MH)), vocabulary)
        self._first = hidden_MH.new_empty(size, dtype=kind)
        self._second = hidden_MH.new_empty(size, dtype=kind)

    def second(self, rows: int) -> torch.Tensor:
        """Room for as many numbers again."""
        return self._second[:rows]

    def __iter__(self) -> Iterator[tuple[slice, torch.Tensor]]:
        for start in range(0, len(self.hidden), self.many):
            part = self.hidden[start : start + self.many].to(self.weight.dtype)
            every = functional.linear(part, self.weight)
            for inside in range(0, len(part), self.few):
                some = every[inside : inside + self.few]
                logits = self._first[: len(some)].copy_(some)
                if self.bias is not None:
                    logits += self.bias.to(self.kind)
                if self.temperature != 1:
                    logits.div_(self.temperature)
                yield slice(start + inside, start + inside + len(some)), logits
