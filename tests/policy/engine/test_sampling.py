"""Draws: the right shares, the right log-probabilities, filters as in their papers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.policy import Policy
from rlkit.policy.engine import sampling as module
from rlkit.policy.engine.sampling import Sampling, draw, keep_likeliest
from rlkit.policy.generation import uniform_streams
from rlkit.tasks import get_domain

LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))


def kept(**filters: float) -> list[bool]:
    return torch.isfinite(keep_likeliest(LOGITS, Sampling(**filters)))[0].tolist()


def test_filters_by_hand() -> None:
    assert kept(top_k=2) == [True, True, False, False]
    assert kept(top_k=9) == [True] * 4
    # 0.5 alone does not reach 0.6, 0.5 + 0.3 does
    assert kept(top_p=0.6) == [True, True, False, False]
    assert kept(top_p=0.5) == [True, False, False, False]
    assert kept(top_p=0.01) == [True, False, False, False]
    # at least 0.2 x 0.5 = 0.1
    assert kept(min_p=0.2) == [True, True, True, False]
    assert kept(min_p=1.0) == [True, False, False, False]


def test_the_log_probability_is_that_of_the_narrower_distribution() -> None:
    chosen, logprob = draw(LOGITS, Sampling(top_k=2), torch.tensor([0.99], dtype=torch.float64))
    # 0.3 of 0.8
    assert chosen.tolist() == [1]
    assert logprob.item() == pytest.approx(math.log(0.375), abs=1e-6)


@given(st.integers(0, 2**31), st.floats(0, 1, exclude_max=True), st.sampled_from([1.0, 0.7, 2.0]))
def test_two_stages_draw_what_one_does(seed: int, uniform: float, temperature: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, 700, generator=generator) * 4
    number = torch.tensor([uniform], dtype=torch.float64)
    one, one_logprob = draw(logits, Sampling(temperature), number)
    two, two_logprob = module._draw_in_two_stages(logits / temperature, number)
    if one.item() != two.item():
        # Only a number right at the border between two tokens may fall to either side.
        cumulative = torch.softmax(logits.double() / temperature, -1).cumsum(-1)[0]
        low = min(one.item(), two.item())
        border = cumulative[low : max(one.item(), two.item())]
        assert (border - uniform).abs().min() < 1e-5
    else:
        assert two_logprob.item() == pytest.approx(one_logprob.item(), abs=1e-4)


def test_two_stages_never_draw_what_is_forbidden_or_beyond() -> None:
    logits = torch.full((1, 515), -torch.inf)  # not a multiple of the block
    logits[0, [0, 300, 514]] = torch.log(torch.tensor([0.2, 0.3, 0.5]))
    numbers = torch.tensor([0.0, 0.1, 0.2000001, 0.4, 0.6, 1 - 2**-53], dtype=torch.float64)
    got, logprobs = module._draw_in_two_stages(logits.expand(6, -1), numbers)
    assert got.tolist() == [0, 0, 300, 300, 514, 514]
    assert logprobs.exp().tolist() == pytest.approx([0.2, 0.2, 0.3, 0.3, 0.5, 0.5], abs=1e-6)


def test_shares_with_a_large_vocabulary() -> None:
    probabilities = torch.zeros(10_000)
    probabilities[[3, 4_000, 9_999]] = torch.tensor([0.5, 0.3, 0.2])
    logits = probabilities.log().expand(8_000, -1)
    chosen, _ = draw(logits, Sampling(), uniform_streams(5, 1, 0, 8_000, 1)[:, 0])
    counts = torch.bincount(chosen, minlength=10_000)[[3, 4_000, 9_999]] / 8_000
    assert counts.tolist() == pytest.approx([0.5, 0.3, 0.2], abs=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0}, "top_p"),
        ({"min_p": 2}, "min_p"),
        ({"stop": "abc"}, "stop must be a tuple"),
        ({"stop": ("",)}, "stop must be a tuple"),
    ],
)
def test_bad_settings(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Sampling(**options)


@pytest.mark.parametrize("rollouts", ["exact", "plain"])
def test_an_answer_stops_at_a_text(untrained: Path, rollouts: str) -> None:
    policy = Policy.load(untrained, quantize=None, seed=1, rollouts=rollouts)
    problems = get_domain("arith").held_out(2)
    free = policy.generate(problems, 4, 40)
    whole = next(r.text for g in free for r in g.rollouts if len(r.text) > 12)
    stop = whole[5:7]
    policy.load_state_dict({**policy.state_dict(), "draws": 0})
    stopped = policy.generate(problems, 4, 40, stop=[stop])
    cut = 0
    for before, after in zip(free, stopped, strict=True):
        for one, other in zip(before.rollouts, after.rollouts, strict=True):
            assert other.completion_ids == one.completion_ids[: len(other)]
            assert stop not in other.text
            if stop in one.text:
                cut += 1
                assert other.text == one.text[: one.text.find(stop)]
                assert other.finish_reason == "stop"
    assert cut >= 1


def test_both_ways_agree_with_filters(untrained: Path) -> None:
    problems = get_domain("arith").held_out(3)
    texts = []
    for rollouts in ("exact", "plain"):
        policy = Policy.load(untrained, quantize=None, seed=1, rollouts=rollouts)
        groups = policy.generate(problems, 3, 12, 0.9, top_k=40, top_p=0.9, min_p=0.01)
        texts.append([r.text for g in groups for r in g.rollouts])
    assert texts[0] == texts[1]
