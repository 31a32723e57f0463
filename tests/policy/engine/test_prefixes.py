"""Shared beginnings: read once, the same numbers, forgotten with the weights, bounded."""

from __future__ import annotations

import pytest
import torch

from rlkit.loop import ClosedLoop, LoopConfig
from rlkit.policy import LoraSpec, Policy
from rlkit.policy.engine import prefixes
from rlkit.policy.engine.prefixes import Prefixes
from rlkit.policy.engine.rollouts import Engine
from rlkit.policy.engine.sampling import Sampling
from rlkit.tasks import Problem
from rlkit.tasks.problem import Domain

HEAD = [5 + i % 50 for i in range(80)]
OTHER = [60 + i % 30 for i in range(70)]
PROMPTS = [[*HEAD, 7, 8, 9], [11, 12], [*HEAD, 13], [*OTHER, 1, 2], [*HEAD, 7, 9], [*OTHER, 3]]


@pytest.fixture(scope="module")
def decoder():
    policy = Policy.load("tiny", lora=LoraSpec())
    return Engine(policy.model, torch.float32).refresh()


def same(ours, theirs) -> None:
    assert torch.equal(ours.lengths_B, theirs.lengths_B)
    torch.testing.assert_close(ours.logits_BV, theirs.logits_BV, atol=1e-4, rtol=1e-4)
    for mine, right in zip(ours.keys + ours.values, theirs.keys + theirs.values, strict=True):
        for b, length in enumerate(theirs.lengths_B.tolist()):  # beyond it there is padding
            torch.testing.assert_close(mine[b, :, :length], right[b, :, :length], atol=1e-4, rtol=0)


def test_a_batch_is_read_as_if_nothing_were_shared(decoder) -> None:
    found = Prefixes()
    same(found.read(decoder, PROMPTS), decoder.read_prompts(PROMPTS))
    # Three prompts share 80 tokens and two share 70: 2 x 80 + 70 were not read again.
    assert found.take_stock().reused == 230
    assert found.take_stock().rate is None  # nothing since


def test_the_next_call_finds_them_and_new_questions_too(decoder) -> None:
    found = Prefixes()
    found.read(decoder, PROMPTS)
    found.take_stock()
    later = [[*HEAD, 20, 21], [11, 13], [*OTHER, 9, 9, 9]]
    same(found.read(decoder, later), decoder.read_prompts(later))
    stock = found.take_stock()
    assert (stock.reused, stock.tokens) == (150, 82 + 2 + 73)
    assert stock.rate == pytest.approx(150 / 157)


def test_a_prompt_asked_again_reads_its_last_token_only(decoder) -> None:
    found = Prefixes()
    same(found.read(decoder, [HEAD]), decoder.read_prompts([HEAD]))
    found.take_stock()
    same(found.read(decoder, [HEAD]), decoder.read_prompts([HEAD]))
    assert found.take_stock().reused == len(HEAD) - 1


def test_equal_prompts_in_a_batch(decoder) -> None:
    found = Prefixes()
    same(found.read(decoder, [HEAD, HEAD]), decoder.read_prompts([HEAD, HEAD]))
    assert found.take_stock().reused == len(HEAD) - 1


def test_short_beginnings_are_left_alone(decoder) -> None:
    short = [[*HEAD[: prefixes.SHORTEST - 1], n] for n in (1, 2)]
    found = Prefixes()
    same(found.read(decoder, short), decoder.read_prompts(short))
    assert found.take_stock().reused == 0
    assert len(found) == 0


def test_the_size_is_bounded_and_the_oldest_goes(decoder) -> None:
    one = decoder.read_prompts([HEAD]).bytes()
    found = Prefixes(limit=int(1.5 * one))
    found.read(decoder, [HEAD])
    found.read(decoder, [[9, *HEAD[1:]]])
    assert len(found) == 1
    assert found.bytes() <= found.limit
    found.take_stock()
    found.read(decoder, [HEAD])  # it had to go
    assert found.take_stock().reused == 0
    nothing = Prefixes(limit=0)
    nothing.read(decoder, [HEAD])
    assert len(nothing) == 0


def test_what_is_kept_of_a_prompt_holds_nothing_else(decoder) -> None:
    """Keys and values are parts of one product, which would stay as a whole behind its parts."""
    for read in (
        decoder.read_prompts(PROMPTS),
        decoder.read_prompts([HEAD]),
        decoder.read_prompts([[5, 6], [7]], decoder.read_prompts([HEAD])),
    ):
        for kept in (*read.keys, *read.values):
            assert kept.untyped_storage().nbytes() == kept.numel() * kept.element_size()


def test_other_weights_find_nothing() -> None:
    policy = Policy.load("tiny", lora=LoraSpec(), seed=1)
    engine = Engine(policy.model, torch.float32)
    uniform = torch.full((2, 4), 0.5, dtype=torch.float64)

    def sample():
        return engine.generate([HEAD, [*HEAD, 3]], 1, 4, Sampling(), policy.end_ids, uniform)

    sample()
    assert engine.prefixes.take_stock().reused > 0
    with torch.no_grad():
        for parameter in policy.trainable().values():
            parameter.add_(0.05)
    moved = sample()
    # Only what the two share within this call.
    assert engine.prefixes.take_stock().reused == len(HEAD) - 1
    fresh = Engine(policy.model, torch.float32)
    right = fresh.generate([HEAD, [*HEAD, 3]], 1, 4, Sampling(), policy.end_ids, uniform)
    assert [s.ids for s in moved] == [s.ids for s in right]


class _Letter(Domain):
    """A long instruction, then a number."""

    name = "letter"
    reward = "exact_answer"
    success = "exact_answer"
    levels = 1
    max_new_tokens = 6

    def draw(self, rng, difficulty: int) -> Problem:
        number = rng.randint(0, 10**6)
        text = "What is the sum of all that comes? " * 6 + str(number)
        return Problem(
            key=f"{number}",
            domain=self.name,
            prompt=({"role": "user", "content": text},),
            columns={"answer": str(number)},
            difficulty=difficulty,
        )

    def good_answer(self, problem, rng) -> str:
        return f"<answer>{problem.columns['answer']}</answer>"

    def wrong_answer(self, problem, rng) -> str:
        return "<answer>no</answer>"


def test_the_hit_rate_is_in_the_record() -> None:
    policy = Policy.load("tiny", lora=LoraSpec(), seed=2)
    config = LoopConfig(problems_per_step=4, group_size=2)
    loop = ClosedLoop(policy, [_Letter()], config=config)
    rate = loop.step()["sampling/prefix_hit_rate"]
    assert 0.5 < rate < 0.75  # three of four prompts share nearly all they have
    loop.evaluate(problems=4)
    assert len(policy.sampler.engine.prefixes) > 0
    # What the evaluation found is no part of the step's own number, and does not help it.
    assert 0.5 < loop.step()["sampling/prefix_hit_rate"] < 0.75
