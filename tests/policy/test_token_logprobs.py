"""Log-probabilities without the table of logits: the same numbers and the same gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.policy import token_logprobs as module
from rlkit.policy.token_logprobs import token_logprobs


def inputs(tokens: int, bias: bool = False, dtype: torch.dtype = torch.float64) -> tuple:
    generator = torch.Generator().manual_seed(tokens)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    chosen = torch.randint(0, 11, (tokens,), generator=generator)
    return draw(tokens, 5), draw(11, 5), chosen, (draw(11) if bias else None)


def plainly(hidden, weight, chosen, temperature, bias):
    logits = torch.nn.functional.linear(hidden, weight, bias) / temperature
    logprobs = torch.log_softmax(logits, -1)
    return logprobs.gather(-1, chosen[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


@given(
    tokens=st.integers(1, 9),
    at_once=st.integers(1, 60),
    temperature=st.sampled_from([1.0, 0.5, 1.7]),
    bias=st.booleans(),
)
def test_values_and_gradients_are_those_of_the_plain_way(
    tokens: int, at_once: int, temperature: float, bias: bool
) -> None:
    hidden, weight, chosen, bias_V = inputs(tokens, bias)
    wanted = [x for x in (hidden, weight, bias_V) if x is not None]
    pull = torch.linspace(-1, 2, tokens, dtype=torch.float64)
    expected = plainly(hidden, weight, chosen, temperature, bias_V)
    for with_entropy in (0.0, 0.7):
        total = (expected[0] * pull).sum() + with_entropy * (expected[1] * pull).sum()
        slopes = torch.autograd.grad(total, wanted, retain_graph=True)
        before, module.AT_ONCE = module.AT_ONCE, at_once
        try:
            got = token_logprobs(hidden, weight, chosen, temperature, bias_V)
            total = (got[0] * pull).sum() + with_entropy * (got[1] * pull).sum()
            ours = torch.autograd.grad(total, wanted)
        finally:
            module.AT_ONCE = before
        for one, other in zip(got, expected, strict=True):
            assert torch.allclose(one, other, atol=1e-10)
        for one, other in zip(ours, slopes, strict=True):
            assert torch.allclose(one, other, atol=1e-10)


def test_finite_differences() -> None:
    hidden, weight, chosen, bias = inputs(4, bias=True)
    assert torch.autograd.gradcheck(
        lambda h, w, b: token_logprobs(h, w, chosen, 0.8, b), (hidden, weight, bias)
    )


def test_a_frozen_head_gets_no_gradient_and_nothing_is_held() -> None:
    hidden, weight, chosen, _ = inputs(6, dtype=torch.float32)
    logprob, entropy = token_logprobs(hidden, weight.detach(), chosen)
    held = sum(t.numel() for t in logprob.grad_fn.saved_tensors if t is not None)
    # hidden (6 x 5), weight (11 x 5), chosen, norm and entropy (6 each), and no 6 x 11
    assert held == 6 * 5 + 11 * 5 + 3 * 6
    (logprob.sum() + entropy.sum()).backward()
    assert hidden.grad is not None and weight.grad is None


def test_no_tokens_at_all() -> None:
    hidden, weight, chosen, _ = inputs(1, dtype=torch.float32)
    logprob, entropy = token_logprobs(hidden[:0], weight, chosen[:0])
    assert logprob.shape == entropy.shape == (0,)
    logprob.sum().backward()
    assert float(hidden.grad.abs().sum()) == 0


def test_bfloat16_head_is_near() -> None:
    hidden, weight, chosen, _ = inputs(8, dtype=torch.float32)
    exact = token_logprobs(hidden, weight, chosen)[0]
    near = token_logprobs(hidden, weight.detach().bfloat16(), chosen)[0]
    assert near.dtype == torch.float32
    assert near.tolist() == pytest.approx(exact.tolist(), abs=0.05)
