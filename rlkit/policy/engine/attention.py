"""Attention of answers over their shared prompt and over themselves, forward and backward.

The softmax runs over two parts: the prompt, whose keys all answers of a group share, and
the answer's own earlier tokens. Each part is computed where it lies, and the parts are
joined by their log-sums, as in ring attention (2310.01889):

    lse = log(e^lse1 + e^lse2)      out = out1 e^(lse1 - lse) + out2 e^(lse2 - lse)

Backward, each part needs only the joined `out` and `lse`: with p = e^(score - lse) and
delta = sum(d_out * out), d_score = p (d_p - delta), the same as for one softmax
(FlashAttention, 2205.14135).

A CPU has a fused kernel for large parts; small ones, and other devices, take plain matrix
products, which are faster there.

Axes: B prompts, K heads of keys and values, R query heads that share one of them, G answers
a prompt, P prompt tokens, T answer tokens, D head size; of one part: X batch, Y heads, Q
queries, L keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

#: From this many scores on the fused kernel is the faster one, as measured (`docs/LOG.md`);
#: below it plain products are, forward up to twice and backward up to twenty times.
FUSED_FROM = 6 << 20


@cache
def has_fused() -> bool:
    """Whether this build of torch has the fused CPU kernel with its log-sums, and it is right."""
    try:
        q = torch.linspace(-1, 1, 24).view(1, 1, 3, 8)
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, q, q, 0.0, False, attn_mask=None, scale=1.0
        )
        scores = q @ q.transpose(-1, -2)
    except (RuntimeError, AttributeError, NotImplementedError, TypeError):
        return False
    return bool(
        torch.allclose(lse, scores.logsumexp(-1), atol=1e-5)
        and torch.allclose(out, scores.softmax(-1) @ q, atol=1e-5)
    )


@dataclass(frozen=True)
class Part:
    """One part of the keys: how its scores are masked and multiplied.

    Attributes:
        scale: multiplies the scores.
        causal: a query sees the keys up to its own place.
        bias: added to the scores, broadcast to (X, Y, Q, L), of the type of the queries.
    """

    scale: float
    causal: bool = False
    bias: torch.Tensor | None = None

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Output (X, Y, Q, D) of the type of `q`, and log-sums (X, Y, Q) float32.

        Args:
            q: queries (X, Y, Q, D).
            k, v: keys and values (X, Y, L, D), or (X, 1, L, D) shared by all Y.
        """
        if self._fused(q, k):
            call = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
            k, v = k.expand(-1, q.shape[1], -1, -1), v.expand(-1, q.shape[1], -1, -1)
            return call(q, k, v, 0.0, self.causal, attn_mask=self.bias, scale=self.scale)
        scores = self._scores(q, k)
        lse = torch.logsumexp(scores, dim=-1)
        p = scores.sub_(lse[..., None]).exp_().to(v.dtype)
        return _times(p, v), lse

    def backward(
        self,
        grad: torch.Tensor,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor,
        lse: torch.Tensor,
        delta: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Gradients of queries, keys and values, of their shapes.

        Args:
            grad: gradient of the joined output.
            out, lse: the joined output and log-sums, of all parts together.
            delta: sum of `grad * out` over D, float32.
        """
        if self._fused(q, k):
            call = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
            many, shared = q.shape[1], k.shape[1] != q.shape[1]
            grad_q, grad_k, grad_v = call(
                grad, q, k.expand(-1, many, -1, -1), v.expand(-1, many, -1, -1), out, lse,
                0.0, self.causal, attn_mask=self.bias, scale=self.scale,
            )  # fmt: skip
            if shared:
                grad_k, grad_v = grad_k.sum(1, keepdim=True), grad_v.sum(1, keepdim=True)
            return grad_q, grad_k, grad_v
        p = self._scores(q, k).sub_(lse[..., None]).exp_()
        grad_v = _sum_over_queries(p.to(grad.dtype), grad, v.shape[1])
        grad_p = _times(grad, v.transpose(-1, -2)).float()
        grad_s = grad_p.sub_(delta[..., None]).mul_(p).mul_(self.scale).to(q.dtype)
        return _times(grad_s, k), _sum_over_queries(grad_s, q, k.shape[1]), grad_v

    def _fused(self, q: torch.Tensor, k: torch.Tensor) -> bool:
        large = q.shape[:-1].numel() * k.shape[-2] >= FUSED_FROM
        return large and q.device.type == "cpu" and has_fused()

    def _scores(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        scores = _times(q, k.transpose(-1, -2)).float().mul_(self.scale)
        if self.causal:
            later = torch.full(scores.shape[-2:], -torch.inf, device=q.device).triu_(1)
            scores.add_(later)
        return scores if self.bias is None else scores.add_(self.bias)


def _times(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`left @ right`, where one `right` may serve all Y: they become rows of one product."""
    if right.shape[1] == left.shape[1]:
        return torch.matmul(left, right)
    folded = left.reshape(len(left), -1, left.shape[-1])
    return torch.bmm(folded, right[:, 0]).view(*left.shape[:-1], right.shape[-1])


def _sum_over_queries(left: torch.Tensor, right: torch.Tensor, heads: int) -> torch.Tensor:
    """`left^T @ right`, summed over Y where keys and values are shared by all of them."""
    if heads == left.shape[1]:
        return torch.matmul(left.transpose(-1, -2), right)
    left, right = (x.reshape(len(x), -1, x.shape[-1]) for x in (left, right))
    return torch.bmm(left.transpose(-1, -2), right)[:, None]


@dataclass
class Attended:
    """What the backward pass needs of one layer's attention.

    Attributes:
        prompt: queries (BK, R, P, D), keys and values (BK, 1, P, D).
        prompt_out, prompt_lse: what the prompts' tokens got.
        answers: queries (BK, 1, G R T, D), keys and values (BKG, 1, T, D); `None` where
            nothing of them is read.
        out, lse: joined, in the shape of the answers' queries.
    """

    prompt: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    prompt_out: torch.Tensor
    prompt_lse: torch.Tensor
    answers: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
    out: torch.Tensor | None = None
    lse: torch.Tensor | None = None


class TwoParts:
    """Attention of prompts over themselves, and of answers over their prompt and themselves.

    Args:
        lengths_B: tokens of each prompt.
        width: P, of the longest.
        tokens: T of the answers.
        shared_by: R.
        key_heads: K.
    """

    def __init__(
        self,
        lengths_B: torch.Tensor,
        width: int,
        tokens: int,
        shared_by: int,
        key_heads: int,
        scale: float,
        dtype: torch.dtype,
    ) -> None:
        self.R, self.T = shared_by, tokens
        bias = None
        if bool((lengths_B != width).any()):
            beyond = torch.arange(width, device=lengths_B.device)[None] >= lengths_B[:, None]
            bias = torch.zeros(beyond.shape, dtype=dtype, device=lengths_B.device)
            bias = bias.masked_fill_(beyond, -torch.inf).repeat_interleave(key_heads, dim=0)
            bias = bias[:, None, None]
        self.itself = Part(scale, causal=True)
        self.over_prompt = Part(scale, bias=bias)

    def _rows(self, x: torch.Tensor) -> torch.Tensor:
        """(BK, 1, G R T, ...) seen as (BKG, R, T, ...); no copy."""
        return x.view(-1, self.R, self.T, *x.shape[3:])

    def forward(
        self,
        prompt: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        answers: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
    ) -> Attended:
        """Both attentions; see `Attended` for the shapes."""
        kept = Attended(prompt, *self.itself.forward(*prompt))
        if answers is None:
            return kept
        kept.answers = q, k, v = answers
        shared, lse_shared = self.over_prompt.forward(q, *prompt[1:])
        own, lse_own = self.itself.forward(self._rows(q), k, v)
        kept.lse = torch.logaddexp(lse_shared, lse_own.reshape(lse_shared.shape))
        weight = (lse_shared - kept.lse).exp_().to(shared.dtype)[..., None]
        kept.out = torch.lerp(own.reshape(shared.shape), shared, weight)
        return kept

    def backward(
        self, grad_prompt: torch.Tensor, grad: torch.Tensor | None, kept: Attended
    ) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...] | None]:
        """Gradients of the two triples that `forward` was given.

        Args:
            grad_prompt: of `prompt_out`, 0 at padding.
            grad: of `out`, 0 at padding.
        """
        delta = _delta(grad_prompt, kept.prompt_out)
        of_prompt = self.itself.backward(
            grad_prompt, *kept.prompt, kept.prompt_out, kept.prompt_lse, delta
        )
        if grad is None:
            return of_prompt, None
        q, k, v = kept.answers
        delta = _delta(grad, kept.out)
        shared_q, shared_k, shared_v = self.over_prompt.backward(
            grad, q, *kept.prompt[1:], kept.out, kept.lse, delta
        )
        rows = self._rows
        own_q, own_k, own_v = self.itself.backward(
            rows(grad), rows(q), k, v, rows(kept.out), rows(kept.lse), rows(delta)
        )
        dq, dk, dv = of_prompt
        return (
            (dq, dk + shared_k, dv + shared_v),
            (shared_q + own_q.reshape(shared_q.shape), own_k, own_v),
        )


def _delta(grad: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return (grad.float() * out.float()).sum(-1)
